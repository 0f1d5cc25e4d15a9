/* rbm_visible: the visible units of a restricted Boltzmann machine (Hinton, "A Practical Guide to
 * Training Restricted Boltzmann Machines", 2010). An undirected connection is represented by two
 * directed ones (SINGA, TOMM 4.1.1): an rbm_hidden layer reads this layer, and in the Gibbs chain
 * of algorithm = cd (worker/cd.c) its backward pass returns W' h, from which this layer computes
 * the next visible states of the chain. They replace the data in its output.
 *
 * With one source the output is the data, rows x values, whatever the source's shape. With two
 * sources, the visible and the hidden layer of a machine, it is the reconstruction: the means of
 * the visible units given the hidden units, with the parameters of these layers. In nets that are
 * not trained with cd, data pass unchanged. With conditioned = yes there is one more source, which
 * is added to the biases of each row (layers/share/rbm.h), and which gets their gradient.
 *
 * The gradient of the bias is the mean of -dE/db over the end of the chain minus that over the
 * data; -dE/db is the states of a row (for gaussian units minus b, which cancels). This is the
 * gradient of the layer's term of the loss: the visible part of the mean free energy of the data
 * minus that of the end of the chain. */
#include "kernels/ops/elementwise.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"
#include "layers/share/plain.h"
#include "layers/share/rbm.h"

struct conf {
    int units;
    bool sampled, binary, conditioned;
};

struct state {
    struct sw_plain in, hidden; /* in: the data, or the visible layer */
    struct sw_rbm_condition condition;
    struct sw_philox key;
    uint64_t seed;
    bool chain, reconstructs;
    float share;                    /* weight of a row in the mean over the batch */
    size_t energy_at, own_total_at; /* offsets in scratch */
    size_t sum_at, total_at;        /* offsets in saved: column sums and row sums of the data */
    size_t data_at;                 /* offset in saved: the data of a conditional machine */
};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, units,
           "bernoulli (0 to 1), gaussian (variance 1), or softmax: counts of words (replicated)",
           .def = "bernoulli", .choices = sw_visible_units),
    SW_OPT(BOOL, struct conf, sampled,
           "sample the states of the chain; no: use means, as in reconstructions", .def = "yes"),
    SW_OPT(BOOL, struct conf, binary,
           "data are probabilities: every step samples 0 or 1 for each value", .def = "no"),
    SW_RBM_CONDITIONED_OPT(struct conf, conditioned),
    {0},
};

static const char *const params[] = {"weight", "bias", NULL};

/* A reconstruction uses the parameters of the machine. */
static const struct sw_layer_borrow borrows[] = {
    {.param = "weight", .sources = 2, .src = 1, .of = "weight"},
    {.param = "bias", .sources = 2, .src = 0, .of = "bias"},
    {0},
};

static int conditions(const void *conf)
{
    return ((const struct conf *)conf)->conditioned;
}

static bool counts_words(const struct sw_layer *l)
{
    return ((const struct conf *)l->conf)->units == SW_UNITS_SOFTMAX;
}

static void add_bias(struct sw_layer *l, int64_t columns)
{
    const struct sw_desc layout = sw_desc_plain(SW_F32, 1, &columns);
    sw_layer_add_param(l, "bias", &layout, 0, 0);
}

static int setup_reconstruction(struct sw_layer *l, const struct sw_layer_setup *s,
                                struct sw_err *err)
{
    struct state *st = l->state;

    if (s->training)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a loss depends on this reconstruction, which passes no gradient: use "
                          "inner_product with transpose = yes and an activation");

    int rc = sw_layer_need_src(l, 1, 0, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->hidden, l, 1, s, err);
    if (rc != SW_OK)
        return rc;
    if (st->hidden.rows != st->in.rows)
        return sw_err_set(err, SW_ERR_INVALID, "%lld visible rows but %lld hidden ones",
                          (long long)st->in.rows, (long long)st->hidden.rows);

    const int64_t dim[] = {st->hidden.columns, st->in.columns};
    const struct sw_desc weight = sw_desc_plain(SW_F32, 2, dim);
    sw_layer_add_param(l, "weight", &weight, dim[1], dim[0]);
    add_bias(l, dim[1]);
    st->own_total_at = sw_layer_reserve(&l->scratch_bytes, (size_t)st->in.rows * sizeof(float));
    l->flops_forward = 2.0 * (double)st->in.rows * (double)dim[0] * (double)dim[1];

    return SW_OK;
}

