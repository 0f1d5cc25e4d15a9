/* rbm_hidden: the hidden units of a restricted Boltzmann machine; its source is the rbm_visible
 * layer. The output is the means of the units given the visible states, bernoulli sigma(W v + b) or
 * gaussian W v + b, which the next machine of a stack reads as its data.
 *
 * In training with algorithm = cd (worker/cd.c) a Gibbs chain of k steps starts from a sample of
 * the hidden units given the data (contrastive divergence: Hinton, "Training Products of Experts by
 * Minimizing Contrastive Divergence", 2002) or, if persistent, from its states at the end of the
 * previous batch (Tieleman, "Training Restricted Boltzmann Machines using Approximations to the
 * Likelihood Gradient", 2008). A Gibbs step is a backward pass, which computes W' h for the visible
 * units, and a forward pass. The objective is the mean free energy of the data minus that of the
 * end of the chain; this layer computes the part of the hidden units. With means p and visible
 * states v the gradients are
 *
 *   dW = (p_k' v_k - p_0' v_0) / B      db = (sum p_k - sum p_0) / B + cost (mean p_0 - sparsity)
 *
 * The last term keeps the mean activations of the units near a target (Lee, Ekanadham and Ng,
 * "Sparse Deep Belief Net Model for Visual Area V2", 2008; biases only). If the visible units are
 * word counts, biases count once per word. In a net that is trained with bp the layer is a
 * fully-connected layer of such units. Weights are logically [hidden, visible], as in
 * inner_product. The hidden units can be sharded over workers: each worker has some units for all
 * rows, and the inputs of the visible units are partial sums to be reduced.
 *
 * Deep Boltzmann machines (Salakhutdinov and Hinton, "Deep Boltzmann Machines", 2009): the source
 * of a hidden layer is another one, E = -b0 v - sum_l s_l (W_l s_l-1 + b_l), and a layer has input
 * from both neighbors. The positive phase is mean-field inference: a first pass upwards, with
 * doubled weights in place of the missing input from above, then `mean_field` updates of each layer
 * in turn. A Gibbs step samples the visible units and then the hidden layers from below, and the
 * chain starts from a sample of the means, or is persistent. The objective is the expected energy
 * given the data minus that of the end of the chain. While a machine of the stack is trained alone,
 * `doubled` provides for the input from the layer that is missing (section 3.3 there): the weights
 * of the first count twice upwards, those of the last twice downwards, others in both directions.
 *
 * With conditioned = yes a second source is added to the biases of each row (layers/share/rbm.h);
 * its gradient is that of the biases without the sum over rows. */
#include "device/ops/elementwise.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"
#include "layers/share/plain.h"
#include "layers/share/rbm.h"

enum doubled { DOUBLED_NONE, DOUBLED_UP, DOUBLED_DOWN, DOUBLED_BOTH };
static const char *const doubled_names[] = {"none", "up", "down", "both", NULL};

struct conf {
    int64_t hidden, k, mean_field;
    int units, doubled; /* doubled: enum doubled */
    bool replicated, persistent;
    bool conditioned;
    double sparsity, sparsity_cost;
};

