/* A child process that answers in lines, and may be asked to do what could hang: who waits for it
 * waits as long as he says and then kills it. It gets nothing on standard input, its errors go
 * nowhere, and nothing of it outlives sw_child_end. One owner. */
#pragma once

#include "base/err.h"
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

/* words: path, arguments, NULL. Errors: SW_ERR_IO (it cannot be started), SW_ERR_NOMEM. */
int sw_child_start(struct sw_child *c, const char *const *words, struct sw_err *err) SW_MUST_CHECK;
/* Its next line, without the end of line, cut at SW_CHILD_LINE. SW_OK, SW_ERR_BUSY (the time is
 * over), SW_ERR_NOTFOUND (it says no more). */
int sw_child_line(struct sw_child *c, int timeout_ms, char line[SW_CHILD_LINE]) SW_MUST_CHECK;
/* Kills it unless it has ended. One that the system cannot end is left behind after a second. */
void sw_child_end(struct sw_child *c);
