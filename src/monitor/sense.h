/* The thread with sensors: it writes into the history how processor and GPUs do (sense.c). Called
 * by the main thread. */
#pragma once

#include "history/history.h"
#include "plan/placement.h"

struct sw_sense;

/* Starts the thread. *out is set after errors, too: sw_sense_end takes it. The rest is borrowed. */
int sw_sense_start(struct sw_history *history, const struct sw_machine *m,
                   const struct sw_placement *p, struct sw_sense **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_sense_end(struct sw_sense *s); /* before the history's end; NULL is accepted */
