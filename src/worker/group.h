/* A group of workers: they share the rows of a batch, come to one decision after each step, and sum
 * their losses and metrics in the order of base/tree.h, so that the sum does not depend on the
 * order of arrival. The leaves of that tree are the workers, or more: each worker then has several,
 * distributed by sw_part. Only sw_group_barrier, sw_group_wait, sw_group_sum, sw_group_keep_pace
 * and sw_group_sleep block, and with outer sums sw_group_total.
 *
 * Workers of a synchronous group are within a few steps of each other (a step needs everybody's
 * gradients of the one before, and up to two are in flight: flight.h). Asynchronous worker groups
 * together form one group of this kind, too, in which sw_group_keep_pace keeps all workers within
 * SW_GROUP_MOST_LAG steps of each other, the length of the rings. During warm-up some of them sleep
 * while the others make steps alone and wake them for the first barrier. */
#pragma once

#include "device/device.h"
#include "plan/topology.h"
#include "thread/thread.h"

struct sw_layer_sums;
struct sw_transfer;

enum { SW_GROUP_MOST_LAG = 100, SW_GROUP_RING = SW_GROUP_MOST_LAG + 4 };

/* The decision about what happens after a step. */
struct sw_group_decision {
    bool evaluate, checkpoint, stop, pause, last;
    bool join;     /* the warm-up is over: sleeping workers begin */
    bool rollback; /* back to the newest checkpoint */
};

struct sw_group_slot {
    int done;               /* atomic: workers that have deposited */
    struct sw_result *sums; /* [leaves][pair_room], each row written by its worker */
    struct sw_mutex lock;   /* guards decision and decided */
    struct sw_group_decision decision;
    int64_t decided; /* the step it is for */
};

/* Sums that go on beyond a group: the other hosts of a job have groups of the same kind. All make
 * the same sums of a channel in the same order; of asynchronous hosts only those of evaluations go
 * on. */
enum sw_group_channel { SW_GROUP_PASSES, SW_GROUP_RESULTS, SW_GROUP_EVALUATIONS };
struct sw_group_outer {
    /* values [count] become the sums over all hosts; NULL: there is only this one. */
    int (*sum)(void *user, enum sw_group_channel channel, double *values, int count,
               struct sw_err *err);
    /* Wakes the sleeping workers of the other hosts (sw_group_wake); NULL: there are none. */
    void (*wake)(void *user, int64_t step);
    void *user;
};

struct sw_group {
    int workers, leaves;
    struct sw_group_outer outer; /* of sw_group_sum and sw_group_total */
    int warmup_workers;          /* number of workers that make all steps */
    int64_t warmup_steps;        /* the other workers sleep during this many first steps */
    /* Called while a worker waits for the others, without the lock: runs the servers that it hosts,
     * which the others may depend on. NULL: nothing to run. SW_OK: keep waiting. */
    int (*serve)(void *user, int worker);
    void *serve_user;
    int64_t *steps;       /* owned [workers], atomic: steps of asynchronous workers; or NULL */
    int pacing;           /* atomic: workers that wait for slower ones */
    struct sw_mutex lock; /* guards the five fields below */
    struct sw_cond changed;
    int arrived;
    int64_t woken_step; /* the last step after which sleeping workers were woken */
    unsigned generation;
    bool closed;
    struct sw_group_slot ring[SW_GROUP_RING + 1]; /* the last one is for evaluations */
    struct sw_result *memory;                     /* owned: all sums */
    int pair_room;
    double *layer_sums; /* owned [2][leaves][sum_room]: see sw_group_sum */
    int *turns;         /* owned [workers]: buffer that each worker uses next */
    int sum_room;
    bool ready;
};

/* The groups of a job, for barriers and sums. */
struct sw_job_groups {
    struct sw_group all;     /* all workers */
    struct sw_group leaders; /* the first workers of the update groups: for norms of gradients */
    struct sw_group *each;   /* owned [worker groups] */
    struct sw_group *peers;  /* owned [group size], where groups split layers: the workers of the
                                same rank in all groups */
    struct sw_transfer **transfers[SW_SPLITS]; /* owned [worker groups], each owned; NULL: no
                                                  activations move between the workers of a group */
    struct sw_layer_sums **layer_sums; /* owned [worker groups], each owned; NULL: sums of layers go
                                          through the host */
};

