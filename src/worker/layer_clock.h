/* The time of a worker's step by layers and passes, measured by the worker's device. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_worker;

/* Bytes of device memory, and of host memory likewise, that a worker on a device with its own
 * memory needs. */
size_t sw_layer_clock_bytes(const struct sw_worker *w);
int sw_layer_clock_new(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_free(struct sw_worker *w);
/* Explains in the history why layers have no times, if so, and what to do. */
void sw_layer_clock_report(const struct sw_worker *w);
/* Begin of step t; begin and end of a pass of a layer, whose time the step timer charges. */
void sw_layer_clock_step(struct sw_worker *w, int64_t t);
int sw_layer_clock_begin(struct sw_worker *w, int layer, bool backward,
                         struct sw_err *err) SW_MUST_CHECK;
int sw_layer_clock_end(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Are there times of a step that have not been read? The next step would overwrite them. */
bool sw_layer_clock_runs(const struct sw_worker *w);
/* Queues the copy of the device's times after the last pass; and reads them after a wait for the
 * device, which has no later step. */
int sw_layer_clock_queue_read(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_take(struct sw_worker *w);
