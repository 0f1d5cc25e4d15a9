/* What a plan is made of: the job of a recipe, opened as a model with one worker, the model of its
 * net, the keys that the recipe has decided, and models of the machine, real or imagined. One
 * owner: the main thread. */
#pragma once

#include "cli/hosts/preflight.h"
#include "cli/plan/constraints.h"
#include "cli/plan/output.h"
#include "cli/training/trainer.h"
#include "planner/machine_build.h"
#include "run/planning.h"

enum { SW_PLAN_MACHINES = 48 };

/* For which machine to plan. All borrowed. */
struct sw_plan_target {
    struct sw_given_figures given;
    const char *from;         /* another machine (sw_machine_from); NULL: this one */
    bool grows;               /* its hosts or GPUs are counted up, and given.hosts is the first */
    int workers;              /* on the cores of each host; 0: all numbers are considered */
    bool measure;             /* train a few steps first, to measure the layers */
    bool stored_only;         /* figures of this machine must be stored: nothing is measured */
    const struct sw_run *run; /* its measured times of layers are used; NULL: stored ones, if any */
    struct sw_history_reader *reader; /* of run */
    /* The hosts of a job, which are started to be measured, and which all get workers; NULL, or
     * none of them: this machine alone. */
    const struct sw_hosts_options *hosts;
};

/* Zero-initialise; free with sw_plan_model_fini. */
struct sw_plan_model {
    struct sw_trainer trainer; /* its job is the model */
    struct sw_job_options job; /* of the recipe */
    struct sw_net_model *net;  /* owned */
    struct sw_plan_constraints constraints;
    struct sw_machine *map;            /* owned: of target.from; NULL: that of the job */
    struct sw_machine_args args;       /* of the machine models */
    struct sw_device_request request;  /* args.request */
    struct sw_peer_links *peer_links;  /* owned; or NULL */
    struct sw_preflight_figures hosts; /* of target.hosts; hosts.hosts 0: there are none */
    struct sw_host_rates host_rates;   /* between them */
    bool is_imagined;                  /* not this machine as it is */
    char measured[64];                 /* source of the figures of this machine */
    bool ready;                        /* the trainer was made */
    char times[64];                    /* where measured times of layers come from; "": none */
    struct sw_machine_model *machine[SW_PLAN_MACHINES]; /* owned; see struct sw_planned_args */
    int machines;
};

/* Opens the job and makes all models. The options are borrowed for the life of the model. Errors:
 * those of sw_planning_open, with messages in the trainer; SW_ERR_INVALID (the machine);
 * SW_ERR_NOTFOUND (nothing is stored). */
int sw_plan_model_open(struct sw_plan_model *m, const struct sw_cli_common *common,
                       const struct sw_job_options *job, const struct sw_plan_target *target,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_plan_model_fini(struct sw_plan_model *m);

/* Makes the plan. The model must outlive it. Errors: those of sw_planned_make. */
int sw_plan_model_plan(struct sw_plan_model *m, struct sw_planned *out,
                       struct sw_err *err) SW_MUST_CHECK;
/* The settings by which a run of the recipe follows the plan; on several hosts the counts are those
 * of each. Nothing, if no run can follow it (server hosts). Errors: those of sw_planning_texts. */
int sw_plan_model_texts(const struct sw_plan_model *m, const struct sw_planned *p,
                        struct sw_planning_texts *out, struct sw_err *err) SW_MUST_CHECK;
/* What output says beside the plan; borrows from all three. */
struct sw_planned_about sw_plan_model_about(const struct sw_plan_model *m,
                                            const struct sw_planning_texts *texts, bool verbose);
