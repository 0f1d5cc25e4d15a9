/* Updates of parameters as operations: what the CPU does. */
#include "exchange/update_op.h"
#include "device/op.h"
#include "exchange/table/table_private.h"
#include "kernels/updaters/lars.h"
#include <string.h>

static void update_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_update_op_args *a = args;
    size_t array = sw_op_floats(a->elements), params = (size_t)a->params;
    bool any = a->chunks > 0;

    SW_ARRAY(out, a, value, array);
    SW_ARRAYS_OR_NULL(out, a, slot, SW_UPDATER_SLOTS, array);
    SW_ARRAY(out, a, gradient, array);
    SW_ARRAY(out, a, non_finite, params * sizeof *a->non_finite);
    SW_ARRAY(out, a, numbers, any ? params * sizeof *a->numbers : 0);
    SW_ARRAY_OR_NULL(out, a, control, any ? sizeof *a->control : 0);
}

static void update_param(const struct sw_update_op_args *a, int i)
{
    const struct sw_update_numbers *n = &a->numbers[i];
    struct sw_update_args u = {.value = a->value + n->first,
                               .gradient = a->gradient + n->first,
                               .count = n->count,
                               .clip_value = a->clip_value,
                               .gradient_scale = n->gradient_scale,
                               .non_finite = &a->non_finite[i]};

    if (a->control) {
        u.clip_value *= (float)a->control->loss_scale;
        u.gradient_scale = a->control->scale;
    }

    for (int s = 0; s < SW_UPDATER_SLOTS && a->slot[s]; s++)
        u.slot[s] = a->slot[s] + n->first;
    sw_update_blocks(&u, a->formula, n->constants);
}

static int update(const struct sw_host_launch *l, const void *args)
{
    const struct sw_update_op_args *a = args;

    if (a->control && a->control->dropped)
        return SW_OK;

    for (int i = 0; i < a->params; i++)
        update_param(a, i);
    return SW_OK;
}

const struct sw_op sw_op_update = {"update", sizeof(struct sw_update_op_args), update_arrays,
                                   update};

/* ---- Rates by norms ---- */

static void rate_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_rate_args *a = args;

    SW_ARRAY(out, a, value_squares, (size_t)a->totals * sizeof *a->value_squares);
    SW_ARRAY(out, a, gradient_squares, (size_t)a->totals * sizeof *a->gradient_squares);
    SW_ARRAY(out, a, control, sizeof *a->control);
    SW_ARRAY(out, a, numbers, (size_t)a->params * sizeof *a->numbers);
}

static int rate(const struct sw_host_launch *l, const void *args)
{
    const struct sw_rate_args *a = args;

    for (int i = 0; i < a->params; i++) {
        struct sw_update_numbers *n = &a->numbers[i];
        struct sw_sgd k;

        memcpy(&k, n->constants, sizeof k);
        k = sw_lars_adapt(k, n->trust, a->value_squares[n->total], a->gradient_squares[n->total],
                          a->control->scale);
        memcpy(n->constants, &k, sizeof k);
    }

    return SW_OK;
}

const struct sw_op sw_op_rate = {"rate", sizeof(struct sw_rate_args), rate_arrays, rate};

/* ---- From the table ---- */

const struct sw_update_formula *sw_table_update_numbers(const struct sw_table *t, int param,
                                                        uint64_t version, uint64_t before,
                                                        struct sw_update_numbers *out)
{
    struct sw_update_order order = {0};
    struct sw_update_args u = {
        .count = (int64_t)(sw_desc_bytes(&t->params[param].layout) / sizeof(float)),
        .order = &order};

    sw_table_update_partials(t, param, version, &u);
    u.step = before == SW_UPDATES_OF_ONE_GROUP ? u.step : before;
    sw_updater_apply(t->args.updater, t->args.updater_conf, &u);
    memcpy(out->constants, order.constants, order.formula->constants_bytes);
    out->trust = order.trust;
    out->gradient_scale = u.gradient_scale;

    return order.formula;
}

int sw_table_update_on_device(const struct sw_table *t, const struct sw_update_formula *formula,
                              const struct sw_update_list *list, struct sw_stream *s,
                              struct sw_err *err)
{
    struct sw_update_op_args a = {.formula = formula,
                                  .numbers = list->at.numbers,
                                  .value = list->at.value,
                                  .gradient = list->at.gradient,
                                  .elements = list->elements,
                                  .chunks = list->chunks,
                                  .params = list->count,
                                  .clip_value = (float)t->args.clip_value,
                                  .control = list->at.control,
                                  .non_finite = list->at.bad};

    for (int i = 0; i < t->slots; i++)
        a.slot[i] = list->at.slot[i];
    return sw_op_run(s, &sw_op_update, &a, err);
}
