/* concat: concatenates sources along one dimension; all other dimensions must be equal. Backward
 * copies to every source its slice of the gradient. Rows (dimension 0) are samples, which labels
 * and workers count, and cannot be concatenated.
 *
 * The output has blocked channels if a source has them; a source that fills whole blocks is then
 * copied as one contiguous range per row. */
#include "device/ops/elementwise.h"
#include "kernels/ops/layout.h"
#include "layers/layer.h"

struct conf {
    int64_t axis;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, axis,
           "dimension along which the sources are joined; 1: channels or features", .def = "1",
           .min = 1, .max = SW_MAX_DIMS - 1),
    {0},
};

static bool joins(const void *conf)
{
    return ((const struct conf *)conf)->axis == 1;
}

/* Sharded by columns, a worker has a range of the output columns, and of every source the columns
 * in that range, possibly none. */
static int64_t columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    const struct conf *c = conf;
    int64_t sum = 0;

    for (int k = 0; k < count && c->axis == 1; k++) {
        if (src[k] == 0)
            return 0;
        begin[k] = sum;
        sum += src[k];
    }

    return c->axis == 1 ? sum : src[0];
}

static int check_source(const struct sw_layer *l, int k, int axis, struct sw_err *err)
{
    struct sw_desc first = l->src[0]->desc, other = l->src[k]->desc;
    char a[128], b[128];

    int rc = sw_layer_need_src(l, k, 0, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_layer_need_axis(l, axis, err);
    if (rc != SW_OK)
        return rc;

    bool same = first.ndim == other.ndim;
    for (int i = 0; i < first.ndim && same; i++)
        same = i == axis || first.dim[i] == other.dim[i];
    if (!same)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "source %d is %s, but source 1 is %s: they may differ in dimension %d only", k + 1,
            sw_desc_text(&other, a), sw_desc_text(&first, b), axis);

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    int axis = (int)c->axis;
    struct sw_desc whole = l->src[0]->desc;
    int64_t extent = 0;
    int block = 0;

    for (int k = 0; k < l->src_count; k++) {
        int rc = check_source(l, k, axis, err);
        if (rc != SW_OK)
            return rc;

        extent += l->src[k]->desc.dim[axis];
        block = block ? block : sw_desc_channel_block(&l->src[k]->desc);
    }

    whole.dim[axis] = extent;
    l->dst.desc = block ? sw_desc_blocked(s->dst_type, whole.ndim, whole.dim, 1, block)
                        : sw_desc_plain(s->dst_type, whole.ndim, whole.dim);
    l->can_add.src = true;
    l->flops_forward = l->flops_backward = (double)sw_desc_count(&l->dst.desc);

    return SW_OK;
}

static bool is_padded(const struct sw_desc *d)
{
    return sw_desc_count(d) != sw_desc_storage(d);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_part_args a = {.to = l->dst.desc, .axis = (int)c->axis, .dst = l->dst.data};

    for (int k = 0; k < l->src_count; k++) {
        a.from = l->src[k]->desc;
        a.src = l->src[k]->data;
        a.count = a.from.dim[a.axis];

        int rc = a.count > 0 ? sw_op_run(r->stream, &sw_op_part, &a, err) : SW_OK;
        if (rc != SW_OK)
            return rc;

        a.to_at += a.count;
    }

    if (is_padded(&l->dst.desc))
        return sw_op_zero_padding(r->stream, &l->dst.desc, l->dst.data, err);

    return SW_OK;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_part_args a = {.from = l->dst.desc, .axis = (int)c->axis, .src = l->dst.grad};

    for (int k = 0; k < l->src_count; k++) {
        a.to = l->src[k]->desc;
        a.count = a.to.dim[a.axis];
        a.dst = a.count > 0 ? l->src_grad[k] : NULL;
        a.add = l->adds.src >> k & 1;

        int rc = a.dst ? sw_op_run(r->stream, &sw_op_part, &a, err) : SW_OK;
        if (rc != SW_OK)
            return rc;

        if (a.dst && is_padded(&a.to) && !a.add)
            rc = sw_op_zero_padding(r->stream, &a.to, a.dst, err);
        if (rc != SW_OK)
            return rc;

        a.from_at += a.count;
    }

    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "",
     .src = {{4, {2, 16, 3, 4}, 0}, {4, {2, 32, 3, 4}, 0}, {4, {2, 5, 3, 4}, 0}},
     .dst = {2, 53, 3, 4}},
    {.recipe = "", .src = {{4, {2, 5, 3, 4}, 0}, {4, {2, 20, 3, 4}, 0}}, .dst = {2, 25, 3, 4}},
    {.recipe = "axis = 2\n",
     .src = {{4, {2, 20, 3, 4}, 0}, {4, {2, 20, 1, 4}, 0}},
     .dst = {2, 20, 4, 4}},
    {.recipe = "axis = 3\n",
     .src = {{4, {2, 3, 3, 2}, 0}, {4, {2, 3, 3, 5}, 0}},
     .dst = {2, 3, 3, 7}},
    {.recipe = "", .src = {{2, {4, 7}, 0}, {2, {4, 2}, 0}}, .dst = {4, 9}},
    {0},
};

const struct sw_layer_type sw_layer_concat = {
    .base =
        SW_TYPE("concat", "joins sources along channels or another dimension", struct conf, opts),
    .halves = SW_HALVES_AS_TOLD,
    .split = SW_SPLIT_ELEMENTWISE,
    .columns = columns,
    .joins = joins,
    .keeps_columns = true,
    SW_LAYER_SOURCES(1, SW_LAYER_SRCS),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
