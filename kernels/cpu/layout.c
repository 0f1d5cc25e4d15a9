/* Copies slices of activations along one dimension from any layout to any other: as contiguous runs
 * if both layouts are equal, else channel by channel or element by element. Also sets padding to
 * zero. */
#include "kernels/ops/layout.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

/* A copy of `rows` contiguous runs of `run` elements, without overlap. */
struct runs {
    int64_t rows, run, src_stride, dst_stride;
    bool add; /* dst += src */
    const float *src;
    float *dst;
};

enum { PIECE = 4096 }; /* floats that a thread copies at a time: longer runs are divided */

SW_KERNEL static void add(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void copy_runs(int threads, const struct runs *k)
{
    int64_t pieces = (k->run + PIECE - 1) / PIECE;
    int team = sw_team_size(threads, k->rows * k->run);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < k->rows * pieces; i++) {
        int64_t row = i / pieces, at = i % pieces * PIECE;
        int64_t n = k->run - at < PIECE ? k->run - at : PIECE;
        const float *x = k->src + row * k->src_stride + at;
        float *y = k->dst + row * k->dst_stride + at;

        if (k->add)
            add(y, x, n);
        else
            memcpy(y, x, (size_t)n * sizeof *y);
    }
}

static int64_t product(const struct sw_desc *d, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= d->dim[i];
    return n;
}

/* A layout that is not blocked, or blocked by channels, as rows of runs along the axis. */
struct rows {
    int64_t rows, unit; /* unit: elements per index of the axis, or per block of indices */
    int64_t step;       /* indices per unit */
};

static bool lay_out(const struct sw_desc *d, int axis, struct rows *r)
{
    int block = sw_desc_channel_block(d);
    if (!block && !sw_desc_is_plain(d))
        return false;

    r->rows = product(d, 0, axis);
    r->unit = product(d, axis + 1, d->ndim);
    r->step = 1;

    if (block) {
        r->unit *= block;

        if (axis == 1)
            r->step = block;
        else
            r->rows = r->rows / d->dim[1] * (d->padded[1] / block);
    }

    return true;
}

/* Does the slice end at the end of a block or with the last channel? */
static bool ends_with_block(const struct sw_desc *d, int axis, int64_t at, int64_t step)
{
    return at % step == 0 || at == d->dim[axis];
}

/* Finds the runs of a copy; false unless both layouts are of the same kind and the slice consists
 * of whole blocks. */
static bool find_runs(const struct sw_part_args *a, struct runs *k)
{
    struct rows from, to;
    if (!lay_out(&a->from, a->axis, &from) || !lay_out(&a->to, a->axis, &to) ||
        from.step != to.step || from.unit != to.unit || from.rows != to.rows)
        return false;

    int64_t step = from.step, count = (a->count + step - 1) / step;
    if (a->from_at % step || a->to_at % step ||
        !ends_with_block(&a->from, a->axis, a->from_at + a->count, step) ||
        !ends_with_block(&a->to, a->axis, a->to_at + a->count, step))
        return false;

    *k = (struct runs){.rows = from.rows,
                       .run = count * from.unit,
                       .src_stride = a->from.padded[a->axis] / step * from.unit,
                       .dst_stride = a->to.padded[a->axis] / step * to.unit,
                       .add = a->add,
                       .src = (const float *)a->src + a->from_at / step * from.unit,
                       .dst = (float *)a->dst + a->to_at / step * to.unit};
    return true;
}

/* Returns the distance between pixels if it is constant, as in the common layouts. */
static int64_t pixel_stride(const struct sw_desc *d)
{
    if (d->ndim < 3)
        return 1;

    int64_t stride = d->stride[d->ndim - 1], step = stride;
    for (int i = 0; i < d->nblock; i++)
        if (d->block_dim[i] > 1)
            return 0;

    for (int i = d->ndim - 1; i >= 2; i--) {
        if (d->dim[i] > 1 && d->stride[i] != step)
            return 0;
        step *= d->dim[i];
    }

    return stride;
}

static void copy_strided(int64_t n, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                         bool is_added)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i * x_stride] + (is_added ? y[i * y_stride] : 0.0f);
}