struct state {
    struct sw_plain in;
    struct sw_rbm_condition condition;
    int64_t rows, visible, hidden,
        first; /* hidden: units of this worker, beginning at unit `first` of all */
    uint64_t seed;
    bool chain;
    enum sw_machine_place place;
    int mean_field;          /* steps of a chain that are mean-field updates: the first ones */
    float up, down;          /* factors of the weights; of a deep machine: up only in step 0 */
    float share;             /* weight of a row in the mean over the batch */
    size_t energy_at, dz_at; /* offsets in scratch */
    size_t own_total_at;     /* offset in scratch, without a chain */
    size_t sample_at, mean_at, visible_at,
        total_at; /* offsets in saved; all but the sample have two parts: of the data (means
                     negated), then of the chain */
    size_t below_at, above_at; /* of a deep machine, in saved: input from the layer below, above */
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, hidden, "number of hidden units, equal to the outputs", .min = 1,
           .max = 1 << 24, .required = true),
    SW_OPT(ENUM, struct conf, units,
           "bernoulli, or gaussian (variance 1; needs a lower learning rate)", .def = "bernoulli",
           .choices = sw_hidden_units),
    SW_OPT(BOOL, struct conf, replicated,
           "the visible units are counts of words (units = softmax): biases count once per word",
           .def = "no"),
    SW_OPT(INT, struct conf, k, "steps of the Gibbs chain per training step with algorithm = cd",
           .def = "1", .min = 1, .max = 100000),
    SW_OPT(BOOL, struct conf, persistent, "continue the chains of the previous batch (PCD)",
           .def = "no"),
    SW_OPT(
        INT, struct conf, mean_field,
        "of a deep machine, whose hidden layers read each other: mean-field updates per training "
        "step",
        .def = "10", .min = 1, .max = 100000),
    SW_OPT(ENUM, struct conf, doubled,
           "direction in which weights count twice while the machine is trained alone, for a deep "
           "one: up in its first layer, both, down in its last",
           .def = "none", .choices = doubled_names),
    SW_OPT(REAL, struct conf, sparsity, "target mean activation of the hidden units; 0: none",
           .def = "0", .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct conf, sparsity_cost,
           "weight of the sparsity target in the gradient of the biases", .def = "0.1", .min = 0,
           .max = 1e6),
    SW_RBM_CONDITIONED_OPT(struct conf, conditioned),
    {0},
};

static const char *const params[] = {"weight", "bias", NULL};

static int conditions(const void *conf)
{
    return ((const struct conf *)conf)->conditioned;
}

static const char *refuses_split(const void *conf, int parts)
{
    const struct conf *c = conf;
    if (c->conditioned)
        return "its condition has the biases of whole rows";
    return c->hidden < parts ? "it has fewer units than there are workers" : NULL;
}

static size_t reserve(size_t *at, int64_t floats)
{
    return sw_layer_reserve(at, (size_t)floats * sizeof(float));
}

static int check_deep(const struct conf *c, enum sw_machine_place place, struct sw_err *err)
{
    static const enum doubled fits[] = {[SW_MACHINE_BOTTOM] = DOUBLED_UP,
                                        [SW_MACHINE_MIDDLE] = DOUBLED_BOTH,
                                        [SW_MACHINE_TOP] = DOUBLED_DOWN};

    if (place == SW_MACHINE_ALONE)
        return SW_OK;
    if (c->units != SW_UNITS_BERNOULLI || c->replicated)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "the hidden layers of a deep Boltzmann machine need units = bernoulli and "
            "replicated = no");
    if (c->doubled != DOUBLED_NONE && (enum doubled)c->doubled != fits[place])
        return sw_err_set(err, SW_ERR_INVALID,
                          "doubled = %s is not for its place in the deep Boltzmann machine: use %s",
                          doubled_names[c->doubled], doubled_names[fits[place]]);

    return SW_OK;
}

static int setup_condition(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    if (s->place != SW_MACHINE_ALONE)
        return sw_err_set(err, SW_ERR_INVALID,
                          "conditioned = yes: a deep Boltzmann machine has no conditions");
    if (c->replicated || c->persistent)
        return sw_err_set(err, SW_ERR_INVALID,
                          "conditioned = yes requires replicated = no and persistent = no: the "
                          "chains of a batch depend on its conditions");
    if (s->chain)
        l->backward_reads_src |= 1u << 1; /* all Gibbs steps read it */

    return sw_rbm_condition_init(&st->condition, l, 1, st->rows, c->hidden, s, err);
}

