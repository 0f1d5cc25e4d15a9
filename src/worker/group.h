/* What workers do together: share the rows of a batch, come to one decision after each step, and
 * add up their losses and metrics in the order of base/tree.h, so that the sum does not depend on
 * who comes first. The leaves of that tree are the workers, or more: each then has several, dealt
 * out by sw_part. Nobody waits here but in sw_group_meet, sw_group_wait, sw_group_sum,
 * sw_group_keep_pace and sw_group_rest.
 *
 * Workers of a synchronous group are within one step of each other (a step needs everybody's
 * gradients of the one before). Asynchronous worker groups are together one group of this kind,
 * too, in which sw_group_keep_pace holds all workers within SW_GROUP_APART steps, the length of the
 * rings. At first some of them may rest, asleep, while the others make steps alone and call them to
 * the first barrier. */
#pragma once

#include "device/device.h"
#include "plan/topology.h"
#include "thread/thread.h"

struct sw_transfer;

enum { SW_GROUP_APART = 100, SW_GROUP_RING = SW_GROUP_APART + 4 };

/* What happens after a step. */
struct sw_decision {
    bool evaluate, checkpoint, stop, pause, last;
    bool join;     /* those who rested come to work */
    bool rollback; /* to the newest checkpoint */
};

struct sw_group_slot {
    int done;               /* atomic: workers that have deposited */
    struct sw_result *sums; /* [leaves][pair_room], each row written by its worker */
    struct sw_mutex lock;   /* guards decision and decided */
    struct sw_decision decision;
    int64_t decided; /* the step it is for */
};

struct sw_group {
    int workers, leaves;
    int early;          /* the first so many make all steps, */
    int64_t rest_steps; /* the others none of the first so many: they rest */
    /* Called while a worker waits for the others, without the lock: runs the servers it hosts, on
     * which those others may depend. NULL: nothing to run. SW_OK to go on waiting. */
    int (*serve)(void *user, int worker);
    void *serve_user;
    int64_t *steps;       /* owned [workers], atomic: of those who keep pace; or NULL */
    int pacing;           /* atomic: workers that wait for slower ones */
    struct sw_mutex lock; /* guards the five below */
    struct sw_cond changed;
    int arrived;
    int64_t called; /* the last step after which those who rest were to come */
    unsigned generation;
    bool closed;
    struct sw_group_slot ring[SW_GROUP_RING + 1]; /* the last one is that of evaluations */
    struct sw_result *memory;                     /* owned: all sums */
    int pair_room;
    double *layer_sums; /* owned [2][leaves][sum_room]: see sw_group_sum */
    int *turns;         /* owned [workers]: each worker's own */
    int sum_room;
    bool ready;
};

/* Who waits for whom, and sums with whom. */
struct sw_job_groups {
    struct sw_group all;     /* all workers */
    struct sw_group leaders; /* the first workers of the update groups: norms of gradients */
    struct sw_group *each;   /* owned [worker groups] */
    struct sw_group *peers;  /* owned [group size], where groups split layers: who has the same rank
                                in its group */
    struct sw_transfer **features[SW_SPLITS]; /* owned [worker groups], each owned; NULL: nothing
                                                 moves between the workers of a group */
};

/* leaves: at least as many as workers. */
void sw_group_init(struct sw_group *g, int workers, int leaves);
void sw_group_fini(struct sw_group *g); /* a zeroed one is accepted */
void sw_group_close_v(void *group);     /* ends every wait; for sw_fault_attach */

/* Waits until all workers have come here. SW_OK, SW_ERR_CANCELLED, or what serve answers. */
int sw_group_meet(struct sw_group *g, int worker) SW_MUST_CHECK;

/* Waits until over(what), which whoever makes it true then tells. over is asked with the group's
 * lock held. Returns as sw_group_meet. */
int sw_group_wait(struct sw_group *g, int worker, bool (*over)(const void *what),
                  const void *what) SW_MUST_CHECK;
void sw_group_tell(struct sw_group *g); /* any worker */

/* Lets workers be at different steps: they keep pace from step `first` on. Before they run. Errors:
 * SW_ERR_NOMEM. */
int sw_group_let_apart(struct sw_group *g, int64_t first, struct sw_err *err) SW_MUST_CHECK;
/* Lets all but the first `early` workers rest in the first `steps` steps: they neither keep pace
 * nor deposit then. Before sw_group_let_apart. */
void sw_group_let_rest(struct sw_group *g, int early, int64_t steps);
/* Calls those who rest to what all do together after that step. Any worker. */
void sw_group_call(struct sw_group *g, int64_t step);
/* Sleeps until the call that follows step *step, which becomes the one of the call. Serves nobody.
 * SW_OK, SW_ERR_CANCELLED. */
int sw_group_rest(struct sw_group *g, int64_t *step) SW_MUST_CHECK;
/* Says that the worker has done `step` steps. Is nobody more than `most` (at most SW_GROUP_APART)
 * behind it? */
bool sw_group_keeps_pace(struct sw_group *g, int worker, int64_t step, int64_t most);
/* Waits until that is so. Answers as sw_group_meet. */
int sw_group_keep_pace(struct sw_group *g, int worker, int64_t step, int64_t most) SW_MUST_CHECK;

enum { SW_GROUP_EVALUATION = -1 }; /* in place of a step: the sums of an evaluation pass */

/* Room for up to `count` pairs of losses and metrics; more than before or as much. Before the
 * workers run. Errors: SW_ERR_NOMEM. */
int sw_group_reserve_pairs(struct sw_group *g, int count, struct sw_err *err) SW_MUST_CHECK;
/* Hands over a worker's sums of step t, [its leaves][count]. True for the last one, who then reads
 * the totals. */
bool sw_group_deposit(struct sw_group *g, int worker, int64_t t, const struct sw_result *sums,
                      int count);
void sw_group_total(struct sw_group *g, int64_t t, struct sw_result *totals, int count);

/* Room for sums of up to `count` values. Before the workers run. Errors: SW_ERR_NOMEM. */
int sw_group_reserve_sums(struct sw_group *g, int count, struct sw_err *err) SW_MUST_CHECK;
/* Adds values [its leaves][count] over all leaves: every worker calls it with its own and gets the
 * total, [count], in the first of them: the same bits as all others. Answers as sw_group_meet. */
int sw_group_sum(struct sw_group *g, int worker, double *values, int count) SW_MUST_CHECK;

/* The decision after step t: made by `decide` for the first worker that asks, the same for all. */
struct sw_decision sw_group_decide(struct sw_group *g, int64_t t,
                                   struct sw_decision (*decide)(void *user, int64_t t), void *user);
