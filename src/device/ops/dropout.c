/* Dropout on any layout: the usual ones go to kernels that draw sixteen blocks of random words at a
 * time, the others element by element. */
#include "device/ops/dropout.h"
#include "kernels/cpu/kernels.h"

/* The index of an element numbered channels-last inside row r of what is here. */
static void index_of(const struct sw_desc *d, int64_t r, int64_t element, int64_t *index)
{
    index[0] = r;
    index[1] = element % d->dim[1];
    element /= d->dim[1];
    for (int i = d->ndim - 1; i >= 2; i--) {
        index[i] = element % d->dim[i];
        element /= d->dim[i];
    }
}

static void drop_by_offset(const struct sw_desc *d, const struct sw_kernel_dropout *k,
                           const struct sw_dropout *dropout, int threads, const float *x, float *y)
{
    int64_t features = sw_desc_features(d);
    int64_t channels = dropout->channels ? dropout->channels : d->dim[1]; /* of the whole */
    if (x != y && sw_desc_storage(d) != sw_desc_count(d))
        sw_kernel_zero(threads, y, (int64_t)sw_desc_bytes(d));
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < d->dim[0]; r++)
        for (int64_t e = 0; e < features; e++) {
            int64_t index[SW_MAX_DIMS];
            uint32_t row = k->first_row + (uint32_t)r;
            index_of(d, r, e, index);
            int64_t at = sw_desc_offset(d, index);
            int64_t number = dropout->first_channel + index[1] + e / d->dim[1] * channels;
            y[at] = sw_kernel_dropout_element(k, row, (uint32_t)number, x[at]);
        }
}

static void spans(const void *args, size_t *bytes)
{
    const struct sw_dropout_args *a = args;
    bytes[0] = sizeof *a->step;
    bytes[1] = bytes[2] = sw_desc_bytes(&a->desc);
}

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_dropout_args *a = args;
    const struct sw_desc *d = &a->desc;
    const struct sw_kernel_dropout k = {.key = a->dropout.key,
                                        .step = a->step->step,
                                        .first_row = (uint32_t)a->step->first_row,
                                        .threshold = a->dropout.threshold,
                                        .scale = a->dropout.scale,
                                        .low_below = a->dropout.low_below,
                                        .low = a->dropout.low,
                                        .high = a->dropout.high,
                                        .std = a->dropout.std};
    bool part = a->dropout.channels && a->dropout.channels != d->dim[1];
    char text[128];
    if (d->ndim < 2 || sw_desc_features(d) > INT32_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "it needs 2 dimensions or more and rows below 2^31 elements, not %s",
                          sw_desc_text(d, text));
    int block = sw_desc_channel_block(d);
    int64_t rows = d->dim[0], channels = d->dim[1], pixels = sw_desc_pixels(d);
    if (part)
        drop_by_offset(d, &k, &a->dropout, threads, a->x, a->y);
    else if (sw_desc_is_channels_last(d))
        sw_kernel_dropout_rows(threads, &k, rows, channels * pixels, a->x, a->y);
    else if (channels % 4 == 0 && sw_desc_is_plain(d))
        sw_kernel_dropout_planes(threads, &k, rows, channels, pixels, a->x, a->y);
    else if (channels % 4 == 0 && block)
        sw_kernel_dropout_blocked(threads, &k, rows, channels, pixels, block, a->x, a->y);
    else
        drop_by_offset(d, &k, &a->dropout, threads, a->x, a->y);
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_dropout_args, step),
    SW_OP_POINTER(struct sw_dropout_args, x),
    SW_OP_POINTER(struct sw_dropout_args, y),
    {0},
};

const struct sw_op sw_op_drop = {
    .name = "dropout",
    .args_bytes = sizeof(struct sw_dropout_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
