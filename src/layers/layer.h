/* Layers. A layer type is one file in src/layers that ends in a const struct sw_layer_type; the
 * build registers it by file name. A layer knows its sources' shapes, its parameters and a stream,
 * and nothing of workers, servers, threads, devices or other layers.
 *
 * Life of a layer in a net: setup (shapes, plans, what it needs), then the net plans memory and
 * parameters and sets every pointer, then forward and backward run once per step, then teardown.
 * setup may fail half-way; teardown runs all the same, on a zeroed or partly filled state, and only
 * once. Nothing is allocated after setup.
 *
 * Rows: a layer sees the worker's rows of the batch, and may look at those and at sums over the
 * group only: then results do not depend on which worker has which rows. Plans are made for a fixed
 * number of rows; how many of them count is in struct sw_step. Sequences are [N, T, F]; losses,
 * metrics and inner_product with axis = 2 take every step as a row.
 *
 * Phases: a layer may need sums over the rows of all workers of its group, as synchronized batch
 * normalization does. Its pass then is a list of phases; each leaves its own sums in `sums`, and
 * the next one finds there those of the whole group, reduced in the order of base/tree.h, so that
 * all workers have the same bits. All workers of a group must have the same phases with the same
 * number of sums, in the same order.
 *
 * Again: to save memory a net may throw away what a neuron's forward left and run it a second time
 * in the step. So forward of a neuron without state, sums and penalty is a function of sources,
 * parameters and step that writes dst and saved and nothing else; one with them may be run again
 * only if it says how (repeats_from_saved). An activation that was recomputed or offloaded may be
 * at another address in backward than in forward.
 *
 * Chains: with algorithm = cd the visible and the hidden layer of a Boltzmann machine run several
 * times in a step (worker/cd.c). Forward on the data comes first; then, for turn 1 to chain_steps,
 * backward of the hidden and the visible layer, which leaves the chain's next states in the output
 * of the latter, and forward of the hidden layer (pass.chain is the turn); then backward once more,
 * for the gradients. Output, its gradient, saved and the source of the hidden layer last until
 * then; scratch does not. Where hidden units are split the connections between take their turns,
 * too.
 *
 * One owner: the worker of the stream. */
#pragma once

#include "base/comm_way.h"
#include "base/os.h"
#include "device/device.h"
#include "device/plan.h"
#include "recipe/option.h"

enum { SW_LAYER_SRCS = 16, SW_LAYER_PARAMS = 24, SW_LAYER_STATES = 2, SW_LAYER_CARRIES = 8 };

/* A feature between layers: values, and in training the gradient of the loss by them, both in the
 * layout `desc`. Memory belongs to the net's arena (to the batch for input layers). */
struct sw_feature {
    struct sw_desc desc;
    void *data;  /* float, or int32_t where desc.dtype is SW_I32 */
    float *grad; /* NULL where no gradient is needed */
};

/* A parameter as its layer sees it. */
struct sw_layer_param {
    const char *name;      /* "weight", "bias"; static */
    struct sw_desc layout; /* storage; logical dimensions as in checkpoints */
    int64_t fan_in, fan_out;
    double natural;                 /* what `init = auto` means where there is no fan-in */
    int64_t part_first, part_whole; /* of dimension part_dim, when this is a part of a parameter
                                       that several workers hold; part_whole 0: the whole */
    int part_dim;
    const float *value; /* set by the net; stable during a step */
    float *grad;        /* set by the net; NULL in an evaluation net */
};

/* State without gradient as its layer sees it (running statistics): kept once per job, the same for
 * training and evaluation, saved in checkpoints as state.LAYER.NAME. */
struct sw_layer_state {
    const char *name;               /* "mean", "variance"; static */
    struct sw_desc layout;          /* plain; as in checkpoints */
    double natural;                 /* the initial value of every element */
    int64_t part_first, part_whole; /* of dimension 0, as those of a parameter */
    const float *value;             /* set by the net; evaluation reads it */
    float *update; /* set by the net: where the one net that keeps it up writes, else NULL */
};

/* Row state as its layer sees it (a recurrent layer's h): what rows of a batch hand on to the same
 * rows of the next one. Every net has its own; that of training is saved in checkpoints as
 * state.LAYER.NAME, [rows of the batch, width]. */
