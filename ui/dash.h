/* The dashboard: a terminal, a feed, a view, and a loop that refreshes four times a second and
 * handles keys at once. It is a client like any other: training continues however the dashboard
 * ends. Main thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_dash_args {
    const char *db_path;
    const char
        *run; /* an argument of sw_history_find; NULL: the newest running run, else the newest */
    const char *theme; /* name, or NULL */
    bool of_run;       /* started together with the training by `run --ui` */
};

/* Runs until the user quits or SIGTERM, SIGINT, SIGHUP or SIGQUIT arrives; *ended_by is that
 * signal, or 0. The terminal is restored before this returns. Errors: those of sw_feed_choose
 * (nothing was drawn), SW_ERR_UNSUPPORTED (no suitable terminal, or a build without ncurses). */
int sw_dash_run(const struct sw_dash_args *args, int *ended_by, struct sw_err *err) SW_MUST_CHECK;
