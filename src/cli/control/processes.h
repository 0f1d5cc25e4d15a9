/* The runs of this machine, for `ps`: those of the registry (machine/registry.h), which may be of
 * other users, and those that only the history knows. One owner. */
#pragma once

#include "cli/control/running.h"
#include "machine/registry.h"

struct sw_process_row {
    struct sw_reserved reserved; /* run_id 0: unknown, or not a run of this history */
    bool registered;             /* else cores and GPUs are unknown */
    bool is_ours;                /* of this user */
    const char *state;           /* queued, starting, running, paused */
    int64_t step, steps;         /* -1: unknown */
};

struct sw_processes {
    struct sw_process_row *rows; /* owned; by arrival */
    int count;
};

/* reader: the history, or NULL; db: its path. Errors: those of sw_registry_open and of the history.
 * Free with sw_processes_fini in any case. */
int sw_processes_read(struct sw_processes *p, struct sw_history_reader *reader, const char *db,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_processes_fini(struct sw_processes *p);
