/* Where the time of a worker's step goes, by layers and passes, measured by the worker's device. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct sw_worker;

/* Device memory, and as much of the host's, that a worker with a device of its own needs for it. */
size_t sw_layer_clock_bytes(const struct sw_worker *w);
int sw_layer_clock_new(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_free(struct sw_worker *w);
/* Tells the history why there are none, and what to do, where that is so. */
void sw_layer_clock_say(const struct sw_worker *w);
/* A step begins; a pass of a layer begins, which laps outside of it name, and ends, with a lap. */
void sw_layer_clock_step(struct sw_worker *w);
int sw_layer_clock_begin(struct sw_worker *w, int layer, bool backward,
                         struct sw_err *err) SW_MUST_CHECK;
int sw_layer_clock_end(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Asks the device for its times, behind the last pass; and takes them when it was waited for. */
int sw_layer_clock_ask(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_take(struct sw_worker *w);
