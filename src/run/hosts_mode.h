/* How the hosts of a job train together: in step (hosts_sync.c: every update has the gradients of
 * all), or asynchronously (hosts_async.c). A row of functions for each; job_hosts.c has what they
 * share. All functions have the job as their first argument, and are called by the thread that
 * opens the job except for what says otherwise. */
#pragma once

#include "exchange/table/sync.h"
#include "exchange/table/table.h"
#include "worker/group.h"

struct sw_fabric_router;
struct sw_job;

struct sw_hosts_mode {
    /* Connect the parameter table, and the exchange of server groups (NULL: there is none). */
    void (*set_table)(struct sw_job *job, struct sw_table_args *args);
    void (*set_sync)(struct sw_job *job, struct sw_sync_args *args);
    /* Before the fabric is opened: allocates for small sums of at most `small_most` values, and
     * adds who receives to the router. */
    int (*init)(struct sw_job *job, int small_most, struct sw_err *err);
    void (*receive)(struct sw_job *job, struct sw_fabric_router *router);
    int (*room)(const struct sw_job *job); /* messages to one host that can be under way */
    /* The fabric is open; attaches to the job's fault what waits. */
    int (*start)(struct sw_job *job, struct sw_err *err);
    void (*fini)(struct sw_job *job); /* after the fabric is freed */

    /* values [count] become the sums over all hosts; waits. By one worker at a time per channel. */
    int (*sum)(struct sw_job *job, enum sw_group_channel channel, double *values, int count,
               struct sw_err *err);
    /* Bits of the hosts whose values are in the last sum of SW_GROUP_EVALUATIONS. */
    uint64_t (*counted)(const struct sw_job *job);
    /* struct sw_requests.agree; errors become the fault of the job. */
    int (*agree)(struct sw_job *job, int64_t step, int own);
    /* A request of this host's user, whose workers may sleep; by the job's main thread, repeatedly.
     * NULL: workers never sleep while others of the job make steps. */
    void (*ask)(struct sw_job *job, int own);
    /* struct sw_group_outer.wake; NULL: hosts are always at the same step. */
    void (*wake)(struct sw_job *job, int64_t step);

    /* The functions of struct sw_worker_hooks; NULL where hosts are always equal. */
    bool (*is_quiet)(struct sw_job *job);
    int (*merge)(struct sw_job *job, int64_t step, struct sw_err *err);
    int (*resume)(struct sw_job *job, struct sw_err *err);
    int (*share_state)(struct sw_job *job, struct sw_err *err);

    /* After all roles have ended with rc, of a job that may have lost a host: rc, or
     * SW_ERR_CANCELLED with a sentence. NULL: see host_loss.h. */
    int (*end)(struct sw_job *job, int rc, struct sw_err *err);
};

extern const struct sw_hosts_mode sw_hosts_sync, sw_hosts_async;

/* Of a job on several hosts. */
const struct sw_hosts_mode *sw_hosts_mode_of(const struct sw_job *job);
/* set_table, set_sync and end; on one host they do nothing, and end returns rc. */
void sw_job_hosts_set_table(struct sw_job *job, struct sw_table_args *args);
void sw_job_hosts_set_sync(struct sw_job *job, struct sw_sync_args *args);
int sw_job_hosts_end(struct sw_job *job, int rc, struct sw_err *err);
/* values [count] become the sums over all hosts; waits. By one thread, while all hosts are at the
 * same step. Errors: SW_ERR_LOST, SW_ERR_CANCELLED. */
int sw_job_hosts_sum(struct sw_job *job, double *values, int count,
                     struct sw_err *err) SW_MUST_CHECK;

/* After the loss of a host (cluster.on_host_loss = save): can the job's table return to its last
 * complete step? Then updates have two phases, and running statistics are kept as they were before
 * a step. False on one host, with on_host_loss = stop, for asynchronous hosts, and where devices
 * hold values. */
bool sw_job_hosts_return(const struct sw_job *job);
/* Devices of all hosts sum gradients, and hold the values: they return to their last complete step
 * instead, unless on_host_loss = stop. Before the workers' memory is allocated. */
void sw_job_hosts_keep_devices(struct sw_job *job);

/* rc; an error becomes the fault of the job. Sums end early only because the job does, or because a
 * host is lost, which may not be told yet. */
int sw_hosts_note(struct sw_job *job, int rc, const struct sw_err *err);
/* SW_JOB_RELEASE is a pause for jobs on several hosts: memory is not released for a while, because
 * the other hosts would wait. */
int sw_hosts_requests(int bits);
/* Requests as numbers whose sums over hosts tell what any host requests. */
enum { SW_HOSTS_VOTES = 8 };
void sw_hosts_vote(int bits, double votes[SW_HOSTS_VOTES]);
int sw_hosts_voted(const double votes[SW_HOSTS_VOTES]);
