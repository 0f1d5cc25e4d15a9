/* What the files of net/ share: graph.c (order, from the recipe), share.c (parameters of several
 * layers), chains.c (energy models), build.c (shapes, plans), schedule.c (the acts of a step),
 * memory.c (lives and offsets), fit.c (lives within a budget), branches.c (streams), pass.c
 * (passes), swap.c (copies of features), net.c (questions).
 */
#ifndef SW_NET_NET_PRIVATE_H
#define SW_NET_NET_PRIVATE_H

#include "base/str.h"
#include "net/exchange.h"
#include "net/net.h"
#include "net/partition.h"

enum { SW_NO_OFFSET = -1 };

/* A parameter of a layer that is another one's. */
struct sw_net_share {
    const char *param; /* the layer's own name for it */
    int root;          /* node, earlier than this one */
    const char *root_param;
};

/* What becomes of a feature between its last use in forward and its first one in backward. */
enum sw_life {
    SW_LIFE_KEPT,
    SW_LIFE_REPEATED,     /* thrown away; its layer's forward runs again */
    SW_LIFE_SWAPPED,      /* copied to the host and, in time, back */
    SW_LIFE_SWAPPED_LATE, /* copied back when it is wanted: takes no memory before, but time */
};

/* A layer and what the net knows of it. */
struct sw_net_node {
    struct sw_layer layer;
    const struct sw_section *section;
    char *owned_name;          /* of a connection; else NULL */
    struct sw_spread spread;   /* how the output is spread */
    struct sw_spread from, to; /* of a bridge: how its source is, and how it is wanted */
    int64_t columns;           /* of the whole output, of which this may be a part */
    int64_t known_columns;     /* the same, as far as it is known before setup; 0: it is not */
    bool joins;                /* its columns are not those of its sources one for one */
    bool rows_only;            /* what its columns come from cannot be split by them */
    bool set_up;            /* its setup has begun, so that there may be something to tear down */
    bool absent;            /* another worker does it: nothing to run, hold or update here */
    int src[SW_LAYER_SRCS]; /* node indices */
    int consumers;          /* layers that read the output */
    void *owned_conf;       /* of a step of a loss, whose weight is a part of it; else NULL */
    int result, first_pair; /* which of the net's it is a part of, or -1; its pairs among all */
    int step, steps;        /* of an unrolled layer, or of what takes a step out of a sequence:
                               which it is, and how many there are; step -1: neither */
    const char *of;         /* of the latter: whose steps */
    int64_t width;          /* what the first step reads of the step before: [rows, width];
                               what a `front` shows */
    bool carries;           /* of a `begin`: the batch before may have left it */
    bool joins_joins;       /* of a `join`: its sources are such, too */
    int first_giver;        /* consumer whose backward is the first to give a gradient, or -1 */
    bool leads_to_loss;
    bool chain;      /* one side of a Boltzmann machine that is trained (chains.c) */
    bool chain_link; /* of a connection between the two sides */
    bool needs_grad; /* the output's gradient is needed */
    bool has_backward;
    bool fuse_relu, fused;
    bool in_place;     /* output in the memory of src[0]'s output */
    int root;          /* whose memory that is in the end; itself, when not in place */
    int next_in_place; /* the next node in the same memory, or -1 */
    bool published;    /* of a root: other workers read it where it lies */
    /* A bridge_dst whose output lies in another's memory; a bridge_src whose source's gradient
     * does; and the last act that reads it. */
    bool handed, grad_handed;
    int last_use;
    int last_reader;               /* of a root: the last other layer that reads one of these
                                      outputs in forward, or -1 */
    enum sw_life life;             /* of a root, and all in its memory */
    bool grad_in_place;            /* src[0]'s gradient in the memory of the output's gradient */
    bool adds_grad[SW_LAYER_SRCS]; /* backward writes aside, then the net adds: not the first giver,
                                      and it cannot add itself */
    int first_param;
    bool frozen[SW_LAYER_PARAMS]; /* of its parameters */
    bool trains;                  /* one of them is not */
    enum sw_comm_way comm;        /* how their gradients come together; never AUTO */
    struct sw_net_share share[SW_LAYER_PARAMS];
    int share_count;
    bool is_shared;                   /* a parameter of it has several users */
    bool adds_param[SW_LAYER_PARAMS]; /* backward cannot add to its gradient: aside, then added */
    bool gradient_given[SW_LAYER_PARAMS]; /* there is a layer whose backward writes it */
    float *gradient[SW_LAYER_PARAMS];     /* of the parameters, as bound: where they are added */

