/* A net: the layers of a recipe in topological order for one worker and one use (training or
 * evaluation), with shapes, plans and a memory plan. Two nets of one recipe share their parameters
 * and, since no activation survives a step, the same arena. What survives is in parameters, updater
 * state, buffers (running statistics) and recurrent state, all of which the owner of the net binds.
 *
 * Life: sw_net_new (graph, shapes, plans; no large memory), the parameters are put into a table,
 * then sw_net_bind sets all pointers, then passes. One owner: the worker whose stream it was made
 * with. A worker runs one or several of them as parts (parts.h).
 *
 * Layouts: the forward plans of a training net choose the storage of each parameter, once for the
 * whole job. Other nets take it over (struct sw_net_args, sharing): a plan that wants something
 * else reorders inside, in every pass. Gradients and updater state have the parameter's layout;
 * files are in plain logical order, convolution weights [M, C / groups, Kh, Kw], inner product
 * weights [M, features]. */
#pragma once

#include "layers/layer.h"
#include "recipe/job.h"
#include "recipe/recipe.h"

/* One field of the data source as an input layer sees it. */
struct sw_net_field {
    const char *name;
    struct sw_desc desc; /* with the rows of this net */
};

struct sw_net;

/* A layer whose gradients have factors, and what computes beside: of this net's own rows. */
struct sw_net_comm_layer {
    const char *name;
    int64_t steps, inputs, outputs; /* factors that a row of the batch has, and their sizes */
    double forward_flops_below, backward_flops_below;
    int64_t whole_below; /* parameters of layers that give whole gradients */
};
/* How gradients of fully-connected layers come together (base/comm_way.h). */
struct sw_net_comm {
    enum sw_comm_way way;              /* of layers that do not say */
    int workers;                       /* that make updates together; below 2 nothing comes */
    const char *refuses[SW_COMM_WAYS]; /* why no layer can have that way; NULL: it can */
    /* Which of the others AUTO means: the same answer for all workers. Called while the net is
     * made. */
    enum sw_comm_way (*choose)(void *user, const struct sw_net_comm_layer *l);
    void *user;
};

struct sw_net_args {
    struct sw_recipe *recipe; /* borrowed; errors are added to it */
    struct sw_stream *stream; /* borrowed */
    uint64_t seed;
    enum sw_algorithm algorithm;
    bool training;
    int64_t rows;                      /* of this worker */
    int64_t batch_rows;                /* of the whole batch; 0: rows */
    int64_t group_rows;                /* of all workers of the group; 0: batch_rows */
    int workers, worker;               /* size of the group and place in it; 0 workers: one */
    enum sw_partition partition;       /* of layers that do not say */
    struct sw_net_comm comm;           /* training nets only */
    const struct sw_strings *freeze;   /* patterns of parameters that are not trained, borrowed for
                                          the net's life; NULL: none */
    const struct sw_net_field *fields; /* borrowed during the call */
    int field_count;
    const char *source;    /* the data section's name, for messages */
    bool carry;            /* recurrent layers go on from pass to pass in any event */
    int64_t steps;         /* of every unrolled layer, whatever it says; 0: as it says */
    const char *until;     /* ends with this layer: only those that lead to it; NULL: all */
    bool separate_scratch; /* what lasts for one call only lies in memory of its own, which
                              nets that do not run at the same time may share */
    int streams, threads; /* independent layers may be queued on so many streams with that many math
                             threads each (net/graph/branches.h), unless the net gets a budget; 0,
                             1: on `stream` */
    const struct sw_net *sharing; /* a net whose parameter layouts are taken over, or NULL: for
                                     evaluation the worker's own training net, for training that of
                                     worker 0 */
};

/* Builds the net. SW_ERR_INVALID: the recipe's graph or shapes are wrong, and its diags say how.
 * Other errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED, SW_ERR_LIBRARY. */
int sw_net_new(const struct sw_net_args *args, struct sw_net **out,
               struct sw_err *err) SW_MUST_CHECK;
void sw_net_free(struct sw_net *net); /* NULL is accepted */

/* Checks what needs no shapes: sources that exist, numbers of sources, cycles, a loss. Adds
 * messages to the recipe; layers whose own section is wrong are left alone. Errors: SW_ERR_INVALID,
 * SW_ERR_NOMEM. */
int sw_net_check(struct sw_recipe *recipe, enum sw_algorithm algorithm,
                 struct sw_err *err) SW_MUST_CHECK;

/* The data fields that a net which ends with `until` (NULL: the whole) reads: at most `most` names,
 * each once, borrowed from the recipe; *count how many. Errors: SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_net_fields(struct sw_recipe *recipe, bool training, const char *until, const char **names,
                  int most, int *count, struct sw_err *err) SW_MUST_CHECK;

/* Layers in topological order, ties in file order. */
int sw_net_layer_count(const struct sw_net *net);
const struct sw_layer *sw_net_layer(const struct sw_net *net, int i);
struct sw_layer *sw_net_output_layer(struct sw_net *net, int i); /* of role OUTPUT: to write with */
const struct sw_section *sw_net_section(const struct sw_net *net, int i);
int sw_net_find(const struct sw_net *net, const char *layer); /* -1 when absent */
/* Which step of an unrolled layer it is, or of a sequence it takes, and of how many; -1: neither.
 */
