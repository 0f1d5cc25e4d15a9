/* Where the time of a worker's step goes, by parts of the step. Called by the worker's thread. */
#pragma once

#include "exchange/exchange.h"
#include "history/history.h"

struct sw_layer_clock;
struct sw_worker;

/* Where the time of a worker's step goes (ledger.c, layer_clock.c). */
struct sw_step_timer {
    struct sw_step_time ledger;       /* of the step under way */
    int64_t lap_ns;                   /* when the ledger was last written */
    int64_t served_ns, copied_ns[2];  /* when it was last recorded: of servers that are threads; of
                                         the replica, to and from the device */
    double *forward_ms, *backward_ms; /* owned [layers of the net]: since the last flush, */
    int64_t steps;                    /* in so many steps */
    float *pass_ms;        /* where the time of the pass under way goes: in the ledger (NULL: no
                              pass), */
    double *pass_total_ms; /* and of its layer */
    struct sw_layer_clock *layers; /* owned; NULL: operations run at once, or there is none */
    int64_t trained_ns;            /* time spent in steps */
};

/* How long computing takes in a step. */
enum { SW_PACE_STEPS = 64 };
struct sw_pace {
    float ms[SW_PACE_STEPS]; /* of the last ones */
    int64_t steps;           /* since the rows were given */
    double typical_ms;       /* by which the others judge; 0: unknown */
};

/* Adds the time since the last lap to a part of the ledger and to *total_ms when that is not NULL.
 */
void sw_worker_lap(struct sw_worker *w, float *part_ms, double *total_ms);
/* sw_worker_wait; its time goes to what the device did meanwhile. */
int sw_ledger_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Fills what runs beside the worker, before the ledger is recorded; copied_ms: of values to the
 * device, of gradients from it. */
void sw_ledger_add_hidden(struct sw_worker *w, double copied_ms[2]);