struct sw_layer_carry {
    const char *name; /* "h"; static */
    int64_t width;
    int64_t first, whole; /* of columns that are split: its place, and how many there are */
    bool chain;   /* of a persistent Gibbs chain: goes on whatever the rows of the data are */
    float *value; /* [rows, width], device memory; set by the net, zero at first; NULL: nothing is
                     handed on */
};

/* What the gradients of a layer's parameters are made of, where workers exchange that instead: the
 * weight's is the sum over rows r of dy[r]^T x[r], the bias's that of dy[r]. */
struct sw_layer_factors {
    int64_t rows, inputs, outputs;
    float *x, *dy; /* [rows, inputs], [rows, outputs], plain, device memory; set by the net:
                      backward writes them in place of gradients. NULL: it makes gradients */
};

/* In how many phases it is run. */
struct sw_layer_phases {
    int forward, backward; /* 0: one. Between two, sums is added over the group */
};

struct sw_layer {
    const char *name; /* in the net */
    const char *home; /* borrowed from the recipe: its section's name, with which those of
                         parameters and state begin; the steps of an unrolled layer have the same */
    const struct sw_layer_type *type;
    const void *conf; /* filled from the type's option rows; borrowed from the recipe */
    void *state;      /* private, type->state_bytes, zeroed before setup */
    uint64_t id;      /* hash of the name, for Philox streams */

    int src_count;
    struct sw_feature *src[SW_LAYER_SRCS]; /* borrowed: the sources' dst */
    float *src_grad[SW_LAYER_SRCS];        /* where backward writes; NULL: not wanted */
    struct sw_feature dst;

    /* Filled by setup. */
    struct sw_layer_param param[SW_LAYER_PARAMS];
    int param_count;
    struct sw_layer_state keeps[SW_LAYER_STATES];
    int keep_count;
    struct sw_layer_carry carry[SW_LAYER_CARRIES];
    int carry_count;
    struct sw_layer_factors factors; /* where setup asked for them */
    struct sw_layer_phases phases;
    int sum_count;                     /* elements of sums */
    int pair_count;                    /* losses and metrics: pairs in result; 0: one */
    size_t saved_bytes, scratch_bytes; /* see device/plan.h */
    uint32_t backward_reads_src;       /* bit i: backward reads src[i]->data; what it does not
                                          read, nor dst->data, is NULL then */
    bool backward_reads_dst;
    bool in_place; /* dst may take src[0]'s memory, and src_grad[0] dst's gradient */
    bool view;     /* in place there is nothing to do, so that others may read src[0] too */
    struct {
        bool src;        /* backward honours adds.src */
        uint32_t params; /* bit p: backward honours adds.params of param[p] */
    } can_add;
    bool repeats_from_saved; /* forward that is run again (sw_pass.again) is one phase that makes
                                the same output from source and saved, and writes nothing else */
    int chain_steps; /* in a Gibbs chain: its turns in a step; set by the hidden layer's setup */
    bool masks_relu; /* with fuse_relu: backward gets the gradient behind the relu and takes the
                        relu's derivative too */
    int64_t whole_columns; /* of the output, where setup was to make a part of them */
    double flops_forward, flops_backward; /* of one batch; a multiply-add counts two */
    const char *algorithm;                /* of the plan, or NULL */

    /* Set by the net. */
    void *saved, *scratch; /* scratch lasts over the phases of a pass */
    struct {
        uint32_t src;    /* bit i: backward adds to src_grad[i] instead of writing there */
        uint32_t params; /* bit p: the same for param[p].grad */
    } adds;
    struct sw_plan *plans; /* owned, as a list: all that setup made */
    double *sums;          /* [sum_count], device memory; lasts over the phases of a pass */
    /* Losses and metrics: forward writes it; device memory. Pairs of all batches and workers are
     * added up before anything is divided, so that what users see is of all samples. */
    struct sw_result *result;
};

