/* Operations on arrays and plain matrices. */
#include "base/tree.h"
#include "device/cuda/ops.h"
#include "device/ops/argsort.h"
#include "device/ops/clock.h"
#include "device/ops/elementwise.h"
#include "device/ops/eltwise.h"
#include "device/ops/floats.h"
#include "device/ops/fold.h"
#include "device/ops/layer_norm.h"
#include "device/ops/linear.h"
#include "device/ops/rate.h"
#include "device/ops/softmax.h"
#include <string.h>

/* ---- Element by element ---- */

static int add(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_add_args *a = args;
    return sw_cuda_add(a->y, a->x, a->n, l);
}

static int combine(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_combine_args *a = args;
    return sw_cuda_combine(a->alpha, a->x, a->beta, a->y, a->n, l);
}

static int multiply(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_multiply_args *a = args;
    return sw_cuda_multiply(a->a, a->b, a->y, a->n, l);
}

static int floats(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_floats_args *a = args;
    return sw_cuda_floats(a->y, a->x, a->n, l);
}

/* ---- Activation functions ---- */

/* The kernel's function, and its two constants; false for one that it does not have. */
static bool function_of(enum sw_activation f, float alpha, enum sw_cuda_function *out, float *a,
                        float *b)
{
    *a = alpha;
    *b = 0;
    switch (f) {
    case SW_ACT_RELU:
        *out = SW_CUDA_RELU;
        return true;
    case SW_ACT_LEAKY_RELU:
        *out = SW_CUDA_LEAKY_RELU;
        return true;
    case SW_ACT_SIGMOID:
        *out = SW_CUDA_SIGMOID;
        return true;
    case SW_ACT_TANH:
    case SW_ACT_STANH:
        *out = SW_CUDA_SCALED_TANH;
        *a = f == SW_ACT_TANH ? 1 : 1.7159047f;
        *b = f == SW_ACT_TANH ? 1 : 0.66666667f;
        return true;
    case SW_ACT_SOFTPLUS:
        *out = SW_CUDA_SOFTPLUS;
        return true;
    case SW_ACT_GELU:
        *out = SW_CUDA_GELU;
        return true;
    case SW_ACT_COUNT:
        break;
    }
    return false;
}

static int activate(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_args *a = args;
    enum sw_cuda_function f;
    float first, second;
    return function_of(a->function, a->alpha, &f, &first, &second)
               ? sw_cuda_activation(f, first, second, a->x, a->y, a->n, l)
               : SW_CUDA_NO_KERNEL;
}

static int activate_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_gradient_args *a = args;
    enum sw_cuda_function f;
    float first, second;
    const float *v = a->function == SW_ACT_GELU ? a->x : a->y;
    return function_of(a->function, a->alpha, &f, &first, &second)
               ? sw_cuda_activation_backward(f, first, second, v, a->dy, a->dx, a->n, l)
               : SW_CUDA_NO_KERNEL;
}

/* ---- Several arrays ---- */

static enum sw_kernel_eltwise_kind kind_of(enum sw_eltwise kind)
{
    return kind == SW_ELTWISE_SUM       ? SW_KERNEL_SUM
           : kind == SW_ELTWISE_PRODUCT ? SW_KERNEL_PRODUCT
                                        : SW_KERNEL_MAX;
}

static int eltwise(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_eltwise_args *a = args;
    struct sw_cuda_eltwise e = {
        .kind = kind_of(a->kind), .count = a->count, .relu = a->relu, .n = a->n, .y = a->y};
    memcpy(e.factor, a->factor, sizeof e.factor);
    memcpy(e.x, a->x, sizeof e.x);
    return sw_cuda_eltwise(&e, l);
}

static int eltwise_sum_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_eltwise_sum_gradient_args *a = args;
    struct sw_cuda_eltwise e = {
        .count = a->count, .adds = a->adds, .n = a->n, .y = (float *)a->y, .dy = a->dy};
    memcpy(e.factor, a->factor, sizeof e.factor);
    memcpy(e.dx, a->dx, sizeof e.dx);
    return sw_cuda_eltwise_sum_backward(&e, l);
}

static int eltwise_one_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_eltwise_gradient_args *a = args;
    struct sw_cuda_eltwise e = {.kind = kind_of(a->kind),
                                .count = a->count,
                                .of = a->of,
                                .adds = a->add ? 1u << a->of : 0,
                                .n = a->n,
                                .y = (float *)a->y,
                                .dy = a->dy};
    memcpy(e.x, a->x, sizeof e.x);
    e.dx[a->of] = a->dx;
    return sw_cuda_eltwise_one_backward(&e, l);
}

static int fold(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_fold_args *a = args;
    struct sw_cuda_fold f = {.count = a->count, .n = a->n, .y = a->y};
    _Static_assert((int)SW_CUDA_FOLD_TERMS == (int)SW_FOLD_TERMS, "room for all terms");
    for (int t = 0, begin = 0; t < a->count; begin = a->ends[t++]) {
        f.x[t] = a->x[t];
        f.adds[t] = sw_tree_adds(a->ends[a->count - 1], begin, a->ends[t]);
    }
    return sw_cuda_fold(&f, l);
}