int sw_net_step_at(const struct sw_net *net, int i, int *steps);
int64_t sw_net_rows(const struct sw_net *net);
/* Does backward visit the layer? Always false in an evaluation net. */
bool sw_net_has_backward(const struct sw_net *net, int i);
/* Was this relu taken over by its source? */
bool sw_net_is_fused(const struct sw_net *net, int i);
/* Does the layer's output lie in its source's memory? */
bool sw_net_is_in_place(const struct sw_net *net, int i);

/* How the output is spread over the group ("rows", "columns", "full", "one"), and whether another
 * worker computes it. */
const char *sw_net_spread_name(const struct sw_net *net, int i);
/* Its k-th source in this net, where that may be a connection; -1 behind the last. */
int sw_net_source(const struct sw_net *net, int i, int k);
/* Has this worker memory for the layer's output, or a part of it? */
bool sw_net_holds(const struct sw_net *net, int i);
bool sw_net_is_absent(const struct sw_net *net, int i);
/* Does it lie in another worker's memory, or in that of what it is a part of? */
bool sw_net_is_handed(const struct sw_net *net, int i);
/* What the partitioner had to decide otherwise than the net-wide setting says, a line each; "". */
const char *sw_net_notes(const struct sw_net *net);

/* How the gradients of layer i come together: never AUTO. What was asked for: by its key, or
 * net-wide; and what could not be had net-wide, a line each; "". */
enum sw_comm_way sw_net_comm_way(const struct sw_net *net, int i);
enum sw_comm_way sw_net_comm_asked(const struct sw_net *net, int i);
const char *sw_net_comm_notes(const struct sw_net *net);

/* The memory plan: bytes of the arena, in which offsets follow from the lives of features,
 * gradients, saved values and scratch. */
size_t sw_net_arena_bytes(const struct sw_net *net);
size_t
sw_net_scratch_bytes(const struct sw_net *net); /* beside it, with separate_scratch; else 0 */

/* ---- A budget ---- */

/* How fast a device is, roughly. Choices between memory and time are weighed with it; results never
 * depend on it. */
struct sw_net_rates {
    double flops_per_s, bytes_per_s; /* of computing, and of its memory */
    double link_bytes_per_s;         /* to host memory and back; 0: nothing is swapped */
};

struct sw_net_fit {
    bool fits;
    /* Where it did not at once: the least bytes of arena that would do; and the layer in whose pass
     * ("forward", "backward") all of it is needed. */
    size_t least_bytes;
    const char *layer, *pass;
};

/* Makes the arena of a training net no larger than the budget: features that are not needed for a
 * while are computed again, or copied to the host and back, whatever costs less time. Results keep
 * their bits. fit->fits is false where that cannot be done; the net then has its smallest arena.
 * After sw_net_new, once. Errors: SW_ERR_NOMEM, those of the device. */
int sw_net_fit(struct sw_net *net, size_t budget_bytes, const struct sw_net_rates *rates,
               struct sw_net_fit *fit, struct sw_err *err) SW_MUST_CHECK;

/* What a step pays for it. */
struct sw_net_cost {
    size_t kept_bytes; /* the arena with every feature kept */
    int repeated, swapped;
    double repeat_flops, repeat_bytes; /* computed again; read and written for that */
    size_t swap_bytes;                 /* copied out, and copied in; of host memory, too */
};
struct sw_net_cost sw_net_cost(const struct sw_net *net);
/* What becomes of the layer's output until backward: "repeated", "swapped", or "" when it stays. */
const char *sw_net_life_name(const struct sw_net *net, int i);
/* Host memory for what is swapped, sw_net_cost(net).swap_bytes of it; borrowed. Before the first
 * pass. */
void sw_net_bind_swap(struct sw_net *net, void *memory);

/* Parameters, numbered through over the layers. */
int sw_net_param_count(const struct sw_net *net);
struct sw_net_param {
    int layer, index; /* layer->param[index] */
    int owner;        /* the worker that alone has it or this part of it; -1: all have the whole */
    const char *name; /* "conv1.weight"; owned by the net */
    bool frozen;      /* no gradient, no update */
    int root; /* -1; else the earlier entry whose values, gradient and name it has: its layer
                 shares that parameter. Backward of the root's layer is the last to give and
                 to read */
};
/* Does a pattern of `freeze` name the parameter? */
bool sw_net_pattern_fits(const char *pattern, const char *layer, const char *param);
const struct sw_net_param *sw_net_param(const struct sw_net *net, int p);
/* The first parameter of layer i, and how many there are. */
int sw_net_layer_params(const struct sw_net *net, int i, int *first);

