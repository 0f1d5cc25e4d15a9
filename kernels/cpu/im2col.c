/* Convolution as a matrix product (Chellapilla, Puri, Simard, "High Performance Convolutional
 * Neural Networks for Document Processing", 2006): row (c, i, j) of col holds, for every output
 * pixel, the input pixel (oh stride_h - pad_h + i dilation_h, ow stride_w - pad_w + j dilation_w)
 * of channel c. */
#include "kernels/cpu/window.h"
#include <string.h>

static void gather_row(float *restrict to, const float *restrict from, int64_t n, int64_t step)
{
    if (step == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

SW_KERNEL static void add_row(float *restrict to, const float *restrict from, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void scatter_row_add(float *restrict to, const float *restrict from, int64_t n, int64_t step)
{
    if (step == 1)
        add_row(to, from, n);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * step] += from[i];
}

/* Fills a row of col: kernel element (i, j) for all output pixels of one channel. */
static void gather_element(const struct sw_kernel_windows *w, int64_t i, int64_t j,
                           int64_t first_row, int64_t rows, const float *plane, float *col)
{
    int64_t shift = j * w->dilation_w - w->pad_w;
    struct sw_range inside = sw_columns_inside(w, shift);

    for (int64_t r = 0; r < rows; r++, col += w->out_w) {
        int64_t y = (first_row + r) * w->stride_h - w->pad_h + i * w->dilation_h;
        if (y < 0 || y >= w->in_h || inside.from == inside.to) {
            memset(col, 0, (size_t)w->out_w * sizeof *col);
            continue;
        }

        memset(col, 0, (size_t)inside.from * sizeof *col);
        gather_row(col + inside.from, plane + y * w->in_w + inside.from * w->stride_w + shift,
                   inside.to - inside.from, w->stride_w);
        memset(col + inside.to, 0, (size_t)(w->out_w - inside.to) * sizeof *col);
    }
}

static void scatter_element(const struct sw_kernel_windows *w, int64_t i, int64_t j,
                            int64_t first_row, int64_t rows, const float *col, float *plane)
{
    int64_t shift = j * w->dilation_w - w->pad_w;
    struct sw_range inside = sw_columns_inside(w, shift);

    for (int64_t r = 0; r < rows; r++, col += w->out_w) {
        int64_t y = (first_row + r) * w->stride_h - w->pad_h + i * w->dilation_h;
        if (y < 0 || y >= w->in_h || inside.from == inside.to)
            continue;

        scatter_row_add(plane + y * w->in_w + inside.from * w->stride_w + shift, col + inside.from,
                        inside.to - inside.from, w->stride_w);
    }
}

void sw_kernel_im2col(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                      int64_t rows, const float *image, float *col)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < w->kernel_h; i++)
            for (int64_t j = 0; j < w->kernel_w; j++, col += rows * w->out_w)
                gather_element(w, i, j, first_row, rows, image + c * w->in_h * w->in_w, col);
}

void sw_kernel_col2im_add(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                          int64_t rows, const float *col, float *image)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < w->kernel_h; i++)
            for (int64_t j = 0; j < w->kernel_w; j++, col += rows * w->out_w)
                scatter_element(w, i, j, first_row, rows, col, image + c * w->in_h * w->in_w);
}
