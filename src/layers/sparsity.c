/* sparsity: keeps the mean activation of every unit near `rho`, as in sparse autoencoders. The
 * output is the source; the penalty added to the loss is
 *
 *   beta sum_j KL(rho || rho_hat_j) = beta sum_j rho log(rho / rho_hat_j)
 *                                              + (1 - rho) log((1 - rho) / (1 - rho_hat_j))
 *
 * (Ng, "Sparse autoencoder", CS294A lecture notes, Stanford 2011, section 3), where rho_hat_j is
 * the mean of the unit over the batch of the whole worker group, and beta (-rho / rho_hat_j + (1 -
 * rho) / (1 - rho_hat_j)) is added to the gradient of every sample. A unit is a feature, or a
 * channel of an image with all its pixels. Activations are expected to be between 0 and 1
 * (sigmoid); a mean outside this range is clamped. Evaluation also uses the mean over the batch of
 * the whole group, so that it does not depend on the number of workers. */
#include "kernels/ops/sparsity.h"
#include "device/op.h"
#include "layers/layer.h"

struct conf {
    double rho, beta;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, rho, "target mean activation", .def = "0.05", .min = 0, .max = 1,
           .above_min = true, .below_max = true),
    SW_OPT(REAL, struct conf, beta, "weight of the penalty in the loss", .def = "3", .min = 0,
           .max = 1e6),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];

    if (in->ndim < 2)
        return sw_err_set(err, SW_ERR_INVALID, "source 1 is %s: 1 dimension, not 2 or more",
                          sw_desc_text(in, text));

    int64_t channels = in->dim[1];
    sw_layer_use_view(l); /* a view of the values only: the gradient changes */
    l->can_add.src = false;
    l->dst.desc = *in;
    l->phases.sums = (int)(2 * channels + 1);
    l->phases.forward = s->whole_batch ? 1 : 2;
    l->scratch_bytes = sw_channel_scratch_bytes(in);
    l->saved_bytes = (size_t)(3 * channels) * sizeof(float);
    l->flops_forward = l->flops_backward = (double)sw_desc_count(in);

    return SW_OK;
}

static struct sw_sparsity_args args_of(const struct sw_layer *l, const struct sw_pass *r)
{
    const struct conf *c = l->conf;

    return (struct sw_sparsity_args){.desc = l->dst.desc,
                                     .rho = (float)c->rho,
                                     .beta = (float)c->beta,
                                     .step = r->step,
                                     .scratch = l->scratch,
                                     .slope = l->saved};
}

/* If the worker has all rows, both phases run as one. */
static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_sparsity_args a = args_of(l, r);

    a.sums = l->sums;

    if (r->phase == 0) {
        a.x = l->src[0]->data;

        int rc = sw_op_run(r->stream, &sw_op_sparsity_sums, &a, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_layer_view_forward(l, r, err);
        if (rc != SW_OK)
            return rc;
    }

    if (r->phase != (l->phases.forward == 2))
        return SW_OK;

    a.x = NULL;
    a.result = l->result;
    return sw_op_run(r->stream, &sw_op_sparsity, &a, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_sparsity_args a = args_of(l, r);
    a.dy = l->dst.grad;
    a.dx = l->src_grad[0];
    return sw_op_run(r->stream, &sw_op_sparsity_gradient, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "rho = 0.3\nbeta = 0.5\n",
     .src = {{2, {6, 19}, 0}},
     .dst = {6, 19},
     .range = {{0.05, 0.95}}},
    {.recipe = "", .src = {{4, {2, 5, 3, 4}, 0}}, .dst = {2, 5, 3, 4}, .range = {{0.05, 0.95}}},
    {0},
};

const struct sw_layer_type sw_layer_sparsity = {
    .base = SW_TYPE("sparsity", "penalty that keeps mean activations small", struct conf, opts),
    .penalty = true,
    .split_reason = "its penalty is a sum over all columns",
    .keeps_columns = true,
    SW_LAYER_FEATURES(1, 1, 0),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
