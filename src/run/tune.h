/* How plans compute, chosen by measuring. */
#pragma once

#include "base/err.h"

struct sw_json;
struct sw_tune;
struct sw_worker;

/* Gives the devices of all workers, and the host, choices by measuring, if they are asked for or
 * `kept` by the checkpoint (an array, or NULL); else *out stays. Before there are streams. Errors:
 * SW_ERR_NOMEM. */
int sw_job_tune_prepare(struct sw_tune **out, const struct sw_json *kept, struct sw_worker *workers,
                        struct sw_err *err) SW_MUST_CHECK;
/* Keeps what was measured since the last time for the next job. NULL is accepted. */
void sw_job_tune_keep(struct sw_tune *t, const struct sw_worker *leader);
/* Tells what was measured, if tuning is asked for. */
void sw_job_tune_tell(struct sw_tune *t, const struct sw_worker *leader);
void sw_job_tune_close(struct sw_tune *t); /* after the devices; NULL is accepted */
