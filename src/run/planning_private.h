/* What the files of run/planning.h share. */
#pragma once

#include "run/planning.h"

struct sw_net;

/* A layer of the model. */
struct sw_planning_layer {
    int node;         /* of the training net: its first time step */
    const char *home; /* name of its section */
    bool is_unrolled;
    struct sw_layer_sample *samples; /* owned */
};

struct sw_planning_net {
    struct sw_net_model model; /* the first member */
    const struct sw_job *job;  /* borrowed */
    const struct sw_net *net;  /* its training net */
    struct sw_layer_model *layer;
    struct sw_planning_layer *own; /* owned, as layer [model.count] */
    struct sw_rest_sample *rest;   /* owned [model.rest_count] */
};

static inline struct sw_planning_net *sw_planning_of(struct sw_net_model *m)
{
    return (struct sw_planning_net *)m;
}

/* planning_rest.c: the plan of all of a measurement's workers. Errors: SW_ERR_NOMEM,
 * SW_ERR_UNSUPPORTED (no layer can be split, or exchanged, like that). Free with
 * sw_parallel_plan_fini in every case. */
int sw_planning_plan(struct sw_net_model *m, const struct sw_planning_measurement *how,
                     struct sw_parallel_plan *out, struct sw_err *err) SW_MUST_CHECK;

/* planning_open.c: sw_job_open, with all messages as the text of the error. */
int sw_planning_open_job(const struct sw_job_options *options, struct sw_log *log,
                         struct sw_job **out, struct sw_err *err) SW_MUST_CHECK;

/* planning_times.c: collects times of layers by the names in nets, "gru@3"; of one worker. */
struct sw_planning_times {
    double *forward_ms, *backward_ms; /* owned [layers of the model] */
    double *update_ms; /* owned [layers of the model]: of its parameters by one server, of the part
                          that it has; 0: unknown */
    double step_ms;    /* from the begin of a step to that of the next one; 0: unknown */
    const struct sw_planning_net *of;
};
int sw_planning_times_init(struct sw_planning_times *t, const struct sw_planning_net *of,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_planning_times_fini(struct sw_planning_times *t);
void sw_planning_times_clear(struct sw_planning_times *t); /* all times become 0 */
/* Adds the time of a layer or time step; another name is ignored. */
void sw_planning_times_add(struct sw_planning_times *t, const char *name, double forward_ms,
                           double backward_ms);
/* The row of a layer or time step in the model; -1: another name, such as that of a connection. */
int sw_planning_times_row(const struct sw_planning_times *t, const char *name);
/* Adds samples with these workers and threads to all layers of a plan that splits them by rows, or
 * to the layers that the plan splits by columns. Errors: SW_ERR_NOMEM. */
int sw_planning_times_use(const struct sw_planning_times *t, struct sw_net_model *m,
                          const struct sw_layer_sample *of, const struct sw_parallel_plan *plan,
                          struct sw_err *err) SW_MUST_CHECK;
/* Adds the times of passes of layers that a run recorded. Errors: SW_ERR_UNSUPPORTED (there are no
 * times of layers), those of the history. */
int sw_planning_times_read(struct sw_planning_times *t, struct sw_history_reader *r,
                           const struct sw_run *run, struct sw_err *err) SW_MUST_CHECK;
/* Writes the day of a time, "2026-11-28"; returns out. */
const char *sw_planning_date(double unix_time, char out[16]);

/* ---- planning_stored.c ---- */

/* What stored times are of. */
struct sw_planning_setup {
    const char *host, *device; /* borrowed */
    char net[33];              /* sw_planning_hash of the model */
    int64_t batch;
    int workers, threads;
    enum sw_step_kind kind;
};
/* A hash of names, types, work and sizes of all layers. */
void sw_planning_hash(const struct sw_net_model *m, char out[33]);
/* Are times of the setup stored? Fills t and date. A damaged file is ignored with a message. */
bool sw_planning_stored_find(const struct sw_planning_setup *s, struct sw_planning_times *t,
                             char date[16], struct sw_log *log);
/* Stores times, in place of older ones of the setup. A failure is logged only. */
void sw_planning_stored_add(const struct sw_planning_setup *s, const struct sw_planning_times *t,
                            const char *date, struct sw_log *log);
