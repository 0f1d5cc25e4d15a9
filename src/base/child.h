/* A child process that writes lines to its standard output and may do work that can hang: the
 * caller waits for a line at most as long as it specifies, and may kill the child at any time.
 * Standard input is empty, standard error is discarded, and sw_child_end leaves nothing behind. One
 * owner. */
#pragma once

#include "base/err.h"
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SW_CHILD_LINE = 512 };

struct sw_child {
    pid_t pid; /* 0: none */
    int out;   /* the reading end of its standard output; -1: none */
    char rest[SW_CHILD_LINE];
    size_t used;
};

/* A program that is started with these attributes has no blocked signals and default actions,
 * whatever the calling thread has; flags: POSIX_SPAWN_* beside those. Returns an errno value. */
int sw_child_attributes(posix_spawnattr_t *attributes, short flags) SW_MUST_CHECK;
/* words: path, arguments, NULL. Errors: SW_ERR_IO (it cannot be started), SW_ERR_NOMEM. */
int sw_child_start(struct sw_child *c, const char *const *words, struct sw_err *err) SW_MUST_CHECK;
/* Reads the next line, without the end of line, cut at SW_CHILD_LINE. Returns SW_OK, SW_ERR_BUSY
 * (timeout) or SW_ERR_NOTFOUND (end of output). */
int sw_child_line(struct sw_child *c, int timeout_ms, char line[SW_CHILD_LINE]) SW_MUST_CHECK;
/* Kills the child unless it has ended. A child that the system cannot end is abandoned after a
 * second. */
void sw_child_end(struct sw_child *c);
