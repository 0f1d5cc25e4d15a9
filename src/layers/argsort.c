/* argsort: the indices of the top_k largest values of a row, the largest first: [N, classes] in any
 * layout (more dimensions are flattened) becomes int32 [N, top_k], like SINGA's ArgSortLayer. Of
 * equal values the lower index comes first; NaN comes last. There is no gradient. */
#include "kernels/ops/argsort.h"
#include "layers/share/plain.h"

struct conf {
    int64_t top_k;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, top_k, "number of indices per row", .def = "1", .min = 1,
           .max = 1 << 20),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_plain *p = l->state;

    int rc = sw_plain_init(p, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    if (c->top_k > p->columns)
        return sw_err_set(err, SW_ERR_INVALID, "top_k = %lld: a row has only %lld values",
                          (long long)c->top_k, (long long)p->columns);

    const int64_t dim[] = {p->rows, c->top_k};
    l->dst.desc = sw_desc_plain(SW_I32, 2, dim);
    l->flops_forward = (double)(p->rows * p->columns);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_plain *p = l->state;
    struct sw_argsort_args a = {
        .rows = p->rows, .columns = p->columns, .top_k = c->top_k, .place = l->dst.data};

    return sw_plain_forward(p, l, r, &a.x, &sw_op_argsort, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}}, .dst = {4, 1}},
    {.recipe = "top_k = 7\n", .src = {{2, {3, 7}, 0}}, .dst = {3, 7}},
    {.recipe = "top_k = 5\n", .src = {{4, {2, 20, 3, 2}, 0}}, .dst = {2, 5}},
    {0},
};

const struct sw_layer_type sw_layer_argsort = {
    .base = SW_TYPE("argsort", "indices of the largest values of a row", struct conf, opts),
    .split_reason = "it compares all values of a row",
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct sw_plain),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
