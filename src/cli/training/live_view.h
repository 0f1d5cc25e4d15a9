/* Training in a child process, so that nothing that happens to the terminal can affect it: with a
 * dashboard (`run --ui`) or without (`run --detach`).
 *
 * The trainer is a child process in a new session. Its output goes to memory until the run
 * has a folder, and from then on to output.log there, which dashboards show; a file never blocks a
 * writer. This process draws the dashboard, as any other client would. If the trainer ends before
 * its run begins, its output is printed here. SIGTERM and SIGINT to this process are passed on to
 * the trainer, and this process then waits for its end; when the user leaves the dashboard or the
 * terminal closes, the training goes on. Call before the process has threads. */
#pragma once

#include "cli/training/trainer.h"

struct sw_live_view;

/* Trains and returns the exit code. The function passes its report to sw_live_view_report; beside
 * is NULL if there is no other process. */
typedef int sw_live_view_train(void *user, struct sw_live_view *live_view);

/* The options of `run` and `resume` that choose the process that trains. */
struct sw_live_view_options {
    bool ui, no_ui, detach;
};
/* Rows of a verb's option table for them; `member` is their place in its struct. */
#define SW_LIVE_VIEW_ROWS(of, member)                                                              \
    SW_CLI_FLAG_OPTION(of, member.ui, "ui",                                                        \
                       "show the dashboard; leaving it (q) does not end the training"),            \
        SW_CLI_FLAG_OPTION(of, member.no_ui, "no-ui",                                              \
                           "print lines instead of the dashboard (default)"),                      \
        SW_CLI_FLAG_OPTION(of, member.detach, "detach",                                            \
                           "train in the background; singa-ws top shows it")

/* Trains in this process or in a child, depending on the options. Returns the exit code: the
 * trainer's if it has ended, else 0. verb and common are for messages about mutually exclusive
 * options. */
int sw_live_view(const char *verb, const struct sw_cli_common *common,
                 const struct sw_live_view_options *o, sw_live_view_train *train, void *user);

/* Silences a report and makes it notify the other process when the run begins. Does nothing if
 * beside is NULL. */
void sw_live_view_report(struct sw_live_view *live_view, struct sw_report *r);
