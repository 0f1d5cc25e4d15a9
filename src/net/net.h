/* A net: the layers of a recipe in topological order for one worker and one use (training or
 * evaluation), with shapes, primitives and a memory plan. Two nets of one recipe share their
 * parameters and, since no activation survives a step, the same arena. What survives is in
 * parameters, updater state, buffers (running statistics) and recurrent state, all of which the
 * owner of the net binds.
 *
 * Life cycle: sw_net_new (graph, shapes, primitives; no large memory), the caller adds the
 * parameters to a table, sw_net_bind sets all pointers, then passes run. One owner: the worker
 * whose stream it was made with. A worker runs one or several nets, one per microbatch
 * (microbatches.h).
 *
 * Layouts: the forward primitives of a training net choose the storage of each parameter, once for
 * the whole job. Other nets adopt it (struct sw_net_args, sharing): a primitive that prefers
 * another layout reorders internally in every pass. Gradients and updater state have the
 * parameter's layout; files are in plain logical order, convolution weights [M, C / groups, Kh,
 * Kw], inner product weights [M, features]. */
#pragma once

#include "layers/layer.h"
#include "recipe/job.h"
#include "recipe/recipe.h"

/* One field of the data source as an input layer sees it. */
struct sw_net_field {
    const char *name;
    struct sw_desc desc;              /* with the rows of this net */
    const struct sw_scaling *scaling; /* of a standardized field, borrowed for the net's life */
    const struct sw_lexicon *tokens;  /* of a text: its tokens with their counts; borrowed so */
};

struct sw_net;

/* A layer whose gradients have factors, and the computing that can hide their exchange; for this
 * net's rows. */
struct sw_net_exchange_layer {
    const char *name;
    int64_t steps, inputs, outputs; /* factors per row of the batch, and their sizes */
    double forward_flops_below, backward_flops_below;
    int64_t rows;        /* of this net */
    int64_t whole_below; /* parameters of lower layers that exchange whole gradients */
};
/* How gradients of fully-connected layers are exchanged (base/exchange_mode.h). */
struct sw_net_exchange {
    enum sw_exchange_mode mode; /* of layers without the key */
    int workers;                /* size of the update group; below 2 nothing is exchanged */
    const char
        *refuses[SW_EXCHANGE_MODES]; /* why no layer can use the mode; NULL: it can be used */
    /* Resolves AUTO: must return the same mode for all workers. Called while the net is built. */
    enum sw_exchange_mode (*choose)(void *user, const struct sw_net_exchange_layer *l);
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
    int workers, worker;               /* size of the group and rank in it; 0 workers: one */
    enum sw_partition partition;       /* of layers without the key */
    struct sw_net_exchange comm;       /* training nets only */
    const struct sw_strings *freeze;   /* patterns of parameters that are not trained, borrowed for
                                          the net's life; NULL: none */
    const struct sw_net_field *fields; /* borrowed during the call */
    int field_count;
    const char *source;    /* name of the data section, for messages */
    bool keep_state;       /* recurrent layers keep their state from pass to pass, whatever their
                         `stateful`       key says */
    int64_t steps;         /* overrides the time steps of every unrolled layer; 0: use its key */
    const char *until;     /* builds only this layer and its ancestors; NULL: all layers */
    bool separate_scratch; /* memory that is used during one call only is separate from the arena;
                              nets that do not run at the same time may share it */
    int streams, threads;  /* independent layers may be queued on this many streams with that many
                              math threads each (net/graph/branches.h), unless the net gets a budget;
                              0, 1: all on `stream` */
    const struct sw_net
        *sharing; /* a net whose parameter layouts are adopted, or NULL: for evaluation the worker's
                     own training net, for training that of worker 0 */
};

/* Builds the net. SW_ERR_INVALID: the recipe's graph or shapes are wrong; its diagnostics say how.
 * Other errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED, SW_ERR_LIBRARY. */
