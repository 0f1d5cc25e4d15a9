/* pooling: maximum or average over windows of [N, C, H, W]. Rounding `ceil` is Caffe's (windows may
 * extend over the border and are clipped), `floor` is cuDNN's. divide_by is the divisor of an
 * average: the window clipped to the padded input as in Caffe, the pixels inside the image (cuDNN's
 * COUNT_EXCLUDE_PADDING), or the whole kernel (its COUNT_INCLUDE_PADDING). The gradient of a
 * maximum goes to the first of equal values in row-major order. `global = yes` uses the whole image
 * as one window. */
#include "layers/layer.h"
#include "layers/window.h"

enum { METHOD_MAX, METHOD_AVG };
enum { ROUND_CEIL, ROUND_FLOOR };

struct conf {
    int method, round, divide_by; /* divide_by: enum sw_pool_divisor */
    bool global;
    struct sw_window_conf window;
};

static const char *const methods[] = {"max", "avg", NULL};
static const char *const divisors[] = {"padded", "inside", "kernel", NULL};
static const char *const roundings[] = {"ceil", "floor", NULL};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, method, "what is computed from each window", .def = "max",
           .choices = methods),
    SW_WINDOW_OPTS(struct conf, window, "1"),
    SW_OPT(BOOL, struct conf, global,
           "one window over the whole image, without kernel, stride and pad", .def = "no"),
    SW_OPT(ENUM, struct conf, round,
           "rounding of the output size: ceil as in Caffe, floor as in cuDNN", .def = "ceil",
           .choices = roundings),
    SW_OPT(ENUM, struct conf, divide_by,
           "divisor of an average: window clipped to the padded input (Caffe), pixels inside, or "
           "kernel",
           .def = "padded", .choices = divisors),
    {0},
};

/* Is any key of the window set to something else than a window over the whole image? */
static bool has_window(const struct sw_window_conf *w)
{
    bool kernel = w->kernel || w->kernel_x || w->kernel_y;
    bool stride = w->stride > 1 || w->stride_x > 1 || w->stride_y > 1;
    return kernel || stride || w->pad > 0 || w->pad_x > 0 || w->pad_y > 0;
}

static int find_shape(const struct sw_layer *l, struct sw_pool_shape *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const int64_t *dim = l->src[0]->desc.dim;
    struct sw_window w = {.kernel_h = dim[2], .kernel_w = dim[3], .stride_h = 1, .stride_w = 1};

    if (c->method == METHOD_MAX && c->divide_by != SW_POOL_BY_PADDED)
        return sw_err_set(err, SW_ERR_INVALID,
                          "divide_by = %s requires method = avg: remove it or set method = avg",
                          divisors[c->divide_by]);

    if (c->global) {
        if (has_window(&c->window))
            return sw_err_set(err, SW_ERR_INVALID,
                              "global = yes uses the whole image: remove kernel, stride and pad");
    } else {
        int rc = sw_window_resolve(&c->window, NULL, &w, err);
        if (rc != SW_OK)
            return rc;
    }

    bool ceil = c->round == ROUND_CEIL;
    *s = (struct sw_pool_shape){
        .max = c->method == METHOD_MAX,
        .divisor = (enum sw_pool_divisor)c->divide_by,
        .kernel_h = w.kernel_h,
        .kernel_w = w.kernel_w,
        .stride_h = w.stride_h,
        .stride_w = w.stride_w,
        .pad_h = w.pad_h,
        .pad_w = w.pad_w,
        .out_h = sw_window_count(dim[2], w.kernel_h, w.stride_h, w.pad_h, ceil),
        .out_w = sw_window_count(dim[3], w.kernel_w, w.stride_w, w.pad_w, ceil),
    };
    if (s->out_h < 1 || s->out_w < 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the window %lld x %lld does not fit its source of %lld x %lld pixels",
                          (long long)w.kernel_h, (long long)w.kernel_w, (long long)dim[2],
                          (long long)dim[3]);

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_pool_shape shape;

    int rc = find_shape(l, &shape, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_layer_make_plan(
        l, s, (struct sw_plan_request){.kind = SW_PLAN_POOLING, .shape.pool = &shape}, err);
    if (rc != SW_OK)
        return rc;

    sw_layer_use_plan(l, 0, 0);
    l->flops_forward =
        (double)sw_desc_count(&l->dst.desc) * (double)(shape.kernel_h * shape.kernel_w);
    l->flops_backward = l->flops_forward;

    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "method = max\nkernel = 2\nstride = 2\n",
     .src = {{4, {2, 3, 6, 4}, 0}},
     .dst = {2, 3, 3, 2}},
    {.recipe = "method = max\nkernel = 3\nstride = 2\n",
     .src = {{4, {2, 16, 8, 7}, 0}},
     .dst = {2, 16, 4, 3}},
    {.recipe = "method = max\nkernel = 3\nstride = 2\nround = floor\n",
     .src = {{4, {2, 5, 8, 8}, 0}},
     .dst = {2, 5, 3, 3}},
    {.recipe = "method = avg\nkernel = 3\nstride = 2\n",
     .src = {{4, {2, 32, 8, 8}, 0}},
     .dst = {2, 32, 4, 4}},
    {.recipe = "method = avg\nkernel = 3\nstride = 2\npad = 1\n",
     .src = {{4, {2, 3, 6, 5}, 0}},
     .dst = {2, 3, 4, 3}},
    {.recipe = "method = avg\nkernel = 3\nstride = 2\npad = 1\ndivide_by = inside\n",
     .src = {{4, {2, 20, 6, 5}, 0}},
     .dst = {2, 20, 4, 3}},
    {.recipe = "method = avg\nkernel = 3\npad = 1\ndivide_by = kernel\nround = floor\n",
     .src = {{4, {2, 16, 5, 4}, 0}},
     .dst = {2, 16, 5, 4}},
    {.recipe = "method = max\nkernel = 3\nstride = 2\npad = 1\n",
     .src = {{4, {2, 3, 6, 5}, 0}},
     .dst = {2, 3, 4, 3}},
    {.recipe = "method = avg\nglobal = yes\n", .src = {{4, {2, 7, 5, 4}, 0}}, .dst = {2, 7, 1, 1}},
    {0},
};

const struct sw_layer_type sw_layer_pooling = {
    .base = SW_TYPE("pooling", "maximum or average over windows", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_FEATURES(1, 1, 4),
    .state_bytes = sizeof(struct sw_plan_state),
    SW_LAYER_CALLS(setup, sw_layer_plan_forward, sw_layer_plan_backward),
    .examples = examples,
};
