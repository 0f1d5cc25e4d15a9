/* An update of a parameter as an operation. The updater records the formula when the update is
 * queued, so that a device knows formulas and no updaters. A formula has a name and constants; on
 * the CPU it is a loop over a block, elsewhere a kernel of the same name from the same header
 * (kernels/updaters). The descriptor is in exchange/update_op.c, beside the CPU version. Plain
 * data; any thread. */
#pragma once

#include "kernels/ops/decide.h"

enum { SW_UPDATER_SLOTS = 2 };           /* no updater has more */
enum { SW_UPDATE_CONSTANTS_BYTES = 64 }; /* largest struct of constants of a formula */

/* A piece of a range, as the loop of a formula gets it. Pointers are to its first element. */
struct sw_update_block {
    float *value, *slot[SW_UPDATER_SLOTS]; /* absent slots are NULL */
    const float *gradient;                 /* of all workers */
    int64_t count;
    float gradient_scale;
};
/* The loop over one block, on the calling thread: sw_update_each (optim/update_loop.h) with a
 * formula and its constants. Every element is computed alone, so that cutting changes no bit. True
 * when a gradient or anything new is not finite. */
typedef bool sw_update_loop(const void *constants, const struct sw_update_block *b);

struct sw_update_formula {
    const char *name; /* of the formula, by which devices find their kernel: "sgd_momentum" */
    size_t constants_bytes;
    sw_update_loop *loop;
};

/* What to do with every element. */
struct sw_update_order {
    const struct sw_update_formula *formula;                          /* static */
    uint64_t constants[SW_UPDATE_CONSTANTS_BYTES / sizeof(uint64_t)]; /* aligned for any member */
    double trust; /* of rates by norms (sw_op_rate), which are in the constants already, unless the
                     norms were not known; 0: it has none */
};

/* The values that change from update to update, in device memory, so that the operation that reads
 * them is the same in every step and can be part of a graph (device.h). */
struct sw_update_numbers {
    uint64_t constants[SW_UPDATE_CONSTANTS_BYTES / sizeof(uint64_t)]; /* the order's */
    double trust;                                                     /* likewise */
    float gradient_scale;                                             /* as below */
};

struct sw_update_op_args {
    const struct sw_update_formula *formula; /* static */
    const struct sw_update_numbers *numbers;
    float *value, *slot[SW_UPDATER_SLOTS];
    const float *gradient;
    int64_t count;
    float clip_value; /* as in struct sw_update_args (optim/updater.h), as the scale is */
    /* The update control, if there is one: the update is skipped if it is dropped, clip_value is
     * multiplied by the loss scale, and the scale is that of the decision. NULL: the update is made
     * as it is. */
    const struct sw_decided *decided;
    bool *non_finite;
};
extern const struct sw_op sw_op_update;

/* The rate of one parameter's update by the norms of its value and gradient (LARS,
 * kernels/updaters/lars.h): the numbers of an update get the rate times the ratio. Behind a
 * decision, which has the gradient's scale. */
struct sw_rate_args {
    const double *value_squares, *gradient_squares; /* of the whole parameter */
    const struct sw_decided *decided;
    struct sw_update_numbers *numbers; /* whose constants are a struct sw_sgd */
};
extern const struct sw_op sw_op_rate;
