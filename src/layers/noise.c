/* noise: corrupts its source so that the layers above learn to remove the noise, as in denoising
 * autoencoders (Vincent, Larochelle, Lajoie, Bengio and Manzagol, "Stacked Denoising Autoencoders",
 * JMLR 11, 2010, section 3.3):
 *
 *   gaussian     a normal sample of standard deviation std is added to every value
 *   masking      a share `ratio` of the values becomes 0; unlike dropout the others do not change
 *   salt_pepper  a share `ratio` becomes low or high, with equal probability
 *
 * Noise is applied only in training, unless always = yes. The noise of an element is a pure
 * function of (seed, layer, step, global row, element), as in dropout. Values that were replaced
 * pass no gradient. */
#include "device/op.h"
#include "kernels/ops/dropout.h"
#include "layers/layer.h"

enum { GAUSSIAN, MASKING, SALT_PEPPER };

struct conf {
    int method;
    double std, ratio, low, high;
    bool always;
};

struct state {
    struct sw_dropout forward, backward;
};

static const char *const methods[] = {"gaussian", "masking", "salt_pepper", NULL};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, method, "kind of noise", .choices = methods, .required = true),
    SW_OPT(REAL, struct conf, std, "standard deviation of gaussian", .def = "0.1", .min = 0,
           .max = 1e6, .above_min = true),
    SW_OPT(REAL, struct conf, ratio, "share of values that masking and salt_pepper change",
           .def = "0.25", .min = 0, .max = 0.999),
    SW_OPT(REAL, struct conf, low, "one value of salt_pepper", .def = "0", .min = -1e6, .max = 1e6),
    SW_OPT(REAL, struct conf, high, "the other value of salt_pepper", .def = "1", .min = -1e6,
           .max = 1e6),
    SW_OPT(BOOL, struct conf, always, "apply noise in evaluation too", .def = "no"),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    double words = c->method == GAUSSIAN ? 0 : c->ratio * 4294967296.0;
    st->backward = (struct sw_dropout){
        .key = sw_philox_stream(s->seed, SW_PURPOSE_NOISE, l->id),
        .threshold = (uint32_t)words,
        .scale = 1,
        .first_channel = s->first_channel,
        .channels = s->channels,
    };
    st->forward = st->backward;
    if (c->method == GAUSSIAN)
        st->forward.std = (float)c->std;

    if (c->method == SALT_PEPPER) {
        st->forward.low_below = (uint32_t)(words / 2);
        st->forward.low = (float)c->low;
        st->forward.high = (float)c->high;
    }

    sw_layer_use_elementwise(l);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;

    return r->training || c->always
               ? sw_op_run(r->stream, &sw_op_dropout,
                           &(const struct sw_dropout_args){.desc = l->dst.desc,
                                                           .dropout = st->forward,
                                                           .step = r->step,
                                                           .x = l->src[0]->data,
                                                           .y = l->dst.data},
                           err)
               : sw_layer_view_forward(l, r, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;

    if (c->method == GAUSSIAN)
        return sw_layer_view_backward(l, r, err);

    return sw_op_run(r->stream, &sw_op_dropout,
                     &(const struct sw_dropout_args){.desc = l->dst.desc,
                                                     .dropout = st->backward,
                                                     .step = r->step,
                                                     .x = l->dst.grad,
                                                     .y = l->src_grad[0]},
                     err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "method = gaussian\nstd = 0.5\n", .src = {{2, {4, 19}, 0}}, .dst = {4, 19}},
    {.recipe = "method = gaussian\n", .src = {{4, {2, 20, 3, 3}, 0}}, .dst = {2, 20, 3, 3}},
    {.recipe = "method = masking\nratio = 0.4\n",
     .src = {{4, {2, 17, 3, 3}, 0}},
     .dst = {2, 17, 3, 3}},
    {.recipe = "method = salt_pepper\nlow = -1\nhigh = 2\nratio = 0.4\n",
     .src = {{4, {2, 20, 3, 3}, 0}},
     .dst = {2, 20, 3, 3}},
    {0},
};

const struct sw_layer_type sw_layer_noise = {
    .base = SW_TYPE("noise", "corrupts values at random, for denoising autoencoders", struct conf,
                    opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
