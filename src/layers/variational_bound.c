/* variational_bound: a lower bound of the mean of log p(v) over rows, in nats, of a deep Boltzmann
 * machine with two or three hidden layers and binary units (Salakhutdinov and Hinton, "Deep
 * Boltzmann Machines", 2009, sections 2 and 4):
 *
 *   log p(v) >= E_q[-E(v, h)] + H(q) - log Z
 *
 * q has independent units, whose means come from mean-field inference: a first pass upwards, then
 * `mean_field` updates of the layers in turn, of which none lowers the bound. At the end of the
 * last one, with z_l the input of layer l and t_l the part of it from above, the first two terms
 * are
 *
 *   b_0 v + sum_l [sum_j log(1 + exp(z_lj + b_lj)) - mean_l t_l]
 *
 * log Z is estimated once per evaluation by annealed importance sampling (layers/share/ais.h).
 * Layers of odd and of even number form a machine with one hidden layer, which has the same Z: the
 * chains have states of the odd layers, and the even ones, the visible one among them, are summed
 * out. The estimate of log Z tends to be too low and the value is then too high, so that it is a
 * bound only with enough chains and temperatures; and only if rows are 0 or 1 (binary = yes).
 * Sources: the rbm_visible and the rbm_hidden layers, from below. */
#include "device/ops/elementwise.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/set_block.h"
#include "kernels/ops/units.h"
#include "layers/share/ais.h"
#include "layers/share/plain.h"

enum { HIDDEN_LAYERS = 3 };

struct conf {
    int64_t mean_field;
    struct sw_ais_conf ais;
};

struct state {
    struct sw_plain in;
    struct sw_ais ais;
    int64_t rows, width[1 + HIDDEN_LAYERS];      /* units of each layer; 0: the visible one */
    int layers;                                  /* hidden ones */
    size_t mean_at[1 + HIDDEN_LAYERS];           /* offsets in scratch */
    size_t lowest_at, x_at, above_at, energy_at; /* W_1 v; input of a layer; minus the part of it
                                                    from above; one number per row */
    size_t weight_at, even_at, odd_at;           /* the machine of the chains: weight and biases */
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, mean_field, "mean-field updates of each row", .def = "30", .min = 1,
           .max = 100000),
    SW_AIS_OPTS(struct conf, ais),
    {0},
};

static const char *const params[] = {"weight1", "bias1", "weight2",      "bias2",
                                     "weight3", "bias3", "visible_bias", NULL};

#define BORROWS(layers_, k, weight_, bias_)                                                        \
    {.param = weight_, .sources = layers_ + 1, .src = k, .of = "weight"},                          \
    {                                                                                              \
        .param = bias_, .sources = layers_ + 1, .src = k, .of = "bias"                             \
    }
static const struct sw_layer_borrow borrows[] = {
    BORROWS(2, 1, "weight1", "bias1"),
    BORROWS(2, 2, "weight2", "bias2"),
    {.param = "visible_bias", .sources = 3, .src = 0, .of = "bias"},
    BORROWS(3, 1, "weight1", "bias1"),
    BORROWS(3, 2, "weight2", "bias2"),
    BORROWS(3, 3, "weight3", "bias3"),
    {.param = "visible_bias", .sources = 4, .src = 0, .of = "bias"},
    {0},
};

/* ---- Setup ---- */

static size_t reserve(struct sw_layer *l, int64_t floats)
{
    return sw_layer_reserve(&l->scratch_bytes, (size_t)floats * sizeof(float));
}

/* Returns the index of the layer's first unit among those of its side of the chains' machine. */
static int64_t first_unit(const struct state *st, int layer)
{
    return layer >= 2 ? st->width[layer - 2] : 0;
}

