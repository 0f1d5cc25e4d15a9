/* Applying an update to a slice: the partial sums of an update group's gradient, the updater's
 * arguments, and the check for values that are not finite afterwards. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

/* Lists the partial sums of every contributor. A parameter with one owner per worker group has one
 * sum for each of them. */
float *sw_table_sum(const struct sw_table *t, int param, int group, int64_t from,
                    const float *in[SW_TREE_LEAVES], struct sw_fold_inputs *sum)
{
    const struct sw_param *p = &t->params[param];
    int first = group * t->update_group_size, base = -1;

    *sum = (struct sw_fold_inputs){.in = in, .ends = p->owner < 0 ? t->partial_end : NULL};
    if (p->factors >= 0) {
        in[sum->count++] = sw_factor_gradient(t, param, group) + from;
        sum->ends = NULL;
        return sw_factor_gradient(t, param, group) + from;
    }

    for (int w = first; w < first + t->update_group_size; w++)
        for (int i = t->first_partial[w];
             i < t->first_partial[w + 1] && sw_table_contributes(t, param, w); i++) {
            base = base < 0 ? i : base;
            in[sum->count++] = p->gradient[i] + from;
        }

    return p->gradient[base] + from;
}

int sw_table_report_nonfinite(const struct sw_table *t, int param, uint64_t version,
                              struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_DIVERGED,
                      "step %llu: the gradient or new value of %s is not finite (NaN or Inf)%s",
                      (unsigned long long)version, t->params[param].name,
                      t->args.loss_scale > 0
                          ? "; a smaller loss scale would not help (try precision = bf16)"
                          : "");
}

void sw_table_update_partials(const struct sw_table *t, int param, uint64_t version,
                              struct sw_update_args *a)
{
    const struct sw_param *p = &t->params[param];

    a->lr = (float)(sw_table_rate(t, version - 1) * (double)p->lr_mult);
    a->weight_decay = (float)(t->args.common->weight_decay * (double)p->decay_mult);
    a->clip_value = (float)t->args.clip_value;
    a->gradient_scale = 1;
    a->step = version - 1 - t->before - sw_table_dropped(t);
}

/* In two phases (d) the first gradient array already has the sum. */
static struct sw_update_args update_of(const struct sw_table *t, const struct sw_slice *s,
                                       int group, uint64_t version,
                                       const struct sw_table_control *d,
                                       const float *in[SW_TREE_LEAVES])
{
    const struct sw_param *p = &t->params[s->param];
    struct sw_update_args a = {
        .value = p->value + s->from,
        .count = s->count,
    };

    sw_table_update_partials(t, s->param, version, &a);
    a.step = s->version - s->dropped; /* counts the updates of all update groups */

    if (d) {
        a.clip_value = 0;
        a.gradient_scale = d->scale;
    }

    if (d && t->phases[group].norms) {
        a.value_norm = t->phases[group].norms[s->param].value;
        a.gradient_norm = t->phases[group].norms[s->param].gradient;
    }

    a.gradient = sw_table_sum(t, s->param, group, s->from, in, &a.sum);
    if (d)
        a.sum.count = 0;
    for (int i = 0; i < t->slots; i++)
        a.slot[i] = p->slot[i] + s->from;

    return a;
}

int sw_table_update_slice(struct sw_table *t, const struct sw_slice *s, int group, uint64_t version,
                          const struct sw_table_control *d, struct sw_err *err)
{
    const float *in[SW_TREE_LEAVES];
    bool non_finite = false;

    if (!d && t->params[s->param].factors >= 0)
        sw_factor_rebuild(t, s, group, sw_factor_gradient(t, s->param, group) + s->from);

    struct sw_update_args a = update_of(t, s, group, version, d, in);
    a.non_finite = &non_finite;
    a.shared = !t->args.rule->update;
    sw_updater_apply(t->args.updater, t->args.updater_conf, &a);
    if (non_finite && t->args.bad != SW_BAD_TELLS)
        return sw_table_report_nonfinite(t, s->param, version, err);

    /* Workers read it after they have seen all parameters at this version. */
    if (non_finite)
        __atomic_store_n(&t->nonfinite_param, s->param, __ATOMIC_RELAXED);
    return SW_OK;
}

int sw_table_nonfinite_param(const struct sw_table *t)
{
    return __atomic_load_n(&t->nonfinite_param, __ATOMIC_RELAXED);
}