/* What setup is told. */
struct sw_layer_setup {
    struct sw_stream *stream; /* borrowed for the life of the layer */
    uint64_t seed;
    bool training;       /* backward will run */
    uint32_t wants_grad; /* bit i: src[i] needs a gradient */
    bool frozen;         /* none of its parameters needs one (skips_frozen) */
    bool factors;        /* backward gives factors in place of gradients (factors_of) */
    bool sums;           /* a layer that splits_inputs: src[0] is a part of the columns, and dst
                            a term of a sum over the group */
    bool first_term;     /* the term to which what is added once (a bias) belongs */
    int part, parts;     /* layers that split their outputs make part `part` of `parts` */
    int64_t first_channel, channels; /* the place of src[0]'s columns in the whole; 0: the whole */
    int64_t batch_rows;              /* rows of the whole batch */
    bool energy;                     /* the net is one of energy models (algorithm = cd) */
    bool chain;          /* and the layer is trained there: it takes part in a Gibbs chain */
    bool carry;          /* rows go on from pass to pass, as with stateful = yes */
    bool unrolled;       /* the layer is one step of a net that is unrolled over steps */
    bool whole_batch;    /* the layer sees all rows of it: there is nothing to add over workers */
    bool fuse_relu;      /* the only consumer is a relu that this layer applies itself */
    bool fused;          /* this relu is applied by its source: forward has nothing to do */
    bool fused_backward; /* and so is its derivative */
    /* The layout a parameter already has in this job (evaluation net), or NULL. */
    const struct sw_desc *(*layout)(void *user, const struct sw_layer *l, const char *param);
    /* The shape [N, ...] and dtype of a data field, or NULL when the source has no such field. */
    const struct sw_desc *(*field)(void *user, const char *field);
    void *user;
};

/* What forward and backward are told. */
struct sw_pass {
    struct sw_stream *stream;
    const struct sw_step *step; /* device memory: operations read it, layers do not */
    bool training;
    int phase;   /* of the layer's, from 0 */
    bool again;  /* forward, a second time in this step */
    int chain;   /* turn of the Gibbs chain, from 1; 0: an ordinary pass */
    bool begins; /* the first batch of an evaluation */
};

/* A small net around one layer, from which the harness makes its shape, gradient, device and
 * teardown tests. recipe is the layer's section without its header; sources are named a, b, ... */
struct sw_layer_example {
    const char *recipe;
    struct {
        int ndim;
        int64_t dim[SW_MAX_DIMS];
        int labels; /* > 0: an int32 source with values below this */
    } src[3];
    int64_t dst[SW_MAX_DIMS]; /* expected shape; all 0: none checked */
    double tolerance;         /* relative, for the gradient check; 0: the default */
    struct {
        double from, to;
    } range[3]; /* of a source's values; both 0: as the harness likes */
};

enum sw_layer_role {
    SW_ROLE_NEURON,
    SW_ROLE_INPUT,
    SW_ROLE_LOSS,
    SW_ROLE_METRIC,
    SW_ROLE_OUTPUT, /* writes rows of its sources to a file; in evaluation nets only */
};

/* What an output layer does with an evaluation: the trainer gathers the rows of all workers and
 * calls this on one thread, begin, then rows in order with every sample once, then commit; abandon
 * in place of whatever is left to do when the evaluation fails. forward computes nothing. */
struct sw_layer_output {
    /* folder: where a relative path begins; NULL: the working directory. */
    int (*begin)(struct sw_layer *l, const char *folder, struct sw_err *err);
    /* src[k]: count rows of source k in plain order, host memory. */
    int (*rows)(struct sw_layer *l, const void *const *src, int64_t count, struct sw_err *err);
    int (*commit)(struct sw_layer *l, struct sw_err *err);
    void (*abandon)(struct sw_layer *l);
};

/* How a layer type can be split by columns over the workers of a group. */
enum sw_split {
    SW_SPLIT_NONE,        /* rows only */
    SW_SPLIT_ELEMENTWISE, /* a column of the output needs that column of the source */
    SW_SPLIT_OUTPUTS,     /* a column of the output needs all of the source; parameters are split by
                             the dimension of the outputs */
};

/* The sides of a Boltzmann machine. The hidden layer's source is the visible one; one with two
 * sources is no side of a machine but reads one. */
