/* Common parts of layer types: the keys that every [layer] section has, helpers of setup (checks of
 * sources, parameters, shards), teardown, and the callbacks of layers that are a single plan or a
 * view. Called by the worker that owns the layer. */
#include "layers/layer.h"

#include "base/str.h"
#include "base/tree.h"
#include "device/ops/elementwise.h"

static const char *const include_choices[] = {"always", "train", "eval", NULL};

const char *const sw_partition_names[] = {"0", "1", "1in", "none", NULL};

const char *const sw_connection_names[] = {"one-to-one", "one-to-all", "first-to-last",
                                           "previous",   "stateful",   NULL};

const struct sw_opt sw_layer_opts[] = {
    SW_OPT(STRINGS, struct sw_layer_conf, src, "layers whose output this one reads, in order"),
    SW_OPT(
        INT, struct sw_layer_conf, unroll,
        "number of time steps over which the layer is unrolled, with shared parameters; a reader "
        "that is not unrolled gets all steps as a sequence",
        .def = "0", .min = 1, .max = 4096),
    SW_OPT(STRINGS, struct sw_layer_conf, connections,
           "what a step reads of its sources, one word for all or one per source: one-to-one: the "
           "same step; one-to-all: all steps; first-to-last: only the first step reads, the last "
           "one; previous: the previous step; stateful: as previous, and the first step reads the "
           "last step of the previous batch; default: one-to-one, for the layer itself previous"),
    SW_OPT(ENUM, struct sw_layer_conf, include,
           "nets that have the layer: both, training only, or evaluation only", .def = "always",
           .choices = include_choices),
    SW_OPT(STRINGS, struct sw_layer_conf, stages,
           "stages of the run that have the layer, by name or pattern; default: all"),
    SW_OPT(ENUM, struct sw_layer_conf, partition,
           "how workers split it: 0 by rows, 1 by columns, 1in by columns of its source, none: "
           "whole on one worker; default: job.partition",
           .choices = sw_partition_names),
    SW_OPT(INT, struct sw_layer_conf, location,
           "worker of the group, from 0, that has the whole layer; adjacent layers on the same "
           "worker exchange no data",
           .min = 0, .max = 1 << 20),
    SW_OPT(
        ENUM, struct sw_layer_conf, comm,
        "how workers that split a fully-connected layer by rows exchange its gradients: ps, sfb, "
        "adam or auto; default: cluster.comm",
        .choices = sw_exchange_mode_names),
    {0},
};

const struct sw_layer_type *sw_layer_type_find(const char *name)
{
    for (int i = 0; sw_layer_types[i]; i++)
        if (sw_str_eq(sw_layer_types[i]->base.name, name))
            return sw_layer_types[i];
    return NULL;
}

bool sw_layer_can_split(const struct sw_layer_type *t, enum sw_partition p)
{
    switch (p) {
    case SW_PARTITION_COLUMNS:
        return t->split != SW_SPLIT_NONE;
    case SW_PARTITION_INPUTS:
        return t->splits_inputs;
    case SW_PARTITION_NONE:
        return t->role != SW_ROLE_INPUT && t->role != SW_ROLE_OUTPUT;
    case SW_PARTITION_ROWS:
        break;
    }

    return true;
}

struct sw_plan_passes sw_setup_passes(const struct sw_layer_setup *s)
{
    return (struct sw_plan_passes){.backward_data = s->wants_grad & 1,
                                   .backward_weights = s->training && !s->frozen && !s->factors,
                                   .training = s->training};
}

void sw_setup_part(const struct sw_layer_setup *s, int64_t outputs, int64_t *first, int64_t *count)
{
    bool whole = s->parts <= 1;
    sw_part(outputs, whole ? 1 : s->parts, whole ? 0 : s->part, first, count);
}

void sw_layer_mark_parts(struct sw_layer *l, int64_t first, int64_t whole)
{
    l->whole_columns = whole;
    for (int p = 0; p < l->param_count; p++)
        sw_layer_mark_param(l, p, 0, first, whole);

    for (int k = 0; k < l->keep_count; k++) {
        l->keeps[k].part_first = first;
        l->keeps[k].part_whole = whole;
    }
}

void sw_layer_mark_param(struct sw_layer *l, int param, int dim, int64_t first, int64_t whole)
{
    l->param[param].part_dim = dim;
    l->param[param].part_first = first;
    l->param[param].part_whole = whole;
}