    /* Offsets in the arena and, behind its end, in the scratch; or SW_NO_OFFSET. */
    int64_t data, grad, saved, forward_scratch, backward_scratch, aside[SW_LAYER_SRCS],
        param_aside[SW_LAYER_PARAMS], forward_sums, backward_sums;
    /* For lives that are not SW_LIFE_KEPT: the second place, and that in host memory. */
    int64_t data_again, saved_again, repeat_scratch, host_at;
};

struct sw_act;
struct sw_branches;
struct sw_net_schedule;
struct sw_swap;

struct sw_net {
    struct sw_recipe *recipe;          /* borrowed */
    struct sw_stream *stream;          /* borrowed */
    const struct sw_net_field *fields; /* borrowed while the net is made: of the data */
    int field_count;
    bool training;
    bool carry;
    enum sw_algorithm algorithm;
    int chain_turn;                       /* of the pass that runs */
    int64_t rows, batch_rows, group_rows; /* this worker's, the batch's and the group's */
    int workers, worker;
    int64_t steps;               /* of every unrolled layer; 0: as many as it says */
    bool alone;                  /* nobody asked for a group: locations say nothing */
    enum sw_partition partition; /* of layers that do not say */
    struct sw_net_comm comm;
    struct sw_buf comm_notes; /* what it is otherwise than asked for net-wide, a line each, */
    struct sw_buf
        comm_others; /* and layers of types that have no factors, while nodes are set up */
    const struct sw_strings *freeze; /* borrowed; or NULL */
    int connections;
    bool is_handed;               /* some output lies in another worker's memory */
    struct sw_exchange *exchange; /* borrowed; NULL without connections */
    struct sw_buf notes;          /* what the partitioner says, a line each */
    struct sw_net_node *nodes;    /* owned, topological order */
    int count;
    struct sw_net_param *params; /* owned, with names */
    int param_count;
    struct sw_net_state *states; /* owned, with names */
    int state_count;
    int sum_count;
    struct sw_net_result *results; /* owned: the nodes that are losses or metrics */
    int result_count;
    /* Owned host memory that goes to the device and comes from there. */
    struct sw_net_mail {
        struct sw_step step[2];     /* for layers that see the worker's rows, all of the group's */
        struct sw_result fetched[]; /* [pair_count]: copies of the results' pairs */
    } * mail;
    int pair_count, shown_pairs; /* those of later steps stand behind what is shown */
    int64_t pairs_at, step_at;   /* offsets of the pairs' array and of the step */
    bool scratch_apart;
    size_t arena_bytes, kept_bytes, scratch_bytes, swap_bytes;
    char *arena, *scratch;            /* borrowed */
    struct sw_net_schedule *schedule; /* owned */
    struct sw_swap *swap;             /* owned; NULL: nothing is swapped */
    struct sw_branches *branches;     /* owned; NULL: all passes are queued on `stream` */
};

/* Nodes from the recipe's [layer] sections in topological order. Errors as sw_net_new. */
int sw_net_read_graph(struct sw_net *net, const char *until, struct sw_err *err) SW_MUST_CHECK;

/* unroll.c: nodes of layers, with one for every step of those that are unrolled. */
struct sw_net_graph_layer {
    const struct sw_section *section;
    int src_count, src[SW_LAYER_SRCS]; /* among the layers */
    enum sw_connection how[SW_LAYER_SRCS];
    int64_t steps; /* 0: it is not unrolled */
};
/* How many sources step `step` has; of a layer that is not unrolled, step 0. */
int sw_net_step_sources(const struct sw_net_graph_layer *l, int64_t step);
/* layers: in topological order but for what reads the step before; until: as in sw_net_args. */
int sw_net_unroll(struct sw_net *net, const struct sw_net_graph_layer *layers, int count,
                  const char *until, struct sw_err *err) SW_MUST_CHECK;
