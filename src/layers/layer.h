/* Layers. A layer type is one file in src/layers that ends in a const struct sw_layer_type; the
 * build registers it by file name. A layer knows the shapes of its sources, its parameters and a
 * stream. It knows nothing about workers, servers, threads, devices or other layers.
 *
 * Life of a layer in a net: setup (shapes, plans, memory needs); the net plans memory and
 * parameters and sets every pointer; forward and backward run once per step; teardown. teardown
 * also runs, once, when setup failed half-way, on a zeroed or partly filled state. Nothing is
 * allocated after setup.
 *
 * Rows: a layer sees the worker's rows of the batch and may use only those and sums over the worker
 * group, so that results do not depend on which worker has which rows. Plans are made for a fixed
 * number of rows; struct sw_step says how many of them are valid. Sequences are [N, T, F]; losses,
 * metrics and inner_product with axis = 2 treat every time step as a row.
 *
 * Phases: a layer may need sums over the rows of all workers of its group, as synchronized batch
 * normalization does. Its pass is then a list of phases: each phase leaves the worker's sums in
 * `sums`, and the next phase finds there the sums of the whole group, reduced in the order of
 * base/tree.h, so that all workers have the same bits. All workers of a group must have the same
 * phases with the same number of sums, in the same order.
 *
 * Recomputation: to save memory a net may discard the output and saved data of a neuron's forward
 * pass and run forward a second time in the step. So forward of a neuron without state, sums and
 * penalty is a function of sources, parameters and step that writes only dst and saved; a neuron
 * with any of those is recomputed only if it sets recomputes_from_saved. An activation that was
 * recomputed or offloaded may have another address in backward than in forward.
 *
 * Chains: with algorithm = cd the visible and the hidden layer of a Boltzmann machine run several
 * times in a step (worker/cd.c). Forward on the data comes first. Then, for Gibbs step 1 to
 * chain.steps (pass.chain), backward of the hidden and the visible layer leaves the chain's next
 * states in the output of the visible layer, and forward of the hidden layer follows. A last
 * backward pass computes the gradients. The output, its gradient, saved and the source of the
 * hidden layer stay valid until then; scratch does not. Where hidden units are sharded, the
 * connection layers between take part in every Gibbs step. In a deep Boltzmann machine hidden
 * layers read each other and all layers take part in every step; in its first chain.mean_field the
 * visible states remain the data.
 *
 * Thread rule: a layer is used only by the worker that owns its stream. */
#pragma once

#include "base/exchange_mode.h"
#include "base/os.h"
#include "device/device.h"
#include "device/plan.h"
#include "kernels/row_list.h"
#include "recipe/option.h"

enum {
    SW_LAYER_SRCS = 16,
    SW_LAYER_PARAMS = 24,
    SW_LAYER_BUFFERS = 2,
    SW_LAYER_RECURRENT_STATES = 8
};

/* An activation: the output of a layer, and in training the gradient of the loss with respect to
 * it, both in the layout `desc`. The memory belongs to the net's arena (for input layers to the
 * batch). */
struct sw_lexicon;
struct sw_scaling;
struct sw_layer_tensor {
    struct sw_desc desc;
    void *data; /* elements of desc.dtype */
    void *grad; /* as data, of floats or their 16-bit forms; NULL where no gradient is needed */
    /* How the data source standardized the values of an input; NULL: not at all. Its numbers are
     * known when rows are computed, not yet in setup. Borrowed from the source. */
    const struct sw_scaling *scaling;
    const struct sw_lexicon *tokens; /* of an input that reads a text: the tokens of the training
                                        text and their counts; NULL: none. Borrowed from the source
                                        */
};

/* A parameter as its layer sees it. */
struct sw_layer_param {
    const char *name;      /* "weight", "bias"; static */
    struct sw_desc layout; /* storage; logical dimensions as in checkpoints */
    int64_t fan_in, fan_out;
    double natural;                 /* initial value with `init = auto` and no fan-in */
    int64_t part_first, part_whole; /* this shard begins at index part_first of part_whole along
                                       dimension part_dim, when several workers hold shards of the
                                       parameter; part_whole 0: not sharded */
    int part_dim;
    bool lists_rows;    /* the gradient of a step is zero in most rows (of dimension 0, plain), and
                           backward can write and list only the others */
    const float *value; /* set by the net; stable during a step */
    float *grad;        /* set by the net; NULL in an evaluation net */
    /* Set by the net, host memory: unless NULL, backward writes only these rows of the gradient, at
     * the beginning of grad, and their list (kernels/row_list.h). */
    struct sw_row_list *listed;
};

