/* The execution order of a training step: everything a net does in one, in order. Without a budget
 * that is the forward passes upwards and the backward passes downwards. A feature that is read in
 * backward may also be away in between (enum sw_residency): recomputed, its values are thrown away
 * and its layer's forward runs again when they are first wanted; offloaded, they are copied to host
 * memory and come back. Each is brought back once, to a place of its own, and stays until it is
 * read for the last time. Where an activation lives changes no bit of a result.
 *
 * A feature here is all the outputs that lie in one memory: that of its root, and of those that are
 * in place behind it.
 *
 * An execution order is a function of graph, shapes, aliases and residency, made at setup; who runs
 * it decides nothing (sw_net_forward, sw_net_backward). Frozen once memory is planned; before, one
 * owner. */
#pragma once

#include "net/exec/alias.h"

/* What becomes of a feature between its last use in forward and its first one in backward. */
enum sw_residency {
    SW_RESIDENT,
    SW_RECOMPUTED,     /* thrown away; its layer's forward runs again */
    SW_OFFLOADED,      /* copied to the host and, in time, back */
    SW_OFFLOADED_LATE, /* copied back when it is wanted: takes no memory before, but time */
};

enum sw_exec_op_kind {
    SW_EXEC_FORWARD,
    SW_EXEC_BACKWARD,
    SW_EXEC_RECOMPUTE,    /* forward once more, of a feature's layers */
    SW_EXEC_OFFLOAD,      /* starts the copy to the host */
    SW_EXEC_WAIT_OFFLOAD, /* from here on the memory that was copied may be written */
    SW_EXEC_RELOAD,       /* starts the copy back, to memory that is free */
    SW_EXEC_WAIT_RELOAD,  /* from here on the values are there */
};

struct sw_exec_op {
    enum sw_exec_op_kind kind;
    int node; /* of a feature: its root */
};

struct sw_exec_order {
    const struct sw_net_aliases *aliases; /* borrowed */
    enum sw_residency *residency;         /* owned [n]: what it is made of; the same of all
                                             that lie in the memory of one root */
    struct sw_exec_op *ops;               /* owned */
    int count;
    int *pass; /* owned [2 n + 1]: the first op of pass p, which is forward of layer p, or backward
                  of layer 2 n - 1 - p; none where the layer has no backward */
    /* Owned [n]: which op; -1: none. */
    int *forward_at, *backward_at;
    int *back_at;    /* of a root: RECOMPUTE or RELOAD */
    int *away_until; /* of a root that is offloaded: the last op that should find its first memory
                        untouched, so that nobody waits for the copy out */
    /* Owned, for work. */
    double *begin_s, *done_out_s, *done_in_s;
    int *needed, *in_before;
    struct sw_exec_op *more;
};

/* Everything is SW_RESIDENT. Errors: SW_ERR_NOMEM. */
int sw_exec_order_init(struct sw_exec_order *s, const struct sw_net_aliases *aliases,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_exec_order_fini(struct sw_exec_order *s); /* a zeroed one is accepted */

/* Makes it again for its residency, without WAIT_OFFLOAD: where these are is known once
 * memory is. Copies back begin so early that, by the rates, nobody waits for them. */
void sw_exec_order_make(struct sw_exec_order *s, const struct sw_net_rates *rates);
/* How long a step takes by the rates; of the copies under way at one time in one direction each
 * waits for the one before. */
double sw_exec_order_seconds(struct sw_exec_order *s, const struct sw_net_rates *rates);
/* Puts WAIT_OFFLOAD of `root` before op before[root]; -1: none. Then away_until is no longer known:
 * the waits say it. */
void sw_exec_order_add_waits(struct sw_exec_order *s, const int *before);

/* May the feature's layers run forward twice? May it be copied to the host, by these rates? */
bool sw_net_can_recompute(const struct sw_net_aliases *a, int root);
bool sw_net_can_offload(const struct sw_net_aliases *a, int root, const struct sw_net_rates *rates);
/* Of a root: does a backward pass itself read it? */
bool sw_net_read_in_backward(const struct sw_net_aliases *a, int root);
/* What it takes to recompute a feature: operations, and bytes read and written. */
double sw_net_recompute_flops(const struct sw_net_aliases *a, int root);
double sw_net_recompute_bytes(const struct sw_net_aliases *a, int root);
