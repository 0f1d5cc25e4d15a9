#include "param/update_op.h"
#include "param/table_private.h"

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_update_op_args, value),
    SW_OP_POINTER(struct sw_update_op_args, slot[0]),
    SW_OP_POINTER(struct sw_update_op_args, slot[1]),
    SW_OP_POINTER(struct sw_update_op_args, gradient),
    SW_OP_POINTER(struct sw_update_op_args, non_finite),
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
}

static int run(int threads, const void *args, struct sw_err *err)
{
    const struct sw_update_op_args *a = args;
    struct sw_update_args u = {.value = a->value,
                               .gradient = a->gradient,
                               .count = a->count,
                               .clip_value = a->clip_value,
                               .gradient_scale = a->gradient_scale,
                               .non_finite = a->non_finite};
    (void)threads, (void)err;
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        u.slot[s] = a->slot[s];
    sw_update_blocks(&u, a->order.formula, a->order.constants);
    return SW_OK;
}

const struct sw_op sw_op_update = {.name = "update",
                                   .args_bytes = sizeof(struct sw_update_op_args),
                                   .pointers = pointers,
                                   .spans = spans,
                                   .cpu = run};

int sw_table_update_there(const struct sw_table *t, int param, uint64_t version,
                          const struct sw_param_place *place, struct sw_stream *s,
                          struct sw_err *err)
{
    struct sw_update_op_args a = {
        .value = place->value,
        .gradient = place->gradient,
        .count = (int64_t)(sw_desc_bytes(&t->params[param].layout) / sizeof(float)),
        .non_finite = place->bad};
    struct sw_update_args u = {.count = a.count, .order = &a.order};
    for (int i = 0; i < t->slots; i++)
        a.slot[i] = place->slot[i];
    sw_table_update_terms(t, param, version, &u);
    sw_updater_apply(t->args.updater, t->args.updater_conf, &u);
    a.gradient_scale = u.gradient_scale;
    a.clip_value = u.clip_value;
    return sw_op_run(s, &sw_op_update, &a, err);
}