static void setup_chain(struct sw_layer *l, const struct sw_layer_setup *s)
{
    struct state *st = l->state;

    st->energy_at = sw_layer_reserve(&l->scratch_bytes, (size_t)st->in.rows * sizeof(double));
    st->sum_at = sw_layer_reserve(&l->saved_bytes, (size_t)st->in.columns * sizeof(float));
    st->total_at = sw_layer_reserve(&l->saved_bytes, (size_t)st->in.rows * sizeof(float));
    l->backward_reads_dst = true;
    st->chain = true;
    st->share = 1.0f / (float)s->batch_rows;
    if (!st->condition.src)
        return;

    l->backward_reads_src = 1u << st->condition.src;
    st->data_at = sw_layer_reserve(&l->saved_bytes, sw_desc_bytes(&l->dst.desc));
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    int rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    if (c->binary && c->units != SW_UNITS_BERNOULLI)
        return sw_err_set(err, SW_ERR_INVALID, "binary = yes requires units = bernoulli");

    const int own = sw_layer_own_sources(l->type, c, l->src_count);
    if (own > 2)
        return sw_err_set(err, SW_ERR_INVALID, "three sources require conditioned = yes");
    if (c->conditioned) {
        rc = sw_rbm_condition_init(&st->condition, l, own, st->in.rows, st->in.columns, s, err);
        if (rc != SW_OK)
            return rc;
    }

    st->reconstructs = own == 2;
    st->seed = s->seed;
    st->key = sw_rbm_key(s->seed, l, 0);
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){st->in.rows, st->in.columns});
    l->flops_forward = l->flops_backward = (double)sw_desc_count(&l->dst.desc);
    if (st->reconstructs)
        return setup_reconstruction(l, s, err);

    if (s->energy)
        add_bias(l, st->in.columns);
    if (s->chain)
        setup_chain(l, s);

    return SW_OK;
}

/* ---- Passes ---- */

static struct sw_units_args units_of(const struct sw_layer *l, const struct sw_pass *r)
{
    const struct state *st = l->state;

    return (struct sw_units_args){.units = ((const struct conf *)l->conf)->units,
                                  .rows = st->in.rows,
                                  .columns = st->in.columns,
                                  .share = counts_words(l) ? l->dst.data : NULL,
                                  .key = st->key,
                                  .step = r->step};
}

static int count_words(const struct sw_layer *l, const struct sw_pass *r, const float *x, float *to,
                       struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_row_sums_args a = {
        .rows = st->in.rows, .columns = st->in.columns, .x = x, .sum = to};
    return counts_words(l) ? sw_op_run(r->stream, &sw_op_row_sums, &a, err) : SW_OK;
}

static int sum_columns(const struct sw_layer *l, const struct sw_pass *r, float *to,
                       struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_sum_rows_args a = {
        .rows = st->in.rows, .columns = st->in.columns, .x = l->dst.data, .sum = to};
    return sw_op_run(r->stream, &sw_op_sum_rows, &a, err);
}

/* Adds the energy of the visible units to the layer's term of the loss, up to what a condition adds
 * to the energies of data and chain alike. */
static int add_energy(const struct sw_layer *l, const struct sw_pass *r, bool of_data,
                      struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_unit_energy_args a = {.units = ((const struct conf *)l->conf)->units,
                                    .rows = st->in.rows,
                                    .columns = st->in.columns,
                                    .x = l->dst.data,
                                    .bias = l->param[0].value,
                                    .energy = sw_layer_at(l->scratch, st->energy_at),
                                    .result = l->result,
                                    .factor = of_data ? 1 : -1,
                                    .more = !of_data,
                                    .step = r->step};

    int rc = sw_rbm_condition_values(&st->condition, l, r, &a.input, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_unit_energy, &a, err);
}

