/* Element-wise operations bound by memory: copy, zero, sums and products of two arrays, integers to
 * floats, and the test for finite values. A float is infinite or NaN if its eight exponent bits are
 * all ones (IEEE 754). */
#include "kernels/ops/elementwise.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum {
    LINE_BYTES = 64,
    CHECK_FLOATS = 8192, /* elements between checks whether a non-finite value was found */
};

void sw_kernel_copy(int threads, void *dst, const void *src, int64_t bytes)
{
    int team = sw_team_size(threads, bytes / 16);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(bytes, LINE_BYTES);
        if (r.to > r.from)
            memcpy((char *)dst + r.from, (const char *)src + r.from, (size_t)(r.to - r.from));
    }
}

void sw_kernel_zero(int threads, void *dst, int64_t bytes)
{
    int team = sw_team_size(threads, bytes / 16);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(bytes, LINE_BYTES);
        if (r.to > r.from)
            memset((char *)dst + r.from, 0, (size_t)(r.to - r.from));
    }
}

void sw_kernel_zero_rows(int threads, int64_t from, int64_t to, int64_t columns, float *x)
{
    if (to > from)
        sw_kernel_zero(threads, x + from * columns, (to - from) * columns * (int64_t)sizeof *x);
}

SW_KERNEL static void add(const void *args, int64_t from, int64_t n)
{
    const struct sw_add_args *a = args;
    const float *restrict x = (const float *)a->x + from;
    float *restrict y = (float *)a->y + from;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void sw_kernel_add(int threads, float *y, const float *x, int64_t n)
{
    sw_team_each(threads, n, add, &(struct sw_add_args){.y = y, .x = x});
}

SW_KERNEL static bool block_is_finite(const float *x, int64_t n)
{
    uint32_t bad = 0;

#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }

    return !bad;
}

static bool range_is_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += CHECK_FLOATS) {
        int64_t left = n - i;
        if (!block_is_finite(x + i, left < CHECK_FLOATS ? left : CHECK_FLOATS))
            return false;
    }

    return true;
}

bool sw_kernel_all_finite(int threads, const float *x, int64_t n)
{
    int team = sw_team_size(threads, n);
    bool finite = true;

#pragma omp parallel num_threads(team) if (team > 1) reduction(&& : finite)
    {
        struct sw_range r = sw_team_range(n, SW_LINE_FLOATS);
        finite = finite && range_is_finite(x + r.from, r.to - r.from);
    }

    return finite;
}

/* ---- y += x ---- */

static void add_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_add_args *a = args;
    SW_ACTIVATION(out, a, y, a->type, a->n);
    SW_ACTIVATION(out, a, x, a->type, a->n);
}

static int add_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_add_args *a = args;
    sw_team_each(l->threads, a->n, add, a);
    return SW_OK;
}

const struct sw_op sw_op_add_to = {"add", sizeof(struct sw_add_args), add_arrays, add_cpu};

/* ---- Integers to floats ---- */

SW_KERNEL static void floats(const void *args, int64_t from, int64_t n)
{
    const struct sw_floats_args *a = args;
    const int32_t *restrict x = a->x + from;
    float *restrict y = a->y + from;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

static void floats_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_floats_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->n));
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
}

static int floats_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_floats_args *a = args;
    sw_team_each(l->threads, a->n, floats, a);
    return SW_OK;
}

const struct sw_op sw_op_to_floats = {"floats", sizeof(struct sw_floats_args), floats_arrays,
                                      floats_cpu};

/* ---- y = alpha x + beta y ---- */

/* y is not read where beta is 0: it may contain anything. */
SW_KERNEL static void combine(const void *args, int64_t from, int64_t n)
{
    const struct sw_combine_args *a = args;
    const float alpha = a->alpha, beta = a->beta, *restrict x = a->x + from;
    float *restrict y = a->y + from;

    if (beta == 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = alpha * x[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = alpha * x[i] + beta * y[i];
    }
}

static void combine_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_combine_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->n));
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
}

static int combine_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_combine_args *a = args;
    sw_team_each(l->threads, a->n, combine, a);
    return SW_OK;
}

const struct sw_op sw_op_combine = {"combine", sizeof(struct sw_combine_args), combine_arrays,
                                    combine_cpu};

/* ---- y = a b ---- */

SW_KERNEL static void multiply(const void *args, int64_t from, int64_t n)
{
    const struct sw_multiply_args *m = args;
    const float *a = m->a + from, *b = m->b + from;
    float *y = m->y + from;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void multiply_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_multiply_args *a = args;
    SW_ARRAY(out, a, a, sw_op_floats(a->n));
    SW_ARRAY(out, a, b, sw_op_floats(a->n));
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
}

static int multiply_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_multiply_args *a = args;
    sw_team_each(l->threads, a->n, multiply, a);
    return SW_OK;
}

const struct sw_op sw_op_multiply = {"multiply", sizeof(struct sw_multiply_args), multiply_arrays,
                                     multiply_cpu};