enum sw_energy { SW_ENERGY_NONE, SW_ENERGY_VISIBLE, SW_ENERGY_HIDDEN };

/* A parameter that is always a source's own (as with PARAM.share), with so many sources. */
struct sw_layer_borrow {
    const char *param;
    int sources, src;
    const char *of; /* its name there */
};

/* A layer type, the last thing in its file. The file has, from top to bottom (layers/dropout.c is
 * a short one):
 *
 * - An essay: what it computes, and the source of the formula.
 * - struct conf, which the keys of a recipe fill, and the rows of these keys: parsing, range
 *   errors, hints and `singa-ws layers TYPE` all come from them. struct state, what it keeps
 *   between calls.
 * - setup: checks its sources (sw_layer_need_src), fills the state, and says the layout of its
 *   output (dst.desc), what it costs, and what it allows: in_place, view, can_add, can_fuse_relu,
 *   masks_relu; backward_reads_src and backward_reads_dst where backward reads old values.
 *   Parameters are added by sw_layer_add_param. A layer that is a single plan leaves all of this
 *   to sw_layer_use_plan (lrn.c). One that looks at whole rows reads its sources through
 *   layers/share/plain.h, so that any layout will do.
 * - forward and backward: operations and plans, never a question about the device. On devices
 *   whose streams are captured they queue the same operations with the same arguments in every
 *   step; what changes is read from struct sw_step in device memory.
 * - split: how workers can share the layer by columns, else split_reason, which users read. A
 *   split by outputs asks sw_setup_part for its part and marks it with sw_layer_mark_parts, or
 *   sw_layer_mark_param for a parameter whose outputs are not dimension 0. An element-wise layer
 *   with parameters of its channels marks these, too; one whose result depends on the position in
 *   the whole looks at first_channel and channels; one whose columns are not those of its sources
 *   has `joins` and `columns`.
 * - examples: tests/unit/layers/test_examples.c makes of these alone the checks of shape,
 *   gradient, device against reference, every source layout, in place, repetition, threads,
 *   evaluation, teardown and failing allocations; a layer that means to compute something else in
 *   evaluation is named there. */
struct sw_layer_type {
    struct sw_type base;
    enum sw_layer_role role;
    enum sw_energy energy;
    bool through_time;                     /* recurrent: its backward pass goes back in time */
    const struct sw_layer_borrow *borrows; /* ends with param NULL; NULL: none */
    enum sw_split split;
    const char *split_reason; /* NONE: why, for the message */
    /* Why a layer with this conf cannot be split into `parts` all the same, or NULL. May be NULL.
     */
    const char *(*refuses_split)(const void *conf, int parts);
    /* Why one that reads these data cannot, or NULL. May be NULL. */
    const char *(*refuses_data)(const struct sw_desc *data);
    /* Equal groups of columns, of the output and of the source, that do not see one another: parts
     * are whole ones, and read no others. With SW_SPLIT_OUTPUTS; 1, or NULL: all read all. */
    int64_t (*groups)(const void *conf);
    /* Of a layer with this conf and source: rows, inputs and outputs of its factors; false: its
     * gradient has none that workers could exchange. NULL: never. */
    bool (*factors_of)(const void *conf, const struct sw_desc *src, struct sw_layer_factors *out);
    const char *(*refuses_factors)(const void *conf); /* why one with this conf has none, or NULL */
    bool splits_inputs; /* honours setup's `sums`: a worker has some columns of the source */
    /* Why one with this conf does not, or NULL. May be NULL. */
    const char *(*refuses_inputs)(const void *conf);
    /* How many columns the output has, where those of the sources (0: not known) tell it, else 0.
     * NULL: not known, or of layers that are split element-wise as many as the source. */
    int64_t (*columns)(const void *conf, const int64_t *src, int count, int64_t *begin);
    /* Does a column of the output need one of a source, but not the same one? `columns` then says
     * where those of each source begin among the output's. With SW_SPLIT_ELEMENTWISE; NULL: no. */
    bool (*joins)(const void *conf);
    /* One that cannot be split has as many columns as its sources, or more, so that what reads it
     * can be split where they can. */
    bool keeps_columns;
    int min_src, max_src;
    uint32_t targets; /* bit i: source i is what a loss compares with: no gradient goes there */
    /* Features of a row of the output, where the conf alone says so. NULL: it does not. */
    int64_t (*width)(const void *conf);
    /* Where a step of an unrolled layer hands on more to its next step than others see (lstm's c):
     * the features of a row of its output then, which begins with what they see. NULL, or 0: they
     * see all of it. */
    int64_t (*hands_on)(const void *conf);
    size_t state_bytes;
    bool can_fuse_relu; /* setup honours fuse_relu */
    bool skips_frozen; /* backward makes no gradients of parameters when all their grads are NULL */
    bool penalty;      /* a neuron whose forward also answers, in result, with a term of the loss;
                          backward adds the gradient of that term to what passes through */
    /* Is this layer (by its conf) a relu that a source may take over? NULL: never. */
    bool (*is_relu)(const void *conf);
    int (*setup)(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err);
    int (*forward)(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err);
    int (*backward)(struct sw_layer *l, const struct sw_pass *r,
                    struct sw_err *err);  /* NULL: no gradient */
    const struct sw_layer_output *output; /* of role OUTPUT */
    void (*teardown)(struct sw_layer *l); /* NULL: plans and state are all there is */
    /* A metric that says more than one value: their names, NULL-terminated. The first is the one
     * that goes by the type's name. NULL: one value, sum / weight of the one pair. */
    const char *const *values;
    /* Value `which` out of the totals of all pairs; NaN where they do not say. NULL: sum /
     * weight of the one pair. */
    double (*value)(const struct sw_layer *l, const struct sw_result *total, int which);
    bool less_is_better;                     /* a metric: of two values the smaller is the better */
    const struct sw_layer_example *examples; /* ends with recipe NULL */
};

