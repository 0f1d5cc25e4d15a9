/* Updaters: how a gradient changes a parameter. An updater is a descriptor (updaters/NAME.c) and a
 * formula (kernels/updaters/NAME.h, one header for C and nvcc). It works on a contiguous range of
 * storage elements: a slice, padding included (zero value and zero gradient stay zero).
 * Descriptors are const; several threads may update different ranges at the same time.
 *
 * A descriptor has its keys, the constants of an update (apply), and one line that gives the
 * formula to the loop all updaters share (optim/update_loop.h). GPUs find the formula by its name,
 * a row of kernels/cuda/update.cu; without that row the update runs on the CPU, on copies.
 * updaters/rmsprop.c and kernels/updaters/rmsprop.h are short. */
#pragma once

#include "base/err.h"
#include "kernels/cpu/fold.h"
#include "kernels/ops/update.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

/* One update of one range. Every pointer is at the range's first element. */
struct sw_update_args {
    float *value;                  /* [count], changed in place */
    float *slot[SW_UPDATER_SLOTS]; /* arrays [count], changed in place; they start as zeros; absent
                                    * ones are NULL */
    const float *gradient;         /* [count] */
    struct sw_terms sum;           /* of arrays [count], the first of them `gradient`: what counts
                                     is their sum. No terms: it is the gradient alone */
    int64_t count;                 /* storage elements */
    float lr;                      /* the schedule's rate times lr_mult */
    float weight_decay;            /* times decay_mult */
    float clip_value;              /* limit of each element of the sum; 0: none */
    float gradient_scale;          /* of what that leaves; 1 when the gradient is final */
    double value_norm, gradient_norm; /* of the whole parameter, as it is and as clipped and scaled;
                                       * where needs_norms says so */
    uint64_t step;                    /* updates made before, for bias corrections */
    bool shared;      /* others read and write value and slots meanwhile (Hogwild) */
    bool *non_finite; /* set to true (never to false) when a gradient or a new value is not
                       * finite; the range is updated all the same */
    struct sw_update_order *order; /* unless NULL: nothing is updated, it becomes what would be done
                                    * with each element */
};

struct sw_updater {
    struct sw_type base; /* opts: the updater's own keys; shared ones are sw_updater_opts */
    int (*slots)(const void *conf); /* state arrays per parameter with this conf; NULL: as many as
                                     * have names */
    const char *const
        *slot_names;  /* NULL-terminated; checkpoint tensors `updater.<param>.<slot>` */
    bool needs_norms; /* of the whole parameter, before any of it is updated */
    /* Works out the constants of the update and runs sw_update_blocks. */
    void (*apply)(const void *conf, const struct sw_update_args *a);
};

/* State arrays per parameter. */
int sw_updater_slots(const struct sw_updater *u, const void *conf);
/* Updates the whole range on the CPU with the calling thread's OpenMP team; the result does not
 * depend on the number of threads or on how a parameter is cut into ranges. */
void sw_updater_apply(const struct sw_updater *u, const void *conf, const struct sw_update_args *a);
/* What an updater's apply comes down to: sums the workers' gradients block by block, in the cache,
 * and runs the loop over each. */
void sw_update_blocks(const struct sw_update_args *a, const struct sw_update_formula *formula,
                      const void *constants);

/* Keys of [updater] that every type shares. `type` and `policy` choose descriptors and are read by
 * the recipe. */
struct sw_updater_conf {
    double lr;
    double weight_decay;
    int64_t warmup; /* steps; see struct sw_rate */
    double warmup_start;
};
extern const struct sw_opt sw_updater_opts[];

/* Keys of [updater PATTERN]. All sections whose pattern matches `layer.param` multiply, and so do
 * the parameter's own lr_mult and decay_mult (optim/init.h). */
struct sw_updater_override {
    double lr_mult;
    double decay_mult;
    struct sw_strings stages;
};
extern const struct sw_opt sw_updater_override_opts[];

/* Written by the build from the files of src/optim/updaters, sorted, NULL-terminated. */
extern const struct sw_updater *const sw_updaters[];
