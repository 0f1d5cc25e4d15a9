/* The request to stop, one for the whole process: signal handlers make it (or whoever embeds the
 * library), and everything that takes time looks at it: setup, decoding, inflating, initial values,
 * evaluation, prediction, import. It is a counter, not an object with an owner, because what it
 * speaks of is the process: a signal names no job, it may come before a job is open, between two of
 * them, or inside of a decoder that knows of none, and a handler has no argument.
 *
 * A job in training answers the first request itself: it finishes the step and writes a checkpoint.
 * For that it holds the request (sw_stop_hold), and what its threads do for the step goes on; the
 * second request ends it at once. All functions may be called by any thread; those marked so by
 * signal handlers, too. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

/* Asks for a stop; returns the number of requests, this one included. signal is the number of the
 * signal that came, or 0; sw_stop_signal tells the first one. Async-signal-safe. */
int sw_stop_request(int signal);
int sw_stop_requests(void); /* how many there were; async-signal-safe */
int sw_stop_signal(void);   /* 0: no signal asked for a stop */
/* Forgets all requests: for tests, and for programs that go on after a stopped job. */
void sw_stop_reset(void);

/* SW_ERR_CANCELLED with a sentence when work is to be abandoned: a stop was requested that nobody
 * holds. Cheap enough for every row of a picture: it is one load. */
int sw_stop_check(struct sw_err *err) SW_MUST_CHECK;

/* From here on the caller answers the first request, and sw_stop_check looks at the second one
 * only. Errors: SW_ERR_CANCELLED when a stop has been requested already; nothing is held then. */
int sw_stop_hold(struct sw_err *err) SW_MUST_CHECK;
void sw_stop_release(void); /* once for each sw_stop_hold that answered SW_OK */
bool sw_stop_is_held(void); /* async-signal-safe */
