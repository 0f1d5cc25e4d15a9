/* gibbs_chain: the visible units of a restricted Boltzmann machine after k Gibbs steps from the
 * states of its visible layer: samples of the machine, or with sampled = no, where means replace
 * all samples, a mean-field estimate (Hinton 2010, section 16). The last step gives means. Sources:
 * the rbm_visible and the rbm_hidden layer of the machine, and with conditioned = yes their
 * conditions, which stay fixed: the steps then predict the next frame of a series from the past
 * frames (Taylor, Hinton and Roweis, "Modeling Human Motion Using Binary Latent Variables", 2007,
 * section 3). Passes no gradient. */
#include "kernels/ops/gemm.h"
#include "layers/share/rbm.h"

struct conf {
    struct sw_rbm_conf machine;
    int64_t k;
    bool sampled, conditioned;
};

struct state {
    struct sw_plain in;
    struct sw_rbm_condition of_visible, of_hidden;
    int64_t rows, visible, hidden;
    uint64_t seed;
    size_t hidden_at; /* offset in scratch */
};

static const struct sw_opt opts[] = {
    SW_RBM_OPTS(struct conf, machine),
    SW_OPT(INT, struct conf, k, "Gibbs steps", .def = "1", .min = 1, .max = 1000000),
    SW_OPT(BOOL, struct conf, sampled, "sample the states of the chain; no: use means",
           .def = "yes"),
    SW_OPT(BOOL, struct conf, conditioned,
           "the last two sources are the conditions of the visible and of the hidden layer",
           .def = "no"),
    {0},
};

static int conditions(const void *conf)
{
    return ((const struct conf *)conf)->conditioned ? 2 : 0;
}

static int setup_conditions(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;

    int rc = sw_rbm_condition_init(&st->of_visible, l, 2, st->rows, st->visible, s, err);
    if (rc != SW_OK)
        return rc;

    return sw_rbm_condition_init(&st->of_hidden, l, 3, st->rows, st->hidden, s, err);
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    if (sw_layer_own_sources(l->type, c, l->src_count) != 2)
        return sw_err_set(err, SW_ERR_INVALID,
                          "it needs a visible and a hidden layer, and with conditioned = yes the "
                          "conditions of both");
    if (c->machine.visible_units == SW_UNITS_SOFTMAX)
        return sw_err_set(err, SW_ERR_INVALID, "visible_units = softmax has no chain here");

    int rc = sw_layer_need_src(l, 1, 2, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    st->rows = st->in.rows;
    st->visible = st->in.columns;
    st->hidden = l->src[1]->desc.dim[1];
    st->seed = s->seed;
    sw_rbm_add_params(l, st->visible, st->hidden);
    st->hidden_at =
        sw_layer_reserve(&l->scratch_bytes, (size_t)(st->rows * st->hidden) * sizeof(float));
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){st->rows, st->visible});
    l->flops_forward =
        4.0 * (double)c->k * (double)st->rows * (double)st->visible * (double)st->hidden;

    return c->conditioned ? setup_conditions(l, s, err) : SW_OK;
}

/* One side's states from the other's: to = the means or a sample of units with input from W. */
static int step(struct sw_layer *l, const struct sw_pass *r, int64_t turn, bool hidden, bool sample,
                struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    float *v = l->dst.data, *h = sw_layer_at(l->scratch, st->hidden_at), *to = hidden ? h : v;
    const struct sw_gemm_args g = {.trans_b = hidden,
                                   .m = st->rows,
                                   .n = hidden ? st->hidden : st->visible,
                                   .k = hidden ? st->visible : st->hidden,
                                   .alpha = 1,
                                   .a = hidden ? v : h,
                                   .b = l->param[SW_RBM_WEIGHT].value,
                                   .c = to};
    const struct sw_units_args u = {
        .units = hidden ? c->machine.hidden_units : c->machine.visible_units,
        .rows = st->rows,
        .columns = g.n,
        .x = to,
        .bias = l->param[hidden ? SW_RBM_BIAS : SW_RBM_VISIBLE_BIAS].value,
        .mean = sample ? NULL : to,
        .sample = sample ? to : NULL,
        .key = sw_rbm_key(st->seed, l, (int)(2 * turn + hidden)),
        .step = r->step};

    int rc = sw_op_run(r->stream, &sw_op_gemm, &g, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_rbm_condition_add(hidden ? &st->of_hidden : &st->of_visible, l, r, to, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_units, &u, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *v;

    int rc = sw_plain_values(&st->in, l, r, &v, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_copy(r->stream, l->dst.data, v, sw_desc_bytes(&l->dst.desc), err);

    for (int64_t turn = 0; turn < c->k && rc == SW_OK; turn++) {
        rc = step(l, r, turn, true, c->sampled, err);
        if (rc == SW_OK)
            rc = step(l, r, turn, false, c->sampled && turn + 1 < c->k, err);
    }

    return rc;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 6}, 0}}, .dst = {4, 10}},
    {.recipe = "k = 3\nsampled = no\nvisible_units = gaussian\n",
     .src = {{4, {3, 20, 2, 1}, 0}, {2, {3, 19}, 0}},
     .dst = {3, 40}},
    {0},
};

const struct sw_layer_type sw_layer_gibbs_chain = {
    .base = SW_TYPE("gibbs_chain", "visible units after steps of a Gibbs chain", struct conf, opts,
                    .params = sw_rbm_params),
    .conditions = conditions,
    .borrows = sw_rbm_borrows,
    .split_reason = "a chain runs over whole rows",
    SW_LAYER_FEATURES(2, 4, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
