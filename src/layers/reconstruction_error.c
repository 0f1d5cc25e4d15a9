/* reconstruction_error: the squared distance of two sources, ||a - b||^2 summed over a row's values
 * and averaged over rows (thesis Eq 5.2). This is the "average squared error" per picture of Hinton
 * and Salakhutdinov 2006; that of principal components of the same width, on the rows they were
 * fitted to, is the sum of the eigenvalues of the covariance (by 1/N) that were left out. Sources:
 * a and b, rows of as many values, in any layout; b may be whole numbers. */
#include "device/op.h"
#include "layers/share/target_loss.h"

/* The loss twice, since it has a half. */
static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    int rc = sw_target_loss_setup(l, s, SW_LOSS_EUCLIDEAN, 2, err);
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
    SW_LAYER_SOURCES(2, 2),
    .state_bytes = sizeof(struct sw_target_loss),
    SW_LAYER_CALLS(setup, sw_target_loss_forward, NULL),
    .examples = examples,
};
