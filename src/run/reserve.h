/* The cores and GPUs of a job: as many as it may have, and with sw_job_options.reserve those that
 * no other run of this machine uses (machine/registry.h). The registry stays open from
 * sw_reserve_begin to sw_reserve_end, while the roles are placed, so that nobody else takes the
 * same ones. By the thread that opens the job. */
#pragma once

#include "base/str.h"
#include "plan/usage.h"
#include "run/job.h"

struct sw_job_reserve {
    struct sw_registry *registry;         /* owned; NULL: not open */
    struct sw_registration *registration; /* owned; NULL: none */
    struct sw_reserved reserved;
    struct sw_usage usage;  /* by other runs, when the cores were chosen */
    struct sw_bytes shared; /* who else uses the cores and GPUs; "": nobody */
    /* Of the resumed checkpoint, unless job.cores says how many cores to use; 0: unknown. */
    int saved_workers, saved_threads;
    int slurm_cores;                /* that SLURM_CPUS_PER_TASK allows; 0: it sets no limit */
    int map_cores;                  /* of the machine map before it was restricted */
    struct sw_idle_team *idle_team; /* owned; NULL: no other run uses the cores */
    bool released;                  /* the job has ended for a while, by SW_JOB_RELEASE */
    bool dropped;                   /* sw_job_drop has freed its roles */
};

/* Restricts the machine map to the cores of the job, of which it needs at least `least`, one for
 * each worker that the recipe names. Waits if the options say so. Errors: SW_ERR_INVALID
 * (job.cores), SW_ERR_CANCELLED (a stop was requested while it waited), SW_ERR_NOMEM, and those of
 * sw_registry_open if the job is to wait. */
int sw_reserve_begin(struct sw_job *job, const struct sw_job_options *o, int least,
                     struct sw_err *err) SW_MUST_CHECK;
/* After a placement: leaves cores to other runs if the job computes on some of the machine's GPUs.
 * Returns true if the map was restricted further, so that the roles must be placed again. */
bool sw_reserve_narrow(struct sw_job *job, const struct sw_job_options *o);
/* Registers what the placement uses. Errors: those of sw_registry_add. */
int sw_reserve_end(struct sw_job *job, const struct sw_job_options *o,
                   struct sw_err *err) SW_MUST_CHECK;
/* Closes the registry; after sw_reserve_end, and after an error. */
void sw_reserve_unlock(struct sw_job *job);

/* Registers the number of the run, once the history has it. */
void sw_reserve_name_run(struct sw_job *job);
/* Reports with whom the run shares cores or GPUs. */
void sw_reserve_report(struct sw_job *job);
/* Looks whether another run uses cores of this one at present. If so, threads that wait leave the
 * CPU to it (sw_idle_team_start), until sw_reserve_unwatch or a look that finds nobody. While the
 * job runs, by one thread; does not wait. */
void sw_reserve_watch(struct sw_job *job);
void sw_reserve_unwatch(struct sw_job *job);
/* Gives cores and GPUs back: the run is registered without any. */
void sw_reserve_give_back(struct sw_job *job);
/* Moves the registration to the job of the next stage, unless that has one. */
void sw_reserve_hand_over(struct sw_job *from, struct sw_job *to);
void sw_reserve_fini(struct sw_job *job);