static int check(const struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    if (c->replicated && c->doubled)
        return sw_err_set(err, SW_ERR_INVALID, "doubled requires replicated = no");
    if (c->replicated && c->units != SW_UNITS_BERNOULLI)
        return sw_err_set(err, SW_ERR_INVALID, "replicated = yes requires units = bernoulli");
    if (c->sparsity > 0 && (c->replicated || c->units != SW_UNITS_BERNOULLI))
        return sw_err_set(err, SW_ERR_INVALID,
                          "sparsity requires units = bernoulli and replicated = no");
    if (c->replicated && s->training && !s->chain && !s->frozen)
        return sw_err_set(err, SW_ERR_INVALID,
                          "replicated = yes requires algorithm = cd: use inner_product instead");

    return check_deep(c, s->place, err);
}

static void find_factors(struct state *st, const struct conf *c)
{
    const bool alone = st->place == SW_MACHINE_ALONE;
    const bool up = alone ? c->doubled == DOUBLED_UP || c->doubled == DOUBLED_BOTH
                          : st->place != SW_MACHINE_TOP;
    const bool down = alone && (c->doubled == DOUBLED_DOWN || c->doubled == DOUBLED_BOTH);

    st->up = up ? 2 : 1;
    st->down = down ? 2 : 1;
}

static void setup_chain(struct sw_layer *l, const struct sw_layer_setup *s)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const int64_t n = st->rows;

    st->chain = true;
    st->share = 1.0f / (float)s->batch_rows;
    st->energy_at = reserve(&l->scratch_bytes, 2 * n);
    st->sample_at = reserve(&l->saved_bytes, n * st->hidden);
    st->mean_at = reserve(&l->saved_bytes, 2 * n * st->hidden);
    st->visible_at = reserve(&l->saved_bytes, 2 * n * st->visible);
    st->total_at = reserve(&l->saved_bytes, c->replicated ? 2 * n : 0);
    if (st->place != SW_MACHINE_ALONE) {
        st->mean_field = (int)c->mean_field;
        st->below_at = reserve(&l->saved_bytes, n * st->hidden);
        st->above_at = reserve(&l->saved_bytes, n * st->hidden);
    }

    l->chain.mean_field = st->mean_field;
    l->chain.steps = st->mean_field + (int)c->k;
    l->backward_reads_dst = true; /* the output must stay valid while the chain runs */
    l->backward_reads_src = 1;

    if (c->persistent) {
        struct sw_layer_recurrent_state *chain_state =
            &l->recurrent[sw_layer_add_recurrent_state(l, "chain", st->hidden)];
        chain_state->chain = true;
        chain_state->first = st->first;
        chain_state->whole = c->hidden;
    }

    const double steps = (double)l->chain.steps;
    l->flops_backward = l->flops_forward * (2.0 + steps);
    l->flops_forward *= 1.0 + steps;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    int rc = check(l, s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    st->rows = st->in.rows;
    st->visible = st->in.columns;
    sw_setup_part(s, c->hidden, &st->first, &st->hidden);
    st->seed = s->seed;
    st->place = s->place;
    find_factors(st, c);

    const int64_t dim[] = {st->hidden, st->visible}, out[] = {st->rows, st->hidden};
    const struct sw_desc weight = sw_desc_plain(SW_F32, 2, dim),
                         bias = sw_desc_plain(SW_F32, 1, dim);
    sw_layer_add_param(l, "weight", &weight, st->visible, c->hidden);
    sw_layer_add_param(l, "bias", &bias, 0, 0);
    if (s->parts > 1)
        sw_layer_mark_parts(l, st->first, c->hidden);
    l->dst.desc = sw_desc_plain(SW_F32, 2, out);
    l->flops_forward = 2.0 * (double)st->rows * (double)st->visible * (double)st->hidden;
    l->flops_backward = 2 * l->flops_forward;
    st->own_total_at = reserve(&l->scratch_bytes, c->replicated ? st->rows : 0);

    if (s->chain) {
        setup_chain(l, s);
    } else if (s->training) {
        st->dz_at = reserve(&l->scratch_bytes, st->rows * st->hidden);
        l->backward_reads_dst = c->units == SW_UNITS_BERNOULLI;
        l->backward_reads_src = 1;
    }

    return c->conditioned ? setup_condition(l, s, err) : SW_OK;
}

