#include "device/ops/eltwise.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

_Static_assert((int)SW_ELTWISE_SRCS == (int)SW_KERNEL_ELTWISE_SRCS, "room for all sources");

static const enum sw_kernel_eltwise_kind kernel_of[] = {[SW_ELTWISE_SUM] = SW_KERNEL_SUM,
                                                        [SW_ELTWISE_PRODUCT] = SW_KERNEL_PRODUCT,
                                                        [SW_ELTWISE_MAX] = SW_KERNEL_MAX};

/* A row for element i of an array of pointers. */
#define ELEMENT(t, m, i)                                                                           \
    {                                                                                              \
        .name = #m, .offset = offsetof(t, m) + (i) * sizeof(float *),                              \
        .written = SW_OP_WRITTEN(t, m[0])                                                          \
    }
#define FOUR(t, m, i)                                                                              \
    ELEMENT(t, m, i), ELEMENT(t, m, (i) + 1), ELEMENT(t, m, (i) + 2), ELEMENT(t, m, (i) + 3)
#define ALL(t, m) FOUR(t, m, 0), FOUR(t, m, 4), FOUR(t, m, 8), FOUR(t, m, 12)

/* All arrays have the same size; what is NULL is not used. */
static void spans_of(const void *args, const struct sw_op_pointer *pointers, int64_t n,
                     size_t *bytes)
{
    for (int i = 0; pointers[i].name; i++) {
        const void *p;
        memcpy(&p, (const char *)args + pointers[i].offset, sizeof p);
        bytes[i] = p ? sw_op_floats(n) : 0;
    }
}

/* ---- Forward ---- */

static const struct sw_op_pointer pointers[] = {
    ALL(struct sw_eltwise_args, x),
    SW_OP_POINTER(struct sw_eltwise_args, y),
    {0},
};

static void spans(const void *args, size_t *bytes)
{
    spans_of(args, pointers, ((const struct sw_eltwise_args *)args)->n, bytes);
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_eltwise_args *a = args;
    struct sw_kernel_eltwise k = {
        .count = a->count, .relu = a->relu, .n = a->n, .factor = a->factor, .y = a->y};
    (void)err;
    memcpy(k.x, a->x, sizeof k.x);
    sw_kernel_eltwise(threads, kernel_of[a->kind], &k);
    return SW_OK;
}

const struct sw_op sw_op_eltwise = {
    .name = "eltwise",
    .args_bytes = sizeof(struct sw_eltwise_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = forward_cpu,
};

/* ---- Gradients of a sum ---- */

static const struct sw_op_pointer sum_pointers[] = {
    SW_OP_POINTER(struct sw_eltwise_sum_gradient_args, y),
    SW_OP_POINTER(struct sw_eltwise_sum_gradient_args, dy),
    ALL(struct sw_eltwise_sum_gradient_args, dx),
    {0},
};

static void sum_spans(const void *args, size_t *bytes)
{
    spans_of(args, sum_pointers, ((const struct sw_eltwise_sum_gradient_args *)args)->n, bytes);
}

static int sum_gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_eltwise_sum_gradient_args *a = args;
    struct sw_kernel_eltwise_gradient k = {
        .count = a->count, .adds = a->adds, .n = a->n, .factor = a->factor, .y = a->y, .dy = a->dy};
    (void)err;
    memcpy(k.dx, a->dx, sizeof k.dx);
    sw_kernel_eltwise_sum_backward(threads, &k);
    return SW_OK;
}

const struct sw_op sw_op_eltwise_sum_gradient = {
    .name = "eltwise_sum_backward",
    .args_bytes = sizeof(struct sw_eltwise_sum_gradient_args),
    .pointers = sum_pointers,
    .spans = sum_spans,
    .cpu = sum_gradient_cpu,
};

/* ---- Gradient of one source ---- */

static const struct sw_op_pointer gradient_pointers[] = {
    ALL(struct sw_eltwise_gradient_args, x),
    SW_OP_POINTER(struct sw_eltwise_gradient_args, y),
    SW_OP_POINTER(struct sw_eltwise_gradient_args, dy),
    SW_OP_POINTER(struct sw_eltwise_gradient_args, dx),
    {0},
};

static void gradient_spans(const void *args, size_t *bytes)
{
    spans_of(args, gradient_pointers, ((const struct sw_eltwise_gradient_args *)args)->n, bytes);
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_eltwise_gradient_args *a = args;
    struct sw_kernel_eltwise_gradient k = {
        .count = a->count, .adds = a->add ? 1u << a->of : 0, .n = a->n, .y = a->y, .dy = a->dy};
    (void)err;
    memcpy(k.x, a->x, sizeof k.x);
    k.dx[a->of] = a->dx;
    sw_kernel_eltwise_one_backward(threads, kernel_of[a->kind], &k, a->of);
    return SW_OK;
}

const struct sw_op sw_op_eltwise_gradient = {
    .name = "eltwise_backward",
    .args_bytes = sizeof(struct sw_eltwise_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};
