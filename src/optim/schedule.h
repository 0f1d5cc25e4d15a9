/* Learning-rate schedules: rows of one table (`policy =` in [updater]). A rate is a pure function
 * of the step, so resuming needs no replay. The t-th update (t = 1, 2, ...) uses step t-1. Constant
 * tables, any thread. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"
#include <stdint.h>

struct sw_schedule {
    struct sw_type base; /* opts fill the conf that rate gets */
    /* Checks what option rows cannot express. May be NULL. Errors: SW_ERR_INVALID. */
    int (*check)(const void *conf, struct sw_err *err);
    /* Returns the rate at `step` (0 for the first update). horizon_steps is job.steps as in the
     * recipe, so the end of a policy does not change if a run stops early or is extended. A policy
     * with an end value keeps it after the end. */
    double (*rate)(const void *conf, double lr, uint64_t step, uint64_t horizon_steps);
};

/* NULL-terminated; each points to the base of a struct sw_schedule. */
extern const struct sw_type *const sw_schedules[];

/* Everything a rate depends on except the step. */
struct sw_rate {
    const struct sw_type *policy; /* one of sw_schedules */
    const void *conf;             /* filled from its opts */
    double lr;
    /* Gradual warm-up: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour"
     * (2017), section 2.2: linear over `warmup` steps from warmup_start to the policy's rate at
     * step `warmup`. The steps of the policy still count from 0. */
    uint64_t warmup;
    double warmup_start;
    uint64_t horizon_steps;
};
/* Returns the learning rate at `step`, including warm-up. */
double sw_schedule_rate(const struct sw_rate *r, uint64_t step);

/* Checks the conf of a policy. Errors: SW_ERR_INVALID naming the key. */
int sw_schedule_check(const struct sw_type *type, const void *conf,
                      struct sw_err *err) SW_MUST_CHECK;
