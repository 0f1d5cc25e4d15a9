/* Finds the input layers whose keys transform values, and sets up the fields that they read. */
#include "run/standardize.h"
#include "base/str.h"
#include "checkpoint/standardized.h"
#include "data/source.h"
#include "layers/layer.h"
#include "run/job_private.h"

static const struct sw_input_conf *input_of(const struct sw_section *s)
{
    return s->type[0] && sw_str_eq(s->type[0]->name, "input") ? s->conf[0] : NULL;
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

static bool is_scaled(const struct sw_input_conf *c)
{
    return differ(c->power, 1) || c->log1p || c->standardize || c->whiten || c->mean.count > 0 ||
           c->std.count > 0 || differ(c->scale, 1);
}

static bool same_list(const struct sw_reals *a, const struct sw_reals *b)
{
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = !differ(a->items[i], b->items[i]);
    return same;
}

static bool same_transform(const struct sw_input_conf *a, const struct sw_input_conf *b)
{
    return !differ(a->power, b->power) && a->log1p == b->log1p &&
           a->standardize == b->standardize && a->whiten == b->whiten &&
           !differ(a->whiten_epsilon, b->whiten_epsilon) && !differ(a->scale, b->scale) &&
           same_list(&a->mean, &b->mean) && same_list(&a->std, &b->std);
}

/* A field has one form only: all layers that read it must ask for the same. */
static void check_others(struct sw_recipe *recipe, const struct sw_section *s)
{
    const struct sw_input_conf *c = input_of(s);

    for (const struct sw_section *t = sw_recipe_first(recipe, "layer"); t; t = sw_section_next(t)) {
        const struct sw_input_conf *other = input_of(t);

        if (t == s || !other || t->errors || s->errors || !sw_str_eq(other->field, c->field))
            continue;
        if (!same_transform(other, c))
            sw_recipe_error(recipe, t, NULL,
                            "layer %s reads the same field, %s, with other values of power, log1p, "
                            "standardize, mean, std, whiten or scale: use one input layer for both",
                            s->name, c->field);
    }
}

static bool measures(const struct sw_input_conf *c)
{
    return c->standardize || c->whiten;
}

static int set_keys(struct sw_scaling *s, const struct sw_input_conf *c, struct sw_err *err)
{
    s->power = c->power;
    s->log1p = c->log1p;
    s->whitens = c->whiten;
    s->factor = c->scale;

    int rc = sw_scaling_set(s, &c->mean, &c->std, err);
    s->known = !measures(c) || (!c->whiten && c->mean.count > 0 && c->std.count > 0);
    return rc;
}

/* Sets the numbers of field f, as far as they are known now. */
static int set_numbers(const struct sw_job *job, struct sw_source *source, int f,
                       const struct sw_input_conf *c, struct sw_err *err)
{
    struct sw_scaling *own = &source->scaling[f];
    const struct sw_source *train = job->data.source[SW_SPLIT_TRAIN];
    const int g = train ? sw_source_find(train, c->field) : -1;
    const struct sw_scaling_measure how = {
        .mean = (c->standardize || c->whiten) && c->mean.count == 0,
        .std = c->standardize && c->std.count == 0,
        .epsilon = c->whiten_epsilon,
    };

    int rc = set_keys(own, c, err);
    if (rc != SW_OK || own->known)
        return rc;

    if (source == train)
        return sw_source_measure(source, f, &how, err);
    if (g >= 0 && train->scaling[g].count == own->count)
        return sw_scaling_copy(own, &train->scaling[g], err);
    return SW_OK;
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

        int rc = sw_source_scale(source, f, err);
        if (rc == SW_OK)
            rc = set_numbers(job, source, f, c, err);
        if (rc == SW_ERR_INVALID)
            sw_recipe_error(job->recipe, s, NULL, "%s", err->text);
        else if (rc != SW_OK)
            return rc;
    }

    return sw_recipe_status(job->recipe, err);
}

int sw_standardize_from(const struct sw_recipe *recipe, const char *field, int64_t count,
                        const char *data, const struct sw_st_file *f, struct sw_scaling *out,
                        struct sw_err *err)
{
    *out = (struct sw_scaling){0};

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_input_conf *c = input_of(s);
        if (!c || !is_scaled(c) || !sw_str_eq(c->field, field))
            continue;

        int rc = sw_scaling_init(out, count, err);
        if (rc == SW_OK)
            rc = set_keys(out, c, err);
        return rc == SW_OK ? sw_standardized_read_field(out, field, data, f, err) : rc;
    }

    return SW_OK;
}
