/* batch_norm: normalizes every channel of a 4-D source [N, C, H, W], or every feature of a 2-D one,
 * to mean 0 and variance 1 over the batch, then scales and shifts it (Ioffe and Szegedy, "Batch
 * Normalization", 2015, Algorithm 1):
 *
 *   y = scale (x - mean) / sqrt(variance + eps) + bias
 *
 * Training uses the statistics of the batch and updates the running statistics, running = momentum
 * running + (1 - momentum) batch: momentum is the fraction that is kept, as in Caffe and Keras;
 * PyTorch's momentum is 1 - ours. As in the common frameworks, the batch is normalized with the
 * biased variance, and the running variance is the unbiased one. Evaluation uses the running
 * statistics (Algorithm 2), which are buffers saved as state.LAYER.mean and state.LAYER.variance.
 *
 * A relu that follows directly is fused, forward and backward.
 *
 * The statistics are those of the whole worker group unless sync = no; then each worker uses its
 * own rows, and the running statistics are those of the first worker. If the layer is sharded by
 * channels, each worker has all rows of the group for its channels, and alone holds their
 * statistics and parameters. */
#include "kernels/ops/batch_norm.h"
#include "device/op.h"
#include "layers/layer.h"

struct conf {
    double eps, momentum;
    bool sync;
};

struct state {
    bool training;
    bool relu;      /* a relu that follows is fused */
    bool in_group;  /* sums are reduced over the group: two phases */
    size_t sums_at; /* offset in scratch, if not in_group */
};

enum { SCALE, BIAS };
enum { MEAN, VARIANCE };

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, eps, "added to the variance", .def = "1e-5", .min = 0, .max = 1,
           .above_min = true),
    SW_OPT(REAL, struct conf, momentum, "fraction of the running statistics kept by a step",
           .def = "0.9", .min = 0, .max = 1, .below_max = true),
    SW_OPT(BOOL, struct conf, sync,
           "compute statistics over all workers of the group, not per worker", .def = "yes"),
    {0},
};

static int check_source(const struct sw_layer *l, struct sw_err *err)
{
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];

    if (in->ndim != 2 && in->ndim != 4)
        return sw_err_set(err, SW_ERR_INVALID, "source 1 is %s: it has %d dimensions, not 2 or 4",
                          sw_desc_text(in, text), in->ndim);

    return SW_OK;
}

/* Reserves two sums per channel and the number of elements: in l->sums if they are reduced over the
 * group, else in scratch after the scratch memory of the operations. */
static void plan_memory(struct sw_layer *l, bool wants_grad)
{
    struct state *st = l->state;
    int64_t channels = l->dst.desc.dim[1], sums = 2 * channels + 1;

    l->scratch_bytes = st->sums_at = sw_channel_scratch_bytes(&l->dst.desc);
    if (!st->training)
        return;

    l->saved_bytes = (size_t)(2 * channels) * sizeof(float); /* mean, 1 / standard deviation */

    if (st->in_group) {
        l->phases.sums = (int)sums;
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
    sw_layer_add_buffer(l, "mean", &row, 0);
    sw_layer_add_buffer(l, "variance", &row, 1);
    if (s->channels > 0)
        sw_layer_mark_parts(l, s->first_channel, s->channels);
    st->relu = s->fuse_relu;
    l->masks_relu = s->fuse_relu;
    l->in_place = true;
    l->recomputes_from_saved = s->training;
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

/* If the sums are not reduced over the group, both phases run as one. */
static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_batch_norm_args a = {.b = operation(l), .x = l->src[0]->data};
    const struct sw_op *op = !st->training ? &sw_op_batch_norm_running
                             : r->again    ? &sw_op_batch_norm_again
                                           : &sw_op_batch_norm;

    if (op == &sw_op_batch_norm && r->phase == 0) {
        int rc = sw_op_run(r->stream, &sw_op_batch_norm_sums, &a, err);
        if (rc != SW_OK || st->in_group)
            return rc;
    }

    a.y = l->dst.data;
    return sw_op_run(r->stream, op, &a, err);
}

/* The sums over the worker's rows are the gradients of bias and scale. */
static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_batch_norm_args a = {.b = operation(l), .x = l->src[0]->data, .dy = l->dst.grad};

    if (r->phase == 0) {
        struct sw_batch_norm_args sums = a;

        sums.dscale = l->param[SCALE].grad;
        sums.dbias = l->param[BIAS].grad;

        int rc = sw_op_run(r->stream, &sw_op_batch_norm_sums_gradient, &sums, err);
        if (rc != SW_OK || st->in_group)
            return rc;
    }

    a.dx = l->src_grad[0];
    return a.dx ? sw_op_run(r->stream, &sw_op_batch_norm_gradient, &a, err) : SW_OK;
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
    .base = SW_TYPE("batch_norm", "batch normalization with running statistics", struct conf, opts,
                    .params = params),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    .keeps_columns = true,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct state),
    .can_fuse_relu = true,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
