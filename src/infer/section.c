/* Opens the data section to which a trained net is applied, and reads its labels. The contract is
 * in infer/section.h. */
#include "infer/section.h"
#include "run/job_private.h"

#include "base/os.h"
#include "data/source.h"
#include <math.h>

int sw_job_open_section(struct sw_job *job, const char *split, struct sw_err *err)
{
    const struct sw_section *section =
        split ? sw_recipe_find(job->recipe, "data", split) : sw_job_find_split(job, SW_SPLIT_EVAL);
    if (!section)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "the recipe has no [data val] or [data test] section: select a split, or "
                          "use --input FILE");

    return sw_job_open_split(job, SW_SPLIT_EVAL, section, err);
}

/* Replaces floats by the integers that they are. */
static int make_integers(const struct sw_source *s, struct sw_section_labels *l, struct sw_err *err)
{
    for (int64_t i = 0; i < l->rows * l->columns; i++) {
        float value;

        memcpy(&value, &l->values[i], sizeof value);
        if (!(fabsf(value) < 1 << 24) || value != truncf(value))
            return sw_err_set(err, SW_ERR_FORMAT,
                              "data %s: record %lld has the label %g, expected "
                              "an integer",
                              s->name, (long long)(i / l->columns), (double)value);
        l->values[i] = (int32_t)value;
    }

    return SW_OK;
}

static int fetch(const struct sw_source *s, int field, struct sw_section_labels *l,
                 struct sw_err *err)
{
    void *data[SW_MAX_FIELDS] = {NULL};
    struct sw_reader reader;

    int rc = sw_reader_init(&reader, s, err);
    if (rc != SW_OK)
        return rc;

    data[field] = l->values;
    rc = sw_source_fetch(&reader, 0, l->rows, data, err);
    sw_reader_fini(&reader);
    return rc;
}

int sw_job_read_labels(struct sw_job *job, const char *weights, const char *split,
                       struct sw_section_labels *out, struct sw_err *err)
{
    *out = (struct sw_section_labels){0};

    int rc = sw_job_read_spec(job, weights, err);
    if (rc == SW_OK)
        rc = sw_job_open_section(job, split, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_source *s = job->data.source[SW_SPLIT_EVAL];
    const int field = sw_source_find(s, "label");
    if (field < 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "data %s has no field `label`", s->name);

    out->rows = s->records;
    out->columns = sw_field_count(&s->field[field]);
    out->classes = (int)s->classes;
    out->values = sw_calloc((size_t)(out->rows * out->columns), sizeof *out->values);
    if (!out->values)
        return sw_err_nomem(err, "labels", (size_t)(out->rows * out->columns) * sizeof(int32_t));

    rc = fetch(s, field, out, err);
    return rc == SW_OK && s->field[field].dtype == SW_F32 ? make_integers(s, out, err) : rc;
}

void sw_section_labels_fini(struct sw_section_labels *l)
{
    sw_free(l->values);
    *l = (struct sw_section_labels){0};
}
