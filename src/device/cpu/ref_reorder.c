/* Copies between layouts. Blocked channels against plain go through transposing kernels, equal
 * layouts are copied, and everything else is found element by element. */
#include "base/os.h"
#include "device/cpu/ref.h"
#include "kernels/cpu/kernels.h"

/* 8 or 16 where a 4-byte [N, C, ...] has channels blocked by that and nothing else is; else 0. */
static int channel_block(const struct sw_desc *d)
{
    if (d->ndim < 2 || d->nblock != 1 || sw_dtype_bytes(d->dtype) != 4)
        return 0;
    if (d->block[0] != 8 && d->block[0] != 16)
        return 0;
    struct sw_desc blocked = sw_desc_blocked(d->dtype, d->ndim, d->dim, 1, d->block[0]);
    return sw_desc_equal(d, &blocked) ? d->block[0] : 0;
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
    int64_t rows = from->dim[0], channels = from->dim[1];
    int64_t pixels = rows && channels ? sw_desc_count(from) / rows / channels : 0;
    int block_from = channel_block(from), block_to = channel_block(to);
    if (sw_desc_equal(from, to))
        sw_kernel_copy(threads, dst, src, (int64_t)sw_desc_bytes(to));
    else if (block_to && sw_desc_is_plain(from))
        sw_kernel_block_channels(threads, rows, channels, pixels, block_to, src, dst);
    else if (block_from && sw_desc_is_plain(to))
        sw_kernel_unblock_channels(threads, rows, channels, pixels, block_from, src, dst);
    else
        copy_by_offset(threads, from, src, to, dst);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    (void)err;
    sw_cpu_reorder(sw_cpu_threads(p->stream), &p->src, a->src, &p->dst, a->dst);
    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    (void)err;
    sw_cpu_reorder(sw_cpu_threads(p->stream), &p->dst, a->diff_dst, &p->src, a->diff_src);
    return SW_OK;
}

static void free_plan(struct sw_plan *p)
{
    sw_free(p);
}

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .free = free_plan,
};

int sw_ref_reorder(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                   struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_reorder_check(from, to, err);
    if (rc != SW_OK)
        return rc;
    struct sw_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "reorder plan", sizeof *p);
    *p = (struct sw_plan){.ops = &ops, .stream = s, .src = *from, .dst = *to, .algorithm = "copy"};
    *out = p;
    return SW_OK;
}
