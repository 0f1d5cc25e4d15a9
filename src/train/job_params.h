/* The parameters that a job trains. */
#pragma once

#include "base/err.h"
#include "plan/topology.h"

struct sw_job;
struct sw_sync;
struct sw_table;

/* A complete copy of the parameters, and where those who change it are in the job's lists. */
struct sw_server_group {
    struct sw_job *job;                        /* borrowed */
    struct sw_table *table;                    /* owned */
    const struct sw_server_group_place *place; /* borrowed */
};

/* The parameters, one copy for each server group. */
struct sw_job_params {
    struct sw_server_group *copies; /* owned [server groups] */
    struct sw_table *table;         /* of the first copy: what is saved and evaluated */
    struct sw_sync *sync;           /* owned; NULL: there is one copy */
};

/* The parameter table, from the training nets of all workers. */
int sw_job_make_table(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* A copy is as it is after so many steps of the job, with so many updates behind it: between steps,
 * by one thread. */
void sw_job_put_step(struct sw_job *job, int copy, int64_t step, uint64_t updates,
                     uint64_t dropped);
/* After the last step that the first group made alone: the others have its values already, and
 * what its updater keeps becomes theirs. */
void sw_job_join(struct sw_job *job);
/* Makes the copies exchange, once they are allocated. */
int sw_job_make_sync(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
