/* How plans compute, chosen by measuring. */
#ifndef SW_TRAIN_TUNE_H
#define SW_TRAIN_TUNE_H

#include "base/err.h"

struct sw_job;

/* What devices are lent for choices by measuring, if they are asked for or part of the checkpoint.
 * After sw_comm_prepare, which reads that, and before there are streams. Errors: SW_ERR_NOMEM. */
int sw_job_tune_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Keeps what was measured since the last time for the next job. */
void sw_job_tune_keep(struct sw_job *job);
/* Says what was measured. */
void sw_job_tune_tell(struct sw_job *job);
void sw_job_tune_close(struct sw_job *job); /* after the devices */

#endif
