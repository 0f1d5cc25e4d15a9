/* Reads mean images and whitening matrices from .safetensors or .npy files, and checks their shapes
 * and that every value is finite. */
#include "data/statistics.h"
#include "base/os.h"
#include "base/str.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"
#include <math.h>

enum { MOST_SIDE = 65535 };

static int take(int64_t count, const char *path, float **out, struct sw_err *err)
{
    *out = sw_calloc((size_t)count, sizeof **out);
    return *out ? SW_OK : sw_err_nomem(err, path, (size_t)count * sizeof **out);
}

static int check_finite(const float *x, int64_t count, const char *path, const char *name,
                        struct sw_err *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: %s: value %lld is not finite", path, name,
                              (long long)i);
    }

    return SW_OK;
}

/* Reads a whole f32 tensor into new memory. */
static int read_tensor(const struct sw_st_file *f, const struct sw_st_entry *e, const char *path,
                       float **out, struct sw_err *err)
{
    float *x = NULL;
    const int64_t count = (int64_t)(e->bytes / sizeof *x);

    int rc = take(count, path, &x, err);
    if (rc)
        goto out;
    rc = sw_st_read(f, e, 0, (size_t)e->bytes, x, err);
    if (rc)
        goto out;

    rc = check_finite(x, count, path, e->name, err);

out:
    if (rc)
        sw_free(x);
    else
        *out = x;

    return rc;
}

static int find(const struct sw_st_file *f, const char *path, const char *name,
                const struct sw_st_entry **out, struct sw_err *err)
{
    *out = sw_st_find(f, name);
    if (!*out)
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s: has no tensor `%s`", path, name);
    if ((*out)->dtype != SW_ST_F32)
        return sw_err_set(err, SW_ERR_INVALID, "%s: tensor `%s` is %s, expected F32", path, name,
                          sw_st_dtype_name((*out)->dtype));

    return SW_OK;
}

/* [C, H, W], or [H, W] for one channel. */
static int check_image(const char *path, int ndim, const int64_t *shape, int64_t channels,
                       struct sw_err *err)
{
    const int64_t c = ndim == 3 ? shape[0] : 1;
    if ((ndim == 2 || ndim == 3) && c == channels && shape[ndim - 2] >= 1 && shape[ndim - 1] >= 1 &&
        shape[ndim - 2] <= MOST_SIDE && shape[ndim - 1] <= MOST_SIDE)
        return SW_OK;

    struct sw_bytes text = {0};
    for (int i = 0; i < ndim; i++)
        sw_bytes_printf(&text, "%s%lld", i ? ", " : "", (long long)shape[i]);

    int rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: shape [%s], expected a mean image [%lld, height, width]", path,
                        sw_bytes_text(&text), (long long)channels);
    sw_bytes_fini(&text);

    return rc;
}

static int mean_of_npy(const char *path, int64_t channels, float **mean, int64_t *height,
                       int64_t *width, struct sw_err *err)
{
    struct sw_npy_file f = {0};
    float *x = NULL;
    int rc = sw_npy_open(&f, path, err);
    const struct sw_npy_header *h = &f.header;

    if (!rc)
        rc = check_image(path, h->ndim, h->shape, channels, err);
    if (!rc)
        rc = take((int64_t)h->count, path, &x, err);
    if (!rc)
        rc = sw_npy_read_rows(&f, 0, sw_npy_rows(h), SW_F32, x, err);

    if (rc) {
        sw_free(x);
    } else {
        *mean = x;
        *height = h->shape[h->ndim - 2];
        *width = h->shape[h->ndim - 1];
    }

    sw_npy_close(&f);
    return rc;
}

int sw_statistics_mean(const char *path, int64_t channels, float **mean, int64_t *height,
                       int64_t *width, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    const struct sw_st_entry *e = NULL;

    if (sw_str_ends(path, ".npy"))
        return mean_of_npy(path, channels, mean, height, width, err);

    int rc = sw_st_open(path, false, &f, err);
    if (rc)
        goto out;
    rc = find(f, path, "mean", &e, err);
    if (rc)
        goto out;
    rc = check_image(path, e->ndim, e->shape, channels, err);
    if (rc)
        goto out;
    rc = read_tensor(f, e, path, mean, err);
    if (rc)
        goto out;

    *height = e->shape[e->ndim - 2];
    *width = e->shape[e->ndim - 1];

out:
    sw_st_close(f);
    return rc;
}

static int check_count(const char *path, const struct sw_st_entry *e, int64_t count,
                       struct sw_err *err)
{
    const int64_t has = (int64_t)(e->bytes / sizeof(float));

    return has == count
               ? SW_OK
               : sw_err_set(err, SW_ERR_INVALID,
                            "%s: tensor `%s` has %lld values, expected %lld; it belongs to "
                            "rows of another size",
                            path, e->name, (long long)has, (long long)count);
}

int sw_statistics_whiten(const char *path, int64_t count, float **mean, float **matrix,
                         struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    const struct sw_st_entry *m = NULL, *w = NULL;
    float *x = NULL;

    int rc = sw_st_open(path, false, &f, err);
    if (rc)
        goto out;
    rc = find(f, path, "whiten.mean", &m, err);
    if (rc)
        goto out;
    rc = check_count(path, m, count, err);
    if (rc)
        goto out;
    rc = find(f, path, "whiten.matrix", &w, err);
    if (rc)
        goto out;
    rc = check_count(path, w, count * count, err);
    if (rc)
        goto out;
    rc = read_tensor(f, m, path, &x, err);
    if (rc)
        goto out;

    rc = read_tensor(f, w, path, matrix, err);

out:
    if (rc)
        sw_free(x);
    else
        *mean = x;

    sw_st_close(f);
    return rc;
}
