/* The control socket of a running job, through which another process of the same user sends
 * requests. It is a stream socket, UID.sock beside the live snapshot UID.live, with mode 0600 in a
 * folder of mode 0700, and a client must have our uid. It is removed when the run ends; the next
 * run removes a socket that a crash left behind.
 *
 * Protocol: connect, send one line, read one line, done. Lines end with a newline (or with the end
 * of what is sent), have at most 511 bytes, and are UTF-8 without control characters:
 *
 *     pause         all workers stop after the same step and wait
 *     pause release writes a checkpoint after the current step, ends all workers, and gives back
 *                   memory, cores and GPUs; if the program can continue such a run
 *     continue      ends a pause
 *     checkpoint    writes a checkpoint after the current step, or now if the run is paused
 *     stop          as SIGTERM: ends after the current step with a checkpoint to resume from
 *     note TEXT     records an event of the run
 *
 * The answer is "ok: TEXT" if the request was accepted, else "error: TEXT". Its effect shows in the
 * snapshot and in the events.
 *
 * Thread rule: one thread polls; it never waits for a client. A client whose line is incomplete
 * after 2 s is dropped; a ninth client replaces the oldest. Any thread may call sw_control_wake. */
#pragma once

#include "base/err.h"
#include <stddef.h>

enum { SW_CONTROL_LINE = 512 };

struct sw_control;

/* Writes the answer to a line, without newline. */
typedef void sw_control_handle(void *user, const char *line, char *answer, size_t bytes);

/* Derives the path of the socket from that of the snapshot. Free with sw_free; NULL: memory is
 * exhausted. */
char *sw_control_path(const char *snapshot_path);
/* Makes a control without a socket. Errors: SW_ERR_NOMEM, SW_ERR_IO. */
int sw_control_new(struct sw_control **out, struct sw_err *err) SW_MUST_CHECK;
/* Creates the socket. Without a socket sw_control_poll only sleeps. Errors: SW_ERR_NOMEM,
 * SW_ERR_IO. */
int sw_control_listen(struct sw_control *c, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_control_free(struct sw_control *c); /* removes the socket; NULL is accepted */

/* Answers clients; returns after at most timeout_ms. */
void sw_control_poll(struct sw_control *c, int timeout_ms, sw_control_handle *handle, void *user);
/* Makes the current or the next poll return. */
void sw_control_wake(struct sw_control *c);

/* The client: sends one line and reads the answer, which may take at most 5 s. Errors:
 * SW_ERR_NOTFOUND (no job listens), SW_ERR_IO, SW_ERR_INVALID (the line cannot be sent). */
int sw_control_ask(const char *path, const char *line, char *answer, size_t bytes,
                   struct sw_err *err) SW_MUST_CHECK;
