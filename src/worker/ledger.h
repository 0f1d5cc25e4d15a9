/* The time breakdown of a worker's step. Called by the worker's thread. */
#pragma once

#include "exchange/exchange.h"
#include "history/history.h"

struct sw_layer_clock;
struct sw_worker;

/* The step timer of a worker (ledger.c, layer_clock.c). */
struct sw_step_timer {
    struct sw_step_time ledger;       /* time breakdown of the current step */
    int64_t charged_ns;               /* time up to which all time is charged */
    int64_t began_ns;                 /* begin of the current step, for the breakdown */
    bool resumes;                     /* struct sw_step_breakdown: of the current step */
    int64_t served_ns, copied_ns[2];  /* as last recorded: time of servers with threads; time of
                                         copies of parameters to and from the device */
    double *forward_ms, *backward_ms; /* owned [layers of the net]: time since the last flush */
    int64_t steps;                    /* steps in that time */
    double computed_ms; /* of all passes in the last step that a device measured; 0: none yet */
    float
        *pass_ms; /* the part of the breakdown that the current pass is charged to; NULL: no pass */
    double *pass_total_ms; /* the layer's total, or NULL */
    struct sw_layer_clock
        *layers;        /* owned; NULL: operations run synchronously, or layers are not measured */
    int64_t trained_ns; /* time spent in steps */
    int64_t first_ns;   /* of it, in the first step, which also touches all memory first */
};

/* Computing time of the last steps, for rebalancing. */
enum { SW_PACE_STEPS = 64 };
struct sw_pace {
    float ms[SW_PACE_STEPS]; /* ring of the last steps */
    int64_t steps;           /* steps since the rows were assigned */
    double typical_ms;       /* the median, read by the leader; 0: unknown */
};

/* A recorded step, as the main thread gets it where the run follows a plan. */
struct sw_step_breakdown {
    struct sw_step_time time;
    double computed_ms; /* of its forward and backward time, the passes alone; 0: unknown */
    bool resumes;       /* the first one, or after work between two steps such as an evaluation */
};

/* Charges the time since the last call to a part of the breakdown, and to *total_ms when that is
 * not NULL. */
void sw_step_timer_charge(struct sw_worker *w, float *part_ms, double *total_ms);
/* sw_flight_wait, for a step whose report is queued; charges its time to what the device did
 * meanwhile. */
int sw_ledger_wait(struct sw_worker *w, int behind, struct sw_err *err) SW_MUST_CHECK;
/* Fills in the time of work in parallel to the worker, before the breakdown is recorded; copied_ms:
 * of values to the device, of gradients from it. */
void sw_ledger_add_hidden(struct sw_worker *w, double copied_ms[2]);
