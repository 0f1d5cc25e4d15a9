/* Reads values and targets as plain rows, and runs the operation that sums their errors. */
#include "layers/share/regression.h"
#include "data/scaling.h"
#include "layers/share/target_loss.h"
#include <math.h>

int sw_regression_setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_regression *st = l->state;

    int rc = sw_layer_need_same_rows(l, 0, 1, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->value, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->target, l, 1, s, err);
    if (rc != SW_OK)
        return rc;

    st->by_column = l->type->variant || l->src[1]->scaling;
    l->pair_count = (int)(SW_ERROR_PAIRS * (st->by_column ? st->value.columns : 1));
    l->dst.desc = sw_desc_plain(SW_F32, 1, &st->value.rows);
    l->flops_forward = 6.0 * (double)sw_desc_count(&st->value.desc);

    return SW_OK;
}

int sw_regression_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_regression *st = l->state;
    struct sw_target_error_args a = {.rows = st->value.rows,
                                     .columns = st->value.columns,
                                     .by_column = st->by_column,
                                     .step = r->step,
                                     .pairs = l->result};

    int rc = sw_plain_values(&st->value, l, r, &a.x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_values(&st->target, l, r, &a.target, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_target_error, &a, err);
}

double sw_regression_mean(const struct sw_layer *l, const struct sw_result *total, int which)
{
    const struct sw_regression *st = l->state;
    const struct sw_scaling *scaling = l->src[1]->scaling;
    double sum = 0, weight = 0;

    for (int64_t c = 0; c < (st->by_column ? st->value.columns : 1); c++) {
        const struct sw_result *pair = &total[SW_ERROR_PAIRS * c + which];
        const double unit = scaling ? fabs(sw_scaling_unit(scaling, c)) : 1;

        sum += pair->sum * (which == SW_ERROR_SQUARED ? unit * unit : unit);
        weight += pair->weight;
    }

    return weight > 0 ? sum / weight : (double)NAN;
}

const struct sw_layer_example sw_regression_examples[] = {
    {.recipe = "", .src = {{2, {4, 3}, 0}, {2, {4, 3}, 0}}},
    {.recipe = "", .src = {{4, {5, 20, 1, 1}, 0}, {2, {5, 20}, 0}}},
    {.recipe = "", .src = {{2, {6, 1}, 0}, {1, {6}, 9}}},
    {0},
};
