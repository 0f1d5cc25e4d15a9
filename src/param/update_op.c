#include "param/update_op.h"
#include "device/ops/rate.h"
#include "kernels/updaters/lars.h"
#include "param/table_private.h"
#include <string.h>

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_update_op_args, value),
    SW_OP_POINTER(struct sw_update_op_args, slot[0]),
    SW_OP_POINTER(struct sw_update_op_args, slot[1]),
    SW_OP_POINTER(struct sw_update_op_args, gradient),
    SW_OP_POINTER(struct sw_update_op_args, non_finite),
    SW_OP_POINTER(struct sw_update_op_args, numbers),
    SW_OP_POINTER(struct sw_update_op_args, decided),
    {0},
};
_Static_assert(SW_UPDATER_SLOTS == 2, "every slot is among the pointers");

static void spans(const void *args, size_t *bytes)
{
    const struct sw_update_op_args *a = args;
    size_t array = sw_op_floats(a->count);
    bytes[0] = array;
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        bytes[1 + s] = a->slot[s] ? array : 0;
    bytes[3] = array;
    bytes[4] = sizeof *a->non_finite;
    bytes[5] = a->count > 0 ? sizeof *a->numbers : 0;
    bytes[6] = a->count > 0 && a->decided ? sizeof *a->decided : 0;
}

static int run(int threads, const void *args, struct sw_err *err)
{
    const struct sw_update_op_args *a = args;
    struct sw_update_args u = {.value = a->value,
                               .gradient = a->gradient,
                               .count = a->count,
                               .clip_value = a->clip_value,
                               .gradient_scale = a->numbers->gradient_scale,
                               .non_finite = a->non_finite};
    (void)threads, (void)err;
    if (a->decided && a->decided->dropped)
        return SW_OK;
    if (a->decided) {
        u.clip_value *= (float)a->decided->loss_scale;
        u.gradient_scale = a->decided->scale;
    }
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        u.slot[s] = a->slot[s];
    sw_update_blocks(&u, a->formula, a->numbers->constants);
    return SW_OK;
}

const struct sw_op sw_op_update = {.name = "update",
                                   .args_bytes = sizeof(struct sw_update_op_args),
                                   .pointers = pointers,
                                   .spans = spans,
                                   .cpu = run};

/* ---- Rates by norms ---- */

static const struct sw_op_pointer rate_pointers[] = {
    SW_OP_POINTER(struct sw_rate_args, value_squares),
    SW_OP_POINTER(struct sw_rate_args, gradient_squares),
    SW_OP_POINTER(struct sw_rate_args, decided),
    SW_OP_POINTER(struct sw_rate_args, numbers),
    {0},
};

static void rate_spans(const void *args, size_t *bytes)
{
    const struct sw_rate_args *a = args;
    bytes[0] = bytes[1] = sizeof(double);
    bytes[2] = sizeof *a->decided;
    bytes[3] = sizeof *a->numbers;
}

static int rate(int threads, const void *args, struct sw_err *err)
{
    const struct sw_rate_args *a = args;
    struct sw_sgd k;
    (void)threads, (void)err;
    memcpy(&k, a->numbers->constants, sizeof k);
    k = sw_lars_adapt(k, a->numbers->trust, *a->value_squares, *a->gradient_squares,
                      a->decided->scale);
    memcpy(a->numbers->constants, &k, sizeof k);
    return SW_OK;
}

const struct sw_op sw_op_rate = {.name = "rate",
                                 .args_bytes = sizeof(struct sw_rate_args),
                                 .pointers = rate_pointers,
                                 .spans = rate_spans,
                                 .cpu = rate};

/* ---- From the table ---- */

const struct sw_update_formula *sw_table_update_numbers(const struct sw_table *t, int param,
                                                        uint64_t version,
                                                        struct sw_update_numbers *out)
{
    struct sw_update_order order = {0};
    struct sw_update_args u = {
        .count = (int64_t)(sw_desc_bytes(&t->params[param].layout) / sizeof(float)),
        .order = &order};
    sw_table_update_terms(t, param, version, &u);
    sw_updater_apply(t->args.updater, t->args.updater_conf, &u);
    memset(out, 0, sizeof *out);
    memcpy(out->constants, order.constants, order.formula->constants_bytes);
    out->trust = order.trust;
    out->gradient_scale = u.gradient_scale;
    return order.formula;
}

int sw_table_update_on_device(const struct sw_table *t, int param,
                              const struct sw_update_formula *formula,
                              const struct sw_param_place *place, struct sw_stream *s,
                              struct sw_err *err)
{
    struct sw_update_op_args a = {
        .formula = formula,
        .numbers = place->numbers,
        .value = place->value,
        .gradient = place->gradient,
        .count = (int64_t)(sw_desc_bytes(&t->params[param].layout) / sizeof(float)),
        .clip_value = (float)t->args.clip_value,
        .decided = place->decided,
        .non_finite = place->bad};
    for (int i = 0; i < t->slots; i++)
        a.slot[i] = place->slot[i];
    return sw_op_run(s, &sw_op_update, &a, err);
}