/* A buffer as its layer sees it: state without a gradient, such as running statistics. A job has
 * one copy, shared by training and evaluation and saved in checkpoints as state.LAYER.NAME. */
struct sw_layer_buffer {
    const char *name;               /* "mean", "variance"; static */
    struct sw_desc layout;          /* plain; as in checkpoints */
    double natural;                 /* initial value of every element */
    int64_t part_first, part_whole; /* shard along dimension 0, as in a parameter */
    const float *value;             /* set by the net; evaluation reads it */
    float *update; /* set by the net: where the one net that updates the buffer writes; NULL in all
                      others */
};

/* Recurrent state as its layer sees it (h of a recurrent layer): state of every row that passes
 * from one batch to the same row of the next. Every net has its own copy; that of the training net
 * is saved in checkpoints as state.LAYER.NAME, [rows of the batch, width]. */
struct sw_layer_recurrent_state {
    const char *name; /* "h"; static */
    int64_t width;
    int64_t first, whole; /* of sharded columns: the first one here, and how many in all */
    bool chain; /* state of a persistent Gibbs chain, which continues whatever the rows of the data
                   are */
    float *value; /* [rows, width], device memory; set by the net, initially zero; NULL: no state is
                     kept */
};

/* The sufficient factors of a layer's gradients, where workers exchange these instead of gradients:
 * the gradient of the weight is the sum over rows r of dy[r]^T x[r], that of the bias is the sum of
 * dy[r]. */
struct sw_layer_factors {
    int64_t rows, inputs, outputs;
    /* [rows, inputs], [rows, outputs], plain, device memory; set by the net: backward writes them
     * instead of gradients. NULL: backward computes gradients. */
    float *x, *dy;
};

/* The labels that a loss or metric compares with the columns of its source 0. */
struct sw_layer_labels {
    int src;            /* the source that has them */
    int64_t classes;    /* valid labels are 0 .. classes-1; 0: the layer reads no labels */
    int64_t per_sample; /* 1, or the steps of a sequence */
    bool ignores;       /* rows whose label is `ignored` do not count */
    int32_t ignored;
};

/* The number of phases of each pass. */
struct sw_layer_phases {
    int forward, backward; /* 0: one phase. Between phases sw_layer.sums is all-reduced */
    int sums;              /* its elements */
};

/* The sources that layers of a type take. */
struct sw_layer_sources {
    int min, max;
    bool features; /* source 0 must be f32 with `ndim` dimensions (0: any number) */
    int ndim;
};

struct sw_layer {
    const char *name; /* in the net */
    const char *home; /* name of the recipe's section, borrowed: prefix of the names of parameters
                         and state. All steps of an unrolled layer share it */
    const struct sw_layer_type *type;
    const void *conf; /* filled from the type's option rows; borrowed from the recipe */
    void *state;      /* private, type->state_bytes, zeroed before setup */
    uint64_t id;      /* hash of the name, for Philox streams */

    int src_count;
    struct sw_layer_tensor *src[SW_LAYER_SRCS]; /* borrowed: the sources' dst */
    void *src_grad[SW_LAYER_SRCS]; /* where backward writes; NULL: no gradient needed */
    struct sw_layer_tensor dst;

    /* Filled by setup. */
    struct sw_layer_param param[SW_LAYER_PARAMS];
    int param_count;
    struct sw_layer_buffer keeps[SW_LAYER_BUFFERS];
    int keep_count;
    struct sw_layer_recurrent_state recurrent[SW_LAYER_RECURRENT_STATES];
    int recurrent_count;
    struct sw_layer_factors factors; /* if requested in setup */
    struct sw_layer_labels labels;
    struct sw_layer_phases phases;
    int pair_count;                    /* losses and metrics: pairs in result; 0: one */
    size_t saved_bytes, scratch_bytes; /* see device/plan.h */
    uint32_t backward_reads_src; /* bit i: backward reads src[i]->data. In backward, data that no
                                    flag requests is NULL */
    bool backward_reads_dst;
    bool in_place; /* dst may share the memory of src[0], and src_grad[0] that of dst.grad */
    bool view;     /* in place there is nothing to compute, so other layers may read src[0] too */
    struct {
        bool src;        /* backward honors adds.src */
        uint32_t params; /* bit p: backward honors adds.params of param[p] */
    } can_add;
    bool recomputes_from_saved; /* a recomputed forward (sw_pass.again) is one phase that computes
                                the same output from source and saved and writes nothing else */
    struct {
        int steps;      /* Gibbs steps per training step; set by setup of the hidden layer */
        int mean_field; /* how many of these come first and are mean-field updates given the data
                           (deep machines) */
    } chain;
    bool masks_relu; /* with fuse_relu: backward receives the gradient of the relu's output and also
                        applies the relu's derivative */
    int64_t whole_columns; /* all columns of the output, if setup was asked for a shard of them */
    double flops_forward, flops_backward; /* per batch; a multiply-add counts as two */
    const char *algorithm;                /* of the plan, or NULL */

