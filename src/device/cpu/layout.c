/* Converts tensors between layouts. Transposing kernels convert between blocked channels and plain
 * order, equal layouts are copied, and everything else is converted element by element, as is the
 * type between floats and 16 bits. */
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include "kernels/half.h"

/* Copies an element, and converts it if one of the types is f32 and the other one has 16 bits. */
static void copy_element(enum sw_dtype from, const void *src, int64_t i, enum sw_dtype to,
                         void *dst, int64_t o)
{
    size_t bytes = sw_dtype_bytes(from);

    if (from == SW_F32 && to == SW_BF16)
        ((uint16_t *)dst)[o] = sw_bf16_of(((const float *)src)[i]);
    else if (from == SW_F32 && to == SW_F16)
        ((uint16_t *)dst)[o] = sw_fp16_of(((const float *)src)[i]);
    else if (from == SW_BF16 && to == SW_F32)
        ((float *)dst)[o] = sw_bf16_value(((const uint16_t *)src)[i]);
    else if (from == SW_F16 && to == SW_F32)
        ((float *)dst)[o] = sw_fp16_value(((const uint16_t *)src)[i]);
    else if (bytes == 1)
        ((uint8_t *)dst)[o] = ((const uint8_t *)src)[i];
    else if (bytes == 2)
        ((uint16_t *)dst)[o] = ((const uint16_t *)src)[i];
    else
        ((uint32_t *)dst)[o] = ((const uint32_t *)src)[i];
}

/* Copies the elements of one row in logical order. */
static void copy_row(const struct sw_desc *from, const void *src, const struct sw_desc *to,
                     void *dst, int64_t row)
{
    int64_t index[SW_MAX_DIMS] = {row};

    for (int64_t n = sw_desc_features(from); n > 0; n--) {
        int64_t i = sw_desc_offset(from, index), o = sw_desc_offset(to, index);

        copy_element(from->dtype, src, i, to->dtype, dst, o);

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
    int64_t rows = from->dim[0], channels = from->dim[1], pixels = sw_desc_pixels(from);
    bool converts = from->dtype != to->dtype;
    bool words = !converts && sw_dtype_bytes(from->dtype) == 4;
    struct sw_desc same = sw_desc_as(from, to->dtype);
    int block_from = words ? sw_desc_channel_block(from) : 0;
    int block_to = words ? sw_desc_channel_block(to) : 0;

    if (converts && sw_desc_equal(&same, to) && from->dtype == SW_F32)
        sw_kernel_to_halves(threads, to->dtype, src, dst, sw_desc_storage(to));
    else if (converts && sw_desc_equal(&same, to))
        sw_kernel_from_halves(threads, from->dtype, src, dst, sw_desc_storage(to));
    else if (sw_desc_equal(from, to))
        sw_kernel_copy(threads, dst, src, (int64_t)sw_desc_bytes(to));
    else if (block_to && sw_desc_is_plain(from))
        sw_kernel_block_channels(threads, rows, channels, pixels, block_to, src, dst);
    else if (block_from && sw_desc_is_plain(to))
        sw_kernel_unblock_channels(threads, rows, channels, pixels, block_from, src, dst);
    else
        copy_by_offset(threads, from, src, to, dst);
}
