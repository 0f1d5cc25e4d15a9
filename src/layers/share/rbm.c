/* Metrics of restricted Boltzmann machines: the parameters that are tied to those of the machine's
 * layers, the product W v, and the free energy of rows. kernels/units.h has the formulas. */
#include "layers/share/rbm.h"
#include "device/ops/elementwise.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"

const char *const sw_visible_units[] = {"bernoulli", "gaussian", "softmax", NULL};
const char *const sw_hidden_units[] = {"bernoulli", "gaussian", NULL};
const char *const sw_rbm_params[] = {"weight", "bias", "visible_bias", NULL};

const struct sw_layer_borrow sw_rbm_borrows[] = {
    {.param = "weight", .sources = 2, .src = 1, .of = "weight"},
    {.param = "bias", .sources = 2, .src = 1, .of = "bias"},
    {.param = "visible_bias", .sources = 2, .src = 0, .of = "bias"},
    {0},
};

/* ---- Conditions ---- */

int sw_rbm_condition_init(struct sw_rbm_condition *c, struct sw_layer *l, int src, int64_t rows,
                          int64_t columns, const struct sw_layer_setup *s, struct sw_err *err)
{
    char text[128];

    if (src < 1 || src >= l->src_count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "conditioned requires the layer that computes the biases of each row as "
                          "a further source");
    int rc = sw_layer_need_src(l, src, 0, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&c->in, l, src, s, err);
    if (rc != SW_OK)
        return rc;
    if (c->in.rows != rows || c->in.columns != columns)
        return sw_err_set(err, SW_ERR_INVALID,
                          "source %d, the condition, is %s: it must have %lld rows of %lld values, "
                          "one per unit",
                          src + 1, sw_desc_text(&l->src[src]->desc, text), (long long)rows,
                          (long long)columns);

    c->src = src;
    return SW_OK;
}

int sw_rbm_condition_values(const struct sw_rbm_condition *c, const struct sw_layer *l,
                            const struct sw_pass *r, const float **out, struct sw_err *err)
{
    *out = NULL;
    return c->src > 0 ? sw_plain_values(&c->in, l, r, out, err) : SW_OK;
}

int sw_rbm_condition_add(const struct sw_rbm_condition *c, const struct sw_layer *l,
                         const struct sw_pass *r, float *x, struct sw_err *err)
{
    const float *condition;
    int rc = sw_rbm_condition_values(c, l, r, &condition, err);
    if (rc != SW_OK || !condition)
        return rc;

    return sw_op_add(r->stream, x, condition, c->in.rows * c->in.columns, err);
}

int sw_rbm_condition_gradient(const struct sw_rbm_condition *c, struct sw_layer *l,
                              const struct sw_pass *r, const struct sw_rbm_sum *gradient,
                              struct sw_err *err)
{
    float *to = c->src > 0 ? sw_plain_gradient(&c->in, l) : NULL;
    const int64_t n = c->in.rows * c->in.columns;
    const struct sw_combine_args
        first = {.n = n, .alpha = gradient->alpha, .x = gradient->a, .y = to},
        second = {.n = n, .alpha = gradient->beta, .beta = 1, .x = gradient->b, .y = to};
    if (!to)
        return SW_OK;

    int rc = sw_op_run(r->stream, &sw_op_combine, &first, err);
    if (rc == SW_OK && gradient->b)
        rc = sw_op_run(r->stream, &sw_op_combine, &second, err);
    if (rc != SW_OK)
        return rc;

    return sw_plain_write(&c->in, l, err);
}

/* ---- A machine as a metric sees it ---- */

void sw_rbm_add_params(struct sw_layer *l, int64_t visible, int64_t hidden)
{
    const int64_t dim[] = {hidden, visible};
    const struct sw_desc weight = sw_desc_plain(SW_F32, 2, dim),
                         bias = sw_desc_plain(SW_F32, 1, dim),
                         visible_bias = sw_desc_plain(SW_F32, 1, dim + 1);

    sw_layer_add_param(l, "weight", &weight, visible, hidden);
    sw_layer_add_param(l, "bias", &bias, 0, 0);
    sw_layer_add_param(l, "visible_bias", &visible_bias, 0, 0);
}

int sw_rbm_setup(struct sw_rbm *m, struct sw_layer *l, const struct sw_layer_setup *s,
                 struct sw_err *err)
{
    int rc = sw_layer_need_src(l, 1, 2, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&m->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    m->rows = m->in.rows;
    m->visible = m->in.columns;
    m->hidden = l->src[1]->desc.dim[1];

    sw_rbm_add_params(l, m->visible, m->hidden);
    m->x_at = sw_layer_reserve(&l->scratch_bytes, (size_t)(m->rows * m->hidden) * sizeof(float));
    m->energy_at = sw_layer_reserve(&l->scratch_bytes, (size_t)m->rows * sizeof(double));
    m->total_at = sw_layer_reserve(&l->scratch_bytes, (size_t)m->rows * sizeof(float));
    l->dst.desc = sw_desc_plain(SW_F32, 1, &m->rows);
    l->flops_forward = 2.0 * (double)m->rows * (double)m->visible * (double)m->hidden;

    return SW_OK;
}

int sw_rbm_weigh(const struct sw_rbm *m, const struct sw_layer *l, const struct sw_pass *r,
                 const float **v, struct sw_err *err)
{
    int rc = sw_plain_values(&m->in, l, r, v, err);
    const struct sw_gemm_args g = {.trans_b = true,
                                   .m = m->rows,
                                   .n = m->hidden,
                                   .k = m->visible,
                                   .alpha = 1,
                                   .a = *v,
                                   .b = l->param[SW_RBM_WEIGHT].value,
                                   .c = sw_rbm_x(m, l)};

    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_gemm, &g, err);
}

int sw_rbm_free_energy(const struct sw_rbm *m, struct sw_layer *l, const struct sw_pass *r,
                       const struct sw_rbm_conf *c, const float *v, double factor,
                       struct sw_err *err)
{
    float *total = NULL;
    int rc = SW_OK;

    if (c->visible_units == SW_UNITS_SOFTMAX) {
        total = sw_layer_at(l->scratch, m->total_at);
        const struct sw_row_sums_args sums = {
            .rows = m->rows, .columns = m->visible, .x = v, .sum = total};
        rc = sw_op_run(r->stream, &sw_op_row_sums, &sums, err);
    }

    const struct sw_unit_energy_args visible = {.units = c->visible_units,
                                                .rows = m->rows,
                                                .columns = m->visible,
                                                .x = v,
                                                .bias = l->param[SW_RBM_VISIBLE_BIAS].value,
                                                .energy = sw_rbm_energies(m, l),
                                                .step = r->step};
    const struct sw_unit_energy_args hidden = {.units = c->hidden_units,
                                               .free = true,
                                               .add = true,
                                               .rows = m->rows,
                                               .columns = m->hidden,
                                               .x = sw_rbm_x(m, l),
                                               .bias = l->param[SW_RBM_BIAS].value,
                                               .total = total,
                                               .energy = sw_rbm_energies(m, l),
                                               .result = l->result,
                                               .factor = factor,
                                               .step = r->step};
    if (rc != SW_OK)
        return rc;

    rc = sw_op_run(r->stream, &sw_op_unit_energy, &visible, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_unit_energy, &hidden, err);
}