/* ---- Forward ---- */

/* Computes factor times W v, the input of the hidden units from the states v below, and
 * adds the condition. */
static int hidden_input(struct sw_layer *l, const struct sw_pass *r, float factor, const float *v,
                        float *to, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_gemm_args g = {.trans_b = true,
                                   .m = st->rows,
                                   .n = st->hidden,
                                   .k = st->visible,
                                   .alpha = factor,
                                   .a = v,
                                   .b = l->param[0].value,
                                   .c = to};

    int rc = sw_op_run(r->stream, &sw_op_gemm, &g, err);
    if (rc != SW_OK)
        return rc;

    return sw_rbm_condition_add(&st->condition, l, r, to, err);
}

/* Sets *total to the words per row, which is how often biases count; NULL: once. */
static int count_words(struct sw_layer *l, const struct sw_pass *r, const float *v, float **total,
                       struct sw_err *err)
{
    const struct state *st = l->state;

    *total = NULL;
    if (!((const struct conf *)l->conf)->replicated)
        return SW_OK;

    *total =
        st->chain ? sw_layer_at(l->saved, st->total_at) : sw_layer_at(l->scratch, st->own_total_at);

    const struct sw_row_sums_args a = {
        .rows = st->rows, .columns = st->visible, .x = v, .sum = *total};
    return sw_op_run(r->stream, &sw_op_row_sums, &a, err);
}

/* Is it the end of the positive phase, which starts the chain of samples, or the end of that? */
static bool starts(const struct state *st, const struct sw_pass *r)
{
    return r->chain == st->mean_field;
}

static bool ends(const struct sw_layer *l, const struct sw_pass *r)
{
    return r->chain == l->chain.steps;
}

/* Adds the layer's part of the objective: the hidden part of the free energy of the rows, whose x =
 * W v is in the output; in a deep machine the energy of the means in the output. */
static int add_energy(struct sw_layer *l, const struct sw_pass *r, const float *total,
                      struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const bool deep = st->place != SW_MACHINE_ALONE;
    const struct sw_unit_energy_args a = {.units = c->units,
                                          .free = !deep,
                                          .rows = st->rows,
                                          .columns = st->hidden,
                                          .x = l->dst.data,
                                          .bias = l->param[1].value,
                                          .input =
                                              deep ? sw_layer_at(l->saved, st->below_at) : NULL,
                                          .total = total,
                                          .energy = sw_layer_at(l->scratch, st->energy_at),
                                          .result = l->result,
                                          .factor = starts(st, r) ? 1 : -1,
                                          .more = !starts(st, r),
                                          .part = st->first > 0,
                                          .step = r->step};

    return sw_op_run(r->stream, &sw_op_unit_energy, &a, err);
}

static int copy_scaled(const struct sw_pass *r, int64_t n, float factor, const float *x, float *y,
                       struct sw_err *err)
{
    const struct sw_combine_args a = {.n = n, .alpha = factor, .beta = 0, .x = x, .y = y};
    return sw_op_run(r->stream, &sw_op_combine, &a, err);
}

/* Saves means and visible states for the gradient, those of the data before those of the chain. */
static int save_states(struct sw_layer *l, const struct sw_pass *r, const float *v,
                       const float *total, struct sw_err *err)
{
    const struct state *st = l->state;
    const int64_t n = starts(st, r) ? 0 : st->rows;
    const float share = starts(st, r) ? -st->share : st->share;

    int rc = copy_scaled(r, st->rows * st->hidden, share, l->dst.data,
                         (float *)sw_layer_at(l->saved, st->mean_at) + n * st->hidden, err);
    if (rc != SW_OK)
        return rc;
    rc = copy_scaled(r, st->rows * st->visible, 1, v,
                     (float *)sw_layer_at(l->saved, st->visible_at) + n * st->visible, err);
    if (rc != SW_OK)
        return rc;

    /* The rows of a chain have as many words as those of the data. */
    return total && n > 0 ? copy_scaled(r, st->rows, 1, total,
                                        (float *)sw_layer_at(l->saved, st->total_at) + n, err)
                          : SW_OK;
}

