#include "param/update_op.h"
#include "param/table_private.h"

struct args {
    const struct sw_updater *updater;
    const void *conf;
    struct sw_update_args update;
};

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct args, update.value),      SW_OP_POINTER(struct args, update.slot[0]),
    SW_OP_POINTER(struct args, update.slot[1]),    SW_OP_POINTER(struct args, update.gradient),
    SW_OP_POINTER(struct args, update.non_finite), {0}};
_Static_assert(SW_UPDATER_SLOTS == 2, "every slot is among the pointers");

static void spans(const void *args, size_t *bytes)
{
    const struct sw_update_args *a = &((const struct args *)args)->update;
    size_t array = sw_op_floats(a->count);
    bytes[0] = array;
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        bytes[1 + s] = a->slot[s] ? array : 0;
    bytes[3] = array;
    bytes[4] = sizeof *a->non_finite;
}

static int run(int threads, const void *args, struct sw_err *err)
{
    const struct args *a = args;
    (void)threads, (void)err;
    sw_updater_apply(a->updater, a->conf, &a->update);
    return SW_OK;
}

const struct sw_op sw_op_update = {.name = "update",
                                   .args_bytes = sizeof(struct args),
                                   .pointers = pointers,
                                   .spans = spans,
                                   .cpu = run};

int sw_table_update_there(const struct sw_table *t, int param, uint64_t version,
                          const struct sw_param_place *place, struct sw_stream *s,
                          struct sw_err *err)
{
    struct args a = {.updater = t->args.updater, .conf = t->args.updater_conf};
    a.update.value = place->value;
    for (int i = 0; i < t->slots; i++)
        a.update.slot[i] = place->slot[i];
    a.update.gradient = place->gradient;
    a.update.count = (int64_t)(sw_desc_bytes(&t->params[param].layout) / sizeof(float));
    a.update.non_finite = place->bad;
    sw_table_update_terms(t, param, version, &a.update);
    return sw_op_run(s, &sw_op_update, &a, err);
}