int sw_net_new(const struct sw_net_args *args, struct sw_net **out,
               struct sw_err *err) SW_MUST_CHECK;
void sw_net_free(struct sw_net *net); /* NULL is accepted */

/* Checks everything that needs no shapes: missing sources, number of sources, cycles, a loss. Adds
 * messages to the recipe; layers with an invalid section are skipped. Errors: SW_ERR_INVALID,
 * SW_ERR_NOMEM. */
int sw_net_check(struct sw_recipe *recipe, enum sw_algorithm algorithm,
                 struct sw_err *err) SW_MUST_CHECK;

/* The data fields that the net up to layer `until` (NULL: the whole net) reads: at most `most`
 * distinct names, borrowed from the recipe; *count gets their number. Errors: SW_ERR_INVALID,
 * SW_ERR_NOMEM. */
int sw_net_fields(struct sw_recipe *recipe, bool training, const char *until, const char **names,
                  int most, int *count, struct sw_err *err) SW_MUST_CHECK;

/* Layers in topological order, ties in file order. */
int sw_net_layer_count(const struct sw_net *net);
const struct sw_layer *sw_net_layer(const struct sw_net *net, int i);
struct sw_layer *sw_net_output_layer(struct sw_net *net,
                                     int i); /* of role OUTPUT; the caller writes with it */
const struct sw_section *sw_net_section(const struct sw_net *net, int i);
int sw_net_find(const struct sw_net *net, const char *layer); /* -1 when absent */
/* Time step of an unrolled layer, or of the sequence step that the node takes; *steps gets their
 * number. -1: neither. */
int sw_net_step_at(const struct sw_net *net, int i, int *steps);
int64_t sw_net_rows(const struct sw_net *net);
/* Does backward visit the layer? Always false in an evaluation net. */
bool sw_net_has_backward(const struct sw_net *net, int i);
/* What the stages of the net found for a layer. */
struct sw_net_info {
    bool fused;       /* a relu that its source applies */
    bool in_place;    /* its output is in its source's memory */
    bool holds;       /* this worker has memory for the output or a shard of it */
    bool absent;      /* another worker runs it */
    bool handed;      /* the output is in another worker's memory, or in that of the output it
                         is a part of */
    bool moves;       /* it exchanges activations with other workers; the host waits */
    bool in_rows;     /* the output is split by rows over the group; otherwise every worker
                         with a shard of it has all rows of the group, */
    bool whole_batch; /* or even of the batch, so that sums over rows are complete */
    const char *distribution; /* of the output over the group: "rows", "columns", "full", "sums" or
                           "one" */
    const char *residency; /* of the output: "repeated" (recomputed), "swapped" (offloaded), or ""
                              (resident) */
};
struct sw_net_info sw_net_info(const struct sw_net *net, int i);

/* Node of the k-th source, which may be a connection; -1 after the last. */
int sw_net_source(const struct sw_net *net, int i, int k);
/* Layers for which the partitioner could not follow the net-wide setting, a line each, or "". */
const char *sw_net_notes(const struct sw_net *net);

/* Exchange mode of layer i's gradients, never AUTO; the mode requested by its key or net-wide; and
 * the layers that could not follow the net-wide setting, a line each, or "". */
enum sw_exchange_mode sw_net_exchange_mode(const struct sw_net *net, int i);
enum sw_exchange_mode sw_net_requested_exchange_mode(const struct sw_net *net, int i);
const char *sw_net_exchange_notes(const struct sw_net *net);

/* Size of the arena. Offsets in it follow from the lifetimes of activations, gradients, saved
 * values and scratch. */
size_t sw_net_arena_bytes(const struct sw_net *net);
size_t sw_net_scratch_bytes(
    const struct sw_net *net); /* separate from the arena, with separate_scratch; else 0 */

/* ---- A budget ---- */

/* Approximate throughput of a device, for choices between memory and time; results never depend on
 * it. */
