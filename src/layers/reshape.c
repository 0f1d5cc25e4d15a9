/* reshape: the same values of a row with other dimensions, in row-major order. In `shape` 0 means
 * the source's dimension at that position, and a single -1 is inferred, as in Caffe. A plain source
 * is not copied. */
#include "layers/share/reshaped.h"

struct conf {
    struct sw_reals shape;
};

static const struct sw_opt opts[] = {
    SW_OPT(REALS, struct conf, shape,
           "dimensions after the rows; 0: as in the source, -1: inferred (once)", .min = -1,
           .max = INT32_MAX, .required = true),
    {0},
};

/* Sets *dim to dimension i of the output, -1 if it is to be inferred. Errors: SW_ERR_INVALID. */
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
                          "shape: 0 at position %d, but source 1 is %s and has no dimension %d", i,
                          sw_desc_text(in, text), i);

    *dim = *dim == 0 ? in->dim[i] : *dim;
    return SW_OK;
}

/* Sets all dimensions; errors: SW_ERR_INVALID if the elements per row are not those of the
 * source. */
static int read_shape(const struct sw_layer *l, int64_t *dim, int *ndim, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t given = 1, features = sw_desc_features(in);
    int inferred = 0;
    char text[128];

    if (c->shape.count > SW_MAX_DIMS - 1)
        return sw_err_set(err, SW_ERR_INVALID, "shape has %d dimensions: at most %d are supported",
                          c->shape.count, SW_MAX_DIMS - 1);

    dim[0] = in->dim[0];

    *ndim = c->shape.count + 1;
    for (int i = 1; i < *ndim; i++) {
        int rc = read_dimension(l, i, &dim[i], err);
        if (rc != SW_OK)
            return rc;
        if (dim[i] == -1 && inferred)
            return sw_err_set(err, SW_ERR_INVALID, "shape: only one dimension can be -1");

        if (dim[i] == -1)
            inferred = i;
        else if (__builtin_mul_overflow(given, dim[i], &given) || given > features)
            given = features + 1;
    }

    if (inferred && features % given == 0)
        given *= dim[inferred] = features / given;
    if (given != features)
        return sw_err_set(err, SW_ERR_INVALID,
                          "shape does not match the %lld elements of a row: source 1 is %s",
                          (long long)features, sw_desc_text(in, text));

    return SW_OK;
}

/* Columns are kept if the first dimension after the rows is that of the source. */
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

    int ndim = 0, rc = read_shape(l, dim, &ndim, err);
    if (rc != SW_OK)
        return rc;

    return sw_reshaped_setup(l, s, ndim, dim, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "shape = 4, 3, 5\n", .src = {{2, {2, 60}, 0}}, .dst = {2, 4, 3, 5}},
    {.recipe = "shape = 0, -1\n", .src = {{4, {2, 20, 3, 4}, 0}}, .dst = {2, 20, 12}},
    {.recipe = "shape = -1, 2\n", .src = {{4, {3, 5, 2, 4}, 0}}, .dst = {3, 20, 2}},
    {0},
};

const struct sw_layer_type sw_layer_reshape = {
    .base = SW_TYPE("reshape", "changes the dimensions of a row", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    .refuses_split = refuses_split,
    .columns = columns,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct sw_reshaped),
    SW_LAYER_CALLS(setup, sw_reshaped_forward, sw_reshaped_backward),
    .examples = examples,
};