static void add_params(struct sw_layer *l, const struct state *st)
{
    static const char *const names[] = {"weight1", "bias1", "weight2", "bias2", "weight3", "bias3"};

    for (int k = 1; k <= st->layers; k++) {
        const int64_t dim[] = {st->width[k], st->width[k - 1]};
        const struct sw_desc weight = sw_desc_plain(SW_F32, 2, dim),
                             bias = sw_desc_plain(SW_F32, 1, dim);
        sw_layer_add_param(l, names[2 * k - 2], &weight, dim[1], dim[0]);
        sw_layer_add_param(l, names[2 * k - 1], &bias, 0, 0);
    }

    const struct sw_desc visible = sw_desc_plain(SW_F32, 1, st->width);
    sw_layer_add_param(l, "visible_bias", &visible, 0, 0);
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    int64_t widest = 0, connections = 0, side[2] = {0};

    int rc = sw_plain_init(&st->in, l, 0, s, err);
    for (int k = 1; k < l->src_count && rc == SW_OK; k++)
        rc = sw_layer_need_src(l, k, 2, err);
    if (rc != SW_OK)
        return rc;

    st->rows = st->in.rows;
    st->layers = l->src_count - 1;
    for (int k = 0; k <= st->layers; k++) {
        st->width[k] = k == 0 ? st->in.columns : l->src[k]->desc.dim[1];
        side[k % 2] += st->width[k];
        widest = st->width[k] > widest ? st->width[k] : widest;
        connections += k > 0 ? st->width[k] * st->width[k - 1] : 0;
        st->mean_at[k] = k > 0 ? reserve(l, st->rows * st->width[k]) : 0;
    }

    add_params(l, st);
    st->lowest_at = reserve(l, st->rows * st->width[1]);
    st->x_at = reserve(l, st->rows * widest);
    st->above_at = reserve(l, st->rows * widest);
    st->energy_at = sw_layer_reserve(&l->scratch_bytes, (size_t)st->rows * sizeof(double));
    st->weight_at = reserve(l, side[0] * side[1]);
    st->even_at = reserve(l, side[0]);
    st->odd_at = reserve(l, side[1]);
    l->dst.desc = sw_desc_plain(SW_F32, 1, &st->rows);
    l->flops_forward = 4.0 * (double)st->rows * (double)connections * (double)(1 + c->mean_field);

    const struct sw_ais_size size = {st->rows, side[1], side[0]};
    return sw_ais_setup(&st->ais, l, s, &c->ais, &size, err);
}

/* ---- Inference ---- */

static float *mean_of(const struct sw_layer *l, int k)
{
    return sw_layer_at(l->scratch, ((const struct state *)l->state)->mean_at[k]);
}

static const float *weight_of(const struct sw_layer *l, int k)
{
    return l->param[2 * k - 2].value;
}

static const float *bias_of(const struct sw_layer *l, int k)
{
    const struct state *st = l->state;
    return l->param[k > 0 ? 2 * k - 1 : 2 * st->layers].value;
}

/* Computes to = factor W_k x, with x the states of the layer below. */
static int from_below(const struct sw_layer *l, const struct sw_pass *r, int k, float factor,
                      const float *x, float *to, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_gemm_args g = {.trans_b = true,
                                   .m = st->rows,
                                   .n = st->width[k],
                                   .k = st->width[k - 1],
                                   .alpha = factor,
                                   .a = x,
                                   .b = weight_of(l, k),
                                   .c = to};
    return sw_op_run(r->stream, &sw_op_gemm, &g, err);
}

/* Subtracts the input from layer k + 1 from that of layer k: once as its negative, then from x. */
static int add_above(const struct sw_layer *l, const struct sw_pass *r, int k, struct sw_err *err)
{
    const struct state *st = l->state;
    float *above = sw_layer_at(l->scratch, st->above_at), *x = sw_layer_at(l->scratch, st->x_at);
    const struct sw_gemm_args g = {.m = st->rows,
                                   .n = st->width[k],
                                   .k = st->width[k + 1],
                                   .alpha = -1,
                                   .a = mean_of(l, k + 1),
                                   .b = weight_of(l, k + 1),
                                   .c = above};
    const struct sw_combine_args sum = {
        .n = st->rows * st->width[k], .alpha = -1, .beta = 1, .x = above, .y = x};

    int rc = sw_op_run(r->stream, &sw_op_gemm, &g, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_combine, &sum, err);
}

/* Adds the energy of a layer to that of the rows, whose sum becomes the result if `last`. */
static int add_energy(const struct sw_layer *l, const struct sw_pass *r,
                      struct sw_unit_energy_args a, int k, bool last, struct sw_err *err)
{
    const struct state *st = l->state;

    a.units = SW_UNITS_BERNOULLI;
    a.add = k > 0;
    a.rows = st->rows;
    a.columns = st->width[k];
    a.energy = sw_layer_at(l->scratch, st->energy_at);
    a.result = last ? l->result : NULL;
    a.factor = -1;
    a.step = r->step;

    return sw_op_run(r->stream, &sw_op_unit_energy, &a, err);
}

/* Updates the means of layer k. `first`: in the first pass, without input from above; `last`: also
 * adds the layer's energy. */
static int update(const struct sw_layer *l, const struct sw_pass *r, int k, bool first, bool last,
                  struct sw_err *err)
{
    const struct state *st = l->state;
    const bool top = k == st->layers;
    float *x = sw_layer_at(l->scratch, st->x_at);
    const struct sw_combine_args lowest = {.n = st->rows * st->width[1],
                                           .alpha = first ? 2 : 1,
                                           .x = sw_layer_at(l->scratch, st->lowest_at),
                                           .y = x};
    const struct sw_units_args means = {.units = SW_UNITS_BERNOULLI,
                                        .rows = st->rows,
                                        .columns = st->width[k],
                                        .x = x,
                                        .bias = bias_of(l, k),
                                        .mean = mean_of(l, k),
                                        .step = r->step};
    const struct sw_unit_energy_args summed_out = {.free = true, .x = x, .bias = bias_of(l, k)},
                                     twice = {.x = mean_of(l, k),
                                              .input = sw_layer_at(l->scratch, st->above_at)};

