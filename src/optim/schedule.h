/* Learning-rate schedules: rows of one table (`policy =` in [updater]). A rate is a pure function
 * of the step, so resuming needs no replay. The t-th update (t = 1, 2, ...) uses step t-1. Frozen
 * tables, any thread. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"
#include <stdint.h>

struct sw_schedule {
    struct sw_type base; /* opts fill the conf that rate gets */
    /* What option rows cannot say. NULL: nothing. Errors: SW_ERR_INVALID. */
    int (*check)(const void *conf, struct sw_err *err);
    /* The rate at step (0 for the first update). horizon_steps is job.steps as written in the
     * recipe: where a policy ends does not move when a run is stopped early or goes on. A policy
     * that has an end value keeps it from there on. */
    double (*rate)(const void *conf, double lr, uint64_t step, uint64_t horizon_steps);
};

/* NULL-terminated; each points to the base of a struct sw_schedule. */
extern const struct sw_type *const sw_schedules[];

/* All that a rate depends on but the step. */
struct sw_rate {
    const struct sw_type *policy; /* one of sw_schedules */
    const void *conf;             /* what its opts filled */
    double lr;
    /* Gradual warm-up: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour"
     * (2017), section 2.2: a straight line over `warmup` steps from warmup_start to what the policy
     * says at their end. The policy's own steps count from 0 all the same. */
    uint64_t warmup;
    double warmup_start;
    uint64_t horizon_steps;
};
double sw_schedule_rate(const struct sw_rate *r, uint64_t step);

/* Errors: SW_ERR_INVALID naming the key. */
int sw_schedule_check(const struct sw_type *type, const void *conf,
                      struct sw_err *err) SW_MUST_CHECK;
