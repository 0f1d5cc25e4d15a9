/* After the loss of a host: the latest step is that of another host than host 0, which wrote its
 * checkpoint; host 0, which has the run, gets a copy of that file. By the job's main thread, while
 * the hosts are connected. A copy that cannot be had is a warning: the file then stays where it is.
 */
#pragma once

#include <stdint.h>

struct sw_job;

/* By the host that wrote the checkpoint of the step: sends it to host 0, unless that one has the
 * step, or is lost. */
void sw_host_fetch_give(struct sw_job *job, int64_t step);
/* By the other hosts: host 0 receives the file of the host `writer`, and records it. */
void sw_host_fetch_take(struct sw_job *job, int writer, int64_t step);
