/* pseudo_likelihood: the mean over rows of log PL(v) = sum_i log p(v_i | all others) (Besag 1975),
 * in nats, of a restricted Boltzmann machine with binary visible units. It is estimated from one
 * randomly drawn unit per row, whose log p is multiplied by the number of units:
 *
 *   log p(v_i | others) = log sigma(F(v with v_i flipped) - F(v))
 *
 * It needs no partition function and is a proxy for the likelihood during training. Sources: the
 * rbm_visible and the rbm_hidden layer. */
#include "layers/share/rbm.h"

struct conf {
    int hidden_units;
};

struct state {
    struct sw_rbm machine; /* first member */
    struct sw_philox key;
};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, hidden_units, "kind of units of the hidden layer", .def = "bernoulli",
           .choices = sw_hidden_units),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    st->key = sw_rbm_key(s->seed, l, 0);
    return sw_rbm_setup(&st->machine, l, s, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const struct sw_rbm *m = &st->machine;
    struct sw_flip_args a = {.hidden_units = c->hidden_units,
                             .rows = m->rows,
                             .visible = m->visible,
                             .hidden = m->hidden,
                             .x = sw_rbm_x(m, l),
                             .weight = l->param[SW_RBM_WEIGHT].value,
                             .bias = l->param[SW_RBM_BIAS].value,
                             .visible_bias = l->param[SW_RBM_VISIBLE_BIAS].value,
                             .rise = sw_rbm_energies(m, l),
                             .key = st->key,
                             .step = r->step,
                             .result = l->result};

    int rc = sw_rbm_weigh(m, l, r, &a.v, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_flip, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 6}, 0}}, .range = {{0, 1}}},
    {.recipe = "hidden_units = gaussian\n", .src = {{2, {3, 37}, 0}, {2, {3, 19}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_pseudo_likelihood = {
    .base = SW_TYPE("pseudo_likelihood",
                    "estimated log pseudo-likelihood of binary rows in a Boltzmann machine",
                    struct conf, opts, .params = sw_rbm_params),
    .role = SW_ROLE_METRIC,
    .borrows = sw_rbm_borrows,
    .split_reason = "a row's energy needs all its values",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
