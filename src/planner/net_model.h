/* A net as the planner sees it: the work, the bytes and the parameters of every layer for the whole
 * batch on one worker, and how the layer may be partitioned. Data only: made from the nets of a job
 * (run/planning.h) or by a test. Frozen once made; any thread reads it. */
#pragma once

#include "layers/layer.h"
#include "plan/copy_terms.h"
#include <stddef.h>
#include <stdint.h>

enum { SW_PLANNER_SOURCES = 16 };

/* A measured time of a layer, of one worker of `workers` that compute at the same time, each with
 * `threads` math threads (0: a GPU, or a simulated one). */
struct sw_layer_sample {
    int64_t rows; /* of that worker */
    int workers, threads;
    double part; /* of the layer's columns that the worker has; 0: all */
    double forward_s, backward_s;
    double update_s; /* sum of the gradients of all workers and update, in host memory, by as many
                        servers side by side; 0: not measured */
};

/* Steps that differ in what waits for what. */
enum sw_step_kind {
    SW_STEP_GRADIENTS, /* whole gradients go to servers, or are reduced */
    SW_STEP_FACTORS,   /* workers exchange the factors of most of the parameters (sfb) */
    SW_STEP_MOVES,     /* activations move between workers: a step waits for its device in the
                          middle, and does not overlap with the next one */
    SW_STEP_KINDS
};

/* What a measured step took beside passes, updates, exchanges and movements: reading the batch,
 * queueing work, recording the step, waking threads. Of workers as in struct sw_layer_sample. */
struct sw_rest_sample {
    int workers, threads;
    enum sw_step_kind kind;
    int moves; /* connections between layers by which activations moved */
    double seconds;
};

struct sw_layer_model {
    const char *name, *type;
    int source[SW_PLANNER_SOURCES]; /* indices of earlier layers */
    int source_count;
    bool is_input; /* reads data: always split by rows, and has no gradient */

    /* For the whole batch. Flops: a multiply-add counts as two. Bytes: memory that the pass reads
     * and writes. */
    double forward_flops, backward_flops;
    double forward_bytes, backward_bytes;
    double columns; /* elements of the output per row of the batch */
    double units;   /* channels or neurons that are not split, of these; 0: as many as columns */
    bool has_backward;

    int64_t params; /* trained elements; 0: none */
    int arrays;     /* that these are in: a weight and a bias are two; 0: one */
    int64_t frozen; /* elements of parameters that are not trained */
    /* Factors of the gradient: per row of the batch `steps` vectors of `inputs` and of `outputs`
     * elements. steps 0: it has none. */
    double steps, inputs, outputs;

    /* Memory for the whole batch. A layer that works in place has no bytes for what it shares. */
    int64_t output_bytes, gradient_bytes, saved_bytes, scratch_bytes;
    bool in_place; /* in the memory of its first source, and restored with it */
    /* With memory = fit: may its output be computed again in backward, or be copied to the host and
     * back? */
    bool may_recompute, may_offload;

    bool reads_columns; /* partitioned by columns it reads the same columns of its sources,
                           otherwise all of them */
    bool joins; /* reads_columns: those that stand beside each other in its output (concat), or some
                   of its source's (slice), so that the split is not that of the source alone */
    const struct sw_layer_sample *samples; /* [sample_count]; times are predicted from them */
    int sample_count;                      /* 0: from flops and bytes */
};

struct sw_net_model {
    const struct sw_layer_model *layer; /* topological order */
    int count;
    int64_t batch;         /* rows */
    int updater_slots;     /* values that the updater keeps for each parameter */
    int64_t sync_period;   /* steps between two exchanges of server groups; 0: they exchange nothing
                            */
    int64_t warmup_steps;  /* that the first of several asynchronous groups trains alone */
    int64_t fixed_bytes;   /* of every worker, whatever the plan is: batches, staging buffers */
    double memory_share;   /* of the bytes of all layers but parameters, what is needed at once, as
                              passes use memory again; 0: all */
    bool controls_updates; /* an option needs all gradients before any update, so that devices
                              cannot exchange factors (sfb) */
    /* What plan/choices.h asks to decide whether devices make the updates. */
    struct sw_copy_terms copy;

    const struct sw_rest_sample *rest; /* [rest_count] */
    int rest_count;                    /* 0: it takes no time */

    /* Why the layer cannot be partitioned in that way over so many workers, or NULL: it can. ROWS
     * is always possible; layers of which `is_input` holds have no other. Pure; any thread. */
    const char *(*refuses)(const struct sw_net_model *m, int layer, enum sw_partition p,
                           int workers);
    const void *user;
};
