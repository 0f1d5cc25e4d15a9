/* Whole tensors from layout to layout, and their padding. Blocked channels against plain go through
 * transposing kernels, equal layouts are copied, everything else is found element by element. */
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"

int sw_cpu_channel_block(const struct sw_desc *d)
{
    int block = d->ndim >= 2 && d->nblock == 1 ? d->block[0] : 0;
    if (block != 16 && block != 8 && block != 4)
        return 0;
    struct sw_desc blocked = sw_desc_blocked(d->dtype, d->ndim, d->dim, 1, block);
    return sw_desc_equal(d, &blocked) ? block : 0;
}

int64_t sw_cpu_pixels(const struct sw_desc *d)
{
    int64_t pixels = 1;
    for (int i = 2; i < d->ndim; i++)
        pixels *= d->dim[i];
    return pixels;
}

bool sw_cpu_is_channels_last(const struct sw_desc *d)
{
    if (sw_desc_is_plain(d))
        return d->ndim == 2 || d->dim[1] == 1 || sw_cpu_pixels(d) == 1;
    int64_t step = d->dim[1];
    if (d->nblock > 0 || d->stride[1] != 1)
        return false;
    for (int i = d->ndim - 1; i >= 2; i--) {
        if (d->stride[i] != step)
            return false;
        step *= d->dim[i];
    }
    return d->stride[0] == step;
}

/* The elements of one row in logical order; index[0] is set. */
static void copy_row(const struct sw_desc *from, const void *src, const struct sw_desc *to,
                     void *dst, int64_t row)
{
    int64_t index[SW_MAX_DIMS] = {row};
    bool bytes = sw_dtype_bytes(from->dtype) == 1;
    for (int64_t n = sw_desc_features(from); n > 0; n--) {
        int64_t i = sw_desc_offset(from, index), o = sw_desc_offset(to, index);
        if (bytes)
            ((uint8_t *)dst)[o] = ((const uint8_t *)src)[i];
        else
            ((uint32_t *)dst)[o] = ((const uint32_t *)src)[i];
        for (int d = from->ndim - 1; d > 0; d--) {
            if (++index[d] < from->dim[d])
                break;
            index[d] = 0;
        }
    }
}

static void copy_by_offset(int threads, const struct sw_desc *from, const void *src,
                           const struct sw_desc *to, void *dst)
{
    if (sw_desc_storage(to) != sw_desc_count(to))
        sw_kernel_zero(threads, dst, (int64_t)sw_desc_bytes(to));
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < from->dim[0]; r++)
        copy_row(from, src, to, dst, r);
}

void sw_cpu_reorder(int threads, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst)
{
    int64_t rows = from->dim[0], channels = from->dim[1], pixels = sw_cpu_pixels(from);
    bool words = sw_dtype_bytes(from->dtype) == 4;
    int block_from = words ? sw_cpu_channel_block(from) : 0;
    int block_to = words ? sw_cpu_channel_block(to) : 0;
    if (sw_desc_equal(from, to))
        sw_kernel_copy(threads, dst, src, (int64_t)sw_desc_bytes(to));
    else if (block_to && sw_desc_is_plain(from))
        sw_kernel_block_channels(threads, rows, channels, pixels, block_to, src, dst);
    else if (block_from && sw_desc_is_plain(to))
        sw_kernel_unblock_channels(threads, rows, channels, pixels, block_from, src, dst);
    else
        copy_by_offset(threads, from, src, to, dst);
}

/* Sets to zero what lies beyond dimension `beyond`, whatever the other indices are. */
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

int sw_cpu_zero_padding(struct sw_stream *s, const struct sw_desc *d, float *x, struct sw_err *err)
{
    int block = sw_cpu_channel_block(d);
    (void)err;
    if (block && sw_desc_count(d) > 0)
        sw_kernel_zero_channel_padding(sw_cpu_threads(s), d->dim[0], d->dim[1], sw_cpu_pixels(d),
                                       block, x);
    else if (sw_desc_storage(d) > 0)
        for (int i = 0; i < d->ndim; i++)
            if (d->padded[i] > d->dim[i])
                zero_beyond(d, i, x);
    return SW_OK;
}