/* ---- Matrices ---- */

static int add_row(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_args *a = args;
    return sw_cuda_add_row(a->rows, a->columns, a->row, false, a->y, l);
}

static int sum_rows(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sum_rows_args *a = args;
    return sw_cuda_sum_rows(a->rows, a->columns, a->x, a->sum, l);
}

static int total(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_total_args *a = args;
    return sw_cuda_total(a->x, a->n, a->total, l);
}

static int softmax(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_args *a = args;
    return sw_cuda_softmax(a->rows, a->classes, a->places, a->x, a->y, l);
}

static int softmax_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_args *a = args;
    return sw_cuda_softmax_backward(a->rows, a->classes, a->places, a->y, a->dy, a->dx, l);
}

static struct sw_kernel_layer_norm layer_norm_of(const struct sw_layer_norm_args *a)
{
    return (struct sw_kernel_layer_norm){.rows = a->rows,
                                         .n = a->n,
                                         .eps = a->eps,
                                         .x = a->x,
                                         .scale = a->scale,
                                         .bias = a->bias,
                                         .y = a->y,
                                         .moments = a->moments,
                                         .dy = a->dy,
                                         .dx = a->dx,
                                         .dscale = a->dscale,
                                         .dbias = a->dbias};
}

static int layer_norm(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_kernel_layer_norm k = layer_norm_of(args);
    return sw_cuda_layer_norm(&k, l);
}

static int layer_norm_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_kernel_layer_norm k = layer_norm_of(args);
    return sw_cuda_layer_norm_backward(&k, l);
}

static int argsort(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_argsort_args *a = args;
    return sw_cuda_argsort(a->rows, a->columns, a->top_k, a->x, a->place, l);
}

static int read_clock(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_clock_args *a = args;
    return sw_cuda_clock(a->ns, l);
}

/* ---- Updates ---- */

static int update(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_update_op_args *a = args;
    const struct sw_update_formula *f = a->formula;
    struct sw_cuda_update u = {.formula = f->name,
                               .constants = a->numbers->constants,
                               .gradient_scale = &a->numbers->gradient_scale,
                               .constants_bytes = f->constants_bytes,
                               .value = a->value,
                               .gradient = a->gradient,
                               .count = a->count,
                               .clip_value = a->clip_value,
                               .decided = a->decided,
                               .non_finite = a->non_finite};
    if (!sw_cuda_has_formula(f->name, f->constants_bytes))
        return SW_CUDA_NO_KERNEL;
    memcpy(u.slot, a->slot, sizeof u.slot);
    return sw_cuda_update(&u, l);
}

/* ---- Decisions about updates ---- */

static int measure(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_measure_args *a = args;
    return sw_cuda_measure(a->x, a->count, a->limit, a->known, a->squares, l);
}

static int norm_totals(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_norm_totals_args *a = args;
    return sw_cuda_norm_totals(a->squares, a->ends, a->arrays, a->totals, l);
}

static int decide(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_decide_args *a = args;
    return sw_cuda_decide(a->squares, a->params, a->clip_norm, a->known, a->decided, l);
}

static int rate(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_rate_args *a = args;
    struct sw_update_numbers *n = a->numbers;
    return sw_cuda_rate((struct sw_sgd *)(void *)n->constants, &n->trust, a->value_squares,
                        a->gradient_squares, a->decided, l);
}

const struct sw_cuda_op sw_cuda_array_ops[] = {
    {.op = &sw_op_add_to, .launch = add},
    {.op = &sw_op_combine, .launch = combine},
    {.op = &sw_op_multiply, .launch = multiply},
    {.op = &sw_op_to_floats, .launch = floats},
    {.op = &sw_op_activate, .launch = activate},
    {.op = &sw_op_activation_gradient, .launch = activate_backward},
    {.op = &sw_op_eltwise, .launch = eltwise},
    {.op = &sw_op_eltwise_sum_gradient, .launch = eltwise_sum_backward},
    {.op = &sw_op_eltwise_gradient, .launch = eltwise_one_backward},
    {.op = &sw_op_fold_arrays, .launch = fold},
    {.op = &sw_op_add_row, .launch = add_row},
    {.op = &sw_op_sum_rows, .launch = sum_rows},
    {.op = &sw_op_total, .launch = total},
    {.op = &sw_op_softmax, .launch = softmax},
    {.op = &sw_op_softmax_gradient, .launch = softmax_backward},
    {.op = &sw_op_layer_norm, .launch = layer_norm},
    {.op = &sw_op_layer_norm_gradient, .launch = layer_norm_backward},
    {.op = &sw_op_argsort, .launch = argsort},
    {.op = &sw_op_read_clock, .launch = read_clock},
    {.op = &sw_op_update, .launch = update},
    {.op = &sw_op_measure, .launch = measure},
    {.op = &sw_op_norm_totals, .launch = norm_totals},
    {.op = &sw_op_decide, .launch = decide},
    {.op = &sw_op_rate, .launch = rate},
    {0},
};