struct sw_device_throughput {
    double flops_per_s, bytes_per_s; /* of computing and of its memory */
    double link_bytes_per_s;         /* to host memory and back; 0: nothing is offloaded */
};

/* Cost of copies that nothing waits for, as a fraction of their time. */
#define SW_NET_COPY_COST 0.05

struct sw_net_fit {
    bool fits;
    /* If it did not fit at once: the smallest possible arena, and the layer and pass ("forward",
     * "backward") at which memory use peaks. */
    size_t least_bytes;
    const char *layer, *pass;
};

/* Shrinks the arena of a training net to the budget: activations are recomputed, or offloaded to
 * the host, whichever costs less time. Results stay bit-identical. fit->fits is false if that is
 * not possible; the net then has its smallest arena. Call once, after sw_net_new. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_net_fit(struct sw_net *net, size_t budget_bytes,
               const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
               struct sw_err *err) SW_MUST_CHECK;

/* What a step costs with this budget. */
struct sw_net_cost {
    size_t kept_bytes; /* the arena if every activation stays resident */
    int recomputed, offloaded;
    double recompute_flops,
        recompute_bytes;  /* recomputing: operations, and bytes read and written */
    size_t offload_bytes; /* copied in each direction; also the host memory needed */
};
struct sw_net_cost sw_net_cost(const struct sw_net *net);
/* Sets the host memory for offloaded activations, sw_net_cost(net).offload_bytes bytes, borrowed.
 * Before the first pass. */
void sw_net_bind_offload(struct sw_net *net, void *memory);

/* Parameters, numbered across all layers. */
int sw_net_param_count(const struct sw_net *net);
struct sw_net_param {
    int layer, index; /* layer->param[index] */
    int owner; /* the only worker that has the parameter or this shard of it; -1: all workers have
                  it */
    const char *name; /* "conv1.weight"; owned by the net */
    bool frozen;      /* no gradient, no update */
    int root; /* -1, or for a tied parameter the earlier index whose values, gradient and name it
                 uses. Backward of the root's layer is the last that adds to the gradient and reads
                 the values */
};
/* Does a pattern of `freeze` match the parameter? */
bool sw_net_pattern_fits(const char *pattern, const char *layer, const char *param);
const struct sw_net_param *sw_net_param(const struct sw_net *net, int p);
/* Returns the number of parameters of layer i; *first gets the index of the first one. */
int sw_net_layer_params(const struct sw_net *net, int i, int *first);

/* Sets the pointers of activations, gradients, saved values and scratch inside arena (at least
 * sw_net_arena_bytes, 64-byte aligned, borrowed) and scratch (same alignment; NULL if
 * sw_net_scratch_bytes is 0). */
void sw_net_bind(struct sw_net *net, void *arena, void *scratch);
/* The value (and in training the gradient array, NULL when frozen) of a parameter, after
 * sw_net_bind. */
void sw_net_bind_param(struct sw_net *net, int p, const float *value, float *gradient);
/* After it, for a parameter whose gradient no other layer adds to: its layer writes only the rows
 * of that gradient that are not zero, and their list. NULL: it writes all rows. */
void sw_net_bind_row_list(struct sw_net *net, int p, struct sw_row_list *listed);
/* Can the parameter's layer do so, and is the gradient that layer's alone? */
bool sw_net_lists_rows(const struct sw_net *net, int p);
/* Sets the device memory to which backward of a layer whose exchange mode is not PS writes its
 * factors (sizes in layer->factors); its parameters are bound without gradients. */
void sw_net_bind_factors(struct sw_net *net, int i, float *x, float *dy);
/* Sets a data field for the next pass: host memory, borrowed until the pass is over; used in place
 * or copied to the device. */
int sw_net_set_field(struct sw_net *net, const char *field, void *data,
                     struct sw_err *err) SW_MUST_CHECK;
/* Sets a data field of images for the next pass from pixels on the device: how->x, as many rows as
 * the net has. The other arguments are those of the operation; rows and y are not read. */
