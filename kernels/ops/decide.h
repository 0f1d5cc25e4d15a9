/* Update control as operations (kernels/updaters/decide.h): how a device clips by norm and drops
 * updates without the host. First every gradient is measured, then the measures of all parameters
 * are added up, then the decision is made; updates (update.h) read it. The descriptors are in
 * optim/decide_op.c, beside the host version. Plain data; any thread. */
#pragma once

#include "kernels/op.h"
#include "kernels/updaters/decide.h"

/* Sums of squares of an array, block by block. */
struct sw_measure_args {
    const float *x; /* [count] */
    int64_t count;
    float limit; /* limit of each element, times the loss scale; 0: none. Only the measure is
                    clipped */
    const struct sw_deciding *known;
    double *squares; /* [sw_norm_blocks(count)]; not finite where an x is not */
};
extern const struct sw_op sw_op_measure;

/* totals[i] = the sum over blocks [ends[i - 1], ends[i]). */
struct sw_norm_totals_args {
    const double *squares; /* [blocks], or NULL where there are none */
    const int64_t *ends;   /* [arrays] */
    double *totals;        /* [arrays] */
    int64_t blocks;
    int arrays;
};
extern const struct sw_op sw_op_norm_totals;

struct sw_decide_args {
    const double *squares; /* [params]: totals of gradients */
    int params;
    double clip_norm; /* 0: no limit */
    const struct sw_deciding *known;
    struct sw_decided *decided;
};
extern const struct sw_op sw_op_decide;
