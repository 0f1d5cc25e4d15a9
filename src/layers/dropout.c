/* dropout: in training sets a share `ratio` of the values to zero and scales the others by 1 / (1 -
 * ratio), so that evaluation changes nothing (Srivastava et al. 2014, in the inverted form). The
 * mask is a pure function of (seed, layer, step, global row, element): backward generates it again
 * instead of storing it, and it depends on neither workers nor layouts. */
#include "kernels/ops/dropout.h"
#include "device/op.h"
#include "layers/layer.h"

struct conf {
    double ratio;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, ratio, "share of values dropped, 0 to below 1", .def = "0.5",
           .min = 0, .max = 0.999),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_dropout *st = l->state;

    *st = (struct sw_dropout){
        .key = sw_philox_stream(s->seed, SW_PURPOSE_DROPOUT, l->id),
        .threshold = (uint32_t)(c->ratio * 4294967296.0),
        .scale = (float)(1.0 / (1.0 - c->ratio)),
        .first_channel = s->first_channel,
        .channels = s->channels,
    };
    sw_layer_use_elementwise(l);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_dropout *st = l->state;

    if (r->training)
        return sw_op_run(r->stream, &sw_op_dropout,
                         &(const struct sw_dropout_args){.desc = l->dst.desc,
                                                         .dropout = *st,
                                                         .step = r->step,
                                                         .x = l->src[0]->data,
                                                         .y = l->dst.data},
                         err);
    return sw_layer_view_forward(l, r, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_dropout *st = l->state;

    return sw_op_run(r->stream, &sw_op_dropout,
                     &(const struct sw_dropout_args){.desc = l->dst.desc,
                                                     .dropout = *st,
                                                     .step = r->step,
                                                     .x = l->dst.grad,
                                                     .y = l->src_grad[0]},
                     err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "ratio = 0.5\n", .src = {{2, {4, 19}, 0}}, .dst = {4, 19}},
    {.recipe = "ratio = 0.25\n", .src = {{4, {2, 17, 3, 3}, 0}}, .dst = {2, 17, 3, 3}},
    {0},
};

const struct sw_layer_type sw_layer_dropout = {
    .base = SW_TYPE("dropout", "drops values at random in training", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct sw_dropout),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
