/* Reduced precision on the CPU: the operands of a product are rounded to tf32, bf16 or fp16 and
 * multiplied in fp32. sw_cpu_gemm rounds block by block on the stack; convolution and inner product
 * wrap an fp32 plan and round its inputs into scratch, unless oneDNN has a plan that rounds them
 * itself. The contract is in device/cpu/rounded.h. */
#include "device/cpu/rounded.h"
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include <stdio.h>

/* ---- Products ---- */

enum { ROWS = 128, COLUMNS = 256, DEPTH = 128 };

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Rounds a block of a factor, rows and columns from `row` and `column` on, into a dense matrix that
 * is stored like the factor. */
static struct sw_factor_matrix round_block(enum sw_precision precision,
                                           const struct sw_factor_matrix *x, const int64_t from[2],
                                           const int64_t size[2], float *out)
{
    const int line = x->transposed ? 1 : 0, along = 1 - line;
    const float *at = (const float *)x->at + from[line] * x->pitch + from[along];

    for (int64_t r = 0; r < size[line]; r++)
        sw_kernel_round(precision, at + r * x->pitch, out + r * size[along], size[along]);
    return (struct sw_factor_matrix){out, size[along], x->transposed};
}

/* Computes the block of c from row i and column j on, at most ROWS and COLUMNS. */
static void multiply_block(enum sw_precision precision, const struct sw_product *p, int64_t i,
                           int64_t j)
{
    const int64_t m = at_most(p->m - i, ROWS), n = at_most(p->n - j, COLUMNS);
    float x[ROWS * DEPTH], y[DEPTH * COLUMNS];

    for (int64_t from = 0; from < p->k; from += DEPTH) {
        int64_t depth = at_most(p->k - from, DEPTH);
        struct sw_factor_matrix a =
            round_block(precision, &p->a, (int64_t[]){i, from}, (int64_t[]){m, depth}, x);
        struct sw_factor_matrix b =
            round_block(precision, &p->b, (int64_t[]){from, j}, (int64_t[]){depth, n}, y);

        struct sw_product block =
            sw_product_scaled(sw_product_of(m, n, depth, a, b, p->c + i * p->pitch + j, p->pitch),
                              p->alpha, from ? 1 : p->beta);

        sw_cpu_multiply(&block);
    }
}

void sw_cpu_gemm(enum sw_precision precision, struct sw_product p)
{
    if (precision == SW_PRECISION_FP32 || p.k == 0) {
        sw_cpu_multiply(&p);
        return;
    }

    for (int64_t i = 0; i < p.m; i += ROWS)
        for (int64_t j = 0; j < p.n; j += COLUMNS)
            multiply_block(precision, &p, i, j);
}

/* ---- Plans ---- */

/* A plan whose passes read rounded operands. The copies of both operands are in scratch, after the
 * scratch of the inner plan, unless the inner plan rounds them itself. */
struct rounded {
    struct sw_plan base;   /* first member */
    struct sw_plan *inner; /* owned */
    bool halves;           /* the inner plan rounds its operands to 16 bits itself */
    enum sw_precision to;
    size_t at[2];
    size_t bias_at;   /* for the gradient of the bias */
    size_t floats_at; /* for the same: floats of a gradient that is stored in 16 bits */
};

static struct rounded *rounded_of(struct sw_plan *p)
{
    return (struct rounded *)(void *)p;
}

static float *scratch_of(const struct rounded *r, const struct sw_plan_args *a, int slot)
{
    return (float *)(void *)((char *)a->scratch + r->at[slot]);
}

