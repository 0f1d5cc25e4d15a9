/* Learning-rate schedules: rows of one table (`policy =` in [updater]). A rate is a pure function
 * of the step, so resuming needs no replay. The t-th update (t = 1, 2, ...) uses step t-1. Frozen
 * tables, any thread. */
#ifndef SW_PARAM_SCHEDULE_H
#define SW_PARAM_SCHEDULE_H

#include "base/err.h"
#include "recipe/option.h"
#include <stdint.h>

struct sw_schedule {
    struct sw_type base; /* opts fill the conf that rate gets */
    /* The rate at step (0 for the first update). horizon_steps is job.steps as written in the
     * recipe: where a policy ends does not move when a run is stopped early or goes on. */
    double (*rate)(const void *conf, double lr, uint64_t step, uint64_t horizon_steps);
};

/* NULL-terminated; each points to the base of a struct sw_schedule. */
extern const struct sw_type *const sw_schedules[];

/* type is one of sw_schedules, conf what its opts filled. */
double sw_schedule_rate(const struct sw_type *type, const void *conf, double lr, uint64_t step,
                        uint64_t horizon_steps);

#endif