    /* Set by the net. */
    void *saved, *scratch; /* scratch stays valid over the phases of a pass */
    struct {
        uint32_t src;    /* bit i: backward adds to src_grad[i] instead of overwriting it */
        uint32_t params; /* bit p: the same for param[p].grad */
    } adds;
    struct sw_plan *plans; /* owned; list of all plans that setup created */
    double *sums;          /* [phases.sums], device memory; valid over the phases of a pass */
    /* Losses and metrics: written by forward; device memory. The pairs of all batches and workers
     * are summed before the division, so that reported values are means over all samples. */
    struct sw_result *result;
};

/* The place of a hidden layer in its Boltzmann machine: of a deep one, in which hidden layers read
 * each other, or of one with a single hidden layer. */
enum sw_machine_place {
    SW_MACHINE_ALONE,
    SW_MACHINE_BOTTOM, /* reads the visible layer, and is read by a hidden layer */
    SW_MACHINE_MIDDLE,
    SW_MACHINE_TOP
};

/* The arguments of setup. */
struct sw_layer_setup {
    struct sw_stream *stream; /* borrowed for the life of the layer */
    uint64_t seed;
    bool training;          /* backward will run */
    enum sw_dtype dst_type; /* of the output's elements, for a layer with SW_HALVES_AS_TOLD */
    uint32_t wants_grad;    /* bit i: src[i] needs a gradient */
    bool frozen;            /* no parameter of the layer needs a gradient (skips_frozen) */
    bool factors;           /* backward returns factors instead of gradients (factors_of) */
    bool sums; /* for a layer that splits_inputs: src[0] has a shard of the columns, and dst is a
                  partial sum to be reduced over the group */
    bool first_partial; /* with sums: this worker's partial sum includes what is added only once
                        (the bias) */
    int part, parts;    /* a layer sharded by outputs computes shard `part` of `parts` */
    int64_t first_channel, channels; /* if src[0] is sharded: index of its first column, and number
                                        of all columns; channels 0: not sharded */
    int64_t batch_rows;              /* rows of the global batch */
    bool energy;                     /* the net contains energy models (algorithm = cd) */
    bool chain; /* with energy: the layer is trained and takes part in a Gibbs chain */
    enum sw_machine_place place; /* with energy: of a hidden layer */
    bool keep_state;     /* recurrent state continues from pass to pass, as with stateful = yes */
    bool unrolled;       /* the layer is one time step of an unrolled layer */
    bool whole_batch;    /* the layer sees all rows of the batch: no sums over workers are needed */
    bool fuse_relu;      /* the only reader is a relu that this layer applies itself */
    bool fused;          /* for a relu: its source applies it, so forward has nothing to do */
    bool fused_backward; /* for a relu: its source also applies its derivative */
    /* Returns the layout that a parameter already has in this job (for the evaluation net), or
     * NULL. */
    const struct sw_desc *(*layout)(void *user, const struct sw_layer *l, const char *param);
    /* Sets shape [N, ...], dtype, scaling and tokens of `out` to those of a data field; false if
     * the data source has no such field. */
    bool (*field)(void *user, const char *field, struct sw_layer_tensor *out);
    void *user;
};

/* The arguments of forward and backward. */
struct sw_pass {
    struct sw_stream *stream;
    const struct sw_step *step; /* device memory: read by operations, not by layers */
    bool training;
    int phase;   /* index of the phase, from 0 */
    bool again;  /* forward runs a second time in this step (recomputation) */
    int chain;   /* Gibbs step, from 1; 0: an ordinary pass */
    bool begins; /* the first batch of an evaluation */
};

