/* reconstruction_error: the squared distance of two sources, ||a - b||^2 summed over a row's values
 * and averaged over rows (thesis Eq 5.2). This is the "average squared error" per picture of Hinton
 * and Salakhutdinov 2006; that of principal components of the same width, on the rows they were
 * fitted to, is the sum of the eigenvalues of the covariance (by 1/N) that were left out. Sources:
 * a and b, rows of as many values, in any layout; b may be whole numbers. */
#include "device/op.h"
#include "layers/share/target_loss.h"

struct state {
    struct sw_plain a, b;
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    int rc = sw_layer_need_src(l, 0, 0, err);
    if (rc == SW_OK)
        rc = sw_layer_need_same_rows(l, 0, 1, err);
    if (rc == SW_OK)
        rc = sw_plain_init(&st->a, l, 0, s, err);
    if (rc == SW_OK)
        rc = sw_plain_init(&st->b, l, 1, s, err);
    if (rc != SW_OK)
        return rc;
    l->dst.desc = st->a.desc; /* room for the difference */
    l->flops_forward = 3.0 * (double)sw_desc_count(&l->dst.desc);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_row_loss_args a = {.kind = SW_LOSS_EUCLIDEAN,
                                 .who = "reconstruction_error",
                                 .rows = st->a.rows,
                                 .columns = st->a.columns,
                                 .weight = 2, /* without the loss's half */
                                 .step = r->step,
                                 .y = l->dst.data,
                                 .result = l->result};
    int rc = sw_plain_values(&st->a, l, r, &a.x, err);
    if (rc == SW_OK)
        rc = sw_plain_values(&st->b, l, r, &a.target, err);
    return rc == SW_OK ? sw_op_run(r->stream, &sw_op_row_loss, &a, err) : rc;
}

static void teardown(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_plain_fini(&st->a);
    sw_plain_fini(&st->b);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 10}, 0}}},
    {.recipe = "", .src = {{4, {3, 20, 2, 3}, 0}, {2, {3, 120}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_reconstruction_error = {
    .base = {.name = "reconstruction_error",
             .help = "squared distance of two sources, mean over rows"},
    .role = SW_ROLE_METRIC,
    .less_is_better = true,
    .split_reason = "a row's error needs all its values",
    .min_src = 2,
    .max_src = 2,
    .state_bytes = sizeof(struct state),
    .setup = setup,
    .forward = forward,
    .teardown = teardown,
    .examples = examples,
};
