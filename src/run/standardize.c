/* Finds the input layers with the keys standardize, mean or std, and sets up the fields that they
 * read. */
#include "run/standardize.h"
#include "base/str.h"
#include "data/source.h"
#include "layers/layer.h"
#include "run/job_private.h"

static const struct sw_input_conf *input_of(const struct sw_section *s)
{
    return s->type[0] && sw_str_eq(s->type[0]->name, "input") ? s->conf[0] : NULL;
}

static bool is_scaled(const struct sw_input_conf *c)
{
    return c->standardize || c->mean.count > 0 || c->std.count > 0;
}

static bool same_list(const struct sw_reals *a, const struct sw_reals *b)
{
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = !(a->items[i] < b->items[i] || a->items[i] > b->items[i]);
    return same;
}

/* A field has one form only: all layers that read it must ask for the same. */
static void check_others(struct sw_recipe *recipe, const struct sw_section *s)
{
    const struct sw_input_conf *c = input_of(s);

    for (const struct sw_section *t = sw_recipe_first(recipe, "layer"); t; t = sw_section_next(t)) {
        const struct sw_input_conf *other = input_of(t);

        if (t == s || !other || t->errors || s->errors || !sw_str_eq(other->field, c->field))
            continue;
        if (other->standardize != c->standardize || !same_list(&other->mean, &c->mean) ||
            !same_list(&other->std, &c->std))
            sw_recipe_error(recipe, t, NULL,
                            "layer %s reads the same field, %s, with other values of standardize, "
                            "mean or std: use one input layer for both",
                            s->name, c->field);
    }
}

/* Sets the numbers of field f, as far as they are known now. */
static int set_numbers(const struct sw_job *job, struct sw_source *source, int f,
                       const struct sw_input_conf *c, struct sw_err *err)
{
    struct sw_scaling *own = &source->scaling[f];
    const struct sw_source *train = job->data.source[SW_SPLIT_TRAIN];
    const int g = train ? sw_source_find(train, c->field) : -1;
    int rc = SW_OK;

    if (source == train && c->standardize)
        rc = sw_source_measure(source, f, err);
    else if (g >= 0 && train->scaling[g].count == own->count)
        sw_scaling_copy(own, &train->scaling[g]);

    if (rc == SW_OK && (c->mean.count > 0 || c->std.count > 0) && (own->known || !c->standardize))
        rc = sw_scaling_set(own, &c->mean, &c->std, err);
    return rc;
}

int sw_job_standardize(struct sw_job *job, int split, struct sw_err *err)
{
    struct sw_source *source = job->data.source[split];

    for (const struct sw_section *s = sw_recipe_first(job->recipe, "layer"); s;
         s = sw_section_next(s)) {
        const struct sw_input_conf *c = input_of(s);
        const int f = c && is_scaled(c) ? sw_source_find(source, c->field) : -1;
        if (f < 0)
            continue; /* a missing field is reported when the net is built */

        check_others(job->recipe, s);
        if (s->errors || source->scaling[f].count)
            continue;

        int rc = sw_source_standardize(source, f, err);
        if (rc == SW_OK)
            rc = set_numbers(job, source, f, c, err);
        if (rc == SW_ERR_INVALID)
            sw_recipe_error(job->recipe, s, NULL, "%s", err->text);
        else if (rc != SW_OK)
            return rc;
    }

    return sw_recipe_status(job->recipe, err);
}