/* leaves: at least as many as workers. */
void sw_group_init(struct sw_group *g, int workers, int leaves);
void sw_group_fini(struct sw_group *g); /* a zeroed one is accepted */
void sw_group_close_v(void *group);     /* ends every wait; for sw_fault_attach */

/* Barrier: waits until all workers have called it. SW_OK, SW_ERR_CANCELLED, or the code of serve.
 */
int sw_group_barrier(struct sw_group *g, int worker) SW_MUST_CHECK;

/* Waits until over(what) is true; whoever makes it true calls sw_group_notify. over is called with
 * the group's lock held. Returns as sw_group_barrier. */
int sw_group_wait(struct sw_group *g, int worker, bool (*over)(const void *what),
                  const void *what) SW_MUST_CHECK;
void sw_group_notify(struct sw_group *g); /* any worker */

/* Makes the workers asynchronous from step `first` on, with a limited lag. Before they run. Errors:
 * SW_ERR_NOMEM. */
int sw_group_make_asynchronous(struct sw_group *g, int64_t first, struct sw_err *err) SW_MUST_CHECK;
/* Sets the warm-up: all but the first `warmup_workers` workers sleep during the first `steps`
 * steps, in which they neither advance nor deposit. Before sw_group_make_asynchronous. */
void sw_group_set_warmup(struct sw_group *g, int warmup_workers, int64_t steps);
/* Wakes the sleeping workers for what all do together after that step. Any worker. */
void sw_group_wake(struct sw_group *g, int64_t step);
/* Sleeps until woken for a step after *step, and sets *step to it. Does not serve. SW_OK,
 * SW_ERR_CANCELLED. */
int sw_group_sleep(struct sw_group *g, int64_t *step) SW_MUST_CHECK;
/* Records that the worker has done `step` steps. Returns whether no worker is more than `most` (at
 * most SW_GROUP_MOST_LAG) steps behind it. */
bool sw_group_keeps_pace(struct sw_group *g, int worker, int64_t step, int64_t most);
/* Waits until no worker is more than `most` steps behind. Returns as sw_group_barrier. */
int sw_group_keep_pace(struct sw_group *g, int worker, int64_t step, int64_t most) SW_MUST_CHECK;

enum { SW_GROUP_EVALUATION = -1 }; /* in place of a step: the sums of an evaluation pass */

/* Reserves room for up to `count` pairs of losses and metrics; never shrinks. Before the workers
 * run. Errors: SW_ERR_NOMEM. */
int sw_group_reserve_pairs(struct sw_group *g, int count, struct sw_err *err) SW_MUST_CHECK;
/* Deposits a worker's sums of step t, [its leaves][count]. True for the last worker, which then
 * reads the totals. */
bool sw_group_deposit(struct sw_group *g, int worker, int64_t t, const struct sw_result *sums,
                      int count);
/* Reads the totals; with outer sums waits for those of the same step. Errors: those of outer. */
int sw_group_total(struct sw_group *g, int64_t t, struct sw_result *totals, int count,
                   struct sw_err *err) SW_MUST_CHECK;

/* Reserves room for sums of up to `count` values. Before the workers run. Errors: SW_ERR_NOMEM. */
int sw_group_reserve_sums(struct sw_group *g, int count, struct sw_err *err) SW_MUST_CHECK;
/* Sums values [its leaves][count] over all leaves: every worker passes its own and gets the total,
 * [count], in the first row, with the same bits as all others. Returns as sw_group_barrier. */
int sw_group_sum(struct sw_group *g, int worker, double *values, int count) SW_MUST_CHECK;

/* The decision after step t: the first worker that asks calls `decide`, and all get the same
 * result. */
struct sw_group_decision sw_group_decide(struct sw_group *g, int64_t t,
                                         struct sw_group_decision (*decide)(void *user, int64_t t),
                                         void *user);