/* Sets pointers: features, gradients, saved values and scratch inside arena (at least
 * sw_net_arena_bytes, 64-byte aligned; borrowed) and scratch (as aligned; NULL where there is
 * none).
 */
void sw_net_bind(struct sw_net *net, void *arena, void *scratch);
/* The value (and in training the gradient array, NULL when frozen) of a parameter, after
 * sw_net_bind. */
void sw_net_bind_param(struct sw_net *net, int p, const float *value, float *gradient);
/* Where backward of a layer whose way is not PS writes its factors (layer->factors says how many),
 * device memory; its parameters are bound without gradients. */
void sw_net_bind_factors(struct sw_net *net, int i, float *x, float *dy);
/* A data field for the coming pass, host memory that stays until the pass is over: used in place,
 * or copied to the device. */
int sw_net_set_field(struct sw_net *net, const char *field, void *data,
                     struct sw_err *err) SW_MUST_CHECK;
/* The scalars of the coming pass; the previous one is over. */
int sw_net_set_step(struct sw_net *net, const struct sw_step *step,
                    struct sw_err *err) SW_MUST_CHECK;

/* State without gradient (running statistics), numbered through over the layers. */
int sw_net_state_count(const struct sw_net *net);
struct sw_net_state {
    int layer, index; /* layer->keeps[index] */
    const char *name; /* "bn1.mean"; owned by the net */
};
const struct sw_net_state *sw_net_state(const struct sw_net *net, int s);
/* Where it lies; update is the same memory in the one net that keeps it up, else NULL. */
void sw_net_bind_state(struct sw_net *net, int s, const float *value, float *update);

/* Does every worker of the group have its own rows of the layer's output? Else who have anything of
 * it have all rows of the group. */
bool sw_net_is_in_rows(const struct sw_net *net, int i);
/* Has whoever has anything of the output all rows of the batch, so that what the layer sums up over
 * rows is complete? */
bool sw_net_has_whole_batch(const struct sw_net *net, int i);

/* What the net has of the host's memory for its device: steps on their way there, and results on
 * their way back. */
size_t sw_net_mail_bytes(const struct sw_net *net);

/* Row state of the layers: its bytes, and where it lies, zeroed; without, nothing is handed on from
 * batch to batch. */
size_t sw_net_carry_bytes(const struct sw_net *net);
void sw_net_bind_carries(struct sw_net *net, void *memory);

/* The largest number of sums that a layer has between two phases; 0: there are none. */
int sw_net_sum_count(const struct sw_net *net);

/* On how many streams passes are queued. What is queued on the net's own stream is ordered with
 * them. Before any memory that passes use is freed, sw_net_settle waits for all of them. */
int sw_net_stream_count(const struct sw_net *net);
void sw_net_settle(struct sw_net *net);

/* One layer's part of a pass, all its phases; what they sum up is the net's own rows. Errors carry
 * "layer NAME: ". */
int sw_net_forward(struct sw_net *net, int i, struct sw_err *err) SW_MUST_CHECK;
int sw_net_backward(struct sw_net *net, int i, struct sw_err *err) SW_MUST_CHECK;
/* The Gibbs chain of algorithm = cd: the most turns that a machine of the net has (0: there is no
 * chain), and which turn the passes belong to that follow (0: none). */
int sw_net_chain_steps(const struct sw_net *net);
void sw_net_set_chain(struct sw_net *net, int turn);
/* All turns, of a net that is run alone. */
int sw_net_run_chains(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* The same phase by phase: how many there are (1 at least), one of them, and the sums that lie
 * between it and the next, in device memory (NULL: none). */
int sw_net_phases(const struct sw_net *net, int i, bool backward);
/* Does it exchange features with other workers, for which the host waits? */
bool sw_net_moves(const struct sw_net *net, int i);
int sw_net_run_phase(struct sw_net *net, int i, bool backward, int phase,
                     struct sw_err *err) SW_MUST_CHECK;
double *sw_net_sums(const struct sw_net *net, int i, int *count);

/* Losses and metrics of the last forward pass: sw_net_fetch queues their way to the host, and once
 * the stream has come there (sw_stream_wait) they can be read. */
int sw_net_fetch(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
int sw_net_result_count(const struct sw_net *net);
struct sw_net_result {
    int layer;
    bool loss;
    int first, count; /* its pairs among all */
};
struct sw_net_result sw_net_result(const struct sw_net *net, int r);
/* The pairs of all results, one after the other; of an unrolled layer those of its first step.
 * sw_net_add_pairs adds all steps' to `to`. */
int sw_net_pair_count(const struct sw_net *net);
const struct sw_result *sw_net_pairs(const struct sw_net *net);
void sw_net_add_pairs(const struct sw_net *net, struct sw_result *to);
