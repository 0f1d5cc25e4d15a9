/* flatten: merges all dimensions from `axis` on into one, in row-major order: [N, C, H, W] becomes
 * [N, C H W]. A plain source is not copied. */
#include "layers/share/reshaped.h"

struct conf {
    int64_t axis;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, axis, "first of the dimensions that are merged; 1: all but the rows",
           .def = "1", .min = 1, .max = SW_MAX_DIMS - 1),
    {0},
};

static const char *refuses_split(const void *conf, int parts)
{
    return ((const struct conf *)conf)->axis == 1 ? "its columns are not those of its source"
                                                  : NULL;
}

static int64_t columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    return ((const struct conf *)conf)->axis == 1 ? 0 : src[0];
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t dim[SW_MAX_DIMS] = {0};

    int axis = (int)c->axis, rc = sw_layer_need_axis(l, axis, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i <= axis; i++)
        dim[i] = in->dim[i];
    for (int i = axis + 1; i < in->ndim; i++)
        dim[axis] *= in->dim[i];

    return sw_reshaped_setup(l, s, axis + 1, dim, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{4, {2, 5, 3, 4}, 0}}, .dst = {2, 60}},
    {.recipe = "axis = 2\n", .src = {{4, {2, 20, 3, 4}, 0}}, .dst = {2, 20, 12}},
    {.recipe = "", .src = {{2, {3, 7}, 0}}, .dst = {3, 7}},
    {0},
};

const struct sw_layer_type sw_layer_flatten = {
    .base = SW_TYPE("flatten", "merges several dimensions into one", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    .refuses_split = refuses_split,
    .columns = columns,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct sw_reshaped),
    SW_LAYER_CALLS(setup, sw_reshaped_forward, sw_reshaped_backward),
    .examples = examples,
};
