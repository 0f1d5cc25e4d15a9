/* A run that gives back its memory, cores and GPUs for a while (`pause --release`): the job ends
 * like a stopped one, with a checkpoint, and what computes is freed; history, claim of the folder
 * and the process stay. When the run is to continue, sw_job_next opens it again from the
 * checkpoint, with the bits of a run that was never interrupted, as resume promises. By the job's
 * main thread. */
#pragma once

#include "run/job.h"

/* Have the workers ended to release their memory, and not to stop the run? */
bool sw_release_is_requested(const struct sw_job *job);
/* Reports it, while the job still delivers events. */
void sw_release_report(struct sw_job *job);
/* Frees what computes, gives cores and GPUs back, and waits until the run is to continue; meanwhile
 * the run has a live snapshot (paused) and a control socket. Errors: SW_ERR_CANCELLED (it is to
 * stop), SW_ERR_NOMEM, SW_ERR_IO (it could not be told to continue). */
int sw_release_wait(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
