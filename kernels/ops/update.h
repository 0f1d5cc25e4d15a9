/* The update of parameters as an operation. When the update is queued, the updater provides the
 * formula, so that devices know formulas but no updaters. A formula has a name and constants; on
 * the CPU it is a loop over a block, on other devices a kernel of the same name from the same
 * header (kernels/updaters). The descriptor is in exchange/update_op.c, with the CPU version. Plain
 * data; any thread. */
#pragma once

#include "kernels/ops/update_control.h"

enum { SW_UPDATER_SLOTS = 2 }; /* state arrays of an updater, at most */

/* A block of elements for the loop of a formula. Pointers point to its first element. */
struct sw_update_block {
    float *value, *slot[SW_UPDATER_SLOTS]; /* absent slots are NULL */
    const float *gradient;                 /* sum over all workers */
    int64_t count;
    float gradient_scale;
};
/* The loop over one block, on the calling thread: sw_update_each (optim/update_loop.h) with a
 * formula and its constants. Elements are independent, so the division into blocks changes no bit.
 * Returns true if a gradient or a new value or state is not finite. */
typedef bool sw_update_loop(const void *constants, const struct sw_update_block *b);

struct sw_update_formula {
    const char *name; /* by which devices find their kernel: "sgd_momentum" */
    size_t constants_bytes;
    sw_update_loop *loop;
};

/* The formula and the constants of an update. */
struct sw_update_order {
    const struct sw_update_formula *formula;                          /* static */
    uint64_t constants[SW_UPDATE_CONSTANTS_BYTES / sizeof(uint64_t)]; /* aligned for any member */
    double trust; /* trust coefficient of LARS (sw_op_rate); if the norms were known, the constants
                     already include it; 0: not LARS */
};

/* Updates all parameters of the list, each with its own constants. Their elements are at the same
 * places of all arrays. */
struct sw_update_op_args {
    const struct sw_update_formula *formula; /* static */
    const struct sw_update_numbers *numbers; /* [params] */
    float *value, *slot[SW_UPDATER_SLOTS];   /* [elements] */
    const float *gradient;                   /* [elements] */
    int64_t elements;
    int64_t chunks; /* of all parameters */
    int params;
    float clip_value; /* as in struct sw_update_args (optim/updater.h) */
    /* The result of update control: a dropped update is skipped, clip_value is multiplied by the
     * loss scale, and the gradient's factor is that of the decision. NULL: no update control. */
    const struct sw_update_control_result *control;
    bool *non_finite; /* [params] */
};
extern const struct sw_op sw_op_update;

/* Adapts the rates of updates to the norms of value and gradient (LARS, kernels/updaters/lars.h):
 * multiplies the rates in `numbers` by the ratios. Runs after the decision, which has the factor of
 * the gradients. */
struct sw_rate_args {
    const double *value_squares, *gradient_squares; /* [totals]: of whole parameters */
    const struct sw_update_control_result *control;
    struct sw_update_numbers *numbers; /* [params], whose constants are a struct sw_sgd */
    int totals, params;
};
extern const struct sw_op sw_op_rate;
