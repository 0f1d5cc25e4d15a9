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
    bool less, equal;              /* < or >, and whether = follows */
    double limit;
    int metric[SW_SPLITS]; /* index in that split's series; -1: none */
    bool norm;             /* the metric is grad_norm */
};

/* The conditions of job.stop_at. */
struct sw_stop_rules {
    struct sw_stop rule[SW_STOPS];
    bool uses_training,
        uses_evaluation; /* some condition uses a metric of training; of evaluation */
};

/* Reads job.stop_at, after the nets are made. Errors go to the recipe's diagnostics. */
int sw_stop_init(struct sw_stop_rules *rules, struct sw_recipe *recipe,
                 const struct sw_worker *leader, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition use grad_norm? May be called before sw_stop_init. */
bool sw_stop_needs_norm(const struct sw_job_conf *conf);
/* Called by all workers after each step: the metrics that conditions use are known when it returns.
 */
int sw_stop_gather(const struct sw_stop_rules *rules, struct sw_worker *w,
                   struct sw_err *err) SW_MUST_CHECK;
/* Does a condition hold for the newest metrics of the split, at step t? log: record it as an event.
 */
bool sw_stop_reached(const struct sw_stop_rules *rules, const struct sw_worker *w, int split,
                     int64_t t, bool log);
/* Called by all workers after an evaluation: does the job end here, by a condition or by
 * job.patience? Sets *reached, the same for all. */
int sw_stop_after_evaluation(struct sw_worker *w, bool *reached, struct sw_err *err) SW_MUST_CHECK;
