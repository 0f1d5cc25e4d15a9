/* The sensor thread: it records utilization, memory, power and temperature of CPU and GPUs in the
 * history (sensors.c). Called by the main thread. */
#pragma once

#include "history/history.h"
#include "plan/placement.h"

struct sw_sensors;

/* Starts the thread. *out is set even on errors; free it with sw_sensors_end. The arguments are
 * borrowed. */
int sw_sensors_start(struct sw_history *history, const struct sw_machine *m,
                     const struct sw_placement *p, struct sw_sensors **out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_sensors_end(struct sw_sensors *s); /* before the history is closed; NULL is accepted */