/* connect.c: moves node i to nodes[place[i]], which the net takes over; then come pointers to
 * sources and numbers of readers. */
void sw_net_take_places(struct sw_net *net, const int *place, struct sw_net_node *nodes);
void sw_net_link(struct sw_net *net);
/* Is the node a later step of an unrolled layer? What is wrong with its keys the first one says. */
static inline bool sw_net_is_later_step(const struct sw_net_node *node)
{
    return node->step > 0;
}

/* Does the node run in the turns of a Gibbs chain? */
static inline bool sw_net_takes_turns(const struct sw_net_node *node)
{
    return node->chain || node->chain_link;
}

/* steps.c */
extern const struct sw_layer_type sw_net_step, sw_net_join, sw_net_begin, sw_net_end, sw_net_front;
bool sw_net_connects_steps(const struct sw_net_node *node);
int sw_net_steps_setup(const struct sw_net *net, struct sw_net_node *node,
                       struct sw_err *err) SW_MUST_CHECK;
/* Where an `end` leaves the last step. */
void sw_net_end_bind(struct sw_layer *l, float *next);

/* share.c: finds who shares whose parameters; errors as sw_net_new. */
int sw_net_find_shares(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* How the node shares its parameter, or NULL; the layout that it has then, or NULL. */
const struct sw_net_share *sw_net_share_of(const struct sw_net_node *node, const char *param);
const struct sw_desc *sw_net_shared_layout(const struct sw_net *net, const struct sw_net_node *node,
                                           const char *param);
/* After setup: do both sides have the parameter, in one shape? Errors: SW_ERR_INVALID. */
int sw_net_check_shares(const struct sw_net *net, const struct sw_net_node *node,
                        struct sw_err *err) SW_MUST_CHECK;
/* The entry of the parameter that the node's one is, or -1: its own. */
int sw_net_root_param(const struct sw_net *net, const struct sw_net_node *node, const char *param);
/* Says who writes a shared gradient and who adds to it. */
void sw_net_order_givers(struct sw_net *net);
/* freeze.c: before setup, might the layer have a parameter that is trained? */
bool sw_net_may_train(const struct sw_net *net, const struct sw_net_node *node);
bool sw_net_is_frozen_param(const struct sw_net *net, const struct sw_net_node *node,
                            const char *param);
/* comm.c: settles node->comm, once its sources are set up. Messages go to the recipe. */
void sw_net_find_comm(struct sw_net *net, struct sw_net_node *node);
void sw_net_end_comm(struct sw_net *net); /* all nodes are set up: the notes are complete */
/* After setup: which are frozen. */
void sw_net_settle_frozen(const struct sw_net *net, struct sw_net_node *node);
/* Does backward write a frozen parameter's gradient, which nobody wants? */
bool sw_net_writes_aside(const struct sw_net_node *node, int param);
/* The shape of a data field, or NULL: the source has no such field. While the net is made. */
const struct sw_desc *sw_net_find_field(const struct sw_net *net, const char *field);
/* Is the output whole on another worker? */
bool sw_net_is_elsewhere(const struct sw_net *net, const struct sw_net_node *node);
/* chains.c: finds the machines that are trained. Errors as sw_net_new. */
int sw_net_find_chains(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* Decides how outputs are spread and inserts connections. Errors as sw_net_new. */
int sw_net_spread(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* How a layer wants a source spread. */
struct sw_spread sw_net_source_spread(const struct sw_net *net, const struct sw_net_node *node,
                                      int source);
/* connect.c: connections, and the order in which nodes run. Errors: SW_ERR_NOMEM. */
int sw_net_connect(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;

/* bridge.c */
extern const struct sw_layer_type sw_net_bridge_src, sw_net_bridge_dst;
bool sw_net_is_bridge(const struct sw_net_node *node);
struct sw_net_connection {
    int index; /* among the net's */
    struct sw_spread from, to;
    int64_t rows, columns;
    size_t column_bytes;
};
struct sw_net_connection sw_net_connection(const struct sw_layer *l);
int sw_net_bridge_setup(struct sw_net *net, struct sw_net_node *node,
                        const struct sw_layer_setup *s, struct sw_err *err) SW_MUST_CHECK;
/* Of a bridge, on the host: waits until others have done with all that it has handed out, so that
 * the memory may be written again. */
int sw_net_wait_free(const struct sw_net_node *node, struct sw_err *err) SW_MUST_CHECK;
/* May what the end of a connection takes be read where it lies? */
bool sw_net_can_look_there(const struct sw_net_node *node);
/* This worker has done with what the end of a connection was handed. */
void sw_net_let_go(struct sw_net_node *node);
/* The memory of node i's output and of its views, for this pass. */
void sw_net_use_memory(struct sw_net *net, int i, void *data);

/* exchange.c */
/* What one worker sends to another through a connection in the passes of one direction. */
struct sw_piece {
    int connection, from, to;
    bool backward;
};
/* Between devices: staging memory of the piece, for every other pass. */
char *sw_exchange_stage(const struct sw_exchange *e, const struct sw_piece *p, int turn);
/* The stream on which a worker packs its pieces, beside the one that computes; and what is
 * recorded: its part is made, it has packed all pieces, it has taken all. */
struct sw_stream *sw_exchange_sender(const struct sw_exchange *e, int worker);
enum sw_exchange_moment { SW_EXCHANGE_MADE, SW_EXCHANGE_SENT, SW_EXCHANGE_TAKEN };
struct sw_event *sw_exchange_event(const struct sw_exchange *e, int connection, int worker,
                                   bool backward, int turn, enum sw_exchange_moment moment);
/* Where a worker's part lies, from which others take their pieces on the host. */
void sw_exchange_publish(const struct sw_exchange *e, int connection, int worker, bool backward,
                         void *part);
char *sw_exchange_part(const struct sw_exchange *e, int connection, int worker, bool backward);
/* Wait until the piece has been sent, or taken, so many times. SW_OK, SW_ERR_CANCELLED. */
int sw_exchange_wait_sent(const struct sw_exchange *e, const struct sw_piece *p,
                          uint64_t times) SW_MUST_CHECK;
int sw_exchange_wait_taken(const struct sw_exchange *e, const struct sw_piece *p,
                           uint64_t times) SW_MUST_CHECK;
bool sw_exchange_is_sent(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times);
bool sw_exchange_is_taken(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times);
/* The piece has been sent once more, or taken. Whoever waits hears of it by sw_exchange_tell. Any
 * thread. */
void sw_exchange_mark(const struct sw_exchange *e, const struct sw_piece *p, bool taken);
void sw_exchange_tell(const struct sw_exchange *e);
void sw_exchange_add_ns(const struct sw_exchange *e, int from, int to, int64_t ns);

/* Is node i's gradient in the memory of that of its first giver's output? */
bool sw_net_shares_grad(const struct sw_net *net, int i);
/* memory.c: finds what is in place, then gives every life an offset. Errors: SW_ERR_NOMEM. */
int sw_net_plan_memory(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* The same again, for other lives of features; not after sw_net_bind. Errors: SW_ERR_NOMEM. */
int sw_net_place_memory(struct sw_net *net, const struct sw_net_rates *rates,
                        struct sw_err *err) SW_MUST_CHECK;

/* What lies at an offset of the arena and, behind its end, of the scratch. */
static inline void *sw_net_at(const struct sw_net *net, int64_t offset)
{
    if (offset == SW_NO_OFFSET)
        return NULL;
    int64_t beyond = offset - (int64_t)net->arena_bytes;
    return beyond < 0 ? net->arena + offset : net->scratch + beyond;
}

/* swap.c: streams and events for what is swapped. Errors: those of the device. */
int sw_swap_new(struct sw_net *net, struct sw_swap **out, struct sw_err *err) SW_MUST_CHECK;
void sw_swap_free(struct sw_swap *s); /* NULL is accepted */
void sw_swap_bind(struct sw_swap *s, void *memory);
/* An act of kind OUT, WAIT_OUT, IN or WAIT_IN. */
int sw_swap_run(struct sw_net *net, const struct sw_act *act, struct sw_err *err) SW_MUST_CHECK;

#endif