static int reconstruct(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const float *v, *h;
    float *total = sw_layer_at(l->scratch, st->own_total_at);
    struct sw_units_args a = units_of(l, r);

    int rc = sw_plain_values(&st->in, l, r, &v, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_values(&st->hidden, l, r, &h, err);
    if (rc != SW_OK)
        return rc;
    rc = count_words(l, r, v, total, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_gemm_args g = {.m = st->in.rows,
                                   .n = st->in.columns,
                                   .k = st->hidden.columns,
                                   .alpha = 1,
                                   .a = h,
                                   .b = l->param[0].value,
                                   .c = l->dst.data};
    rc = sw_op_run(r->stream, &sw_op_gemm, &g, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_rbm_condition_add(&st->condition, l, r, l->dst.data, err);
    if (rc != SW_OK)
        return rc;

    a.x = a.mean = l->dst.data;
    a.bias = l->param[1].value;
    a.total = counts_words(l) ? total : NULL;

    return sw_op_run(r->stream, &sw_op_units, &a, err);
}

/* Copies the data to the output, or samples binary values from them. Gaussian means without a bias
 * are a copy. */
static int read_data(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_units_args a = units_of(l, r);

    int rc = sw_plain_values(&st->in, l, r, &a.x, err);
    if (rc != SW_OK)
        return rc;

    a.units = c->binary ? SW_UNITS_BERNOULLI : SW_UNITS_GAUSSIAN;
    *(c->binary ? &a.sample : &a.mean) = l->dst.data;
    a.share = NULL;

    return sw_op_run(r->stream, &sw_op_units, &a, err);
}

/* Keeps the data for the gradient of the condition. */
static int save_data(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    return st->condition.src > 0 ? sw_copy(r->stream, sw_layer_at(l->saved, st->data_at),
                                           l->dst.data, sw_desc_bytes(&l->dst.desc), err)
                                 : SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    if (st->reconstructs)
        return reconstruct(l, r, err);
    if (r->chain > 0)
        return SW_OK; /* backward has already written the states */

    int rc = read_data(l, r, err);
    if (rc != SW_OK || !st->chain)
        return rc;
    rc = sum_columns(l, r, sw_layer_at(l->saved, st->sum_at), err);
    if (rc != SW_OK)
        return rc;
    rc = count_words(l, r, l->dst.data, sw_layer_at(l->saved, st->total_at), err);
    if (rc != SW_OK)
        return rc;
    rc = save_data(l, r, err);
    if (rc != SW_OK)
        return rc;

    return add_energy(l, r, true, err);
}

/* Computes the next states of the chain from the input that the hidden units returned. */
static int gibbs_step(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_units_args a = units_of(l, r);
    if (r->chain > l->chain.steps || r->chain <= l->chain.mean_field)
        return SW_OK; /* the chain of another machine is longer, or the states remain the data */

    a.x = l->dst.grad;
    a.bias = l->param[0].value;
    a.key = sw_rbm_key(st->seed, l, r->chain);
    a.total = counts_words(l) ? sw_layer_at(l->saved, st->total_at) : NULL;
    a.share = counts_words(l) ? l->dst.grad : NULL;
    *(c->sampled ? &a.sample : &a.mean) = l->dst.data;

    int rc = sw_rbm_condition_add(&st->condition, l, r, l->dst.grad, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_units, &a, err);
    if (rc != SW_OK)
        return rc;

    return r->chain == l->chain.steps ? add_energy(l, r, false, err) : SW_OK;
}

static int bias_gradient(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    float *grad = l->param[0].grad;
    if (!grad)
        return SW_OK;

    const struct sw_combine_args minus_data = {.n = st->in.columns,
                                               .alpha = -st->share,
                                               .beta = st->share,
                                               .x = sw_layer_at(l->saved, st->sum_at),
                                               .y = grad};
    int rc = sum_columns(l, r, grad, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_combine, &minus_data, err);
}

static int chain_gradients(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_rbm_sum of_condition = {st->share, -st->share, l->dst.data,
                                            sw_layer_at(l->saved, st->data_at)};

    int rc = bias_gradient(l, r, err);
    if (rc != SW_OK)
        return rc;

    return sw_rbm_condition_gradient(&st->condition, l, r, &of_condition, err);
}

/* Backward of a layer of a feed-forward net, which does not depend on the condition. */
static int backward_feed_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_units_args a = units_of(l, r);

    a.units = SW_UNITS_GAUSSIAN;
    a.x = l->dst.grad;
    a.mean = sw_plain_gradient(&st->in, l);
    a.share = NULL;

    int rc = a.mean ? sw_op_run(r->stream, &sw_op_units, &a, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_rbm_condition_gradient(&st->condition, l, r, &(struct sw_rbm_sum){.a = l->dst.grad},
                                   err);
    if (rc != SW_OK)
        return rc;

    return sw_plain_write(&st->in, l, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    return !st->chain     ? backward_feed_forward(l, r, err)
           : r->chain > 0 ? gibbs_step(l, r, err)
                          : chain_gradients(l, r, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{4, {3, 2, 3, 4}, 0}}, .dst = {3, 24}},
    {.recipe = "units = gaussian\n", .src = {{2, {4, 7}, 0}}, .dst = {4, 7}},
    {.recipe = "conditioned = yes\n", .src = {{2, {4, 7}, 0}, {2, {4, 7}, 0}}, .dst = {4, 7}},
    {0},
};

const struct sw_layer_type sw_layer_rbm_visible = {
    .base = SW_TYPE("rbm_visible",
                    "visible units of a restricted Boltzmann machine, or their reconstruction",
                    struct conf, opts, .params = params),
    .energy = SW_ENERGY_VISIBLE,
    .conditions = conditions,
    .borrows = borrows,
    .split_reason = "the hidden units read whole rows",
    SW_LAYER_FEATURES(1, 3, 0),
    .state_bytes = sizeof(struct state),
    .skips_frozen = true,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
