/* The dashboard: a terminal, a feed, a view, and a loop that refreshes four times a second and
 * handles keys at once. It is a client like any other: however it ends, the training goes on. Main
 * thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_dash_args {
    const char *db_path;
    const char
        *run; /* what sw_history_find takes; NULL: the newest that is running, or the newest */
    const char *theme; /* name, or NULL */
    bool of_run;       /* started together with the training by `run --ui` */
};

/* Runs until the user leaves, or SIGTERM, SIGINT, SIGHUP or SIGQUIT comes; *ended_by is that
 * signal, or 0. The terminal is as it was when this returns. Errors: those of sw_feed_choose
 * (nothing was drawn), SW_ERR_UNSUPPORTED (no terminal that can show it, or a build without
 * ncurses). */
int sw_dash_run(const struct sw_dash_args *args, int *ended_by, struct sw_err *err) SW_MUST_CHECK;
