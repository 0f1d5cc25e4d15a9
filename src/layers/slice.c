/* slice: a range of its source along one dimension, given by its ends (from, to) or as one of
 * several equal parts (parts, part). Backward adds to this range of the source's gradient only, or
 * sets the rest to zero if it is the first writer. Rows (dimension 0) cannot be sliced: they are
 * distributed over workers. */
#include "device/ops/elementwise.h"
#include "kernels/ops/layout.h"
#include "layers/layer.h"

struct conf {
    int64_t axis, from, to, parts, part;
};

struct state {
    int64_t first;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, axis, "dimension that is sliced; 1: channels or features", .def = "1",
           .min = 1, .max = SW_MAX_DIMS - 1),
    SW_OPT(INT, struct conf, from, "first index of the slice", .def = "0", .min = 0,
           .max = INT32_MAX),
    SW_OPT(INT, struct conf, to, "index after the last of the slice; default: the end", .def = "0",
           .min = 1, .max = INT32_MAX),
    SW_OPT(INT, struct conf, parts, "instead of from and to: number of parts of nearly equal size",
           .def = "0", .min = 1, .max = INT32_MAX),
    SW_OPT(INT, struct conf, part, "index of this part, from 0", .def = "0", .min = 0,
           .max = INT32_MAX),
    {0},
};

static int find_part(const struct conf *c, int64_t extent, int64_t *first, int64_t *count,
                     struct sw_err *err)
{
    if (c->parts && (c->from || c->to))
        return sw_err_set(err, SW_ERR_INVALID,
                          "parts cannot be combined with from or to: remove one or the other");
    if (c->part && c->part >= c->parts)
        return sw_err_set(err, SW_ERR_INVALID, "part = %lld: must be below parts = %lld",
                          (long long)c->part, (long long)c->parts);
    if (c->parts > extent)
        return sw_err_set(err, SW_ERR_INVALID, "parts = %lld: the dimension has only %lld elements",
                          (long long)c->parts, (long long)extent);

    int64_t to = c->to ? c->to : extent;
    if (!c->parts && (to > extent || c->from >= to))
        return sw_err_set(err, SW_ERR_INVALID,
                          "from = %lld and to = %lld must select a range of 0..%lld",
                          (long long)c->from, (long long)to, (long long)extent);

    *first = c->from;
    *count = to - c->from;

    if (c->parts)
        sw_setup_part(&(struct sw_layer_setup){.part = (int)c->part, .parts = (int)c->parts},
                      extent, first, count);

    return SW_OK;
}

static bool joins(const void *conf)
{
    return ((const struct conf *)conf)->axis == 1;
}

static int64_t columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    const struct conf *c = conf;
    int64_t first, columns;

    if (c->axis > 1 || src[0] == 0)
        return src[0];
    if (find_part(c, src[0], &first, &columns, NULL) != SW_OK)
        return 0; /* setup reports the error */

    begin[0] = -first;
    return columns;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_desc out = *in;

    int rc = sw_layer_need_axis(l, c->axis, err);
    if (rc != SW_OK)
        return rc;

    /* If columns are sharded, the source contains only the columns that this worker needs. */
    if (c->axis > 1 || s->channels == 0)
        rc = find_part(c, in->dim[c->axis], &st->first, &out.dim[c->axis], err);
    if (rc != SW_OK)
        return rc;

    int block = sw_desc_channel_block(in);
    l->dst.desc = block ? sw_desc_blocked(in->dtype, out.ndim, out.dim, 1, block)
                        : sw_desc_plain(in->dtype, out.ndim, out.dim);
    l->can_add.src = true;
    l->flops_forward = l->flops_backward = (double)sw_desc_count(&l->dst.desc);

    return SW_OK;
}

static struct sw_part_args part_of(const struct sw_layer *l)
{
    const struct conf *c = l->conf;
    return (struct sw_part_args){.axis = (int)c->axis, .count = l->dst.desc.dim[c->axis]};
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_desc *out = &l->dst.desc;
    struct sw_part_args a = part_of(l);

    a.from = l->src[0]->desc;
    a.from_at = st->first;
    a.src = l->src[0]->data;
    a.to = *out;
    a.dst = l->dst.data;

    int rc = sw_op_run(r->stream, &sw_op_part, &a, err);
    if (rc != SW_OK)
        return rc;

    if (sw_desc_count(out) != sw_desc_storage(out))
        rc = sw_op_zero_padding(r->stream, out, l->dst.data, err);
    return rc;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_part_args a = part_of(l);

    a.from = l->dst.desc;
    a.src = l->dst.grad;
    a.to = l->src[0]->desc;
    a.to_at = st->first;
    a.dst = l->src_grad[0];
    a.add = l->adds.src & 1;

    int rc = a.add ? SW_OK : sw_fill_zero(r->stream, a.dst, sw_desc_bytes(&a.to), err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_part, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "from = 16\nto = 32\n", .src = {{4, {2, 40, 3, 4}, 0}}, .dst = {2, 16, 3, 4}},
    {.recipe = "from = 3\nto = 20\n", .src = {{4, {2, 40, 3, 4}, 0}}, .dst = {2, 17, 3, 4}},
    {.recipe = "from = 32\n", .src = {{4, {2, 37, 2, 2}, 0}}, .dst = {2, 5, 2, 2}},
    {.recipe = "parts = 3\npart = 1\n", .src = {{2, {4, 11}, 0}}, .dst = {4, 4}},
    {.recipe = "axis = 2\nfrom = 1\nto = 3\n",
     .src = {{4, {2, 20, 4, 3}, 0}},
     .dst = {2, 20, 2, 3}},
    {0},
};

const struct sw_layer_type sw_layer_slice = {
    .base = SW_TYPE("slice", "a range of its source along channels or another dimension",
                    struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    .columns = columns,
    .joins = joins,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