/* A small net around one layer, from which the test harness makes its shape, gradient, device and
 * teardown tests. recipe is the layer's section without its header; sources are named a, b, ... */
struct sw_layer_example {
    const char *recipe;
    struct {
        int ndim;
        int64_t dim[SW_MAX_DIMS];
        int labels; /* > 0: an int32 source with values below this */
    } src[3];
    int64_t dst[SW_MAX_DIMS]; /* expected shape; all 0: not checked */
    double tolerance;         /* relative, for the gradient check; 0: the default */
    struct {
        double from, to;
    } range[3]; /* of a source's values; both 0: the harness chooses */
};

enum sw_layer_role {
    SW_ROLE_NEURON, /* of a type that names no other role */
    SW_ROLE_INPUT,
    SW_ROLE_LOSS,
    SW_ROLE_METRIC,
    SW_ROLE_OUTPUT, /* writes rows of its sources to a file; in evaluation nets only */
};

/* How an output layer writes an evaluation. The trainer gathers the rows of all workers and makes
 * these calls on one thread: begin, then rows in order with every sample once, then commit. If the
 * evaluation fails, abandon replaces the remaining calls. forward computes nothing. */
struct sw_layer_output {
    /* folder: base of relative paths; NULL: the working directory. */
    int (*begin)(struct sw_layer *l, const char *folder, struct sw_err *err);
    /* src[k]: `count` rows of source k in plain order, host memory. */
    int (*rows)(struct sw_layer *l, const void *const *src, int64_t count, struct sw_err *err);
    int (*commit)(struct sw_layer *l, struct sw_err *err);
    void (*abandon)(struct sw_layer *l);
};

/* How a layer type can be sharded by columns over the workers of a group. */
enum sw_split {
    SW_SPLIT_NONE,        /* rows only */
    SW_SPLIT_ELEMENTWISE, /* a column of the output needs that column of the source */
    SW_SPLIT_OUTPUTS,     /* a column of the output needs all columns of the source; parameters are
                             sharded along the dimension of the outputs */
};

/* The sides of a Boltzmann machine. The source of the hidden layer is the visible layer. A layer
 * with more sources only reads a machine and is not a side of it. Conditions do not count: in a
 * conditional machine the last source of a side, [rows, units], is added to the biases of its units
 * (sw_layer_type.conditions), and gets their gradient. */
enum sw_energy { SW_ENERGY_NONE, SW_ENERGY_VISIBLE, SW_ENERGY_HIDDEN };

/* A parameter that is always tied to a parameter of a source (as with PARAM.share), if the layer
 * has `sources` sources besides conditions. */
struct sw_layer_borrow {
    const char *param;
    int sources, src;
    const char *of;  /* name of the parameter in that source */
    const char *key; /* an ENUM key that must have the same value in both layers; NULL: none */
};

/* Activations of 16 bits (kernels/precision.h). A source has 16 bits only if all its readers are
 * of a type that reads them. */
enum sw_layer_halves {
    SW_HALVES_NONE,      /* reads f32 and writes f32 */
    SW_HALVES_AS_SOURCE, /* reads both; the output has the type of source 0 */
    SW_HALVES_AS_TOLD    /* reads both; the output has the type that setup gets */
};

/* What the scores of a row are: source 0 of a loss, or the output of another layer. */
enum sw_layer_scores {
    SW_SCORES_NONE,    /* values */
    SW_SCORES_SOFTMAX, /* scores of classes, whose softmax is their probabilities */
    SW_SCORES_SIGMOID, /* each has a probability of its own, its sigmoid */
    SW_SCORES_MARGIN,  /* scores of classes without probabilities */
    SW_SCORES_READY,   /* probabilities of classes */
};