/* Copies channel by channel, between different layouts or from the middle of a block. */
static bool copy_channels(int threads, const struct sw_part_args *a)
{
    int64_t from_step = pixel_stride(&a->from), to_step = pixel_stride(&a->to);
    int64_t rows = a->from.dim[0], pixels = sw_desc_pixels(&a->from);

    if (a->axis != 1 || !from_step || !to_step)
        return false;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < rows * a->count; i++) {
        int64_t from[SW_MAX_DIMS] = {i / a->count, a->from_at + i % a->count};
        int64_t to[SW_MAX_DIMS] = {i / a->count, a->to_at + i % a->count};
        copy_strided(pixels, (const float *)a->src + sw_desc_offset(&a->from, from), from_step,
                     (float *)a->dst + sw_desc_offset(&a->to, to), to_step, a->add);
    }

    return true;
}

static void copy_elements(const struct sw_part_args *a)
{
    int64_t index[SW_MAX_DIMS] = {0}, n = a->count;

    for (int i = 0; i < a->from.ndim; i++)
        n *= i == a->axis ? 1 : a->from.dim[i];

    for (; n > 0; n--) {
        int64_t to[SW_MAX_DIMS], from[SW_MAX_DIMS];

        for (int i = 0; i < a->from.ndim; i++) {
            from[i] = index[i] + (i == a->axis ? a->from_at : 0);
            to[i] = index[i] + (i == a->axis ? a->to_at : 0);
        }

        const float *src = a->src;
        float *at = (float *)a->dst + sw_desc_offset(&a->to, to);
        *at = src[sw_desc_offset(&a->from, from)] + (a->add ? *at : 0);

        for (int i = a->from.ndim - 1; i >= 0; i--) {
            if (++index[i] < (i == a->axis ? a->count : a->from.dim[i]))
                break;
            index[i] = 0;
        }
    }
}

static void part_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_part_args *a = args;
    SW_ACTIVATION(out, a, src, a->from.dtype, sw_desc_storage(&a->from));
    SW_ACTIVATION(out, a, dst, a->to.dtype, sw_desc_storage(&a->to));
}

static int part(const struct sw_host_launch *l, const void *args)
{
    const struct sw_part_args *a = args;
    struct runs k;

    if (find_runs(a, &k))
        copy_runs(l->threads, &k);
    else if (!copy_channels(l->threads, a))
        copy_elements(a);

    return SW_OK;
}

const struct sw_op sw_op_part = {"part", sizeof(struct sw_part_args), part_arrays, part};

/* ---- Padding ---- */

/* Sets to zero the padding of dimension `beyond`, for all other indices. */
static void zero_beyond(const struct sw_desc *d, int beyond, float *x)
{
    int64_t index[SW_MAX_DIMS] = {0};

    index[beyond] = d->dim[beyond];
    for (;;) {
        int i = d->ndim - 1;

        x[sw_desc_offset(d, index)] = 0.0f;

        for (; i >= 0; i--) {
            if (++index[i] < d->padded[i])
                break;
            index[i] = i == beyond ? d->dim[i] : 0;
        }

        if (i < 0)
            return;
    }
}

static void padding_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_zero_padding_args *a = args;
    SW_ACTIVATION(out, a, x, a->desc.dtype, sw_desc_storage(&a->desc));
}

static int zero_padding(const struct sw_host_launch *l, const void *args)
{
    const struct sw_zero_padding_args *a = args;
    const struct sw_desc *d = &a->desc;
    int block = sw_desc_channel_block(d);

    if (block && sw_desc_count(d) > 0)
        sw_kernel_zero_channel_padding(l->threads, d->dim[0], d->dim[1], sw_desc_pixels(d), block,
                                       a->x);
    else if (sw_desc_storage(d) > 0)
        for (int i = 0; i < d->ndim; i++)
            if (d->padded[i] > d->dim[i])
                zero_beyond(d, i, a->x);

    return SW_OK;
}

const struct sw_op sw_op_clear_padding = {"zero_padding", sizeof(struct sw_zero_padding_args),
                                          padding_arrays, zero_padding};
