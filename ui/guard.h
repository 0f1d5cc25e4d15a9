/* Restores a terminal when the process that draws on it is killed or crashes: a small child process
 * waits on a pipe. If the pipe closes without a byte that announces a normal end, the child
 * restores the modes of the terminal and writes the escapes that leave the alternate screen. One
 * owner. */
#pragma once

#include "base/err.h"
#include <termios.h>

struct sw_guard;

/* fd is the terminal; before are its modes to restore; bytes (copied) are written after them.
 * Errors: SW_ERR_NOMEM, SW_ERR_IO. Call before the process has threads. */
int sw_guard_start(struct sw_guard **out, int fd, const struct termios *before, const char *bytes,
                   struct sw_err *err) SW_MUST_CHECK;
/* Ends the guard, after the terminal was restored. NULL is accepted. */
void sw_guard_end(struct sw_guard *g);
