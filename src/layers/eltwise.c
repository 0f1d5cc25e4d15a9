/* eltwise: combines sources of one shape element by element: their sum with optional coefficients,
 * their product, or their maximum, whose gradient goes to the first of equal values. The sum is the
 * shortcut of residual nets (He, Zhang, Ren and Sun, "Deep Residual Learning", 2015).
 *
 * All sources are computed with in one layout, a blocked one if any source has it; sources in
 * another layout are reordered first. A relu that follows directly is fused, forward and
 * backward. */
#include "kernels/ops/eltwise.h"
#include "layers/share/plain.h"

_Static_assert((int)SW_LAYER_SRCS == (int)SW_ELTWISE_SRCS,
               "the operation accepts as many sources as a layer");

struct conf {
    int operation; /* enum sw_eltwise */
    struct sw_reals coefficients;
};

struct state {
    struct sw_plain src[SW_LAYER_SRCS]; /* in the output's layout */
    bool relu;
};

static const char *const operations[] = {"sum", "product", "max", NULL};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, operation, "how the sources are combined", .def = "sum",
           .choices = operations),
    SW_OPT(REALS, struct conf, coefficients, "factors of a sum, one per source; default: 1 each"),
    {0},
};

static int check_coefficients(const struct sw_layer *l, struct sw_err *err)
{
    const struct conf *c = l->conf;
    if (c->coefficients.count == 0)
        return SW_OK;
    if (c->operation != SW_ELTWISE_SUM)
        return sw_err_set(err, SW_ERR_INVALID,
                          "coefficients require operation = sum, not operation = %s",
                          operations[c->operation]);
    if (c->coefficients.count != l->src_count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "coefficients has %d values for %d sources: give one per source",
                          c->coefficients.count, l->src_count);

    return SW_OK;
}

static int check_sources(const struct sw_layer *l, struct sw_err *err)
{
    char first[128], other[128];

    for (int k = 0; k < l->src_count; k++) {
        int rc = sw_layer_need_src(l, k, 0, err);
        if (rc != SW_OK)
            return rc;

        if (!sw_desc_same_shape(&l->src[0]->desc, &l->src[k]->desc))
            return sw_err_set(err, SW_ERR_INVALID,
                              "source %d is %s, but source 1 is %s: the shapes must be equal",
                              k + 1, sw_desc_text(&l->src[k]->desc, other),
                              sw_desc_text(&l->src[0]->desc, first));
    }

    return SW_OK;
}

static int lay_out(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;

    l->dst.desc = l->src[0]->desc;
    for (int k = l->src_count - 1; k >= 0; k--)
        if (l->src[k]->desc.nblock > 0)
            l->dst.desc = l->src[k]->desc;

    l->can_add.src = true;
    for (int k = 0; k < l->src_count; k++) {
        int rc = sw_plain_init_as(&st->src[k], l, k, &l->dst.desc, s, err);
        if (rc != SW_OK)
            return rc;

        if (st->src[k].from_source)
            l->can_add.src = false; /* the reorder of the gradient overwrites, it does not add */
    }

    l->in_place = !st->src[0].from_source;
    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    int rc = check_sources(l, err);
    if (rc != SW_OK)
        return rc;
    rc = check_coefficients(l, err);
    if (rc != SW_OK)
        return rc;
    rc = lay_out(l, s, err);
    if (rc != SW_OK)
        return rc;

    st->relu = s->fuse_relu;
    l->masks_relu = s->fuse_relu;
    l->backward_reads_dst = s->fuse_relu;
    if (c->operation != SW_ELTWISE_SUM)
        l->backward_reads_src = (1u << l->src_count) - 1;

    double count = (double)sw_desc_count(&l->dst.desc) * l->src_count;
    l->flops_forward = count;
    l->flops_backward = c->operation == SW_ELTWISE_SUM ? count : count * l->src_count;

    return SW_OK;
}

static float factor_of(const struct sw_layer *l, int k)
{
    const struct conf *c = l->conf;
    return c->coefficients.count ? (float)c->coefficients.items[k] : 1.0f;
}