static const float *round_operand(const struct rounded *r, const struct sw_plan_args *a, int slot,
                                  const struct sw_desc *layout, const float *x)
{
    if (r->halves)
        return x;

    float *copy = scratch_of(r, a, slot);
    sw_kernel_round_all(sw_cpu_threads(r->base.stream), r->to, x, copy, sw_desc_storage(layout));
    return copy;
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct rounded *r = rounded_of(p);
    struct sw_plan_args inner = *a;

    inner.src = round_operand(r, a, 0, &p->src, a->src);
    inner.weight = round_operand(r, a, 1, &p->weight, a->weight);
    return sw_plan_forward(r->inner, &inner, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct rounded *r = rounded_of(p);
    struct sw_plan_args inner = *a;

    inner.diff_dst = a->diff_again && !r->halves ? scratch_of(r, a, 0)
                                                 : round_operand(r, a, 0, &p->dst, a->diff_dst);
    inner.weight = round_operand(r, a, 1, &p->weight, a->weight);
    return sw_plan_backward_data(r->inner, &inner, err);
}

/* The gradient of the bias is a sum, not a product, so nothing is rounded. It does not depend on
 * the number of threads, as oneDNN's does. */
static void sum_bias(const struct rounded *r, const struct sw_plan_args *a)
{
    const struct sw_desc *dst = &r->base.dst;
    const struct sw_desc floats = sw_desc_as(dst, SW_F32);
    int threads = sw_cpu_threads(r->base.stream);
    const float *x = a->diff_dst;

    if (sw_dtype_is_half(dst->dtype)) {
        float *copy = (float *)(void *)((char *)a->scratch + r->floats_at);
        sw_kernel_from_halves(threads, dst->dtype, a->diff_dst, copy, sw_desc_storage(dst));
        x = copy;
    }

    sw_cpu_bias_gradient(threads, &floats, x, (char *)a->scratch + r->bias_at, a->diff_bias);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct rounded *r = rounded_of(p);
    struct sw_plan_args inner = *a;

    inner.diff_dst = round_operand(r, a, 0, &p->dst, a->diff_dst);
    inner.src = round_operand(r, a, 1, &p->src, a->src);

    int rc = sw_plan_backward_weights(r->inner, &inner, err);
    if (rc != SW_OK)
        return rc;

    if (p->bias.ndim)
        sum_bias(r, a);
    return SW_OK;
}

static void free_plan(struct sw_plan *p)
{
    sw_plan_free(rounded_of(p)->inner);
    sw_free(p);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Wraps the inner plan and takes ownership of it, even on failure. */
static int wrap(struct sw_plan *inner, bool halves, struct sw_plan_passes passes,
                struct sw_plan **out, struct sw_err *err)
{
    enum sw_precision precision = inner->stream->dev->precision;
    struct rounded *r = sw_calloc(1, sizeof *r);
    if (!r) {
        sw_plan_free(inner);
        return sw_err_nomem(err, "a plan", sizeof *r);
    }

    struct sw_plan *p = &r->base;
    size_t src = sw_desc_bytes(&inner->src), weight = sw_desc_bytes(&inner->weight);
    bool backward = passes.backward_data || passes.backward_weights;
    *p = *inner;
    p->ops = &ops;
    r->inner = inner;
    r->to = precision;

    r->halves = halves;
    if (!halves) {
        r->at[0] = sw_cpu_reserve(p, backward ? larger(src, sw_desc_bytes(&inner->dst)) : src);
        r->at[1] = sw_cpu_reserve(p, passes.backward_weights ? larger(src, weight) : weight);
    }

    if (passes.backward_weights && inner->bias.ndim) {
        r->bias_at = sw_cpu_reserve(p, sw_cpu_bias_room(&p->dst));
        if (sw_dtype_is_half(p->dst.dtype))
            r->floats_at = sw_cpu_reserve(p, (size_t)sw_desc_storage(&p->dst) * sizeof(float));
    }

    snprintf(p->algorithm, sizeof p->algorithm, "%s:%.54s", sw_precision_name(precision),
             inner->algorithm);
    *out = p;

    return SW_OK;
}

int sw_cpu_rounded_plan(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_cpu_device *dev = sw_cpu_device_of(q->stream->dev);
    struct sw_plan *inner = NULL;
    bool other = q->src->dtype == SW_F16 || q->dst_type == SW_F16; /* `halves` reads bf16 only */
    int rc =
        dev->halves && !other ? dev->halves->make[q->kind](q, &inner, err) : SW_ERR_UNSUPPORTED;
    bool halves = rc == SW_OK, floats = q->src->dtype == SW_F32 && q->dst_type == SW_F32;

    if (rc == SW_ERR_UNSUPPORTED && floats)
        rc = dev->exact->make[q->kind](q, &inner, err);
    return rc == SW_OK ? wrap(inner, halves, q->passes, out, err) : rc;
}
