/* reconstruction_error: the squared distance of two sources, ||a - b||^2 summed over a row's values
 * and averaged over rows (thesis Eq 5.2). This is the "average squared error" per image of Hinton
 * and Salakhutdinov 2006. For comparison: with principal components of the same width, on the rows
 * they were fitted to, it is the sum of the omitted eigenvalues of the covariance (with 1/N).
 * Sources: a and b, rows of the same number of values, in any layout; b may be integers. */
#include "layers/share/target_loss.h"

/* The metric is twice the euclidean loss, which has a factor 1/2. */
static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_target_loss *t = l->state;
    int rc = sw_target_loss_setup(l, s, err);
    t->weight = 2;
    l->backward_reads_dst = false;
    l->flops_backward = 0;
    return rc;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 10}, 0}}},
    {.recipe = "", .src = {{4, {3, 20, 2, 3}, 0}, {2, {3, 120}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_reconstruction_error = {
    .base = {.name = "reconstruction_error",
             .help = "squared distance of two sources, mean over rows"},
    .role = SW_ROLE_METRIC,
    .less_is_better = true,
    .split_reason = "a row's error needs all its values",
    .variant = SW_LOSS_EUCLIDEAN,
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct sw_target_loss),
    SW_LAYER_CALLS(setup, sw_target_loss_forward, NULL),
    .examples = examples,
};
