/* The request to stop, one for the whole process. Signal handlers (or the program that embeds the
 * library) make it, and every long operation checks it: setup, decoding, decompression,
 * initialization, evaluation, prediction, import. It is a process-wide counter and not an object
 * with an owner, since a signal handler has no argument, and the signal may come before a job is
 * open, between two jobs, or inside a decoder that knows of no job.
 *
 * A job in training handles the first request itself: it finishes the step and writes a checkpoint.
 * For that it holds the request (sw_stop_hold), so that its threads complete the step; the second
 * request ends it at once. Any thread may call all functions; signal handlers may call those marked
 * async-signal-safe. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

/* Requests a stop; returns the number of requests, this one included. signal is the number of the
 * received signal, or 0; sw_stop_signal returns the first one. Async-signal-safe. */
int sw_stop_request(int signal);
int sw_stop_requests(void); /* the number of requests so far; async-signal-safe */
int sw_stop_signal(void);   /* 0: no signal requested a stop */
/* Clears all requests: for tests, and for programs that continue after a stopped job. */
void sw_stop_reset(void);

/* Returns SW_ERR_CANCELLED with a message if work must be abandoned: a stop was requested and
 * nobody holds it. It is one load, cheap enough for every row of an image. */
int sw_stop_check(struct sw_err *err) SW_MUST_CHECK;

/* From here on the caller handles the first request, and sw_stop_check reports only the second one.
 * Errors: SW_ERR_CANCELLED when a stop was already requested; nothing is held then. */
int sw_stop_hold(struct sw_err *err) SW_MUST_CHECK;
void sw_stop_release(void); /* once for each sw_stop_hold that returned SW_OK */
bool sw_stop_is_held(void); /* async-signal-safe */
