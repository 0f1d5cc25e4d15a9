/* The watch thread, which sees that a job stays in motion (watchdog.h judges). */
#pragma once

#include "base/err.h"

struct sw_job;

/* Starts the thread; the snapshot is there. sw_watch_end is due afterwards in any case. */
int sw_watch_start(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_watch_end(struct sw_job *job); /* after all other roles; none started is fine */