/* The state of a persistent chain, or NULL. */
static float *chain_state(const struct sw_layer *l)
{
    return l->recurrent_count > 0 ? l->recurrent[0].value : NULL;
}

/* Returns where the sample of this step of a chain goes; NULL: none is needed. The sample at the
 * end of a persistent chain is its recurrent state. */
static float *sample_of(const struct sw_layer *l, const struct sw_pass *r)
{
    const struct state *st = l->state;
    const bool read = st->place == SW_MACHINE_BOTTOM || st->place == SW_MACHINE_MIDDLE;

    if (r->chain < st->mean_field || (ends(l, r) && !chain_state(l) && !read))
        return NULL;

    return ends(l, r) && chain_state(l) ? chain_state(l) : sw_layer_at(l->saved, st->sample_at);
}

/* Computes the means of the hidden units, and their sample. */
static int sample_units(struct sw_layer *l, const struct sw_pass *r, const float *total,
                        struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const struct sw_units_args a = {.units = c->units,
                                    .rows = st->rows,
                                    .columns = st->hidden,
                                    .first_column = st->first,
                                    .x = l->dst.data,
                                    .bias = l->param[1].value,
                                    .total = total,
                                    .carried = starts(st, r) ? chain_state(l) : NULL,
                                    .mean = l->dst.data,
                                    .sample = sample_of(l, r),
                                    .key = sw_rbm_key(st->seed, l, r->chain),
                                    .step = r->step};

    return sw_op_run(r->stream, &sw_op_units, &a, err);
}

/* Computes the input of the units of a deep machine in the output. The lowest layer's input from
 * the data does not change during the mean-field updates. */
static int deep_input(struct sw_layer *l, const struct sw_pass *r, const float *v,
                      struct sw_err *err)
{
    const struct state *st = l->state;
    const bool same = st->place == SW_MACHINE_BOTTOM && r->chain > 0 && r->chain <= st->mean_field;
    float *below = sw_layer_at(l->saved, st->below_at);
    const struct sw_combine_args above = {.n = st->rows * st->hidden,
                                          .alpha = 1,
                                          .beta = 1,
                                          .x = sw_layer_at(l->saved, st->above_at),
                                          .y = l->dst.data};

    int rc = same ? SW_OK : hidden_input(l, r, 1, v, below, err);
    if (rc != SW_OK)
        return rc;
    rc = copy_scaled(r, st->rows * st->hidden, r->chain == 0 ? st->up : 1, below, l->dst.data, err);
    if (rc != SW_OK || r->chain == 0 || st->place == SW_MACHINE_TOP)
        return rc;

    return sw_op_run(r->stream, &sw_op_combine, &above, err);
}

/* A step of a deep machine that is trained. In mean-field updates other layers read means, in Gibbs
 * steps samples. */
static int forward_deep(struct sw_layer *l, const struct sw_pass *r, const float *v,
                        struct sw_err *err)
{
    const struct state *st = l->state;

    int rc = deep_input(l, r, v, err);
    if (rc == SW_OK)
        rc = sample_units(l, r, NULL, err);
    if (rc == SW_OK && (starts(st, r) || ends(l, r)))
        rc = add_energy(l, r, NULL, err);
    if (rc == SW_OK && (starts(st, r) || ends(l, r)))
        rc = save_states(l, r, v, NULL, err);
    if (rc != SW_OK || r->chain <= st->mean_field || st->place == SW_MACHINE_TOP)
        return rc;