static int read_sources(const struct sw_layer *l, const struct sw_pass *r, const void **x,
                        struct sw_err *err)
{
    const struct state *st = l->state;

    for (int k = 0; k < l->src_count; k++) {
        const float *values;
        int rc = sw_plain_values(&st->src[k], l, r, &values, err);
        if (rc != SW_OK)
            return rc;
        x[k] = values;
    }

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_eltwise_args a = {.kind = (enum sw_eltwise)c->operation,
                                .count = l->src_count,
                                .relu = st->relu,
                                .n = sw_desc_storage(&l->dst.desc),
                                .type = l->dst.desc.dtype,
                                .y = l->dst.data};

    int rc = read_sources(l, r, a.x, err);
    if (rc != SW_OK)
        return rc;

    for (int k = 0; k < l->src_count; k++)
        a.factor[k] = factor_of(l, k);
    return sw_op_run(r->stream, &sw_op_eltwise, &a, err);
}

static int sum_backward(const struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_eltwise_sum_gradient_args a = {.count = l->src_count,
                                             .adds = l->adds.src,
                                             .n = sw_desc_storage(&l->dst.desc),
                                             .type = l->dst.desc.dtype,
                                             .y = st->relu ? l->dst.data : NULL,
                                             .dy = l->dst.grad};

    for (int k = 0; k < l->src_count; k++) {
        a.factor[k] = factor_of(l, k);
        a.dx[k] = sw_plain_gradient(&st->src[k], l);
    }

    int rc = sw_op_run(r->stream, &sw_op_eltwise_sum_gradient, &a, err);
    if (rc != SW_OK)
        return rc;

    for (int k = 0; k < l->src_count; k++) {
        rc = sw_plain_write(&st->src[k], l, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* The gradient of source 0 is computed last if it shares the memory of the output's gradient, which
 * the other sources read. */
static int each_backward(const struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_eltwise_gradient_args a = {.kind = (enum sw_eltwise)c->operation,
                                         .count = l->src_count,
                                         .n = sw_desc_storage(&l->dst.desc),
                                         .type = l->dst.desc.dtype,
                                         .y = st->relu ? l->dst.data : NULL,
                                         .dy = l->dst.grad};

    int rc = read_sources(l, r, a.x, err), begin = l->src_grad[0] == l->dst.grad ? 1 : 0;
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < l->src_count; i++) {
        a.of = (begin + i) % l->src_count;
        a.add = l->adds.src >> a.of & 1;

        a.dx = sw_plain_gradient(&st->src[a.of], l);
        if (!a.dx)
            continue;
        rc = sw_plain_backward(&st->src[a.of], l, r, &sw_op_eltwise_gradient, &a, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    return c->operation == SW_ELTWISE_SUM ? sum_backward(l, r, err) : each_backward(l, r, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{4, {2, 5, 3, 4}, 0}, {4, {2, 5, 3, 4}, 0}}, .dst = {2, 5, 3, 4}},
    {.recipe = "coefficients = 1, -0.5, 2\n",
     .src = {{4, {2, 20, 3, 3}, 0}, {4, {2, 20, 3, 3}, 0}, {4, {2, 20, 3, 3}, 0}},
     .dst = {2, 20, 3, 3}},
    {.recipe = "operation = product\n", .src = {{2, {3, 37}, 0}, {2, {3, 37}, 0}}, .dst = {3, 37}},
    {.recipe = "operation = product\n",
     .src = {{4, {2, 5, 3, 4}, 0}, {4, {2, 5, 3, 4}, 0}, {4, {2, 5, 3, 4}, 0}},
     .dst = {2, 5, 3, 4}},
    {.recipe = "operation = max\n",
     .src = {{4, {2, 17, 3, 3}, 0}, {4, {2, 17, 3, 3}, 0}},
     .dst = {2, 17, 3, 3}},
    {0},
};

const struct sw_layer_type sw_layer_eltwise = {
    .base = SW_TYPE("eltwise", "sum, product or maximum of several sources, element by element",
                    struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_SOURCES(2, SW_LAYER_SRCS),
    .state_bytes = sizeof(struct state),
    .can_fuse_relu = true,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
