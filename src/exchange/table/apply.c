/* What happens to a slice whose gradients are complete: its partial sums are listed; in two phases
 * they are summed and measured (sw_table_gather) before the update, which is the updater and the
 * check for values that are not finite afterwards. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

/* A parameter with one owner per worker group has one partial sum for each of them, and one whose
 * gradients are made of factors has a single one. */
static void list_partials(const struct sw_table *t, const struct sw_slice *s, int group,
                          const float *in[SW_TREE_LEAVES], struct sw_fold_inputs *sum)
{
    const struct sw_param *p = &t->params[s->param];
    int first = t->first_partial[group * t->update_group_size],
        last = t->first_partial[(group + 1) * t->update_group_size];

    *sum = (struct sw_fold_inputs){.in = in,
                                   .ends = p->owner < 0 && p->factors < 0 ? t->partial_end : NULL};

    for (int i = first; i < last; i++)
        if (p->gradient[i])
            in[sum->count++] = p->gradient[i] + s->from;
}

int sw_table_sum_slice(const struct sw_table *t, const struct sw_slice *s, int group, float *out,
                       struct sw_err *err)
{
    const float *in[SW_TREE_LEAVES];
    struct sw_fold_inputs sum;

    if (t->params[s->param].factors >= 0)
        return sw_factor_rebuild(t, s, group, out, err);

    list_partials(t, s, group, in, &sum);
    sw_gather_sum(&sum, out, s->count);
    return SW_OK;
}

void sw_table_list(const struct sw_table *t, const struct sw_slice *s, int group,
                   const float *in[SW_TREE_LEAVES], struct sw_fold_inputs *sum)
{
    if (!sw_table_has_sum(t, s->param, group)) {
        list_partials(t, s, group, in, sum);
        return;
    }

    in[0] = t->params[s->param].view[group].gradient + s->from;
    *sum = (struct sw_fold_inputs){.in = in, .count = 1};
}

/* Makes the gradient of a slice of factors, if the update group has any. */
static int rebuild(const struct sw_table *t, const struct sw_slice *s, int group,
                   struct sw_err *err)
{
    if (sw_table_is_remote(t, group))
        return SW_OK;
    return sw_factor_rebuild(t, s, group, t->params[s->param].view[group].gradient + s->from, err);
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

int sw_table_gather(struct sw_table *t, int group, const struct sw_slice *s, struct sw_err *err)
{
    const struct sw_param *p = &t->params[s->param];
    const float *in[SW_TREE_LEAVES];
    struct sw_phases *ph = &t->phases[group];
    double scale = sw_loss_scale_factor(&ph->scale);
    struct sw_gather_args a = {.count = s->count,
                               .clip_value = (float)(t->args.clip_value * scale),
                               .gradient = p->view[group].gradient + s->from,
                               .squares = ph->squares + s->first_block};

    sw_table_list(t, s, group, in, &a.sum);

    int rc = rebuild(t, s, group, err);
    if (rc != SW_OK)
        return rc;

    if (ph->value_squares) {
        a.value = p->value + s->from;
        a.value_squares = ph->value_squares + s->first_block;
    }

    if (!sw_gather(&a) && t->args.bad == SW_BAD_STOPS && !sw_loss_scale_can_halve(&ph->scale))
        return sw_table_report_nonfinite(t, s->param,
                                         __atomic_load_n(&ph->version, __ATOMIC_RELAXED), err);

    return SW_OK;
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
    struct sw_update_args a = {.value = p->value + s->from,
                               .gradient = p->view[group].gradient + s->from,
                               .count = s->count};

    sw_table_update_partials(t, s->param, version, &a);
    a.step = s->version - s->dropped; /* counts the updates of all update groups */

    if (d) {
        a.clip_value = 0;
        a.gradient_scale = d->scale;
    } else {
        sw_table_list(t, s, group, in, &a.sum);
    }

    if (d && t->phases[group].norms) {
        a.value_norm = t->phases[group].norms[s->param].value;
        a.gradient_norm = t->phases[group].norms[s->param].gradient;
    }

    for (int i = 0; i < t->slots; i++)
        a.slot[i] = p->slot[i] + s->from;

    if (p->listed && p->listed[group].count != SW_ROW_LIST_ALL) {
        a.listed = &p->listed[group];
        a.gradient = p->view[group].gradient;
        a.first = s->from;
        a.row_elements = sw_desc_storage(&p->layout) / p->layout.dim[0];
    }

    return a;
}

int sw_table_update_slice(struct sw_table *t, const struct sw_slice *s, int group, uint64_t version,
                          const struct sw_table_control *d, struct sw_err *err)
{
    const float *in[SW_TREE_LEAVES];
    bool non_finite = false;

    int rc = d ? SW_OK : rebuild(t, s, group, err);
    if (rc != SW_OK)
        return rc;

    struct sw_update_args a = update_of(t, s, group, version, d, in);
    a.non_finite = &non_finite;
    a.shared = t->args.rule->races;
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
