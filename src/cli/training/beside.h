/* Training in a process of its own, so that nothing that happens to the terminal can affect it:
 * with a dashboard (`run --ui`) or without (`run --detach`).
 *
 * The trainer is a child process in a session of its own. Its output goes to memory until the run
 * has a folder, and from then on to output.log there, which dashboards show; a file never blocks a
 * writer. This process draws the dashboard, as any other client would. If the trainer ends before
 * its run begins, its output is printed here. SIGTERM and SIGINT to this process are passed on to
 * the trainer, and this process then waits for its end; when the user leaves the dashboard or the
 * terminal closes, the training goes on. Call before the process has threads. */
#pragma once

#include "cli/training/trainer.h"

struct sw_beside;

/* Trains and returns the exit code. Its report is to be given to sw_beside_report; beside is NULL
 * where there is no other process. */
typedef int sw_beside_train(void *user, struct sw_beside *beside);

/* Where to train, from the options of `run` and `resume`. */
struct sw_beside_options {
    bool ui, no_ui, detach;
};
/* Rows of a verb's table for them, whose struct has them at `member`. */
#define SW_BESIDE_ROWS(of, member)                                                                 \
    SW_CLI_FLAG_OPTION(of, member.ui, "ui",                                                        \
                       "show the dashboard; leaving it (q) does not end the training"),            \
        SW_CLI_FLAG_OPTION(of, member.no_ui, "no-ui", "print lines, as without --ui"),             \
        SW_CLI_FLAG_OPTION(of, member.detach, "detach",                                            \
                           "train in the background; singa-ws top shows it")

/* Trains here, or in a process of its own; returns the exit code: the trainer's where that has
 * ended, else 0. verb and common are for messages about options that exclude each other. */
int sw_beside(const char *verb, const struct sw_cli_common *common,
              const struct sw_beside_options *o, sw_beside_train *train, void *user);

/* Silences a report, and has it tell the other process when the run begins; with beside NULL
 * it does nothing. */
void sw_beside_report(struct sw_beside *beside, struct sw_report *r);
