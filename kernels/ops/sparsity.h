/* The sparsity penalty of autoencoders on an activation [N, C, ...], channel by channel:
 *
 *   rho_hat = mean activation over rows and pixels    penalty = beta sum KL(rho || rho_hat)
 *   slope = beta (-rho / rho_hat + (1 - rho) / (1 - rho_hat)) / pixels
 *
 * in three operations; after the first one the sums may be reduced over workers. rho_hat is clamped
 * to 1e-6 .. 1 - 1e-6. */
#pragma once

#include "kernels/channels.h"
#include "kernels/op.h"

struct sw_sparsity_args {
    struct sw_desc desc;
    float rho, beta;
    const struct sw_step *step;
    double *sums;  /* [2 C + 1]: sums of the valid rows, sums of squares, elements of each */
    void *scratch; /* sw_channel_scratch_bytes */
    float *slope;  /* [3 C]: slope, and other data for the gradient */
    struct sw_result *result;
    const float *x, *dy; /* dy NULL: zero */
    float *dx;           /* may be dy */
};
/* The first computes sums from x; the second slope and result (the penalty once per valid row) from
 * sums; the third dx = dy + backward_scale slope. Arrays that an operation does not use may be
 * NULL. */
extern const struct sw_op sw_op_sparsity_sums, sw_op_sparsity, sw_op_sparsity_gradient;
