/* Losses and metrics by name, and their sums over batches.
 *
 * Names: `loss` is the sum of all losses; where there are several, each also goes by TYPE.LAYER, as
 * it enters the sum. A metric goes by TYPE, where there are several of a type the first, and all of
 * them by TYPE.LAYER; further values of a metric have .VALUE behind that. */
#include "base/os.h"
#include "base/str.h"
#include "worker/series.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sw_layer *layer_of(const struct sw_net *net, int result)
{
    return sw_net_layer(net, sw_net_result(net, result).layer);
}

/* Is there a result that a user could mistake for this one: another loss, or a metric of the same
 * type? */
static bool has_rivals(const struct sw_net *net, int result)
{
    int n = 0;
    bool loss = sw_net_result(net, result).loss;

    for (int r = 0; r < sw_net_result_count(net); r++)
        n += sw_net_result(net, r).loss == loss &&
             (loss || layer_of(net, r)->type == layer_of(net, result)->type);

    return n > 1;
}

int sw_series_find(const struct sw_series *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (sw_str_eq(s->name[i], name))
            return i;
    return -1;
}

struct naming {
    struct sw_series *series;
    struct sw_recipe *recipe;
    const struct sw_net *net;
};

/* Adds a name. Two values may not share one, because a user could not distinguish them. */
static void add_name(const struct naming *n, int result, int which, const char *name)
{
    struct sw_series *s = n->series;
    int taken = sw_series_find(s, name);
    const struct sw_section *section =
        result >= 0 ? sw_net_section(n->net, sw_net_result(n->net, result).layer) : NULL;

    if (taken >= 0) {
        sw_recipe_error(n->recipe, section, NULL,
                        "its value %s has the same name as one of layer %s: rename this layer",
                        name, layer_of(n->net, s->result[taken])->name);
        return;
    }

    if (s->count == SW_JOB_METRICS) {
        sw_recipe_error(
            n->recipe, section, NULL,
            "more than %d values of losses and metrics: remove some loss or metric layers",
            SW_JOB_METRICS);
        return;
    }

    s->result[s->count] = result;
    s->which[s->count] = which;
    snprintf(s->name[s->count++], sizeof s->name[0], "%s", name);
}

/* Adds all values of a result: the first one as `stem`, and all as stem.VALUE. */
static void add_values(const struct naming *n, int result, const char *stem)
{
    const struct sw_layer_type *type = layer_of(n->net, result)->type;
    char name[SW_JOB_METRIC_NAME];

    add_name(n, result, 0, stem);

    for (int v = 0; type->values && type->values[v]; v++) {
        snprintf(name, sizeof name, "%s.%s", stem, type->values[v]);
        add_name(n, result, v, name);
    }
}

static void name_values(const struct naming *n)
{
    char stem[SW_JOB_METRIC_NAME];

    for (int r = 0; r < sw_net_result_count(n->net) && n->series->count == 0; r++)
        if (sw_net_result(n->net, r).loss)
            add_name(n, -1, 0, "loss");

    for (int r = 0; r < sw_net_result_count(n->net); r++) {
        const struct sw_layer *l = layer_of(n->net, r);
        const char *type = l->type->base.name;

        if (!sw_net_result(n->net, r).loss && sw_series_find(n->series, type) < 0)
            add_values(n, r, type);
        if (!has_rivals(n->net, r))
            continue;

        snprintf(stem, sizeof stem, "%s.%s", type, l->home);
        add_values(n, r, stem);
    }
}

int sw_series_init(struct sw_series *s, struct sw_recipe *recipe, const struct sw_net *net,
                   int microbatches, struct sw_err *err)
{
    *s = (struct sw_series){.microbatches = microbatches, .pairs = sw_net_pair_count(net)};
    name_values(&(struct naming){s, recipe, net});

    size_t room = (size_t)(microbatches * s->pairs) + 1;
    s->sums = sw_calloc(room, sizeof *s->sums);
    s->totals = sw_calloc((size_t)s->pairs + 1, sizeof *s->totals);
    if (!s->sums || !s->totals)
        return sw_err_nomem(err, "losses and metrics", room * sizeof *s->sums);

    return sw_recipe_status(recipe, err);
}

void sw_series_fini(struct sw_series *s)
{
    sw_free(s->sums);
    sw_free(s->totals);
    *s = (struct sw_series){0};
}

bool sw_series_less_is_better(const struct sw_net *net, const struct sw_series *s, int i)
{
    int r = s->result[i];
    return r < 0 || sw_net_result(net, r).loss || layer_of(net, r)->type->less_is_better;
}

void sw_series_clear(struct sw_series *s)
{
    memset(s->sums, 0, (size_t)(s->microbatches * s->pairs) * sizeof *s->sums);
}

static void add_pairs(struct sw_result *to, const struct sw_result *pairs, int count)
{
    for (int i = 0; i < count; i++) {
        to[i].sum += pairs[i].sum;
        to[i].weight += pairs[i].weight;
    }
}

void sw_results_add(const struct sw_net *net, struct sw_series *s, int microbatch)
{
    sw_net_add_pairs(net, 0, s->sums + microbatch * s->pairs);
}

void sw_results_sum_own(struct sw_series *s)
{
    memset(s->totals, 0, (size_t)s->pairs * sizeof *s->totals);
    for (int microbatch = 0; microbatch < s->microbatches; microbatch++)
        add_pairs(s->totals, s->sums + microbatch * s->pairs, s->pairs);
}

static double mean_of(struct sw_result r)
{
    return r.weight > 0 ? r.sum / r.weight : (double)NAN;
}

/* Each loss has its own mean: one may ignore rows that another counts. */
double sw_results_loss(const struct sw_net *net, const struct sw_result *pairs)
{
    double total = 0;
    bool any = false;

    for (int r = 0; r < sw_net_result_count(net); r++) {
        struct sw_net_result result = sw_net_result(net, r);
        if (!result.loss || !(pairs[result.first].weight > 0))
            continue;

        total += mean_of(pairs[result.first]);
        any = true;
    }

    return any ? total : (double)NAN;
}

static double value_of(const struct sw_net *net, int result, int which,
                       const struct sw_result *pairs)
{
    const struct sw_layer *l = layer_of(net, result);
    const struct sw_result *own = pairs + sw_net_result(net, result).first;
    return l->type->value ? l->type->value(l, own, which) : mean_of(*own);
}

void sw_results_read(const struct sw_net *net, const struct sw_series *s,
                     const struct sw_result *pairs, struct sw_job_metric *out, int *count)
{
    for (int i = 0; i < s->count; i++) {
        memcpy(out[i].name, s->name[i], sizeof out[i].name);
        out[i].value = s->result[i] < 0 ? sw_results_loss(net, pairs)
                                        : value_of(net, s->result[i], s->which[i], pairs);
    }

    *count = s->count;
}

double sw_results_step_loss(struct sw_microbatches *microbatches, int behind, struct sw_series *s)
{
    const struct sw_net *first = sw_microbatches_net(microbatches, 0);
    double loss = 0;

    sw_series_clear(s);
    for (int i = 0; i < s->microbatches; i++)
        sw_net_add_pairs(sw_microbatches_net(microbatches, i), behind, s->sums + i * s->pairs);
    sw_results_sum_own(s);

    for (int r = 0; r < sw_net_result_count(first); r++)
        if (sw_net_result(first, r).loss)
            loss += s->totals[sw_net_result(first, r).first].sum;

    return loss;
}