    int rc = k == 1 ? sw_op_run(r->stream, &sw_op_combine, &lowest, err)
                    : from_below(l, r, k, first && !top ? 2 : 1, mean_of(l, k - 1), x, err);
    if (rc == SW_OK && !first && !top)
        rc = add_above(l, r, k, err);
    if (rc == SW_OK && last)
        rc = add_energy(l, r, summed_out, k, top, err);
    if (rc == SW_OK)
        rc = sw_op_run(r->stream, &sw_op_units, &means, err);
    if (rc == SW_OK && last && !top)
        rc = add_energy(l, r, twice, k, false, err);

    return rc;
}

/* Counts the activations of layer k, whose means or states these are. */
static int count(struct sw_layer *l, const struct sw_pass *r, int k, const float *mean,
                 struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_ais_units units = {.hidden = k % 2 == 0,
                                       .first = first_unit(st, k),
                                       .columns = st->width[k],
                                       .mean = mean,
                                       .rows = st->rows};

    return sw_ais_count(&st->ais, l, r, &units, err);
}

static int infer(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *v;

    int rc = sw_plain_values(&st->in, l, r, &v, err);
    if (rc != SW_OK)
        return rc;
    rc = from_below(l, r, 1, 1, v, sw_layer_at(l->scratch, st->lowest_at), err);
    if (rc != SW_OK)
        return rc;

    const struct sw_unit_energy_args visible = {.x = v, .bias = bias_of(l, 0)};
    rc = add_energy(l, r, visible, 0, false, err);

    for (int64_t u = 0; u <= c->mean_field; u++)
        for (int k = 1; k <= st->layers && rc == SW_OK; k++)
            rc = update(l, r, k, u == 0, u == c->mean_field, err);
    for (int k = 0; k <= st->layers && rc == SW_OK; k++)
        rc = count(l, r, k, k > 0 ? mean_of(l, k) : v, err);

    return rc;
}

/* ---- The partition function ---- */

/* Fills the weight [even, odd] and the biases of the machine of the chains. Layers that are not
 * neighbors are not connected. */
static int fill_machine(const struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const int64_t width = st->ais.size.visible;
    float *weight = sw_layer_at(l->scratch, st->weight_at);

    int rc = sw_fill_zero(r->stream, weight, (size_t)(st->ais.size.hidden * width) * sizeof *weight,
                          err);

    for (int k = 1; k <= st->layers && rc == SW_OK; k++) {
        const int even = k % 2 ? k - 1 : k, odd = k % 2 ? k : k - 1;
        const struct sw_set_block_args block = {.transposed = k % 2,
                                                .rows = st->width[even],
                                                .columns = st->width[odd],
                                                .width = width,
                                                .x = weight_of(l, k),
                                                .y = weight + first_unit(st, even) * width +
                                                     first_unit(st, odd)};
        rc = sw_op_run(r->stream, &sw_op_set_block, &block, err);
    }

    for (int k = 0; k <= st->layers && rc == SW_OK; k++) {
        float *side = sw_layer_at(l->scratch, k % 2 ? st->odd_at : st->even_at);
        const struct sw_set_block_args block = {.rows = 1,
                                                .columns = st->width[k],
                                                .width = st->width[k],
                                                .x = bias_of(l, k),
                                                .y = side + first_unit(st, k)};
        rc = sw_op_run(r->stream, &sw_op_set_block, &block, err);
    }

    return rc;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_ais_args machine = {.visible_units = SW_UNITS_BERNOULLI,
                                        .hidden_units = SW_UNITS_BERNOULLI,
                                        .weight = sw_layer_at(l->scratch, st->weight_at),
                                        .bias = sw_layer_at(l->scratch, st->even_at),
                                        .visible_bias = sw_layer_at(l->scratch, st->odd_at)};

    if (r->phase == 0) {
        int rc = infer(l, r, err);
        if (rc != SW_OK)
            return rc;
        rc = fill_machine(l, r, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_ais_run(&st->ais, l, r, &machine, err);
}

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    return sw_ais_value(total, ((const struct conf *)l->conf)->ais.chains, which);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "chains = 3\ntemperatures = 5\nmean_field = 3\n",
     .src = {{2, {4, 10}, 0}, {2, {4, 6}, 0}, {2, {4, 5}, 0}},
     .range = {{0, 1}}},
    {0},
};

const struct sw_layer_type sw_layer_variational_bound = {
    .base = SW_TYPE("variational_bound",
                    "lower bound of the log likelihood of rows in a deep Boltzmann machine",
                    struct conf, opts, .params = params),
    .role = SW_ROLE_METRIC,
    .borrows = borrows,
    .values = sw_ais_values,
    .value = value,
    .split_reason = "a row's energy needs all its values",
    SW_LAYER_FEATURES(3, 4, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
