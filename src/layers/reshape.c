/* reshape: the same values of a row under other dimensions, in row-major order. In `shape` a 0
 * stands for the source's dimension at that place and one -1 for what is left, as in Caffe. A plain
 * source is not copied. */
#include "layers/share/reshaped.h"

struct conf {
    struct sw_reals shape;
};

static const struct sw_opt opts[] = {
    SW_OPT(REALS, struct conf, shape,
           "dimensions after the rows; 0: the source's, -1: what is left (once)", .min = -1,
           .max = INT32_MAX, .required = true),
    {0},
};

/* Dimension i of the output, -1 for what is left. */
static int read_dimension(const struct sw_layer *l, int i, int64_t *dim, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];
    *dim = (int64_t)c->shape.items[i - 1];
    if ((double)*dim != c->shape.items[i - 1])
        return sw_err_set(err, SW_ERR_INVALID, "shape: %g is not a whole number",
                          c->shape.items[i - 1]);
    if (*dim == 0 && i >= in->ndim)
        return sw_err_set(err, SW_ERR_INVALID,
                          "shape: a 0 at place %d, but source 1 is %s and has no dimension %d", i,
                          sw_desc_text(in, text), i);
    *dim = *dim == 0 ? in->dim[i] : *dim;
    return SW_OK;
}

/* All of them; the elements must be those of the source. */
static int read_shape(const struct sw_layer *l, int64_t *dim, int *ndim, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t given = 1, features = sw_desc_features(in);
    int left = 0;
    char text[128];
    if (c->shape.count > SW_MAX_DIMS - 1)
        return sw_err_set(err, SW_ERR_INVALID, "shape has %d dimensions: at most %d are possible",
                          c->shape.count, SW_MAX_DIMS - 1);
    dim[0] = in->dim[0];
    *ndim = c->shape.count + 1;
    for (int i = 1; i < *ndim; i++) {
        int rc = read_dimension(l, i, &dim[i], err);
        if (rc != SW_OK)
            return rc;
        if (dim[i] == -1 && left)
            return sw_err_set(err, SW_ERR_INVALID, "shape: only one dimension can be -1");
        if (dim[i] == -1)
            left = i;
        else if (__builtin_mul_overflow(given, dim[i], &given) || given > features)
            given = features + 1;
    }
    if (left && features % given == 0)
        given *= dim[left] = features / given;
    if (given != features)
        return sw_err_set(err, SW_ERR_INVALID,
                          "shape does not hold the %lld elements of a row: source 1 is %s",
                          (long long)features, sw_desc_text(in, text));
    return SW_OK;
}

/* A row keeps its columns where the first dimension behind the rows is the source's. */
static bool keeps_columns(const void *conf)
{
    const struct conf *c = conf;
    return c->shape.count > 0 && c->shape.items[0] == 0;
}

static const char *refuses_split(const void *conf, int parts)
{
    return keeps_columns(conf) ? NULL : "its columns are not those of its source";
}

static int64_t columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    const struct conf *c = conf;
    if (keeps_columns(conf))
        return src[0];
    return c->shape.count > 0 && c->shape.items[0] > 0 ? (int64_t)c->shape.items[0] : 0;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    int64_t dim[SW_MAX_DIMS];
    int ndim = 0, rc = sw_layer_need_src(l, 0, 0, err);
    if (rc == SW_OK)
        rc = read_shape(l, dim, &ndim, err);
    return rc == SW_OK ? sw_reshaped_setup(l, s, ndim, dim, err) : rc;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "shape = 4, 3, 5\n", .src = {{2, {2, 60}, 0}}, .dst = {2, 4, 3, 5}},
    {.recipe = "shape = 0, -1\n", .src = {{4, {2, 20, 3, 4}, 0}}, .dst = {2, 20, 12}},
    {.recipe = "shape = -1, 2\n", .src = {{4, {3, 5, 2, 4}, 0}}, .dst = {3, 20, 2}},
    {0},
};

const struct sw_layer_type sw_layer_reshape = {
    .base = SW_TYPE("reshape", "gives the values of a row other dimensions", struct conf, opts),
    .role = SW_ROLE_NEURON,
    .split = SW_SPLIT_ELEMENTWISE,
    .refuses_split = refuses_split,
    .columns = columns,
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct sw_reshaped),
    SW_LAYER_CALLS(setup, sw_reshaped_forward, sw_reshaped_backward),
    .examples = examples,
};
