/* Reads the elements of a stored tensor piece by piece as doubles, and computes statistics of one
 * tensor or the differences of two. Memory use does not depend on the size of the tensor. The
 * contract is in cli/checkpoint/values.h. */
#include "cli/checkpoint/values.h"

#include "base/os.h"
#include <math.h>

int sw_values_begin(struct sw_values *v, const struct sw_st_file *f, const struct sw_st_entry *e,
                    struct sw_err *err)
{
    *v = (struct sw_values){.f = f, .e = e, .count = e->bytes / sw_st_dtype_bytes(e->dtype)};
    v->piece = sw_calloc(SW_VALUES_PIECE, sizeof *v->piece);
    v->raw = sw_calloc(SW_VALUES_PIECE, sizeof(uint64_t));
    return v->piece && v->raw ? SW_OK : sw_err_nomem(err, e->name, SW_VALUES_PIECE * 16);
}

static double value_at(enum sw_st_dtype t, const void *raw, size_t i)
{
    switch (t) {
    case SW_ST_F64:
        return ((const double *)raw)[i];
    case SW_ST_I64:
        return (double)((const int64_t *)raw)[i];
    case SW_ST_U64:
        return (double)((const uint64_t *)raw)[i];
    case SW_ST_F32:
        return (double)((const float *)raw)[i];
    case SW_ST_I32:
        return ((const int32_t *)raw)[i];
    default:
        return ((const unsigned char *)raw)[i];
    }
}

int sw_values_next(struct sw_values *v, struct sw_err *err)
{
    size_t size = sw_st_dtype_bytes(v->e->dtype);
    uint64_t left = v->count - v->at;

    v->n = left < SW_VALUES_PIECE ? (size_t)left : SW_VALUES_PIECE;

    int rc = v->n ? sw_st_read(v->f, v->e, v->at * size, v->n * size, v->raw, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    for (size_t i = 0; i < v->n; i++)
        v->piece[i] = value_at(v->e->dtype, v->raw, i);
    v->at += v->n;

    return SW_OK;
}

void sw_values_fini(struct sw_values *v)
{
    sw_free(v->piece);
    sw_free(v->raw);
    *v = (struct sw_values){0};
}

static void count_piece(const struct sw_values *v, struct sw_value_stats *s, double *sum,
                        double *squares)
{
    for (size_t i = 0; i < v->n; i++) {
        double x = v->piece[i];
        if (!isfinite(x)) {
            s->not_finite++;
            continue;
        }

        s->min = s->min <= x ? s->min : x; /* also replaces NaN */
        s->max = s->max >= x ? s->max : x;
        *sum += x;
        *squares += x * x;
    }
}

int sw_value_stats(const struct sw_st_file *f, const struct sw_st_entry *e,
                   struct sw_value_stats *out, struct sw_err *err)
{
    struct sw_values v;
    struct sw_value_stats s = {.min = NAN, .max = NAN, .mean = NAN, .norm = NAN};
    double sum = 0, squares = 0;

    int rc = sw_values_begin(&v, f, e, err);
    if (rc != SW_OK)
        goto out;

    for (;;) {
        rc = sw_values_next(&v, err);
        if (rc != SW_OK)
            goto out;
        if (v.n == 0)
            break;

        count_piece(&v, &s, &sum, &squares);
    }

    s.count = v.count;
    if (s.count > s.not_finite) {
        s.mean = sum / (double)(s.count - s.not_finite);
        s.norm = sqrt(squares);
    }

    *out = s;

out:
    sw_values_fini(&v);
    return rc;
}

static void compare_piece(const struct sw_values *a, const struct sw_values *b,
                          struct sw_value_diff *d)
{
    for (size_t i = 0; i < a->n; i++) {
        double x = a->piece[i], y = b->piece[i];
        double most = fmax(fabs(x), fabs(y));

        if (isfinite(most))
            d->scale = fmax(d->scale, most);
        if (x == y || (isnan(x) && isnan(y)))
            continue;

        d->differing++;

        double delta = isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        d->max_abs = fmax(d->max_abs, delta);
        d->max_rel = fmax(d->max_rel, isfinite(delta) ? delta / most : INFINITY);
    }
}

int sw_value_diff(const struct sw_st_file *fa, const struct sw_st_entry *a,
                  const struct sw_st_file *fb, const struct sw_st_entry *b,
                  struct sw_value_diff *out, struct sw_err *err)
{
    struct sw_values va = {0}, vb = {0};
    struct sw_value_diff d = {0};

    int rc = sw_values_begin(&va, fa, a, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_values_begin(&vb, fb, b, err);
    if (rc != SW_OK)
        goto out;

    d.count = va.count;

    do {
        rc = sw_values_next(&va, err);
        if (rc != SW_OK)
            goto out;
        rc = sw_values_next(&vb, err);
        if (rc != SW_OK)
            goto out;

        compare_piece(&va, &vb, &d);
    } while (va.n > 0);

    *out = d;

out:
    sw_values_fini(&va);
    sw_values_fini(&vb);

    return rc;
}

void sw_entry_shape(const struct sw_st_entry *e, struct sw_bytes *out)
{
    for (int i = 0; i < e->ndim; i++)
        sw_bytes_printf(out, "%s%lld", i ? "x" : "", (long long)e->shape[i]);
    if (e->ndim == 0)
        sw_bytes_add(out, "scalar");
}
