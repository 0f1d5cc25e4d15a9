/* log_likelihood: the mean of log p(v) = -F(v) - log Z over rows, in nats, of a restricted
 * Boltzmann machine, with log Z estimated once per evaluation by annealed importance sampling
 * (kernels/ops/ais.h). The estimate of Z is unbiased, so with too few or too short chains that of
 * log Z tends to be too low and the likelihood too high; Salakhutdinov and Murray use 100 chains of
 * 14500 temperatures. Every row of the first batch may run a chain, so the chains are distributed
 * over the workers and the result does not depend on their number. The result is a likelihood only
 * if rows of bernoulli units are 0 or 1 (binary = yes); this is not checked. Sources: the
 * rbm_visible and the rbm_hidden layer. */
#include "kernels/ops/ais.h"
#include "layers/share/rbm.h"
#include <math.h>

struct conf {
    struct sw_rbm_conf machine;
    int64_t chains, temperatures;
};

struct state {
    struct sw_rbm machine; /* first member */
    uint64_t seed;
    size_t v_at, h_at, weight_at; /* offsets in scratch */
};

static const struct sw_opt opts[] = {
    SW_RBM_OPTS(struct conf, machine),
    SW_OPT(INT, struct conf, chains,
           "chains of annealed importance sampling; at most the rows of an evaluation batch",
           .def = "100", .min = 1, .max = 65536),
    SW_OPT(INT, struct conf, temperatures,
           "steps in which each chain goes from zero weights to the machine's weights",
           .def = "14500", .min = 1, .max = 10000000),
    {0},
};

/* Work per phase: phases are short so that the worker's heartbeat continues. */
#define PHASE_FLOPS 1e10

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const struct sw_rbm *m = &st->machine;

    int rc = sw_rbm_setup(&st->machine, l, s, err);
    if (rc != SW_OK)
        return rc;

    if (c->machine.visible_units == SW_UNITS_SOFTMAX)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "visible_units = softmax is not supported: rows of different lengths have "
            "different partition functions");

    if (c->chains > s->batch_rows)
        return sw_err_set(err, SW_ERR_INVALID,
                          "chains = %lld, but an evaluation batch has %lld rows: raise eval_batch "
                          "or lower chains",
                          (long long)c->chains, (long long)s->batch_rows);

    const int64_t rows = m->rows < c->chains ? m->rows : c->chains;
    const double step = 4.0 * (double)c->chains * (double)m->visible * (double)m->hidden;
    const double phases = ceil(step * (double)c->temperatures / PHASE_FLOPS);
    st->seed = s->seed;
    st->v_at = sw_layer_reserve(&l->scratch_bytes, (size_t)(rows * m->visible) * sizeof(float));
    st->h_at = sw_layer_reserve(&l->scratch_bytes, (size_t)(rows * m->hidden) * sizeof(float));
    st->weight_at = sw_layer_reserve(&l->scratch_bytes, (size_t)rows * sizeof(double));
    l->pair_count = 1 + (int)c->chains;
    l->phases.forward = phases < (double)c->temperatures ? (int)phases : (int)c->temperatures;

    return SW_OK;
}

static int anneal(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const struct sw_rbm *m = &st->machine;
    const int64_t phases = l->phases.forward;
    const struct sw_ais_args a = {.visible_units = c->machine.visible_units,
                                  .hidden_units = c->machine.hidden_units,
                                  .rows = m->rows < c->chains ? m->rows : c->chains,
                                  .chains = c->chains,
                                  .visible = m->visible,
                                  .hidden = m->hidden,
                                  .first = c->temperatures * r->phase / phases,
                                  .last = c->temperatures * (r->phase + 1) / phases,
                                  .temperatures = c->temperatures,
                                  .weight = l->param[SW_RBM_WEIGHT].value,
                                  .bias = l->param[SW_RBM_BIAS].value,
                                  .visible_bias = l->param[SW_RBM_VISIBLE_BIAS].value,
                                  .seed = st->seed,
                                  .id = l->id,
                                  .runs = r->begins,
                                  .step = r->step,
                                  .v = sw_layer_at(l->scratch, st->v_at),
                                  .h = sw_layer_at(l->scratch, st->h_at),
                                  .log_weight = sw_layer_at(l->scratch, st->weight_at),
                                  .result = l->result + 1};

    return sw_op_run(r->stream, &sw_op_ais, &a, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *v;

    if (r->phase == 0) {
        int rc = sw_rbm_weigh(&st->machine, l, r, &v, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_rbm_free_energy(&st->machine, l, r, &c->machine, v, -1, err);
        if (rc != SW_OK)
            return rc;
    }

    return anneal(l, r, err);
}

/* ---- Reported values ---- */

static const char *const values[] = {"nats", "log_partition", NULL};

/* Returns the log of the mean weight of the chains, which estimates log Z. */
static double log_partition(const struct sw_result *chain, int64_t chains)
{
    double most = -INFINITY, sum = 0;
    int64_t count = 0;

    for (int64_t i = 0; i < chains; i++)
        if (chain[i].weight > 0)
            most = fmax(most, chain[i].sum / chain[i].weight);

    for (int64_t i = 0; i < chains; i++)
        if (chain[i].weight > 0) {
            sum += exp(chain[i].sum / chain[i].weight - most);
            count++;
        }

    return count > 0 ? most + log(sum / (double)count) : (double)NAN;
}

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    const struct conf *c = l->conf;
    const double log_z = log_partition(total + 1, c->chains);

    return which == 1          ? log_z
           : total->weight > 0 ? total->sum / total->weight - log_z
                               : (double)NAN;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "chains = 3\ntemperatures = 5\n", .src = {{2, {4, 10}, 0}, {2, {4, 6}, 0}}},
    {.recipe = "chains = 3\ntemperatures = 5\nvisible_units = gaussian\nhidden_units = gaussian\n",
     .src = {{2, {3, 37}, 0}, {2, {3, 19}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_log_likelihood = {
    .base =
        SW_TYPE("log_likelihood",
                "log likelihood of rows in a Boltzmann machine, by annealed importance sampling",
                struct conf, opts, .params = sw_rbm_params),
    .role = SW_ROLE_METRIC,
    .borrows = sw_rbm_borrows,
    .values = values,
    .value = value,
    .split_reason = "a row's energy needs all its values",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
