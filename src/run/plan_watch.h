/* Compares the steps of a run with what its parallel plan predicts, part by part. The step and the
 * plan deviate when the step, smoothed over a few steps, differs from the prediction by more than
 * a share of it for many steps on end; and they agree again when it does not for as many. A single
 * slow step, noise, and a slow start thus tell nothing. Steps that still deviate are told again
 * when they have become twice as long, or half as long. Pure functions; one owner. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* Parts of a step, of the worker that decides how long it takes. */
enum sw_plan_part {
    SW_PLAN_COMPUTE, /* forward and backward passes */
    SW_PLAN_PARAMS,  /* updates, and waiting for values of parameters */
    SW_PLAN_WAITS,   /* for activations of other workers, and for these workers */
    SW_PLAN_REST,    /* reading the batch and queueing work */
    SW_PLAN_PARTS
};

struct sw_plan_times {
    double ms[SW_PLAN_PARTS];
    double step_ms; /* as predicted; of medians, the median of whole steps */
};

enum { SW_PLAN_WATCH_STEPS = 50, SW_PLAN_WATCH_SMOOTHS = 5 };
#define SW_PLAN_WATCH_SHARE 0.2

enum sw_plan_verdict { SW_PLAN_UNCHANGED, SW_PLAN_DEVIATES, SW_PLAN_AGREES };

struct sw_plan_watch_worker;

/* Zero-initialise. */
struct sw_plan_watch {
    struct sw_plan_times predicted;
    struct sw_plan_watch_worker *worker; /* owned [workers] */
    int workers;
    bool is_async;  /* workers of different groups take different times for their steps */
    bool deviates;  /* the last verdict */
    double told_ms; /* the step of the last verdict */
};

/* What is wrong: medians over the last steps of the deciding worker. */
struct sw_plan_gap {
    struct sw_plan_times predicted, measured;
    enum sw_plan_part wrong; /* contributes most to the difference of the steps */
};

/* Errors: SW_ERR_NOMEM. */
int sw_plan_watch_init(struct sw_plan_watch *w, const struct sw_plan_times *predicted, int workers,
                       bool is_async, struct sw_err *err) SW_MUST_CHECK;
void sw_plan_watch_fini(struct sw_plan_watch *w); /* a zeroed one is accepted */

/* Adds a step of a worker (0 to workers - 1), in their order; leave out steps that contain work
 * between two steps. Returns a verdict when it is to be told. */
enum sw_plan_verdict sw_plan_watch_add(struct sw_plan_watch *w, int worker,
                                       const double ms[SW_PLAN_PARTS]);
/* The difference now. Some step must have been added. */
void sw_plan_watch_gap(const struct sw_plan_watch *w, struct sw_plan_gap *out);

/* "exchange of parameters": the part in messages. */
const char *sw_plan_part_name(enum sw_plan_part part);
/* "steps take 12.1 ms, 35 % longer than the plan predicted (8.9 ms): exchange of parameters 5.0 ms
 * instead of 1.8 ms", into out; returns out. */
const char *sw_plan_gap_text(const struct sw_plan_gap *gap, char out[256]);
