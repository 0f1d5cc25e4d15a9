/* What the files of planner/planned.h share: the plans that were found and simulated. */
#pragma once

#include "planner/planned.h"
#include "planner/search_space.h"

#define SW_PLANNED_ROUNDING 1e-9 /* relative difference of equal times */

/* A plan that was found and simulated. */
struct sw_planned_candidate {
    struct sw_parallel_plan plan;           /* owned; zeroed after it was moved */
    const struct sw_machine_model *machine; /* borrowed */
    const char *what;                       /* static; NULL: where it differs from the best one */
    bool is_measured;                       /* its memory and its time with it are those of a job */
};

struct sw_planned_making {
    const struct sw_planned_args *args;
    struct sw_planned_candidate *candidate; /* owned */
    int count;
    struct sw_planned *out;
};

/* ---- planned_candidates.c ---- */

/* Simulates a plan and sets its time. */
int sw_planned_time(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                    struct sw_parallel_plan *p, struct sw_err *err) SW_MUST_CHECK;
/* Copies a plan and simulates the copy, unless it is there already, or a job cannot have such
 * workers. what: of the candidate; the first one that is given stays. */
int sw_planned_add(struct sw_planned_making *m, const struct sw_machine_model *machine,
                   const struct sw_parallel_plan *plan, const char *what,
                   struct sw_err *err) SW_MUST_CHECK;
/* Number of devices of the first host. */
int sw_planned_first_host(const struct sw_machine_model *m);

/* ---- planned.c ---- */

/* Opens the job of a candidate, if that is possible, and takes what it says into account. *worker:
 * the first one whose memory the plan exceeds; -1: it fits. Errors: those of args->measure. */
int sw_planned_measure(const struct sw_planned_making *m, struct sw_planned_candidate *c,
                       int *worker, struct sw_err *err) SW_MUST_CHECK;

/* ---- planned_uniform.c ---- */

/* Adds the plans of a shape that treat all layers alike, which are what users try first. */
int sw_planned_add_uniforms(struct sw_planned_making *m, const struct sw_machine_model *machine,
                            const struct sw_search_limits *limits,
                            const struct sw_plan_shape *shape, struct sw_err *err) SW_MUST_CHECK;

/* ---- planned_layers.c ---- */

/* Fills in costs and runners-up of all layers of out->best, and its simulation. Errors:
 * SW_ERR_NOMEM, those of sw_simulate. */
int sw_planned_explain(struct sw_planned *out, const struct sw_planned_args *args,
                       struct sw_err *err) SW_MUST_CHECK;

/* ---- planned_improve.c ---- */

/* Explains out->best, and gives its layers their runners-up as long as the simulation then is
 * faster and the plan fits the memory. Errors: those of sw_planned_explain and args->measure. */
int sw_planned_improve(struct sw_planned_making *m, struct sw_err *err) SW_MUST_CHECK;

/* ---- planned_alternatives.c ---- */

/* Fills in the alternatives of out->best from the candidates that are left. */
void sw_planned_compare(struct sw_planned_making *m);

/* ---- planned_facts.c ---- */

/* Seconds per sample. */
double sw_planned_sample_s(const struct sw_planned *out, const struct sw_parallel_plan *p);
/* Hosts of the first `workers` devices. */
int sw_planned_hosts_of(const struct sw_machine_model *m, int workers);
bool sw_planned_same_choice(const struct sw_layer_choice *a, const struct sw_layer_choice *b);
/* The exchange mode that the user has decided for a layer; AUTO: none. */
enum sw_exchange_mode sw_planned_wished_comm(const struct sw_search_limits *l, int layer);
/* Does a layer of a plan have what the user has decided for it? */
bool sw_planned_obeys(const struct sw_search_limits *l, const struct sw_parallel_plan *p,
                      const struct sw_net_model *net, int layer);