/* Parts of a descriptor: how many sources a layer reads, and its callbacks. */
#define SW_LAYER_SOURCES(min, max) .min_src = min, .max_src = max
#define SW_LAYER_CALLS(setup_, forward_, backward_)                                                \
    .setup = setup_, .forward = forward_, .backward = backward_

/* The data field an input layer reads. */
const char *sw_layer_input_field(const struct sw_layer *l);

/* After setup, however it ended: the type's teardown, then plans and state. */
void sw_layer_teardown(struct sw_layer *l);

/* After setup: may forward be run again in a step? */
bool sw_layer_can_repeat(const struct sw_layer *l);

/* Generated by the build from the files of src/layers, sorted, NULL-terminated. */
extern const struct sw_layer_type *const sw_layer_types[];
const struct sw_layer_type *sw_layer_type_find(const char *name); /* NULL when unknown */

/* Keys that every [layer NAME] has. */
enum sw_partition {
    SW_PARTITION_ROWS,    /* 0 */
    SW_PARTITION_COLUMNS, /* 1 */
    SW_PARTITION_INPUTS,  /* 1in */
    SW_PARTITION_NONE,    /* whole, on one worker */
};
extern const char *const sw_partition_names[]; /* enum sw_partition; ends with NULL */
/* Can a layer of this type be split so, as far as its keys allow? */
bool sw_layer_can_split(const struct sw_layer_type *t, enum sw_partition p);
enum sw_include { SW_INCLUDE_ALWAYS, SW_INCLUDE_TRAIN, SW_INCLUDE_EVAL };
/* What a step of an unrolled layer reads of a source. */
enum sw_connection {
    SW_ONE_TO_ONE,    /* the same step */
    SW_ONE_TO_ALL,    /* all of it */
    SW_FIRST_TO_LAST, /* the first step reads the last one, the others nothing */
    SW_PREVIOUS,      /* the step before, the first one zeros */
    SW_STATEFUL,      /* the step before, the first one the last step of the batch before */
};
struct sw_layer_conf {
    struct sw_strings src, connections;
    int64_t unroll;           /* steps; 0: it is not unrolled */
    int include;              /* enum sw_include */
    struct sw_strings stages; /* where it is not there, the recipe has no such layer */
    int partition;            /* enum sw_partition, where the key is set */
    int64_t location;         /* the worker that has it whole, where the key is set */
    int comm;                 /* enum sw_comm_way, where the key is set */
};
extern const struct sw_opt sw_layer_opts[];
extern const char *const sw_connection_names[]; /* enum sw_connection */

