/* Compares the number of classes of a data section with the scores of the losses and metrics that
 * read its labels, for all layers whose labels are a field of the data. */
#include "run/label_range.h"
#include "base/str.h"
#include "data/source.h"
#include "run/job_private.h"
#include "worker/worker.h"

/* A loss or metric and the labels that it reads. */
struct reader {
    const struct sw_section *section;
    const struct sw_layer_labels *labels;
    struct sw_source *source;
    const struct sw_section *data; /* of the source */
    int field;                     /* of the source */
};

static const struct sw_section *source_of(const struct sw_recipe *recipe,
                                          const struct sw_section *s, int i)
{
    const struct sw_strings *src = &((const struct sw_layer_conf *)s->common)->src;
    return i < src->count ? sw_recipe_find(recipe, "layer", src->items[i]) : NULL;
}

/* The field of the data that a layer's labels are; -1: another layer computes them. */
static int field_of(const struct sw_recipe *recipe, const struct reader *r)
{
    const struct sw_section *from = source_of(recipe, r->section, r->labels->src);
    if (!from || !from->type[0] || !sw_str_eq(from->type[0]->name, "input"))
        return -1;

    const struct sw_layer input = {.conf = from->conf[0]};
    const int f = sw_source_find(r->source, sw_layer_input_field(&input));
    return f >= 0 && r->source->field[f].dtype == SW_I32 ? f : -1;
}

/* The number of classes of the field; 0: unknown. */
static int64_t classes_of(const struct reader *r)
{
    const struct sw_source *s = r->source;
    return s->vocabulary || sw_str_eq(s->field[r->field].name, "label") ? s->classes : 0;
}

/* The nearest layer before this one whose key `outputs` is the number of its scores, or NULL. */
static const struct sw_section *outputs_of(const struct sw_recipe *recipe, const struct reader *r)
{
    const struct sw_section *s = source_of(recipe, r->section, 0);

    for (int i = 0; s && s->type[0] && i < 8; i++, s = source_of(recipe, s, 0))
        for (const struct sw_opt *o = s->type[0]->opts; o && o->key; o++)
            if (sw_str_eq(o->key, "outputs"))
                return *(const int64_t *)(const void *)((const char *)s->conf[0] + o->offset) ==
                               r->labels->classes
                           ? s
                           : NULL;

    return NULL;
}

static void too_few(struct sw_recipe *recipe, const struct reader *r, int64_t classes)
{
    const struct sw_section *s = outputs_of(recipe, r);

    if ((s && s->errors) || r->data->errors)
        return; /* another reader of the same scores */

    if (sw_section_missing_files(r->data))
        sw_recipe_error(recipe, r->data, NULL,
                        "no file %s; the data of its fallback have %lld %s, but layer %s has "
                        "scores for %lld: correct the path",
                        sw_section_missing_files(r->data), (long long)classes,
                        r->source->vocabulary ? "tokens" : "classes", r->section->name,
                        (long long)r->labels->classes);
    else if (s)
        sw_recipe_error(recipe, s, "outputs",
                        "data %s has %lld %s (labels 0 to %lld), which layer %s compares with "
                        "these outputs: set outputs = %lld",
                        r->source->name, (long long)classes,
                        r->source->vocabulary ? "tokens" : "classes", (long long)classes - 1,
                        r->section->name, (long long)classes);
    else
        sw_recipe_error(recipe, r->section, NULL,
                        "it has scores for %lld classes, but data %s has %lld (labels 0 to %lld): "
                        "its source needs %lld outputs",
                        (long long)r->labels->classes, r->source->name, (long long)classes,
                        (long long)classes - 1, (long long)classes);
}

/* Text models often have room for more tokens than a text contains, and synthetic data stand in for
 * others. */
static void warn_too_many(const struct sw_job *job, const struct reader *r, int64_t classes)
{
    const struct sw_section *s = outputs_of(job->recipe, r);
    const struct sw_source *from = r->source;

    if (from->training && from->classes_fixed && !from->vocabulary && s && !job->options.evaluates)
        sw_log_write(job->events.log, SW_LOG_WARN, "recipe",
                     "layer %s: outputs = %lld, but data %s has only %lld classes (labels 0 to "
                     "%lld): use outputs = %lld unless more classes will follow",
                     s->name, (long long)r->labels->classes, from->name, (long long)classes,
                     (long long)classes - 1, (long long)classes);
}

/* Several layers may read a field: the narrowest range holds. */
static void narrow(const struct reader *r)
{
    struct sw_label_range *range = &r->source->labels[r->field];
    const struct sw_layer_labels *l = r->labels;

    if (!range->classes || l->classes < range->classes)
        *range = (struct sw_label_range){l->classes, l->ignores, l->ignored, r->section->name};
}

/* Returns the classes that must have scores: an ignored last class needs none. */
static int64_t scored(const struct sw_layer_labels *l, int64_t classes)
{
    return classes - (l->ignores && l->ignored == classes - 1);
}

static void check(struct sw_job *job, const struct reader *r, bool *warned)
{
    const int64_t classes = classes_of(r), needed = scored(r->labels, classes);

    if (r->section->errors)
        return; /* another step of the layer, or another worker */

    if (!classes)
        narrow(r);
    else if (needed > r->labels->classes)
        too_few(job->recipe, r, needed);
    else if (needed < r->labels->classes && !*warned) {
        warn_too_many(job, r, needed);
        *warned = true;
    }
}

int sw_job_check_labels(struct sw_job *job, int split, struct sw_err *err)
{
    bool warned = false;

    for (int w = 0; w < job->topology->group_size; w++) {
        const struct sw_worker *worker = &job->workers[w];
        const struct sw_net *net = split == SW_SPLIT_TRAIN ? worker->train : worker->eval;

        for (int i = 0; i < sw_net_layer_count(net); i++) {
            struct reader r = {.section = sw_net_section(net, i),
                               .labels = &sw_net_layer(net, i)->labels,
                               .source = job->data.source[split],
                               .data = job->data.section[split]};
            if (!r.labels->classes || !r.section)
                continue;

            r.field = field_of(job->recipe, &r);
            if (r.field >= 0)
                check(job, &r, &warned);
        }
    }

    return sw_recipe_status(job->recipe, err);
}
