/* batch_norm: normalises every channel of a 4-D source [N, C, H, W], or every feature of a 2-D one,
 * to mean 0 and variance 1 over the batch, then scales and shifts it (Ioffe and Szegedy, "Batch
 * Normalization", 2015, Algorithm 1):
 *
 *   y = scale (x - mean) / sqrt(variance + eps) + bias
 *
 * Training takes the batch's own statistics and carries them along as running ones, running =
 * momentum running + (1 - momentum) batch: momentum is what is kept, as in Caffe and Keras, while
 * PyTorch's momentum is 1 - ours. The variance is the biased one where it normalises and the
 * unbiased one where it is carried along, as the common frameworks do. Evaluation takes the running
 * statistics (Algorithm 2), which are checkpointed as state.LAYER.mean and state.LAYER.variance.
 *
 * A relu right behind is part of the same passes, forward and backward.
 *
 * The batch is that of the whole group of workers unless sync = no; then each worker takes the rows
 * it has, and the running statistics are those of the first one. A worker that has some of the
 * channels has all rows of the group, and keeps their statistics and parameters alone. */
#include "kernels/ops/batch_norm.h"
#include "device/op.h"
#include "layers/layer.h"

struct conf {
    double eps, momentum;
    bool sync;
};

struct state {
    bool training;
    bool relu;      /* behind, as part of it */
    bool in_group;  /* sums are added over the group: two phases */
    size_t sums_at; /* in scratch, where they are not */
};

enum { SCALE, BIAS };
enum { MEAN, VARIANCE };

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, eps, "added to the variance", .def = "1e-5", .min = 0, .max = 1,
           .above_min = true),
    SW_OPT(REAL, struct conf, momentum, "share of the running statistics that a step keeps",
           .def = "0.9", .min = 0, .max = 1, .below_max = true),
    SW_OPT(BOOL, struct conf, sync,
           "statistics over the rows of all workers of the group, not of each alone", .def = "yes"),
    {0},
};

static int check_source(const struct sw_layer *l, struct sw_err *err)
{
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];
    int rc = sw_layer_need_src(l, 0, 0, err);
    if (rc == SW_OK && in->ndim != 2 && in->ndim != 4)
        return sw_err_set(err, SW_ERR_INVALID, "source 1 is %s: %d dimensions, not 2 or 4",
                          sw_desc_text(in, text), in->ndim);
    return rc;
}

/* Two sums per channel and the number of elements: in l->sums to be added over the group, else
 * behind the operations' own scratch. */
static void plan_memory(struct sw_layer *l, bool wants_grad)
{
    struct state *st = l->state;
    int64_t channels = l->dst.desc.dim[1], sums = 2 * channels + 1;
    l->scratch_bytes = st->sums_at = sw_channel_scratch_bytes(&l->dst.desc);
    if (!st->training)
        return;
    l->saved_bytes = (size_t)(2 * channels) * sizeof(float); /* mean, 1 / standard deviation */
    if (st->in_group) {
        l->sum_count = (int)sums;
        l->phases.forward = 2;
        l->phases.backward = wants_grad ? 2 : 1;
    } else {
        l->scratch_bytes += (size_t)sums * sizeof(double);
    }
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    int rc = check_source(l, err);
    if (rc != SW_OK)
        return rc;
    l->dst.desc = l->src[0]->desc;
    st->training = s->training;
    st->in_group = c->sync && !s->whole_batch;
    plan_memory(l, s->wants_grad & 1);
    struct sw_desc row = sw_desc_plain(SW_F32, 1, &l->dst.desc.dim[1]);
    sw_layer_add_param(l, "scale", &row, 0, 0)->natural = 1;
    sw_layer_add_param(l, "bias", &row, 0, 0);
    sw_layer_add_state(l, "mean", &row, 0);
    sw_layer_add_state(l, "variance", &row, 1);
    if (s->channels > 0)
        sw_layer_mark_parts(l, s->first_channel, s->channels);
    st->relu = s->fuse_relu;
    l->masks_relu = s->fuse_relu;
    l->in_place = true;
    l->repeats_from_saved = s->training;
    l->backward_reads_src = 1;
    double count = (double)sw_desc_count(&l->dst.desc);
    l->flops_forward = count * (s->training ? 6 : 3);
    l->flops_backward = count * ((s->wants_grad & 1) ? 9 : 4);
    return SW_OK;
}