    return copy_scaled(r, st->rows * st->hidden, 1, sample_of(l, r), l->dst.data, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const bool measured = st->chain && (starts(st, r) || ends(l, r));
    const float *v;
    float *total = NULL;

    if (r->chain > l->chain.steps)
        return SW_OK; /* the chain of another machine is longer */

    int rc = sw_plain_values(&st->in, l, r, &v, err);
    if (rc != SW_OK)
        return rc;
    if (st->chain && st->place != SW_MACHINE_ALONE)
        return forward_deep(l, r, v, err);
    rc = count_words(l, r, v, &total, err);
    if (rc != SW_OK)
        return rc;
    rc = hidden_input(l, r, st->up, v, l->dst.data, err);
    if (rc != SW_OK)
        return rc;

    if (measured)
        rc = add_energy(l, r, total, err);
    if (rc != SW_OK)
        return rc;

    if (st->chain) {
        rc = sample_units(l, r, total, err);
        if (rc != SW_OK)
            return rc;
        return measured ? save_states(l, r, v, total, err) : SW_OK;
    }

    const struct sw_units_args a = {.units = c->units,
                                    .rows = st->rows,
                                    .columns = st->hidden,
                                    .x = l->dst.data,
                                    .bias = l->param[1].value,
                                    .total = total,
                                    .mean = l->dst.data,
                                    .step = r->step};
    return sw_op_run(r->stream, &sw_op_units, &a, err);
}

/* ---- Backward ---- */

/* Computes to = factor h W, the input of the visible units from hidden states, or a gradient. */
static int visible_input(struct sw_layer *l, const struct sw_pass *r, float factor, const float *h,
                         float *to, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_gemm_args g = {.m = st->rows,
                                   .n = st->visible,
                                   .k = st->hidden,
                                   .alpha = factor,
                                   .a = h,
                                   .b = l->param[0].value,
                                   .c = to};

    return sw_op_run(r->stream, &sw_op_gemm, &g, err);
}

/* dW = factor h' v over `rows` rows. */
static int weight_gradient(struct sw_layer *l, const struct sw_pass *r, float factor, int64_t rows,
                           const float *h, const float *v, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_gemm_args g = {.trans_a = true,
                                   .m = st->hidden,
                                   .n = st->visible,
                                   .k = rows,
                                   .alpha = factor,
                                   .a = h,
                                   .b = v,
                                   .c = l->param[0].grad};

    return sw_op_run(r->stream, &sw_op_gemm, &g, err);
}

static int bias_gradient(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const double cost = c->sparsity > 0 ? c->sparsity_cost : 0;
    const struct sw_two_sums_args sums = {
        .rows = 2 * st->rows,
        .first_rows = st->rows,
        .columns = st->hidden,
        .first_factor = (float)(1 - cost),
        .shift = (float)(-cost * c->sparsity * (double)st->rows * (double)st->share),
        .x = sw_layer_at(l->saved, st->mean_at),
        .sum = l->param[1].grad};

    /* Every row is weighted by its number of words. */
    const struct sw_gemm_args words = {.trans_a = true,
                                       .m = st->hidden,
                                       .n = 1,
                                       .k = 2 * st->rows,
                                       .alpha = 1,
                                       .a = sw_layer_at(l->saved, st->mean_at),
                                       .b = sw_layer_at(l->saved, st->total_at),
                                       .c = l->param[1].grad,
                                       .exact = true};

    return c->replicated ? sw_op_run(r->stream, &sw_op_gemm, &words, err)
                         : sw_op_run(r->stream, &sw_op_two_sums, &sums, err);
}

static int chain_gradients(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const float *mean = sw_layer_at(l->saved, st->mean_at);

    const struct sw_rbm_sum of_condition = {1, 1, mean, mean + st->rows * st->hidden};

    int rc = sw_rbm_condition_gradient(&st->condition, l, r, &of_condition, err);
    if (rc != SW_OK || !l->param[0].grad)
        return rc;

    rc = weight_gradient(l, r, 1, 2 * st->rows, sw_layer_at(l->saved, st->mean_at),
                         sw_layer_at(l->saved, st->visible_at), err);
    if (rc != SW_OK)
        return rc;

    return bias_gradient(l, r, err);
}

/* Backward of a layer of a feed-forward net. */
static int backward_feed_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *v, *dz = l->dst.grad;
    float *to = sw_plain_gradient(&st->in, l);
    struct sw_sum_rows_args sums = {
        .rows = st->rows, .columns = st->hidden, .sum = l->param[1].grad};

