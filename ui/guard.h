/* Puts a terminal back into order when the process that draws on it dies without a word, killed or
 * crashed: a small process of its own waits on a pipe; when that ends without a farewell it sets
 * the modes that the terminal had and writes what leaves the alternate screen. One owner. */
#pragma once

#include "base/err.h"
#include <termios.h>

struct sw_guard;

/* fd is the terminal; before are its modes to restore; bytes (copied) are written after them.
 * Errors: SW_ERR_NOMEM, SW_ERR_IO. Call before the process has threads. */
int sw_guard_start(struct sw_guard **out, int fd, const struct termios *before, const char *bytes,
                   struct sw_err *err) SW_MUST_CHECK;
/* The terminal is in order: the guard goes without doing anything. NULL is accepted. */
void sw_guard_end(struct sw_guard *g);
