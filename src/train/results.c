/* Losses and metrics by name, and their sums over batches. */
#include "base/str.h"
#include "train/job_private.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(const struct sw_net *net, int result)
{
    return sw_net_layer(net, sw_net_result(net, result).layer)->type->base.name;
}

static int count_of_type(const struct sw_net *net, const char *type)
{
    int n = 0;
    for (int r = 0; r < sw_net_result_count(net); r++)
        n += sw_str_eq(type_of(net, r), type);
    return n;
}

static void add_name(struct sw_series *s, int result, const char *type, const char *layer)
{
    if (s->count == SW_JOB_METRICS)
        return;
    s->result[s->count] = result;
    snprintf(s->name[s->count++], sizeof s->name[0], "%s%s%s", type, layer ? "." : "",
             layer ? layer : "");
}

static bool has_name(const struct sw_series *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (sw_str_eq(s->name[i], name))
            return true;
    return false;
}

void sw_series_name(const struct sw_net *net, struct sw_series *s)
{
    s->count = 0;
    add_name(s, -1, "loss", NULL);
    for (int r = 0; r < sw_net_result_count(net); r++) {
        const char *type = type_of(net, r);
        bool many = count_of_type(net, type) > 1;
        if (!sw_net_result(net, r).loss && !has_name(s, type))
            add_name(s, r, type, NULL);
        if (many)
            add_name(s, r, type, sw_net_layer(net, sw_net_result(net, r).layer)->name);
    }
}

/* The sum over all losses keeps their means apart: its "sum" is already per sample times weight. */
void sw_results_add(const struct sw_net *net, const struct sw_series *s, struct sw_result *sums)
{
    for (int i = 0; i < s->count; i++) {
        if (s->result[i] >= 0) {
            struct sw_result v = sw_net_result(net, s->result[i]).value;
            sums[i].sum += v.sum;
            sums[i].weight += v.weight;
            continue;
        }
        double rows = 0, total = 0;
        for (int r = 0; r < sw_net_result_count(net); r++) {
            struct sw_net_result result = sw_net_result(net, r);
            if (result.loss) {
                total += result.value.sum;
                rows = result.value.weight > rows ? result.value.weight : rows;
            }
        }
        sums[i].sum += total;
        sums[i].weight += rows;
    }
}

void sw_results_read(const struct sw_series *s, const struct sw_result *sums,
                     struct sw_job_metric *out, int *count)
{
    for (int i = 0; i < s->count; i++) {
        memcpy(out[i].name, s->name[i], sizeof out[i].name);
        out[i].value = sums[i].weight > 0 ? sums[i].sum / sums[i].weight : (double)NAN;
    }
    *count = s->count;
}
