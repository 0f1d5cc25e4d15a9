/* Conditions on which a run ends before its last step. */
#pragma once

#include "plan/topology.h"
#include "worker/observer.h"

struct sw_job_conf;
struct sw_recipe;
struct sw_worker;

/* A condition of stop_at. */
enum { SW_STOPS = 16 };
struct sw_stop {
    char name[SW_JOB_METRIC_NAME]; /* as written, perhaps with its split */
    bool less, equal;              /* < or >, and = behind it */
    double limit;
    int metric[SW_SPLITS]; /* index in that split's series; -1: not there */
    bool norm;             /* it is grad_norm */
};

/* The conditions of job.stop_at. */
struct sw_stop_rules {
    struct sw_stop rule[SW_STOPS];
    bool looks_at_steps, looks_at_evals; /* is a metric of training, of evaluation among them? */
};

/* Reads job.stop_at; after the nets are made. Errors go to the recipe's diags. */
int sw_stop_init(struct sw_stop_rules *rules, struct sw_recipe *recipe,
                 const struct sw_worker *leader, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition look at grad_norm? Before sw_stop_init, too. */
bool sw_stop_wants_norm(const struct sw_job_conf *conf);
/* By all workers, after each step: what conditions look at is known when it returns. */
int sw_stop_gather(const struct sw_stop_rules *rules, struct sw_worker *w,
                   struct sw_err *err) SW_MUST_CHECK;
/* Does a condition hold for the newest metrics of the split, at step t? tell: make it an event. */
bool sw_stop_reached(const struct sw_stop_rules *rules, const struct sw_worker *w, int split,
                     int64_t t, bool tell);
/* By all workers, after an evaluation; the same answer for all. */
int sw_stop_after_evaluation(const struct sw_stop_rules *rules, struct sw_worker *w, bool *reached,
                             struct sw_err *err) SW_MUST_CHECK;