    int rc = sw_plain_values(&st->in, l, r, &v, err);
    if (rc != SW_OK)
        return rc;

    if (c->units == SW_UNITS_BERNOULLI) {
        float *own = sw_layer_at(l->scratch, st->dz_at);

        rc = sw_op_run(r->stream, &sw_op_activation_gradient,
                       &(const struct sw_activation_gradient_args){.function = SW_ACT_SIGMOID,
                                                                   .alpha = 0,
                                                                   .y = l->dst.data,
                                                                   .dy = dz,
                                                                   .dx = own,
                                                                   .n = st->rows * st->hidden},
                       err);
        dz = own;
    }

    if (rc != SW_OK)
        return rc;

    sums.x = dz;
    if (l->param[0].grad)
        rc = weight_gradient(l, r, st->up, st->rows, dz, v, err);
    if (rc != SW_OK)
        return rc;

    if (l->param[1].grad)
        rc = sw_op_run(r->stream, &sw_op_sum_rows, &sums, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_rbm_condition_gradient(&st->condition, l, r, &(struct sw_rbm_sum){.alpha = 1, .a = dz},
                                   err);
    if (rc != SW_OK)
        return rc;

    if (to)
        rc = visible_input(l, r, st->up, dz, to, err);
    if (rc != SW_OK)
        return rc;

    return sw_plain_write(&st->in, l, err);
}

/* Keeps the input from the layer above, and returns that of the layer below, which is not needed by
 * visible units that remain the data. */
static int backward_deep(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const bool infers = r->chain <= st->mean_field;
    const float *h = infers ? l->dst.data : sw_layer_at(l->saved, st->sample_at);
    int rc = SW_OK;

    if (st->place != SW_MACHINE_TOP)
        rc = copy_scaled(r, st->rows * st->hidden, 1, l->dst.grad,
                         sw_layer_at(l->saved, st->above_at), err);
    if (rc != SW_OK || (infers && st->place == SW_MACHINE_BOTTOM))
        return rc;

    return visible_input(l, r, 1, h, l->src_grad[0], err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    if (!st->chain)
        return backward_feed_forward(l, r, err);
    if (r->chain == 0)
        return chain_gradients(l, r, err);
    if (r->chain > l->chain.steps)
        return SW_OK;

    return st->place != SW_MACHINE_ALONE
               ? backward_deep(l, r, err)
               : visible_input(l, r, st->down, sw_layer_at(l->saved, st->sample_at), l->src_grad[0],
                               err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "hidden = 5\n", .src = {{2, {4, 7}, 0}}, .dst = {4, 5}},
    {.recipe = "hidden = 19\nunits = gaussian\n", .src = {{2, {3, 6}, 0}}, .dst = {3, 19}},
    {.recipe = "hidden = 130\n", .src = {{4, {2, 20, 3, 2}, 0}}, .dst = {2, 130}},
    {.recipe = "hidden = 5\ndoubled = up\n", .src = {{2, {4, 7}, 0}}, .dst = {4, 5}},
    {.recipe = "hidden = 9\nconditioned = yes\n",
     .src = {{2, {4, 6}, 0}, {2, {4, 9}, 0}},
     .dst = {4, 9}},
    {0},
};

const struct sw_layer_type sw_layer_rbm_hidden = {
    .base = SW_TYPE("rbm_hidden", "hidden units of a restricted Boltzmann machine", struct conf,
                    opts, .params = params),
    .energy = SW_ENERGY_HIDDEN,
    .conditions = conditions,
    .split = SW_SPLIT_OUTPUTS,
    .refuses_split = refuses_split,
    SW_LAYER_FEATURES(1, 2, 0),
    .state_bytes = sizeof(struct state),
    .skips_frozen = true,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