/* A layer type, the last object in its file. The file contains, from top to bottom
 * (layers/dropout.c is a short example):
 *
 * - An essay: what it computes, and the source of the formula.
 * - struct conf, filled from the keys of a recipe, and the rows of these keys, from which parsing,
 *   range errors, hints and `singa-ws layers TYPE` follow; struct state, kept between calls.
 * - setup: checks its sources beyond SW_LAYER_FEATURES, fills the state, and sets the layout of its
 *   output (dst.desc), its cost, and what it allows: in_place, view, can_add, masks_relu;
 *   backward_reads_src and backward_reads_dst if backward reads old values. It adds parameters with
 *   sw_layer_add_param. A layer that is a single plan leaves all of this to sw_layer_use_plan
 *   (lrn.c). A layer that needs whole rows reads its sources through layers/share/plain.h, so that
 *   it accepts any layout. Tables that operations read are copied to the device here, once
 *   (layers/share/skip_gram.c).
 * - forward and backward: queue operations and plans and never ask which device they run on. On
 *   devices whose streams are captured they must queue the same operations with the same arguments
 *   in every step; values that change are read from struct sw_step in device memory.
 * - split: how the layer can be sharded by columns, or split_reason, which users read. A layer that
 *   is sharded by outputs gets its shard from sw_setup_part and marks it with sw_layer_mark_parts,
 *   or with sw_layer_mark_param for a parameter whose outputs are not dimension 0. An element-wise
 *   layer with parameters per channel marks these too; one whose result depends on the global
 *   position reads first_channel and channels; one whose columns are not those of its sources has
 *   `joins` and `columns`.
 * - examples: from these alone tests/unit/layers/test_examples.c checks shape, gradient, device
 *   against reference, every source layout, in-place use, repetition, threads, evaluation, teardown
 *   and failing allocations; it lists the layers that compute something else in evaluation. */
struct sw_layer_type {
    struct sw_type base;
    enum sw_layer_role role;
    enum sw_layer_scores scores;
    enum sw_layer_halves halves;
    enum sw_energy energy;
    /* Returns how many of the last sources are conditions of a Boltzmann machine, those of the
     * visible before those of the hidden layer. NULL: none. */
    int (*conditions)(const void *conf);
    bool through_time;                     /* recurrent: backward propagates through time */
    const struct sw_layer_borrow *borrows; /* ends with param NULL; NULL: none */
    enum sw_split split;
    const char *split_reason; /* with SW_SPLIT_NONE: the reason, for messages */
    /* Returns why a layer with this conf cannot be split into `parts` shards, or NULL. May be
     * NULL. */
    const char *(*refuses_split)(const void *conf, int parts);
    /* Returns why a layer that reads these data cannot be split, or NULL. May be NULL. */
    const char *(*refuses_data)(const struct sw_desc *data);
    /* Returns the number of equal, independent groups of columns, of the output and of the source:
     * a shard consists of whole groups and reads no others. With SW_SPLIT_OUTPUTS; 1, or NULL:
     * every output column reads all source columns. */
    int64_t (*groups)(const void *conf);
    /* Sets rows, inputs and outputs of the factors of a layer with this conf and source; false if
     * its gradient has no factors that workers could exchange. NULL: never has any. */
    bool (*factors_of)(const void *conf, const struct sw_desc *src, struct sw_layer_factors *out);
    const char *(*refuses_factors)(
        const void *conf); /* returns why a layer with this conf has no factors, or NULL */
    bool splits_inputs; /* setup honors `sums`: a worker may have a shard of the source's columns */
    /* Returns why a layer with this conf cannot be split by inputs, or NULL. May be NULL. */
    const char *(*refuses_inputs)(const void *conf);
    /* Returns the number of output columns if it follows from the columns of the sources (0:
     * unknown), else 0. NULL: unknown, or for SW_SPLIT_ELEMENTWISE as many as the source. */
    int64_t (*columns)(const void *conf, const int64_t *src, int count, int64_t *begin);
    /* Does an output column need one source column with a different index? `columns` then also sets
     * the output column at which each source begins. With SW_SPLIT_ELEMENTWISE; NULL: no. */
    bool (*joins)(const void *conf);
    /* A layer that cannot be split still has at least as many columns as its sources, so that its
     * readers can be split wherever they could. */
    bool keeps_columns;
    struct sw_layer_sources sources;
    uint32_t targets; /* bit i: source i is the target of a loss and gets no gradient */
    /* Returns the features per row of the output if they follow from the conf alone. NULL: they do
     * not. */
    int64_t (*width)(const void *conf);
    /* Returns the features per row of the output of one step of an unrolled layer, if the next step
     * needs more state than other readers see (c of lstm); the visible features come first. NULL,
     * or 0: other readers see all of the output. */
    int64_t (*hands_on)(const void *conf);
    int variant; /* of types with the same callbacks: which of them it is */
    size_t state_bytes;
    bool can_fuse_relu; /* setup honors fuse_relu */
    bool skips_frozen;  /* backward computes no parameter gradients when all their grads are NULL */
    bool penalty; /* a neuron whose forward also writes a term of the loss to result; backward adds
                     the gradient of that term to the gradient that passes through */
    /* Does this conf make the layer a relu that its source may apply instead? NULL: never. */
    bool (*is_relu)(const void *conf);
    int (*setup)(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err);
    int (*forward)(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err);
    int (*backward)(struct sw_layer *l, const struct sw_pass *r,
                    struct sw_err *err);  /* NULL: no gradient */
    const struct sw_layer_output *output; /* with SW_ROLE_OUTPUT */
    void (*teardown)(struct sw_layer *l); /* NULL: only plans and state are freed */
    /* A metric with several values: their names, NULL-terminated. The first value is reported under
     * the type's name. NULL: one value, sum / weight of the only pair. */
    const char *const *values;
    /* Returns value `which` from the totals of all pairs; NaN if it is undefined. NULL: sum /
     * weight of the only pair. */
    double (*value)(const struct sw_layer *l, const struct sw_result *total, int which);
    bool less_is_better;                     /* a metric: smaller values are better */
    const struct sw_layer_example *examples; /* ends with recipe NULL */
};

