/* Writes and reads what was measured of the fields that input layers transform. */
#include "checkpoint/standardized.h"
#include "base/os.h"
#include "base/str.h"
#include "data/source.h"
#include "plan/topology.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int key_of(const char *field, char **key, struct sw_err *err)
{
    *key = sw_format("standardized.%s", field);
    return *key ? SW_OK : sw_err_nomem(err, "a name in a checkpoint", 0);
}

static int write_field(const struct sw_scaling *s, const char *field, struct sw_st_writer *w,
                       struct sw_err *err)
{
    struct sw_bytes text = {0};
    char *key = NULL;
    int rc = key_of(field, &key, err);

    for (int64_t i = 0; i < s->count; i++)
        sw_bytes_printf(&text, "%s%.17g %.17g", i ? " " : "", s->mean[i], s->std[i]);
    if (rc == SW_OK && text.failed)
        rc = sw_err_nomem(err, "mean and std of a field", text.length);
    if (rc == SW_OK)
        rc = sw_st_writer_metadata(w, key, sw_bytes_text(&text), err);

    sw_bytes_fini(&text);
    sw_free(key);
    return rc;
}

/* ---- Whitening matrices ---- */

static const char tensor_begin[] = "standardized.", tensor_end[] = ".whiten";

bool sw_standardized_owns(const char *tensor)
{
    return sw_str_starts(tensor, tensor_begin) && sw_str_ends(tensor, tensor_end);
}

static int tensor_of(const char *field, char **name, struct sw_err *err)
{
    *name = sw_format("%s%s%s", tensor_begin, field, tensor_end);
    return *name ? SW_OK : sw_err_nomem(err, "a name in a checkpoint", 0);
}

static int emit_matrix(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_scaling *s = user;
    return sw_st_emit(sink, s->whiten, (size_t)s->count * (size_t)s->count * sizeof *s->whiten,
                      err);
}

static int write_matrix(const struct sw_scaling *s, const char *field, struct sw_st_writer *w,
                        struct sw_err *err)
{
    const int64_t dim[] = {s->count, s->count};
    char *name = NULL;

    if (!s->whiten)
        return SW_OK;

    int rc = tensor_of(field, &name, err);
    if (rc == SW_OK)
        rc = sw_st_writer_add(w, name, (struct sw_st_shape){SW_ST_F32, 2, dim}, emit_matrix,
                              (void *)(uintptr_t)s, err); /* the writer only reads it */
    sw_free(name);
    return rc;
}

/* Reads the matrix of a field into *out (sw_free); NULL: the file has none. */
static int read_matrix(const struct sw_st_file *f, const char *field, int64_t count, float **out,
                       struct sw_err *err)
{
    char *name = NULL;
    int rc = tensor_of(field, &name, err);
    const struct sw_st_entry *e = rc == SW_OK ? sw_st_find(f, name) : NULL;

    if (e &&
        (e->dtype != SW_ST_F32 || e->ndim != 2 || e->shape[0] != count || e->shape[1] != count))
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: tensor %s: expected F32 of %lldx%lld",
                        sw_st_path(f), name, (long long)count, (long long)count);
    if (e && rc == SW_OK) {
        *out = sw_calloc(1, (size_t)e->bytes + sizeof **out);
        rc = *out ? sw_st_read(f, e, 0, (size_t)e->bytes, *out, err)
                  : sw_err_nomem(err, name, (size_t)e->bytes);
    }

    sw_free(name);
    return rc;
}

/* ---- Fields ---- */

int sw_standardized_write(const struct sw_source *source, struct sw_st_writer *w,
                          struct sw_err *err)
{
    for (int i = 0; source && i < source->field_count; i++) {
        const struct sw_scaling *s = &source->scaling[i];
        const char *field = source->field[i].name;
        int rc = s->count ? write_field(s, field, w, err) : SW_OK;

        if (rc == SW_OK && s->count)
            rc = write_matrix(s, field, w, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int64_t count_numbers(const char *text)
{
    int64_t count = 0;

    for (const char *at = text; *at; at++)
        count += *at != ' ' && (at == text || at[-1] == ' ');

    return count;
}

/* Reads pairs of mean and std. */
static int parse(const struct sw_st_file *f, const char *key, const char *text,
                 struct sw_scaling *out, struct sw_err *err)
{
    const int64_t numbers = count_numbers(text);
    const char *at = text;
    bool good = numbers > 0 && numbers % 2 == 0;

    int rc = good ? sw_scaling_init(out, numbers / 2, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    for (int64_t i = 0; i < numbers && good; i++) {
        char *end = NULL;
        const double value = strtod(at, &end);

        good = end > at && isfinite(value) && (i % 2 == 0 || value > 0);
        *(i % 2 == 0 ? &out->mean[i / 2] : &out->std[i / 2]) = value;
        at = end;
    }

    out->known = good;
    return good
               ? SW_OK
               : sw_err_set(err, SW_ERR_FORMAT,
                            "%s: %s is \"%.60s\"; expected a mean and a std above 0 for each value",
                            sw_st_path(f), key, text);
}

int sw_standardized_find(const struct sw_st_file *f, const char *field, struct sw_scaling *out,
                         struct sw_err *err)
{
    char *key = NULL;

    *out = (struct sw_scaling){0};

    int rc = key_of(field, &key, err);
    if (rc != SW_OK)
        return rc;

    const char *text = sw_st_metadata(f, key);
    rc = text ? parse(f, key, text, out, err) : SW_OK;
    sw_free(key);
    if (rc != SW_OK)
        sw_scaling_fini(out);

    return rc;
}

int sw_standardized_read_field(struct sw_scaling *own, const char *name, const char *data,
                               const struct sw_st_file *f, struct sw_err *err)
{
    struct sw_scaling theirs;
    int rc = sw_standardized_find(f, name, &theirs, err);

    if (rc == SW_OK && theirs.count && own->whitens)
        rc = read_matrix(f, name, theirs.count, &theirs.whiten, err);
    if (rc == SW_OK && theirs.count && theirs.count != own->count)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: the field %s had %lld values per record in training, but %s has "
                        "%lld",
                        sw_st_path(f), name, (long long)theirs.count, data, (long long)own->count);
    else if (rc == SW_OK && theirs.count)
        rc = sw_scaling_copy(own, &theirs, err);
    if (rc == SW_OK && !own->known)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: has no %s of the field %s, which the recipe %s: it was trained "
                        "without%s",
                        sw_st_path(f), own->whitens ? "whitening" : "mean and std", name,
                        own->whitens ? "whitens" : "standardizes",
                        own->whitens ? "" : "; set mean and std of the input layer");

    sw_scaling_fini(&theirs);
    return rc;
}

int sw_standardized_read(struct sw_source *const *source, const struct sw_st_file *f,
                         struct sw_err *err)
{
    for (int split = 0; split < SW_SPLITS; split++) {
        struct sw_source *s = source[split];

        for (int i = 0; s && i < s->field_count; i++) {
            char data[80];
            int rc = SW_OK;

            snprintf(data, sizeof data, "data %s", s->name);
            if (s->scaling[i].count)
                rc = sw_standardized_read_field(&s->scaling[i], s->field[i].name, data, f, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}