/* For setup. */
/* The passes that a layer's plan has to have. */
struct sw_plan_passes sw_setup_passes(const struct sw_layer_setup *s);
/* The part of `outputs` that this layer makes, and where it begins. */
void sw_setup_part(const struct sw_layer_setup *s, int64_t outputs, int64_t *first, int64_t *count);
struct sw_layer_param *sw_layer_add_param(struct sw_layer *l, const char *name,
                                          const struct sw_desc *layout, int64_t fan_in,
                                          int64_t fan_out);
void sw_layer_add_state(struct sw_layer *l, const char *name, const struct sw_desc *layout,
                        double natural);
/* Returns its place in l->carry. */
int sw_layer_add_carry(struct sw_layer *l, const char *name, int64_t width);
/* Does the layer stand for a side of a Boltzmann machine, and which? */
enum sw_energy sw_layer_energy(const struct sw_layer *l);
/* Source i must be f32 with ndim dimensions (0: any). Errors: SW_ERR_INVALID saying both shapes. */
int sw_layer_need_src(const struct sw_layer *l, int i, int ndim, struct sw_err *err) SW_MUST_CHECK;
/* Source 0 must have a dimension `axis`; the key `axis` said so. Errors: SW_ERR_INVALID. */
int sw_layer_need_axis(const struct sw_layer *l, int64_t axis, struct sw_err *err) SW_MUST_CHECK;
/* Source i must be int32 labels, one per row of source 0. */
int sw_layer_need_labels(const struct sw_layer *l, int i, struct sw_err *err) SW_MUST_CHECK;
/* A place for n bytes behind those that *bytes (saved_bytes, scratch_bytes) counts; and what lies
 * at a place. */
static inline size_t sw_layer_reserve(size_t *bytes, size_t n)
{
    size_t at = *bytes;
    *bytes += sw_aligned(n, 64);
    return at;
}
static inline void *sw_layer_at(void *memory, size_t at)
{
    return (char *)memory + at;
}
/* Layout that an existing parameter has, or NULL. */
const struct sw_desc *sw_setup_layout(const struct sw_layer_setup *s, const struct sw_layer *l,
                                      const char *param);
/* What setup made belongs to the layer from now on. NULL is accepted. */
void sw_layer_own_plan(struct sw_layer *l, struct sw_plan *p);
/* A reorder that belongs to the layer. Errors: as the device's. */
int sw_layer_reorder(struct sw_layer *l, struct sw_stream *s, const struct sw_desc *from,
                     const struct sw_desc *to, struct sw_plan **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* Layers that are one plan: their state, and the callbacks they share. The parameters, if any, are
 * added in the order weight, bias. */
struct sw_plan_state {
    struct sw_plan *plan; /* among the layer's */
};
/* Takes over what the plan needs and says: descriptors, memory, what backward reads, the algorithm;
 * and adds the parameters it has. */
void sw_layer_use_plan(struct sw_layer *l, int64_t fan_in, int64_t fan_out);
/* Says that output, parameters and states begin at column `first` of the `whole`, the latter two
 * along dimension 0. */
void sw_layer_mark_parts(struct sw_layer *l, int64_t first, int64_t whole);
/* That a parameter begins at `first` of the `whole` along another dimension. */
void sw_layer_mark_param(struct sw_layer *l, int param, int dim, int64_t first, int64_t whole);
int sw_layer_plan_forward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_layer_plan_backward(struct sw_layer *l, const struct sw_pass *r,
                           struct sw_err *err) SW_MUST_CHECK;

/* Layers whose output is their source's, element by element, and may lie in its memory. */
void sw_layer_use_elementwise(struct sw_layer *l);

/* Layers that change nothing: dst.desc is set, of the source's storage size. The first says so, the
 * others are their callbacks. */
void sw_layer_use_view(struct sw_layer *l);
int sw_layer_view_forward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_layer_view_backward(struct sw_layer *l, const struct sw_pass *r,
                           struct sw_err *err) SW_MUST_CHECK;