/* Members of a descriptor: the number of sources, and the callbacks. */
#define SW_LAYER_SOURCES(least, most) .sources.min = least, .sources.max = most
/* The same for a layer whose source 0 holds features with `dims` dimensions (0: any number). */
#define SW_LAYER_FEATURES(least, most, dims)                                                       \
    SW_LAYER_SOURCES(least, most), .sources.features = true, .sources.ndim = dims
#define SW_LAYER_CALLS(setup_, forward_, backward_)                                                \
    .setup = setup_, .forward = forward_, .backward = backward_

/* Returns the data field that an input layer reads. */
const char *sw_layer_input_field(const struct sw_layer *l);
/* The keys of an input layer. */
struct sw_input_conf {
    const char *field;
    double power;              /* of the absolute value, which keeps its sign; 1: unchanged */
    bool log1p;                /* log(value + 1) */
    bool standardize;          /* with the mean and std of the training section, or */
    struct sw_reals mean, std; /* with these; both empty: not given */
    bool whiten;               /* ZCA */
    double whiten_epsilon;
    double scale;
};

/* Runs the type's setup, after the check of source 0 that the type asks for. Errors:
 * SW_ERR_INVALID, and those of setup. */
int sw_layer_set_up(struct sw_layer *l, const struct sw_layer_setup *s,
                    struct sw_err *err) SW_MUST_CHECK;

/* Runs the type's teardown, then frees plans and state. Call once after setup, whether it succeeded
 * or not. */
void sw_layer_teardown(struct sw_layer *l);

/* After setup: may forward be recomputed in a step? */
bool sw_layer_can_recompute(const struct sw_layer *l);

/* Generated by the build from the files of src/layers; sorted, NULL-terminated. */
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
/* Can a layer of this type be partitioned this way, if its keys allow it? */
bool sw_layer_can_split(const struct sw_layer_type *t, enum sw_partition p);
enum sw_include { SW_INCLUDE_ALWAYS, SW_INCLUDE_TRAIN, SW_INCLUDE_EVAL };
/* What a time step of an unrolled layer reads of a source. */
enum sw_connection {
    SW_ONE_TO_ONE,    /* the same step */
    SW_ONE_TO_ALL,    /* all steps */
    SW_FIRST_TO_LAST, /* the first step reads the last step, the others nothing */
    SW_PREVIOUS,      /* the previous step; the first step reads zeros */
    SW_STATEFUL, /* the previous step; the first step reads the last step of the previous batch */
};
struct sw_layer_conf {
    struct sw_strings src, connections;
    int64_t unroll; /* steps; 0: not unrolled */
    int include;    /* enum sw_include */
    struct sw_strings
        stages;    /* stages that have the layer; in other stages the recipe does not contain it */
    int partition; /* enum sw_partition, if the key is set */
    int64_t location; /* the worker that holds the whole layer, if the key is set */
    int comm;         /* enum sw_exchange_mode, if the key is set */
};
extern const struct sw_opt sw_layer_opts[];
extern const char *const sw_connection_names[]; /* enum sw_connection */