struct sw_pixels_args;
int sw_net_set_pixels(struct sw_net *net, const char *field, const struct sw_pixels_args *how,
                      struct sw_err *err) SW_MUST_CHECK;
/* Sets the scalars of the next pass, which begins a step. The previous step may still run on the
 * device; the one before that must be over. */
int sw_net_set_step(struct sw_net *net, const struct sw_step *step,
                    struct sw_err *err) SW_MUST_CHECK;

/* Buffers (running statistics), numbered across all layers. */
int sw_net_buffer_count(const struct sw_net *net);
struct sw_net_buffer {
    int layer, index; /* layer->keeps[index] */
    const char *name; /* "bn1.mean"; owned by the net */
};
const struct sw_net_buffer *sw_net_buffer(const struct sw_net *net, int s);
/* Sets the buffer's memory; update is the same memory in the one net that updates the buffer, else
 * NULL. */
void sw_net_bind_buffer(struct sw_net *net, int s, const float *value, float *update);

/* Bytes of the host staging buffers: step scalars to the device, and results back. */
size_t sw_net_staging_bytes(const struct sw_net *net);

/* Recurrent state of the layers: its size, and its memory (zeroed by the caller). If unbound, no
 * state is carried from batch to batch. */
size_t sw_net_recurrent_state_bytes(const struct sw_net *net);
void sw_net_bind_recurrent_state(struct sw_net *net, void *memory);

/* Largest number of sums of any layer between two phases; 0: none. */
int sw_net_sum_count(const struct sw_net *net);

/* Number of streams on which passes are queued. Work queued on the net's own stream is ordered with
 * them. sw_net_settle waits for all of them; call it before freeing memory that passes use. */
int sw_net_stream_count(const struct sw_net *net);
/* Joins them: on the net's own stream, which then waits for all. The passes between two joins can
 * be captured. */
int sw_net_join_streams(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
void sw_net_settle(struct sw_net *net);

/* Runs one layer of a pass, all its phases; sums between phases cover the net's own rows only.
 * Errors are prefixed with "layer NAME: ". */
int sw_net_forward(struct sw_net *net, int i, struct sw_err *err) SW_MUST_CHECK;
int sw_net_backward(struct sw_net *net, int i, struct sw_err *err) SW_MUST_CHECK;
/* The Gibbs chain of algorithm = cd: the largest number of turns of a machine of the net (0: no
 * chain), and the turn of the passes that follow (0: none). */
int sw_net_chain_steps(const struct sw_net *net);
void sw_net_set_chain(struct sw_net *net, int turn);
/* Runs all turns of a single net. */
int sw_net_run_chains(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* A layer's pass phase by phase: number of phases (at least 1), run one phase, and the sums between
 * it and the next, in device memory (NULL: none). */
int sw_net_phases(const struct sw_net *net, int i, bool backward);
int sw_net_run_phase(struct sw_net *net, int i, bool backward, int phase,
                     struct sw_err *err) SW_MUST_CHECK;
double *sw_net_sums(const struct sw_net *net, int i, int *count);

/* Losses and metrics of the last forward pass: sw_net_fetch queues their copy to the host, where
 * they can be read once it is done, and until the step after the next one begins. */
int sw_net_fetch(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
int sw_net_result_count(const struct sw_net *net);
struct sw_net_result {
    int layer;
    bool loss;
    int first, count; /* its pairs, as indices into sw_net_pairs */
};
struct sw_net_result sw_net_result(const struct sw_net *net, int r);
/* The pairs of all results in order; for an unrolled layer those of its first time step.
 * sw_net_add_pairs adds those of all time steps to `to`; behind: 0 for the newest step, 1 for the
 * one before it. */
int sw_net_pair_count(const struct sw_net *net);
const struct sw_result *sw_net_pairs(const struct sw_net *net);
void sw_net_add_pairs(const struct sw_net *net, int behind, struct sw_result *to);
