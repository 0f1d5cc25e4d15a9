/* CPU loops that several files call, such as plans: arithmetic only, no policy, no allocation.
 * (Kernels of operations are called through their descriptors, kernels/op.h.) `threads` is the
 * largest team that a call may use; calls from inside a parallel region are not allowed. Arrays are
 * raw storage and are not checked. The .c files have the formulas. */
#pragma once

#include "kernels/channels.h"
#include "kernels/ops/ais.h"
#include "kernels/ops/recurrent.h"
#include "kernels/ops/units.h"
#include "kernels/window.h"

/* ---- elementwise.c ---- */

void sw_kernel_copy(int threads, void *dst, const void *src, int64_t bytes); /* no overlap */
void sw_kernel_zero(int threads, void *dst, int64_t bytes);
void sw_kernel_add(int threads, float *y, const float *x, int64_t n); /* y += x */
bool sw_kernel_all_finite(int threads, const float *x, int64_t n);
/* Zeroes rows from .. to - 1 of x [to, columns]; none where from is to or more. */
void sw_kernel_zero_rows(int threads, int64_t from, int64_t to, int64_t columns, float *x);

/* ---- half.c: floats rounded to shorter formats (kernels/half.h) ---- */

/* Round to another precision; y may be x. The first runs on the calling thread, the second with a
 * team. */
void sw_kernel_round(enum sw_precision to, const float *x, float *y, int64_t n);
void sw_kernel_round_all(int threads, enum sw_precision to, const float *x, float *y, int64_t n);
/* Convert n floats to 16 bits, SW_BF16 or SW_F16, and back. */
void sw_kernel_to_halves(int threads, enum sw_dtype to, const float *x, uint16_t *y, int64_t n);
void sw_kernel_from_halves(int threads, enum sw_dtype from, const uint16_t *x, float *y, int64_t n);

/* ---- recurrent.c: one step of a cell, `units` adjacent units of `hidden`; on the calling thread
 * ---- */

/* The arrays of one step of a recurrent cell. Pointers are to the first unit; gates contain the
 * products on entry and the gates on return; blocks of gates and biases have distance `hidden`,
 * rows the given pitch. */
struct sw_kernel_cell {
    enum sw_cell_kind kind;
    int64_t rows, units, hidden;
    const float *bias;
    float *gates;
    int64_t gates_pitch;
    const float *before; /* gru */
    int64_t before_pitch;
    float *c; /* lstm, pitch `hidden`: c', and then c */
    float *h;
    int64_t h_pitch;
};
void sw_kernel_cell(const struct sw_kernel_cell *k);

/* The arrays of one backward step; dh and dc have pitch `hidden`. On entry dh contains the gradient
 * from the next step, on return the part that bypasses the gates to the previous step (gru;
 * otherwise undefined); dc is passed on in the same way. */
struct sw_kernel_cell_back {
    enum sw_cell_kind kind;
    int64_t rows, units, hidden;
    const float *gates;
    int64_t gates_pitch;
    const float *before;
    int64_t before_pitch;
    const float *dy; /* NULL: zero */
    int64_t dy_pitch;
    float *dh, *dc;
    float *dgates;
    int64_t dgates_pitch;
};
void sw_kernel_cell_back(const struct sw_kernel_cell_back *k);

/* ---- im2col.c: windows of an image as a matrix; on the calling thread ---- */

/* Sets col [channels kernel_h kernel_w, rows out_w] to the pixels of image [channels, in_h, in_w]
 * in the windows of `rows` output rows from first_row on; padding is zero. */
void sw_kernel_im2col(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                      int64_t rows, const float *image, float *col);
/* The transposed map: adds col to the pixels from which im2col read it. */
void sw_kernel_col2im_add(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                          int64_t rows, const float *col, float *image);

/* ---- bias.c: a matrix whose rows have distance `step`; on the calling thread ---- */

/* y[r, c] += bias[r] (rows) or bias[c] (columns), then max(0, .) if relu; bias may be NULL. */
void sw_kernel_bias_rows(int64_t rows, int64_t columns, int64_t step, const float *bias, bool relu,
                         float *y);
void sw_kernel_bias_columns(int64_t rows, int64_t columns, int64_t step, const float *bias,
                            bool relu, float *y);
/* Sum of n elements, in fixed lanes and blocks and then in double. */
double sw_kernel_sum(const float *x, int64_t n);
/* sum[c] = sum over r of x[r, c], accumulated in double in row order. */
void sw_kernel_sum_columns(int64_t rows, int64_t columns, int64_t step, const float *x, float *sum);

/* ---- pooling.c: plain planes of in_h x in_w; dilation is not read ---- */

/* Writes the first largest value in row-major order (a NaN is larger than all), and to index,
 * unless NULL, its pixel in the plane. */
void sw_kernel_max_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        const float *x, float *y, int32_t *index);
void sw_kernel_max_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 const float *dy, const int32_t *index, float *dx);
void sw_kernel_avg_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        enum sw_pool_divisor by, const float *x, float *y);
void sw_kernel_avg_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 enum sw_pool_divisor by, const float *dy, float *dx);

/* ---- lrn.c: across channels of plain [planes, channels, height, width]; or within channels, of
 * planes of height x width x lanes, where lanes are adjacent channels (1: a plain plane), and with
 * windows of size x size ---- */