/* ---- For setup ---- */
/* Returns the passes that a layer's plan must support. */
struct sw_plan_passes sw_setup_passes(const struct sw_layer_setup *s);
/* Sets the shard of `outputs` that this layer computes: its first index and its size. */
void sw_setup_part(const struct sw_layer_setup *s, int64_t outputs, int64_t *first, int64_t *count);
struct sw_layer_param *sw_layer_add_param(struct sw_layer *l, const char *name,
                                          const struct sw_desc *layout, int64_t fan_in,
                                          int64_t fan_out);
void sw_layer_add_buffer(struct sw_layer *l, const char *name, const struct sw_desc *layout,
                         double natural);
/* Adds recurrent state; returns its index in l->recurrent. */
int sw_layer_add_recurrent_state(struct sw_layer *l, const char *name, int64_t width);
/* Returns how many of `count` sources are not conditions. */
int sw_layer_own_sources(const struct sw_layer_type *type, const void *conf, int count);
/* Returns the side of a Boltzmann machine that the layer represents, or SW_ENERGY_NONE. */
enum sw_energy sw_layer_energy(const struct sw_layer *l);
/* Checks that source i is f32 with ndim dimensions (0: any). Errors: SW_ERR_INVALID naming both
 * shapes. */
int sw_layer_need_src(const struct sw_layer *l, int i, int ndim, struct sw_err *err) SW_MUST_CHECK;
/* Checks that source 0 has the dimension `axis`, which the key `axis` named. Errors:
 * SW_ERR_INVALID. */
int sw_layer_need_axis(const struct sw_layer *l, int64_t axis, struct sw_err *err) SW_MUST_CHECK;
/* Checks that source i has int32 labels, one per row of source 0. Errors: SW_ERR_INVALID. */
int sw_layer_need_labels(const struct sw_layer *l, int i, struct sw_err *err) SW_MUST_CHECK;
/* Reserves n bytes after the first *bytes (saved_bytes, scratch_bytes), aligned, and returns their
 * offset; sw_layer_at returns the address at an offset. */
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
/* Returns the layout that an existing parameter has, or NULL. */
const struct sw_desc *sw_setup_layout(const struct sw_layer_setup *s, const struct sw_layer *l,
                                      const char *param);
/* Gives a plan that setup created to the layer, which frees it in teardown. NULL is accepted. */
void sw_layer_own_plan(struct sw_layer *l, struct sw_plan *p);
/* Creates a reorder plan that belongs to the layer. Errors: those of the device. */
int sw_layer_reorder(struct sw_layer *l, struct sw_stream *s, const struct sw_desc *from,
                     const struct sw_desc *to, struct sw_plan **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* The state of layers that are a single plan; their callbacks are below. The parameters, if any,
 * are added in the order weight, bias. */
struct sw_plan_state {
    struct sw_plan *plan; /* owned by the layer */
};
/* Makes the plan of a layer whose state begins with struct sw_plan_state, for its first source; q
 * has the kind and the shape. */
int sw_layer_make_plan(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_plan_request q,
                       struct sw_err *err) SW_MUST_CHECK;
/* Copies the plan's output descriptor, memory needs, backward reads and algorithm to the layer, and
 * adds the parameters of the plan. */
void sw_layer_use_plan(struct sw_layer *l, int64_t fan_in, int64_t fan_out);
/* Marks output, parameters and buffers as the shard that begins at column `first` of `whole`;
 * parameters and buffers along dimension 0. */
void sw_layer_mark_parts(struct sw_layer *l, int64_t first, int64_t whole);
/* Marks a parameter as the shard that begins at `first` of `whole` along dimension `dim`. */
void sw_layer_mark_param(struct sw_layer *l, int param, int dim, int64_t first, int64_t whole);
int sw_layer_plan_forward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_layer_plan_backward(struct sw_layer *l, const struct sw_pass *r,
                           struct sw_err *err) SW_MUST_CHECK;

/* Call in the setup of a layer that computes its output element by element from source 0 and may do
 * so in place. */
void sw_layer_use_elementwise(struct sw_layer *l);

/* Functions for layers that change no values. sw_layer_use_view is called in setup, when dst.desc
 * is set and has the source's storage size; the others are callbacks. */
void sw_layer_use_view(struct sw_layer *l);
int sw_layer_view_forward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_layer_view_backward(struct sw_layer *l, const struct sw_pass *r,
                           struct sw_err *err) SW_MUST_CHECK;