struct sw_layer_param *sw_layer_add_param(struct sw_layer *l, const char *name,
                                          const struct sw_desc *layout, int64_t fan_in,
                                          int64_t fan_out)
{
    struct sw_layer_param *p = &l->param[l->param_count++];
    *p = (struct sw_layer_param){
        .name = name, .layout = *layout, .fan_in = fan_in, .fan_out = fan_out};
    return p;
}

void sw_layer_add_buffer(struct sw_layer *l, const char *name, const struct sw_desc *layout,
                         double natural)
{
    l->keeps[l->keep_count++] =
        (struct sw_layer_buffer){.name = name, .layout = *layout, .natural = natural};
}

int sw_layer_add_recurrent_state(struct sw_layer *l, const char *name, int64_t width)
{
    l->recurrent[l->recurrent_count] =
        (struct sw_layer_recurrent_state){.name = name, .width = width, .whole = width};
    return l->recurrent_count++;
}

int sw_layer_own_sources(const struct sw_layer_type *type, const void *conf, int count)
{
    const int own = type->conditions ? count - type->conditions(conf) : count;
    return own > 1 ? own : count > 0; /* setup reports a missing condition */
}

enum sw_energy sw_layer_energy(const struct sw_layer *l)
{
    const int own = sw_layer_own_sources(l->type, l->conf, l->src_count);
    return own == 1 ? l->type->energy : SW_ENERGY_NONE;
}

int sw_layer_need_src(const struct sw_layer *l, int i, int ndim, struct sw_err *err)
{
    const struct sw_desc *d = &l->src[i]->desc;
    char text[128];

    if (d->dtype != SW_F32 && !(l->type->halves && sw_dtype_is_half(d->dtype)))
        return sw_err_set(err, SW_ERR_INVALID, "source %d holds %s values (%s), not features",
                          i + 1, sw_dtype_name(d->dtype), sw_desc_text(d, text));
    if (ndim && d->ndim != ndim)
        return sw_err_set(err, SW_ERR_INVALID, "source %d is %s: %d dimensions, not %d", i + 1,
                          sw_desc_text(d, text), d->ndim, ndim);

    return SW_OK;
}

int sw_layer_need_axis(const struct sw_layer *l, int64_t axis, struct sw_err *err)
{
    const struct sw_desc *d = &l->src[0]->desc;
    char text[128];

    if (axis < d->ndim)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID, "axis = %lld: source 1 is %s; its dimensions are 0..%d",
                      (long long)axis, sw_desc_text(d, text), d->ndim - 1);
}

int sw_layer_need_labels(const struct sw_layer *l, int i, struct sw_err *err)
{
    const struct sw_desc *d = &l->src[i]->desc;
    char text[128];

    if (d->dtype != SW_I32 || d->ndim != 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "source %d is %s: it must be labels, one whole number per row (an input "
                          "layer with field = label)",
                          i + 1, sw_desc_text(d, text));

    if (d->dim[0] != l->src[0]->desc.dim[0])
        return sw_err_set(err, SW_ERR_INVALID, "%lld rows of scores but %lld labels",
                          (long long)l->src[0]->desc.dim[0], (long long)d->dim[0]);

    return SW_OK;
}

const struct sw_desc *sw_setup_layout(const struct sw_layer_setup *s, const struct sw_layer *l,
                                      const char *param)
{
    return s->layout ? s->layout(s->user, l, param) : NULL;
}

bool sw_layer_can_recompute(const struct sw_layer *l)
{
    bool pure = l->keep_count == 0 && l->recurrent_count == 0 && l->phases.sums == 0 &&
                l->phases.forward <= 1;
    return l->type->role == SW_ROLE_NEURON && !l->type->penalty && l->chain.steps == 0 &&
           (pure || l->recomputes_from_saved);
}

int sw_layer_set_up(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_layer_type *t = l->type;
    int rc = t->sources.features ? sw_layer_need_src(l, 0, t->sources.ndim, err) : SW_OK;
    return rc == SW_OK ? t->setup(l, s, err) : rc;
}

void sw_layer_teardown(struct sw_layer *l)
{
    if (l->type->teardown && (l->state || !l->type->state_bytes))
        l->type->teardown(l);

    while (l->plans) {
        struct sw_plan *p = l->plans;
        l->plans = p->next;
        sw_plan_free(p);
    }

    sw_free(l->state);
    l->state = NULL;
}