struct sw_kernel_lrn {
    bool within_channel;
    int64_t planes, channels, height, width, lanes; /* lanes at most 16 */
    int64_t size;                                   /* odd; within channels at most 255 */
    float alpha, beta, k;
};

/* scale, unless NULL, receives k + alpha/size sum x^2. */
void sw_kernel_lrn(int threads, const struct sw_kernel_lrn *l, const float *x, float *y,
                   float *scale);
/* ratio: scratch, as many elements as x. */
void sw_kernel_lrn_backward(int threads, const struct sw_kernel_lrn *l, const float *x,
                            const float *scale, const float *dy, float *ratio, float *dx);

/* ---- reorder.c: 4 bytes each, [rows, channels, pixels] and [rows, blocks, pixels, block] ---- */

/* Copies plain channels to blocked ones; padding channels become zero. */
void sw_kernel_block_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                              int64_t block, const uint32_t *plain, uint32_t *blocked);
void sw_kernel_unblock_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                int64_t block, const uint32_t *blocked, uint32_t *plain);
/* Sets the channels beyond `channels` of the last block to zero. */
void sw_kernel_zero_channel_padding(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                    int64_t block, float *blocked);

/* ---- channels.c: the loops of batch normalization; formulas there ---- */

/* The arrays of a pass; all but those of elements are [channels]. A pass is of the gradient if dy
 * is not NULL. */
struct sw_kernel_norm {
    const float *x, *mean, *inv_std;
    /* y = factor (x - mean) + bias, with relu max(0, that). The gradient reads both only to know
     * what the relu passed. */
    bool relu;
    const float *factor, *bias;
    const float *dy, *a, *b, *c; /* dx = a dy - b - c (x - mean) */
    float *out;                  /* y or dx; may be x or dy */
};
/* sums[c] = sum of x, sums[channels + c] = sum of x^2; of the gradient: sum of dy, and sum of dy (x
 * - mean) inv_std. parts: scratch [2 SW_CHANNEL_PARTS channels]. */
void sw_kernel_channel_sums(int threads, const struct sw_channels *k,
                            const struct sw_kernel_norm *a, double *parts, double *sums);
/* Computes y or dx. */
void sw_kernel_channel_apply(int threads, const struct sw_channels *k,
                             const struct sw_kernel_norm *a);

/* ---- picture.c: rows of pixels; a packed pixel has 4 bytes, of which the last is ignored ---- */

/* y[i] = (x[i] - mean) gain, with x[n-1-i] if mirrored. */
void sw_kernel_scale_u8(int64_t n, const uint8_t *x, float mean, float gain, bool mirrored,
                        float *y);
void sw_kernel_scale_f32(int64_t n, const float *x, float mean, float gain, bool mirrored,
                         float *y);
/* Scales packed pixels like sw_kernel_scale_u8, into three planes at a distance of `plane` floats;
 * mean[3], gain[3]. */
void sw_kernel_scale_packed(int64_t n, const uint8_t *x, const float *mean, const float *gain,
                            bool mirrored, float *y, int64_t plane);
/* y[i] = (y[i] - mean[i]) gain, with mean[n-1-i] if mirrored. */
void sw_kernel_subtract_scale(int64_t n, const float *mean, float gain, bool mirrored, float *y);
/* y[i] = (y[i] - mean) gain */
void sw_kernel_rescale(int64_t n, float mean, float gain, float *y);
/* y[i] = sum over k of weight[k] x[k step + i]: blends rows of an image into one row. */
void sw_kernel_blend_u8(int64_t n, int64_t taps, const uint8_t *x, int64_t step,
                        const float *weight, float *y);
void sw_kernel_blend_f32(int64_t n, int64_t taps, const float *x, int64_t step, const float *weight,
                         float *y);
/* y[i] = sum over k of weight[i taps + k] x[first[i] + k]: resamples a row to another width. */
void sw_kernel_stretch(int64_t n, int64_t taps, const int32_t *first, const float *weight,
                       const float *x, float *y);
/* sw_kernel_stretch for packed pixels of 4 floats each; y [n, 4]. */
void sw_kernel_stretch_packed(int64_t n, int64_t taps, const int32_t *first, const float *weight,
                              const float *x, float *y);
/* Like sw_kernel_scale_packed, for packed floats. */
void sw_kernel_scale_packed_f32(int64_t n, const float *x, const float *mean, const float *gain,
                                bool mirrored, float *y, int64_t plane);
/* y = a x; a is row-major [rows, columns]. */
void sw_kernel_matrix_vector(int64_t rows, int64_t columns, const float *a, const float *x,
                             float *y);

/* ---- units.c: units of restricted Boltzmann machines; formulas in kernels/units.h ---- */

/* The operation on host memory, ignoring `carried`. */
void sw_kernel_units(int threads, const struct sw_units_args *u);

/* A step of annealed importance sampling for one side (kernels/ops/ais.h). */
void sw_kernel_anneal(const struct sw_anneal_args *a);

/* ---- activation.c: kernels of the operations, for tests that replace them ---- */

int sw_cpu_activation(const struct sw_host_launch *l, const void *args);
int sw_cpu_activation_gradient(const struct sw_host_launch *l, const void *args);
