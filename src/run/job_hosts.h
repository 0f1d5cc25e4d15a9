/* The other hosts of a job, from the run's side: what cannot be done over hosts, the fabric with
 * the sums of gradients, losses and requests, and the comparison of values. With one host all of
 * these functions do nothing. */
#pragma once

#include "exchange/hosts/router.h"
#include "exchange/hosts/table_sums.h"
#include "run/hosts_async.h"
#include "run/job_collective.h"
#include <stdbool.h>

struct sw_bytes;
struct sw_job;

/* Numbers that hosts tell each other about the end of the job, and a file that one of them may send
 * to host 0. */
enum sw_host_notice {
    SW_HOST_STEP,  /* the last complete step */
    SW_HOST_SAVED, /* SW_OK, or why there is no checkpoint */
    SW_HOST_BYTES, /* of the checkpoint that is to be sent; 0: none is */
    SW_HOST_ROOM,  /* host 0 has room for it, or 0 */
    SW_HOST_NOTICES
};
enum { SW_HOST_MESSAGES = SW_HOST_NOTICES + 1 }; /* to one host that can be under way */

/* Room for the file; guarded by the lock of the notices. */
struct sw_host_inbox {
    char *data; /* borrowed; NULL: no file is awaited */
    size_t bytes;
    int from;
    bool complete;
};

struct sw_host_notices {
    int64_t room[SW_HOST_NOTICES][SW_MOST_HOSTS];
    int64_t own[SW_HOST_NOTICES];
    struct sw_mutex lock; /* guards the others */
    struct sw_cond changed;
    uint64_t heard[SW_HOST_NOTICES]; /* bits of hosts */
    uint64_t lost;                   /* bits of hosts */
    struct sw_host_inbox inbox;
    bool sent;   /* the own file is not needed any more */
    char *keeps; /* owned: what a message may still use; freed with the notices */
};

struct sw_hosts_history;

struct sw_job_fabric {
    struct sw_hosts_history *history; /* owned; NULL: one host, or the run has not begun */
    struct sw_host_notices notices;
    struct sw_job_collective collective;
    struct sw_fabric_router router;
    bool ready;                /* what follows is made; false: one host, or before the run */
    struct sw_table_sums sums; /* of synchronous hosts */
    bool asked;                /* requests were told once */
    struct sw_hosts_async async;
    struct sw_fabric *fabric; /* owned; open while the job runs */
    char remark[256];         /* on strangers while the hosts met; "": none */
    char waited[256];         /* the last word on who was awaited; "": nobody */
    uint64_t lost;            /* bits of hosts that were lost when the job ended */
};

void sw_host_notices_init(struct sw_host_notices *n);
void sw_host_notices_fini(struct sw_host_notices *n);
struct sw_fabric_sink sw_host_notices_sink(struct sw_host_notices *n);
/* Tells all hosts a number; a host that cannot be told is lost. */
void sw_host_notices_tell(struct sw_host_notices *n, struct sw_fabric *f,
                          const struct sw_hosts *hosts, enum sw_host_notice what, int64_t value);
/* Waits until every host of `from` has told that number, or is not connected any more. Returns the
 * bits of those that have told it. */
uint64_t sw_host_notices_await(struct sw_host_notices *n, const struct sw_fabric *f,
                               enum sw_host_notice what, uint64_t from, int timeout_ms);
/* Host 0: waits for a file of the host `room->from`; the room stays until the fabric is closed.
 * Returns whether all have arrived. */
bool sw_host_notices_receive(struct sw_host_notices *n, struct sw_fabric *f,
                             const struct sw_hosts *hosts, const struct sw_host_inbox *room,
                             int timeout_ms);
/* Sends a file to host 0, and waits until its bytes are not needed any more. */
void sw_host_notices_send(struct sw_host_notices *n, struct sw_fabric *f, const char *data,
                          size_t bytes, int timeout_ms);
/* Bits of the hosts that were lost so far. */
uint64_t sw_host_notices_lost(struct sw_host_notices *n);

/* Who writes the checkpoint of the leader's step? Host 0; the last one of a stage is written by all
 * hosts, which begin the next stage from it. If another host does, notes that it exists. By the
 * leader. */
enum sw_checkpoint_home { SW_CHECKPOINT_OF_RUN, SW_CHECKPOINT_OF_HOST, SW_CHECKPOINT_ELSEWHERE };
enum sw_checkpoint_home sw_job_hosts_home(struct sw_job *job);
/* Reports settings that cannot be used on several hosts as errors of the recipe; returns SW_OK or
 * SW_ERR_INVALID. Once the topology is known. */
int sw_job_hosts_check(struct sw_job *job) SW_MUST_CHECK;
/* Once the groups are made: their sums go on over hosts. */
void sw_job_hosts_connect_groups(struct sw_job *job);
/* By the job's main thread while the workers run: a request to stop reaches the other hosts even if
 * all workers of this one sleep. */
void sw_job_hosts_ask(struct sw_job *job);
/* struct sw_worker_hooks: of asynchronous hosts. */
bool sw_job_hosts_are_quiet(struct sw_job *job);
int sw_job_hosts_merge(struct sw_job *job, int64_t step, struct sw_err *err) SW_MUST_CHECK;
int sw_job_hosts_resume(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_job_hosts_share_state(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Once the nets and the table are built: checks what the nets need, and allocates. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_job_hosts_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* What all hosts must agree on before anything is opened: lines for sw_fabric_args.hello. */
void sw_job_hosts_say_settings(const struct sw_job *job, struct sw_bytes *out);
/* How hosts meet: for how long they wait for each other, and a new log for it. Errors:
 * SW_ERR_NOMEM. */
int sw_job_hosts_meet(struct sw_job *job, int *connect_ms, struct sw_log **log,
                      struct sw_err *err) SW_MUST_CHECK;

/* Connects with all hosts, before anything is written. Errors: those of sw_fabric_open;
 * SW_ERR_INVALID (two processes on one machine). */
int sw_job_hosts_open(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Reports what was remarkable when the hosts met, once there is a history. */
void sw_job_hosts_report(struct sw_job *job);
/* Compares the values of all hosts after an evaluation; a difference becomes the job's fault. By
 * the leader, between two steps. */
void sw_job_hosts_compare(struct sw_job *job, int64_t step);
/* Leaves the other hosts in order, or tells them the error with which the job ended (rc). When all
 * roles have ended. */
void sw_job_hosts_close(struct sw_job *job, int rc, const struct sw_err *err);
/* Before the table is freed. */
void sw_job_hosts_free(struct sw_job *job);
