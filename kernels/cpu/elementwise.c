/* Element-wise operations bound by memory: copy, zero, sums and products of two arrays, integers to
 * floats, and the test for finite values. A float is infinite or NaN if its eight exponent bits are
 * all ones (IEEE 754). */
#include "kernels/ops/elementwise.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum {
    LINE_BYTES = 64,
    LINE_FLOATS = 16,
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

SW_KERNEL static void add(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void sw_kernel_add(int threads, float *y, const float *x, int64_t n)
{
    int team = sw_team_size(threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        add(y + r.from, x + r.from, r.to - r.from);
    }
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
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        finite = finite && range_is_finite(x + r.from, r.to - r.from);
    }

    return finite;
}

/* ---- y += x ---- */

static void add_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_add_args *a = args;
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
    SW_ARRAY(out, a, x, sw_op_floats(a->n));
}

static int add_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_add_args *a = args;
    sw_kernel_add(l->threads, a->y, a->x, a->n);
    return SW_OK;
}

const struct sw_op sw_op_add_to = {"add", sizeof(struct sw_add_args), add_arrays, add_cpu};

/* ---- Integers to floats ---- */

SW_KERNEL static void floats(float *restrict y, const int32_t *restrict x, int64_t n)
{
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
    int team = sw_team_size(l->threads, a->n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(a->n, LINE_FLOATS);
        floats(a->y + r.from, a->x + r.from, r.to - r.from);
    }

    return SW_OK;
}

const struct sw_op sw_op_to_floats = {"floats", sizeof(struct sw_floats_args), floats_arrays,
                                      floats_cpu};

/* ---- y = alpha x + beta y ---- */

SW_KERNEL static void combine(float alpha, const float *restrict x, float beta, float *restrict y,
                              int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i] + beta * y[i];
}

/* y = alpha x without reading y, which may contain anything. */
SW_KERNEL static void scale(float alpha, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i];
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
    int team = sw_team_size(l->threads, a->n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(a->n, LINE_FLOATS);
        if (a->beta == 0)
            scale(a->alpha, a->x + r.from, a->y + r.from, r.to - r.from);
        else
            combine(a->alpha, a->x + r.from, a->beta, a->y + r.from, r.to - r.from);
    }

    return SW_OK;
}

const struct sw_op sw_op_combine = {"combine", sizeof(struct sw_combine_args), combine_arrays,
                                    combine_cpu};

/* ---- y = a b ---- */

SW_KERNEL static void multiply(const float *a, const float *b, float *y, int64_t n)
{
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
    int team = sw_team_size(l->threads, a->n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(a->n, LINE_FLOATS);
        multiply(a->a + r.from, a->b + r.from, a->y + r.from, r.to - r.from);
    }

    return SW_OK;
}

const struct sw_op sw_op_multiply = {"multiply", sizeof(struct sw_multiply_args), multiply_arrays,
                                     multiply_cpu};
