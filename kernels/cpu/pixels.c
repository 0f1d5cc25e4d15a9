/* The pixels of a batch to floats; a thread takes whole rows. */
#include "kernels/ops/pixels.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC's -std=c17 already means this */
#endif

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_pixels_args *a = args;
    const int64_t mean = a->channels * a->mean_height * a->mean_width;

    SW_ARRAY(out, a, x, (size_t)(a->rows * a->row_bytes));
    SW_ARRAY_OR_NULL(out, a, mean_image, sw_op_floats(mean));
    SW_ARRAY(out, a, y, sw_op_matrix(a->rows, a->channels * a->height * a->width));
}

/* A line of an image of `width` pixels, from its pixels, less the line of the mean image. */
SW_KERNEL static void subtract_line(int64_t width, const uint8_t *restrict x,
                                    const float *restrict mean, float gain, bool mirrored,
                                    float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        const int64_t from = mirrored ? width - 1 - i : i;
        y[i] = ((float)x[from] - mean[from]) * gain;
    }
}

/* A line of an image without a mean image: the window, and zeros around it. */
static void scale_line(const struct sw_pixels_args *a, const struct sw_pixels_head *head,
                       const uint8_t *x, int64_t line, int64_t channel, float *y)
{
    const int64_t first = head->first_column, end = head->end_column;
    const int64_t to = head->mirrored ? a->width - end : first;

    if (line < head->first_line || line >= head->end_line) {
        memset(y, 0, (size_t)a->width * sizeof *y);
        return;
    }

    memset(y, 0, (size_t)to * sizeof *y);
    sw_kernel_scale_u8(end - first, x + first, a->mean[channel], a->gain[channel],
                       head->mirrored != 0, y + to);
    memset(y + to + end - first, 0, (size_t)(a->width - to - (end - first)) * sizeof *y);
}

static void convert_row(const struct sw_pixels_args *a, int64_t row)
{
    const uint8_t *x = a->x + row * a->row_bytes;
    float *y = a->y + row * a->channels * a->height * a->width;
    struct sw_pixels_head head;

    memcpy(&head, x, sizeof head);
    x += sizeof head;

    for (int64_t c = 0; c < a->channels; c++) {
        for (int64_t line = 0; line < a->height; line++, x += a->width, y += a->width) {
            if (!a->mean_image) {
                scale_line(a, &head, x, line, c, y);
                continue;
            }

            const int64_t of_mean =
                (c * a->mean_height + head.top + line) * a->mean_width + head.left;
            subtract_line(a->width, x, a->mean_image + of_mean, a->gain[c], head.mirrored != 0, y);
        }
    }
}

static int convert(const struct sw_host_launch *l, const void *args)
{
    const struct sw_pixels_args *a = args;
    int team = sw_team_size(l->threads, a->rows * a->channels * a->height * a->width);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(a->rows, 1);
        for (int64_t row = r.from; row < r.to; row++)
            convert_row(a, row);
    }

    return SW_OK;
}

const struct sw_op sw_op_pixels = {"pixels", sizeof(struct sw_pixels_args), arrays, convert};
