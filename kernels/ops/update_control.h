/* Update control as operations (kernels/updaters/update_control.h): a device clips by norm and
 * skips updates without the host. First the sums of squares of all gradients are computed, then
 * they are added per parameter, then the decision is made, which the updates (update.h) read. The
 * descriptors are in optim/update_control_op.c, with the CPU version. Plain data; any thread. */
#pragma once

#include "kernels/op.h"
#include "kernels/updaters/update_control.h"

enum { SW_UPDATE_CONSTANTS_BYTES = 64 }; /* largest struct of constants of a formula */
/* Elements of a parameter that a thread block takes: whole blocks of a norm. */
enum { SW_UPDATE_CHUNK = 4 * SW_NORM_BLOCK };

/* A parameter of an update: its elements, and the values that change with every update. In device
 * memory, so that the operations are the same in every step and can be captured in a graph
 * (device.h). */
struct sw_update_numbers {
    int64_t first, count; /* elements of the arrays of the operation */
    int64_t first_chunk;  /* chunks of the parameters before it, sw_update_chunks of each */
    int64_t first_square; /* where its sums of squares begin */
    int64_t total;        /* which of the totals of sums of squares is its own */
    uint64_t
        constants[SW_UPDATE_CONSTANTS_BYTES / sizeof(uint64_t)]; /* as in struct sw_update_order */
    double trust;                                                /* as in struct sw_update_order */
    float gradient_scale; /* factor of the gradient, without update control */
};

static inline int64_t sw_update_chunks(int64_t count)
{
    return (count + SW_UPDATE_CHUNK - 1) / SW_UPDATE_CHUNK;
}

/* Computes the sums of squares of all parameters of a list, block by block. */
struct sw_measure_args {
    const float *x;                          /* [elements] */
    const struct sw_update_numbers *numbers; /* [params] */
    int64_t elements;
    int64_t chunks; /* of all parameters */
    int params;
    float limit; /* limit of each element, to be multiplied by the loss scale; 0: none. Clips only
                    the sums, not x */
    const struct sw_update_control_input *known;
    double *squares; /* [blocks], from first_square of each parameter on; not finite if an x is not
                        finite */
    int64_t blocks;
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