static struct sw_batch_norm operation(const struct sw_layer *l)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_batch_norm b = {.desc = l->dst.desc,
                              .eps = (float)c->eps,
                              .momentum = (float)c->momentum,
                              .relu = st->relu,
                              .sums = l->sums,
                              .scratch = l->scratch,
                              .scale = l->param[SCALE].value,
                              .bias = l->param[BIAS].value,
                              .running_mean = l->keeps[MEAN].value,
                              .running_variance = l->keeps[VARIANCE].value,
                              .update_mean = l->keeps[MEAN].update,
                              .update_variance = l->keeps[VARIANCE].update};
    if (!st->training)
        return b;
    b.mean = l->saved;
    b.inv_std = b.mean + l->dst.desc.dim[1];
    if (!st->in_group)
        b.sums = sw_layer_at(l->scratch, st->sums_at);
    return b;
}

/* Where the sums stay with the worker, both phases are one. */
static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_batch_norm b = operation(l);
    const float *x = l->src[0]->data;
    int rc = SW_OK;
    if (!st->training)
        return sw_op_run(r->stream, &sw_op_batch_norm_running,
                         &(const struct sw_batch_norm_args){.b = b, .x = x, .y = l->dst.data}, err);
    if (r->again)
        return sw_op_run(r->stream, &sw_op_batch_norm_again,
                         &(const struct sw_batch_norm_args){.b = b, .x = x, .y = l->dst.data}, err);
    if (r->phase == 0)
        rc = sw_op_run(r->stream, &sw_op_batch_norm_sums,
                       &(const struct sw_batch_norm_args){.b = b, .x = x}, err);
    if (rc == SW_OK && (r->phase == 1 || !st->in_group))
        rc = sw_op_run(r->stream, &sw_op_batch_norm,
                       &(const struct sw_batch_norm_args){.b = b, .x = x, .y = l->dst.data}, err);
    return rc;
}

/* The sums over the own rows are the gradients of bias and scale. */
static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_batch_norm b = operation(l);
    const float *x = l->src[0]->data;
    int rc = SW_OK;
    if (r->phase == 0)
        rc = sw_op_run(r->stream, &sw_op_batch_norm_sums_gradient,
                       &(const struct sw_batch_norm_args){.b = b,
                                                          .x = x,
                                                          .dy = l->dst.grad,
                                                          .dscale = l->param[SCALE].grad,
                                                          .dbias = l->param[BIAS].grad},
                       err);
    if (rc == SW_OK && l->src_grad[0] && (r->phase == 1 || !st->in_group))
        rc = sw_op_run(r->stream, &sw_op_batch_norm_gradient,
                       &(const struct sw_batch_norm_args){
                           .b = b, .x = x, .dy = l->dst.grad, .dx = l->src_grad[0]},
                       err);
    return rc;
}

static const char *const params[] = {"scale", "bias", NULL};

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {6, 5}, 0}}, .dst = {6, 5}},
    {.recipe = "sync = no\n", .src = {{2, {9, 19}, 0}}, .dst = {9, 19}},
    {.recipe = "", .src = {{4, {3, 5, 4, 3}, 0}}, .dst = {3, 5, 4, 3}},
    {.recipe = "eps = 0.1\nmomentum = 0.5\n", .src = {{4, {2, 20, 5, 5}, 0}}, .dst = {2, 20, 5, 5}},
    {.recipe = "sync = no\n", .src = {{4, {4, 16, 3, 3}, 0}}, .dst = {4, 16, 3, 3}},
    {.recipe = "", .src = {{4, {7, 3, 1, 1}, 0}}, .dst = {7, 3, 1, 1}},
    {0},
};

const struct sw_layer_type sw_layer_batch_norm = {
    .base = SW_TYPE("batch_norm", "batch normalisation with running statistics", struct conf, opts,
                    .params = params),
    .role = SW_ROLE_NEURON,
    .split = SW_SPLIT_ELEMENTWISE,
    .keeps_columns = true,
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct state),
    .can_fuse_relu = true,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
