/* Updaters: how a gradient changes a parameter. An updater is a descriptor (updaters/NAME.c) and a
 * formula (kernels/updaters/NAME.h, one header for C and nvcc). It updates a contiguous range of
 * storage elements, including padding (where value and gradient are zero and stay zero).
 * Descriptors are const; several threads may update different ranges at the same time.
 *
 * A descriptor has its keys, apply, which computes the constants of an update, and one line that
 * passes the formula to the loop of all updaters (optim/update_loop.h). GPUs find the kernel of a
 * formula by its name in kernels/cuda/update.cu; without a row there the update runs on the CPU, on
 * copies. updaters/rmsprop.c and kernels/updaters/rmsprop.h are a short example. */
#pragma once

#include "base/err.h"
#include "kernels/cpu/fold.h"
#include "kernels/ops/update.h"
#include "kernels/row_list.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

/* One update of one range. Every pointer points to the first element of the range. */
struct sw_update_args {
    float *value;                  /* [count], changed in place */
    float *slot[SW_UPDATER_SLOTS]; /* arrays [count], changed in place; they start as zeros; absent
                                    * ones are NULL */
    const float *gradient;         /* [count] */
    struct sw_fold_inputs sum; /* if its count is above 1: arrays [count] whose sum is the gradient;
                            the first one is `gradient` */
    int64_t count;             /* storage elements */
    float lr;                  /* the scheduled rate times lr_mult */
    float weight_decay;        /* includes decay_mult */
    float clip_value;          /* limit of each element of the sum; 0: none */
    float gradient_scale;      /* factor of the clipped sum; 1 if the gradient is final */
    double value_norm, gradient_norm; /* of the whole parameter; the gradient clipped and scaled;
                                         only with needs_norms */
    uint64_t step;                    /* number of previous updates, for bias corrections */
    bool shared;      /* other threads read and write value and slots at the same time (Hogwild) */
    bool *non_finite; /* set to true (never to false) if a gradient or a new value is not finite;
                         the range is still updated */
    /* Unless NULL: `gradient` has only these rows of the gradient of the whole parameter, from its
     * beginning on, and the updater keeps_at_zero; there is no sum. The range begins at storage
     * element `first` of the parameter. */
    const struct sw_row_list *listed;
    int64_t first, row_elements;
    struct sw_update_order *order; /* unless NULL: nothing is updated, but the formula and constants
                                      of the update are stored here */
};

struct sw_updater {
    struct sw_type base; /* opts: the keys of this updater; shared keys are sw_updater_opts */
    int (*slots)(const void *conf); /* returns the state arrays per parameter with this conf; NULL:
                                       as many as slot_names */
    const char *const
        *slot_names; /* NULL-terminated; checkpoint tensors `updater.<param>.<slot>` */
    /* Does this conf, without weight decay, leave an element and its state as they are if its
     * gradient is zero? Updates may then skip it. NULL: never. */
    bool (*keeps_at_zero)(const void *conf);
    bool needs_norms; /* needs the norms of the whole parameter before any range of it is updated */
    /* Computes the constants of the update and runs sw_update_blocks. */
    void (*apply)(const void *conf, const struct sw_update_args *a);
};

/* Returns the number of state arrays per parameter. */
int sw_updater_slots(const struct sw_updater *u, const void *conf);
/* Updates the range on the CPU with the calling thread's OpenMP team; the result does not depend on
 * the number of threads or on how a parameter is divided into ranges. */
void sw_updater_apply(const struct sw_updater *u, const void *conf, const struct sw_update_args *a);
/* Implements apply of an updater with a formula: sums the workers' gradients block by block, in the
 * cache, and runs the formula's loop over each block. */
void sw_update_blocks(const struct sw_update_args *a, const struct sw_update_formula *formula,
                      const void *constants);

/* Keys of [updater] that all types share. `type` and `policy` choose descriptors and are read by
 * the recipe. */
struct sw_updater_conf {
    double lr;
    double weight_decay;
    int64_t warmup; /* steps; see struct sw_rate */
    double warmup_start;
};
extern const struct sw_opt sw_updater_opts[];

/* Keys of [updater PATTERN]. The factors of all sections whose pattern matches `layer.param` are
 * multiplied, with the parameter's own lr_mult and decay_mult (optim/init.h). */
struct sw_updater_override {
    double lr_mult;
    double decay_mult;
    struct sw_strings stages;
};
extern const struct sw_opt sw_updater_override_opts[];

/* Generated by the build from the files of src/optim/updaters; sorted, NULL-terminated. */
extern const struct sw_updater *const sw_updaters[];
