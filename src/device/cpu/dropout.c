/* Dropout on any layout: the usual ones go to kernels that draw sixteen blocks of random words at a
 * time, the others element by element. */
#include "device/cpu/cpu.h"
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
            bool kept = sw_philox_word(k->key, k->step, row, (uint32_t)number) >= k->threshold;
            y[at] = kept ? x[at] * k->scale : 0.0f;
        }
}

int sw_cpu_dropout(struct sw_stream *s, const struct sw_desc *d, const struct sw_dropout *dropout,
                   const struct sw_step *step, const float *x, float *y, struct sw_err *err)
{
    const struct sw_kernel_dropout k = {.key = dropout->key,
                                        .step = step->step,
                                        .first_row =
                                            dropout->all_rows ? 0 : (uint32_t)step->first_row,
                                        .threshold = dropout->threshold,
                                        .scale = dropout->scale};
    bool part = dropout->channels && dropout->channels != d->dim[1];
    char text[128];
    if (d->ndim < 2 || sw_desc_features(d) > INT32_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "dropout needs 2 dimensions or more and rows below 2^31 elements, not %s",
                          sw_desc_text(d, text));
    int threads = sw_cpu_threads(s), block = sw_cpu_channel_block(d);
    int64_t rows = d->dim[0], channels = d->dim[1], pixels = sw_cpu_pixels(d);
    if (part)
        drop_by_offset(d, &k, dropout, threads, x, y);
    else if (sw_cpu_is_channels_last(d))
        sw_kernel_dropout_rows(threads, &k, rows, channels * pixels, x, y);
    else if (channels % 4 == 0 && sw_desc_is_plain(d))
        sw_kernel_dropout_planes(threads, &k, rows, channels, pixels, x, y);
    else if (channels % 4 == 0 && block)
        sw_kernel_dropout_blocked(threads, &k, rows, channels, pixels, block, x, y);
    else
        drop_by_offset(d, &k, dropout, threads, x, y);
    return SW_OK;
}
