/* The control socket of a running job: how another process of the same user speaks to it. It is a
 * stream socket, UID.sock beside the live snapshot UID.live: mode 0600 in a folder of mode 0700,
 * and who connects must have our uid. It is gone with the run; the next run removes one that a
 * crash left behind.
 *
 * Protocol: connect, send one line, read one line, done. Lines end with a newline (or with the end
 * of what is sent), have at most 511 bytes, and are UTF-8 without control characters:
 *
 *     pause         all workers stop after the same step, and wait
 *     continue      and go on
 *     checkpoint    write one after the step under way, or now where the run is paused
 *     stop          as SIGTERM: end after the step with a checkpoint that can be resumed
 *     note TEXT     an event of the run
 *
 * The answer is "ok: TEXT" when the request was taken, else "error: TEXT". What came of it is in
 * the snapshot and in the events.
 *
 * Thread rule: one thread polls; it never waits for a client. A client whose line is not complete
 * after 2 s is dropped; when 8 are silent and another one comes, the oldest is.
 * sw_control_wake by any thread. */
#pragma once

#include "base/err.h"
#include <stddef.h>

enum { SW_CONTROL_LINE = 512 };

struct sw_control;

/* Writes the answer to a line, without newline. */
typedef void sw_control_handle(void *user, const char *line, char *answer, size_t bytes);

/* The socket's path from the snapshot's, for sw_free; NULL without memory. */
char *sw_control_path(const char *snapshot_path);
/* Errors: SW_ERR_NOMEM, SW_ERR_IO. */
int sw_control_new(struct sw_control **out, struct sw_err *err) SW_MUST_CHECK;
/* From here on there is a socket; without it poll only rests. Errors: SW_ERR_NOMEM, SW_ERR_IO. */
int sw_control_listen(struct sw_control *c, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_control_free(struct sw_control *c); /* removes the socket; NULL is accepted */

/* Answers who is there; returns after timeout_ms, or earlier. */
void sw_control_poll(struct sw_control *c, int timeout_ms, sw_control_handle *handle, void *user);
/* Ends the poll under way, or the next one. */
void sw_control_wake(struct sw_control *c);

/* The client's side: one line there, one back, at most 5 s. Errors: SW_ERR_NOTFOUND (nobody
 * listens), SW_ERR_IO, SW_ERR_INVALID (a line that cannot be sent). */
int sw_control_ask(const char *path, const char *line, char *answer, size_t bytes,
                   struct sw_err *err) SW_MUST_CHECK;
