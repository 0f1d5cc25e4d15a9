/* Keeps a job within its budget of memory: memory = fit:SIZE, and what devices have. */
#ifndef SW_TRAIN_FIT_H
#define SW_TRAIN_FIT_H

#include "base/err.h"

struct sw_job;
struct sw_parts;
struct sw_worker;

/* Meets memory = fit:SIZE, once all nets are built and nothing is allocated, and sees that devices
 * have what they are to hold. Errors: SW_ERR_NOMEM saying what would do. */
int sw_job_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Nets of other rows, which are to replace the worker's training nets: within what its arena may
 * take. Errors: SW_ERR_NOMEM. */
int sw_job_refit(const struct sw_worker *w, struct sw_parts *fresh,
                 struct sw_err *err) SW_MUST_CHECK;

#endif
