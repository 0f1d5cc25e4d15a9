/* The execution order of a training step: everything a net does in one, in order. Without a budget
 * that is the forward passes upwards and the backward passes downwards. With a budget, an
 * activation that backward reads may leave device memory in between (enum sw_residency): a
 * recomputed one is discarded and its layer's forward runs again before the first use; an offloaded
 * one is copied to host memory and back. Each is restored once, to separate memory, and stays until
 * its last use. Where an activation lives changes no bit of a result.
 *
 * An activation here means all the outputs that share one memory: that of the root and those
 * computed in place on it.
 *
 * An execution order is a function of graph, shapes, aliases and residency, made at setup;
 * sw_net_forward and sw_net_backward only execute it. Frozen once memory is planned; until then it
 * has one owner. */
#pragma once

#include "net/exec/alias.h"

/* Where an activation is kept between its last use in forward and its first use in backward. */
enum sw_residency {
    SW_RESIDENT,
    SW_RECOMPUTED,     /* discarded; its layer's forward runs again */
    SW_OFFLOADED,      /* copied to the host, and back before it is needed */
    SW_OFFLOADED_LATE, /* copied back only when it is needed: takes less memory, but the device
                          waits */
};

enum sw_exec_op_kind {
    SW_EXEC_FORWARD,
    SW_EXEC_BACKWARD,
    SW_EXEC_RECOMPUTE,    /* runs forward of the activation's layers again */
    SW_EXEC_OFFLOAD,      /* starts the copy to the host */
    SW_EXEC_WAIT_OFFLOAD, /* afterwards the memory that was copied may be overwritten */
    SW_EXEC_RELOAD,       /* starts the copy back, to free memory */
    SW_EXEC_WAIT_RELOAD,  /* afterwards the values can be read */
};

struct sw_exec_op {
    enum sw_exec_op_kind kind;
    int node; /* of an activation: its root */
};

/* One node in the order: indices of ops; -1: none. */
struct sw_exec_node {
    int forward_at, backward_at;
    int back_at;         /* of a root: RECOMPUTE or RELOAD */
    int offloaded_until; /* of an offloaded root: the last op before which its first memory should
                       not be reused, so that nothing waits for the copy out */
    /* While the order is made. */
    double done_out_s, done_in_s;
    bool needed;
    int in_before;
};

struct sw_exec_order {
    const struct sw_net_aliases *aliases; /* borrowed */
    enum sw_residency *residency; /* owned [n]: the input of the order; the same for all nodes that
                                     share the memory of one root */
    struct sw_exec_op *ops;       /* owned */
    int count;
    int *pass; /* owned [2 n + 1]: the first op of pass p, which is forward of layer p, or backward
                  of layer 2 n - 1 - p; none where the layer has no backward */
    struct sw_exec_node *node; /* owned [n] */
    double *begin_s;           /* owned: of each op, while the order is made, as `more` */
    struct sw_exec_op *more;
};

/* All activations start as SW_RESIDENT. Errors: SW_ERR_NOMEM. */
int sw_exec_order_init(struct sw_exec_order *s, const struct sw_net_aliases *aliases,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_exec_order_fini(struct sw_exec_order *s); /* a zeroed one is accepted */

/* Rebuilds the order for s->residency, without WAIT_OFFLOAD ops: their positions follow from the
 * memory plan. Copies back start early enough that, by the given throughput, nothing waits for
 * them. */
void sw_exec_order_make(struct sw_exec_order *s, const struct sw_device_throughput *throughput);
/* Predicted duration of a step in seconds. Copies in one direction run one after another. */
double sw_exec_order_seconds(struct sw_exec_order *s,
                             const struct sw_device_throughput *throughput);
/* Puts WAIT_OFFLOAD of `root` before op before[root]; -1: none. Afterwards offloaded_until is not
 * valid; the waits replace it. */
void sw_exec_order_add_waits(struct sw_exec_order *s, const int *before);

/* Can forward of the activation's layers run twice? Can it be copied to the host, given this link
 * throughput? */
bool sw_net_can_recompute(const struct sw_net_aliases *a, int root);
bool sw_net_can_offload(const struct sw_net_aliases *a, int root,
                        const struct sw_device_throughput *throughput);
/* Does any backward pass read this root's activation? */
bool sw_net_read_in_backward(const struct sw_net_aliases *a, int root);
/* Cost of recomputing an activation: floating-point operations, and bytes read and written. */
double sw_net_recompute_flops(const struct sw_net_aliases *a, int root);
double sw_net_recompute_bytes(const struct sw_net_aliases *a, int root);
