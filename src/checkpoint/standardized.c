/* Writes and reads the numbers of standardized fields. */
#include "checkpoint/standardized.h"
#include "base/os.h"
#include "base/str.h"
#include "data/source.h"
#include "plan/topology.h"
#include <math.h>
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

int sw_standardized_write(const struct sw_source *source, struct sw_st_writer *w,
                          struct sw_err *err)
{
    for (int i = 0; source && i < source->field_count; i++) {
        int rc = source->scaling[i].count
                     ? write_field(&source->scaling[i], source->field[i].name, w, err)
                     : SW_OK;
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

static int read_field(struct sw_source *s, int i, const struct sw_st_file *f, struct sw_err *err)
{
    struct sw_scaling *own = &s->scaling[i], theirs;
    const char *name = s->field[i].name;
    int rc = sw_standardized_find(f, name, &theirs, err);

    if (rc == SW_OK && theirs.count && theirs.count != own->count)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: the field %s had %lld values per record in training, but data %s has "
                        "%lld",
                        sw_st_path(f), name, (long long)theirs.count, s->name,
                        (long long)own->count);
    else if (rc == SW_OK && theirs.count)
        sw_scaling_copy(own, &theirs);
    else if (rc == SW_OK && !own->known)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: has no mean and std of the field %s, which the recipe standardizes: "
                        "it was trained without; set mean and std of the input layer",
                        sw_st_path(f), name);

    sw_scaling_fini(&theirs);
    return rc;
}

int sw_standardized_read(struct sw_source *const *source, const struct sw_st_file *f,
                         struct sw_err *err)
{
    for (int split = 0; split < SW_SPLITS; split++) {
        struct sw_source *s = source[split];

        for (int i = 0; s && i < s->field_count; i++) {
            int rc = s->scaling[i].count ? read_field(s, i, f, err) : SW_OK;
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}
