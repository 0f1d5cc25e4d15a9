/* Update control as operations (kernels/updaters/update_control.h): a device clips by norm and
 * skips updates without the host. First the sums of squares of every gradient are computed, then
 * they are added per parameter, then the decision is made, which the updates (update.h) read. The
 * descriptors are in optim/update_control_op.c, with the CPU version. Plain data; any thread. */
#pragma once

#include "kernels/op.h"
#include "kernels/updaters/update_control.h"

/* Computes the sums of squares of an array, block by block. */
struct sw_measure_args {
    const float *x; /* [count] */
    int64_t count;
    float limit; /* limit of each element, to be multiplied by the loss scale; 0: none. Clips only
                    the sums, not x */
    const struct sw_update_control_input *known;
    double *squares; /* [sw_norm_blocks(count)]; not finite if an x is not finite */
};
extern const struct sw_op sw_op_measure;

/* Sets totals[i] to the sum over blocks [ends[i - 1], ends[i]). */
struct sw_norm_totals_args {
    const double *squares; /* [blocks], or NULL if there are none */
    const int64_t *ends;   /* [arrays] */
    double *totals;        /* [arrays] */
    int64_t blocks;
    int arrays;
};
extern const struct sw_op sw_op_norm_totals;

struct sw_update_control_args {
    const double *squares; /* [params]: totals of the gradients */
    int params;
    double clip_norm; /* 0: no limit */
    const struct sw_update_control_input *known;
    struct sw_update_control_result *control;
};
extern const struct sw_op sw_op_update_control;
