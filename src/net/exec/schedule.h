/* The schedule of a training step: everything a net does in one, in order. Without a budget that is
 * the forward passes upwards and the backward passes downwards. A feature that is read in backward
 * may also be away in between (enum sw_life): repeated, its values are thrown away and its layer's
 * forward runs again when they are first wanted; swapped, they are copied to host memory and come
 * back. Each is brought back once, and stays until it is read for the last time.
 *
 * A feature here is all the outputs that lie in one memory: that of its root, and of those that are
 * in place behind it.
 *
 * A schedule is a function of graph, shapes, aliases and lives, made at setup; who runs it decides
 * nothing (sw_net_forward, sw_net_backward). Frozen once memory is planned; before, one owner. */
#ifndef SW_NET_EXEC_SCHEDULE_H
#define SW_NET_EXEC_SCHEDULE_H

#include "net/exec/alias.h"

/* What becomes of a feature between its last use in forward and its first one in backward. */
enum sw_life {
    SW_LIFE_KEPT,
    SW_LIFE_REPEATED,     /* thrown away; its layer's forward runs again */
    SW_LIFE_SWAPPED,      /* copied to the host and, in time, back */
    SW_LIFE_SWAPPED_LATE, /* copied back when it is wanted: takes no memory before, but time */
};

enum sw_act_kind {
    SW_ACT_FORWARD,
    SW_ACT_BACKWARD,
    SW_ACT_REPEAT,   /* forward once more, of a feature's layers */
    SW_ACT_OUT,      /* starts the copy to the host */
    SW_ACT_WAIT_OUT, /* from here on the memory that was copied may be written */
    SW_ACT_IN,       /* starts the copy back, to memory that is free */
    SW_ACT_WAIT_IN,  /* from here on the values are there */
};

struct sw_act {
    enum sw_act_kind kind;
    int node; /* of a feature: its root */
};

struct sw_net_schedule {
    const struct sw_net_aliases *aliases; /* borrowed */
    enum sw_life *life;                   /* owned [n]: what it is made of; of a root, and the same
                                             of all in its memory */
    struct sw_act *acts;                  /* owned */
    int count;
    int *pass; /* owned [2 n + 1]: the first act of pass p, which is forward of layer p, or backward
                  of layer 2 n - 1 - p; none where the layer has no backward */
    /* Owned [n]: which act; -1: none. */
    int *forward_at, *backward_at;
    int *back_at;    /* of a root: REPEAT or IN */
    int *away_until; /* of a root that is swapped: the last act that should find its first memory
                        untouched, so that nobody waits for the copy out */
    /* Owned, for work. */
    double *begin_s, *done_out_s, *done_in_s;
    int *needed, *in_before;
    struct sw_act *more;
};

/* All lives are SW_LIFE_KEPT. Errors: SW_ERR_NOMEM. */
int sw_net_schedule_init(struct sw_net_schedule *s, const struct sw_net_aliases *aliases,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_net_schedule_fini(struct sw_net_schedule *s); /* a zeroed one is accepted */

/* Makes it anew from the lives, without WAIT_OUT: where these are is known once
 * memory is. Copies back begin so early that, by the rates, nobody waits for them. */
void sw_net_schedule_make(struct sw_net_schedule *s, const struct sw_net_rates *rates);
/* How long a step takes by the rates; of the copies under way at one time in one direction each
 * waits for the one before. */
double sw_net_schedule_seconds(struct sw_net_schedule *s, const struct sw_net_rates *rates);
/* Puts WAIT_OUT of `root` before act before[root]; -1: none. Then away_until is no longer known:
 * the waits say it. */
void sw_net_schedule_add_waits(struct sw_net_schedule *s, const int *before);

/* May the feature's layers run forward twice? May it be copied to the host, by these rates? */
bool sw_net_can_repeat(const struct sw_net_aliases *a, int root);
bool sw_net_can_swap(const struct sw_net_aliases *a, int root, const struct sw_net_rates *rates);
/* Of a root: does a backward pass itself read it? */
bool sw_net_read_in_backward(const struct sw_net_aliases *a, int root);
/* What it takes to repeat a feature: operations, and bytes read and written. */
double sw_net_repeat_flops(const struct sw_net_aliases *a, int root);
double sw_net_repeat_bytes(const struct sw_net_aliases *a, int root);

#endif