void sw_layer_own_plan(struct sw_layer *l, struct sw_plan *p)
{
    if (!p)
        return;
    p->next = l->plans;
    l->plans = p;
}

int sw_layer_reorder(struct sw_layer *l, struct sw_stream *s, const struct sw_desc *from,
                     const struct sw_desc *to, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_plan_request q = {
        .kind = SW_PLAN_REORDER, .stream = s, .src = from, .shape.to = to};

    int rc = sw_plan_new(&q, out, err);
    if (rc != SW_OK)
        return rc;

    sw_layer_own_plan(l, *out);
    return SW_OK;
}

int sw_layer_make_plan(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_plan_request q,
                       struct sw_err *err)
{
    q.stream = s->stream;
    q.src = q.src ? q.src : &l->src[0]->desc;
    q.dst_type = l->type->halves == SW_HALVES_AS_TOLD ? s->dst_type : q.src->dtype;
    q.passes = sw_setup_passes(s);
    return sw_plan_new(&q, &((struct sw_plan_state *)l->state)->plan, err);
}

static struct sw_plan *plan_of(const struct sw_layer *l)
{
    return ((const struct sw_plan_state *)l->state)->plan;
}

void sw_layer_use_plan(struct sw_layer *l, int64_t fan_in, int64_t fan_out)
{
    struct sw_plan *p = plan_of(l);

    sw_layer_own_plan(l, p);
    l->dst.desc = p->dst;
    l->saved_bytes = p->saved_bytes;
    l->scratch_bytes = p->scratch_bytes;
    l->backward_reads_src = p->backward_reads_src ? 1u : 0u;
    l->backward_reads_dst = p->backward_reads_dst;
    l->algorithm = p->algorithm;
    if (p->weight.ndim)
        sw_layer_add_param(l, "weight", &p->weight, fan_in, fan_out);
    if (p->bias.ndim)
        sw_layer_add_param(l, "bias", &p->bias, 0, 0); /* initially zero by default */
}

static struct sw_plan_args plan_args(const struct sw_layer *l)
{
    struct sw_plan_args a = {.src = l->src[0]->data,
                             .dst = l->dst.data,
                             .diff_dst = l->dst.grad,
                             .diff_src = l->src_grad[0],
                             .saved = l->saved,
                             .scratch = l->scratch};

    if (l->param_count > 0) {
        a.weight = l->param[0].value;
        a.diff_weight = l->param[0].grad;
    }

    if (l->param_count > 1) {
        a.bias = l->param[1].value;
        a.diff_bias = l->param[1].grad;
    }

    return a;
}

int sw_layer_plan_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_plan_args a = plan_args(l);
    /* Gradients are valid only in backward; in forward their memory may hold other data. */
    a.diff_dst = a.diff_src = a.diff_weight = a.diff_bias = NULL;
    return sw_plan_forward(plan_of(l), &a, err);
}

int sw_layer_plan_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_plan_args a = plan_args(l);

    /* False if all parameters are frozen, or if factors are exchanged instead of gradients. */
    bool trains = !l->factors.x && (a.diff_weight || a.diff_bias);
    int rc = trains ? sw_plan_backward_weights(plan_of(l), &a, err) : SW_OK;

    a.diff_again = trains;
    if (rc != SW_OK)
        return rc;

    return a.diff_src ? sw_plan_backward_data(plan_of(l), &a, err) : SW_OK;
}

void sw_layer_use_elementwise(struct sw_layer *l)
{
    l->dst.desc = l->src[0]->desc;
    l->in_place = true;
    l->flops_forward = l->flops_backward = (double)sw_desc_count(&l->dst.desc);
}

void sw_layer_use_view(struct sw_layer *l)
{
    l->in_place = l->view = l->can_add.src = true;
    l->flops_forward = l->flops_backward = 0;
}

/* Usually the output shares the source's memory, and there is nothing to do. */
int sw_layer_view_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    if (l->dst.data == l->src[0]->data)
        return SW_OK;
    return sw_copy(r->stream, l->dst.data, l->src[0]->data, sw_desc_bytes(&l->dst.desc), err);
}

int sw_layer_view_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_desc *d = &l->dst.desc;

    if (l->dst.grad == l->src_grad[0])
        return SW_OK;
    if (l->adds.src & 1)
        return sw_op_add_activation(r->stream, d, l->src_grad[0], l->dst.grad, err);

    return sw_copy(r->stream, l->src_grad[0], l->dst.grad, sw_desc_bytes(d), err);
}
