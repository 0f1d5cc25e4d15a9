/* log_likelihood: the mean of log p(v) = -F(v) - log Z over rows, in nats, of a restricted
 * Boltzmann machine, with log Z estimated once per evaluation by annealed importance sampling
 * (layers/share/ais.h); Salakhutdinov and Murray use 100 chains of 14500 temperatures. The result
 * is a likelihood only if rows of bernoulli units are 0 or 1 (binary = yes); this is not checked.
 * Sources: the rbm_visible and the rbm_hidden layer. */
#include "layers/share/ais.h"
#include "layers/share/rbm.h"

struct conf {
    struct sw_rbm_conf machine;
    struct sw_ais_conf ais;
};

struct state {
    struct sw_rbm machine; /* first member */
    struct sw_ais ais;
};

static const struct sw_opt opts[] = {
    SW_RBM_OPTS(struct conf, machine),
    SW_AIS_OPTS(struct conf, ais),
    {0},
};

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

    const struct sw_ais_size size = {m->rows, m->visible, m->hidden};
    return sw_ais_setup(&st->ais, l, s, &c->ais, &size, err);
}

/* Counts the activations of both sides. x, the input of the hidden units, becomes their means. */
static int count(struct sw_layer *l, const struct sw_pass *r, const float *v, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_rbm *m = &st->machine;
    float *x = sw_rbm_x(m, l);
    const struct sw_units_args means = {.units =
                                            ((const struct conf *)l->conf)->machine.hidden_units,
                                        .rows = m->rows,
                                        .columns = m->hidden,
                                        .x = x,
                                        .bias = l->param[SW_RBM_BIAS].value,
                                        .mean = x,
                                        .step = r->step};
    const struct sw_ais_units visible = {.columns = m->visible, .mean = v, .rows = m->rows},
                              hidden = {
                                  .hidden = true, .columns = m->hidden, .mean = x, .rows = m->rows};

    int rc = sw_op_run(r->stream, &sw_op_units, &means, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_ais_count(&st->ais, l, r, &visible, err);
    if (rc != SW_OK)
        return rc;

    return sw_ais_count(&st->ais, l, r, &hidden, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const struct sw_ais_args machine = {.visible_units = c->machine.visible_units,
                                        .hidden_units = c->machine.hidden_units,
                                        .weight = l->param[SW_RBM_WEIGHT].value,
                                        .bias = l->param[SW_RBM_BIAS].value,
                                        .visible_bias = l->param[SW_RBM_VISIBLE_BIAS].value};
    const float *v;

    if (r->phase == 0) {
        int rc = sw_rbm_weigh(&st->machine, l, r, &v, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_rbm_free_energy(&st->machine, l, r, &c->machine, v, -1, err);
        if (rc != SW_OK)
            return rc;
        rc = count(l, r, v, err);
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
    .values = sw_ais_values,
    .value = value,
    .split_reason = "a row's energy needs all its values",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
