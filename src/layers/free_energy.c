/* free_energy: the mean of F(v) = -log sum_h exp -E(v, h) over rows, with the parameters of a
 * restricted Boltzmann machine (formulas in kernels/units.h; Hinton 2010, section 16.1). The more a
 * machine overfits, the higher is the free energy of unseen data relative to that of the training
 * data. Only differences are meaningful; adding log Z gives the negative log likelihood. Sources:
 * the rbm_visible and the rbm_hidden layer. */
#include "layers/share/rbm.h"

struct conf {
    struct sw_rbm_conf machine;
};

static const struct sw_opt opts[] = {
    SW_RBM_OPTS(struct conf, machine),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    return sw_rbm_setup(l->state, l, s, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_rbm *m = l->state;
    const float *v;

    int rc = sw_rbm_weigh(m, l, r, &v, err);
    if (rc != SW_OK)
        return rc;

    return sw_rbm_free_energy(m, l, r, &c->machine, v, 1, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 6}, 0}}},
    {.recipe = "visible_units = gaussian\nhidden_units = gaussian\n",
     .src = {{2, {3, 37}, 0}, {2, {3, 19}, 0}}},
    {.recipe = "visible_units = softmax\n", .src = {{2, {3, 12}, 0}, {2, {3, 5}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_free_energy = {
    .base = SW_TYPE("free_energy", "mean free energy of rows in a restricted Boltzmann machine",
                    struct conf, opts, .params = sw_rbm_params),
    .role = SW_ROLE_METRIC,
    .borrows = sw_rbm_borrows,
    .less_is_better = true,
    .split_reason = "a row's energy needs all its values",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct sw_rbm),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
