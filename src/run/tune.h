/* Choosing algorithms of plans by measuring. */
#pragma once

#include "base/err.h"

struct sw_json;
struct sw_tune;
struct sw_worker;

/* Enables tuning on the devices of all workers, and the host, if it is requested or choices are
 * `kept` by the checkpoint (an array, or NULL); otherwise *out is unchanged. Before streams exist.
 * Errors: SW_ERR_NOMEM. */
int sw_job_tune_prepare(struct sw_tune **out, const struct sw_json *kept, struct sw_worker *workers,
                        struct sw_err *err) SW_MUST_CHECK;
/* Stores what was measured since the last call for the next job. NULL is accepted. */
void sw_job_tune_save(struct sw_tune *t, const struct sw_worker *leader);
/* Logs what was measured, if tuning is requested. */
void sw_job_tune_report(struct sw_tune *t, const struct sw_worker *leader);
void sw_job_tune_close(struct sw_tune *t); /* after the devices; NULL is accepted */
