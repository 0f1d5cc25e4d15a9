/* The light operations of the CPU: arithmetic only, no policy, no allocation, no knowledge of
 * devices or layouts beyond plain integers. `threads` is the largest team a call may use; calls
 * from inside a parallel region are not made. Arrays are storage, not checked; what a call reads
 * and writes is said where it is not obvious. One family per file; the formulas stand there. */
#ifndef SW_KERNELS_CPU_KERNELS_H
#define SW_KERNELS_CPU_KERNELS_H

#include "base/philox.h"
#include "kernels/units.h"
#include <stdbool.h>
#include <stdint.h>

/* ---- elementwise.c ---- */

void sw_kernel_copy(int threads, void *dst, const void *src, int64_t bytes); /* no overlap */
void sw_kernel_zero(int threads, void *dst, int64_t bytes);
void sw_kernel_add(int threads, float *y, const float *x, int64_t n); /* y += x */
bool sw_kernel_all_finite(int threads, const float *x, int64_t n);
void sw_kernel_floats(int threads, float *y, const int32_t *x, int64_t n); /* y = x */

/* ---- half.c: floats rounded to shorter ones (kernels/half.h), kept as floats ---- */

enum sw_kernel_rounding { SW_KERNEL_TF32, SW_KERNEL_BF16, SW_KERNEL_FP16 };
/* y may be x. The first on the calling thread, the second with a team. */
void sw_kernel_round(enum sw_kernel_rounding to, const float *x, float *y, int64_t n);
void sw_kernel_round_all(int threads, enum sw_kernel_rounding to, const float *x, float *y,
                         int64_t n);

/* ---- eltwise.c: several arrays, element by element ---- */

enum sw_kernel_eltwise_kind { SW_KERNEL_SUM, SW_KERNEL_PRODUCT, SW_KERNEL_MAX };
enum { SW_KERNEL_ELTWISE_SRCS = 16 };

/* y may be x[0]. factor is read by sums only. */
struct sw_kernel_eltwise {
    int count; /* 2 or more */
    bool relu;
    int64_t n;
    const float *factor;
    const float *x[SW_KERNEL_ELTWISE_SRCS];
    float *y;
};
void sw_kernel_eltwise(int threads, enum sw_kernel_eltwise_kind kind,
                       const struct sw_kernel_eltwise *k);

/* One dx may be dy: of a sum any, else that of the last call. */
struct sw_kernel_eltwise_gradient {
    int count;
    uint32_t adds; /* bit i: dx[i] is added to */
    int64_t n;
    const float *factor;                    /* sums */
    const float *x[SW_KERNEL_ELTWISE_SRCS]; /* all but sums */
    const float *y;                         /* after a relu, else NULL */
    const float *dy;
    float *dx[SW_KERNEL_ELTWISE_SRCS]; /* NULL: not wanted */
};
void sw_kernel_eltwise_sum_backward(int threads, const struct sw_kernel_eltwise_gradient *k);
/* dx[of] of a product or maximum. */
void sw_kernel_eltwise_one_backward(int threads, enum sw_kernel_eltwise_kind kind,
                                    const struct sw_kernel_eltwise_gradient *k, int of);

/* ---- runs.c ---- */

/* `rows` runs of `run` neighbours, no overlap. */
struct sw_kernel_runs {
    int64_t rows, run, src_stride, dst_stride;
    bool add; /* dst += src */
    const float *src;
    float *dst;
};
void sw_kernel_copy_runs(int threads, const struct sw_kernel_runs *k);
/* n elements on the calling thread. */
void sw_kernel_copy_strided(int64_t n, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                            bool is_added);

/* ---- activation.c: y = f(x), y may be x; dx = dy f'(.), dx may be dy ---- */

void sw_kernel_relu(int threads, const float *x, float *y, int64_t n);
void sw_kernel_leaky_relu(int threads, float slope, const float *x, float *y, int64_t n);
void sw_kernel_sigmoid(int threads, const float *x, float *y, int64_t n);
void sw_kernel_scaled_tanh(int threads, float a, float b, const float *x, float *y,
                           int64_t n); /* a tanh(b x) */
void sw_kernel_softplus(int threads, const float *x, float *y, int64_t n);
void sw_kernel_gelu(int threads, const float *x, float *y, int64_t n);

/* All but gelu read y = f(x). */
void sw_kernel_relu_backward(int threads, const float *y, const float *dy, float *dx, int64_t n);
void sw_kernel_leaky_relu_backward(int threads, float slope, const float *y, const float *dy,
                                   float *dx, int64_t n);
void sw_kernel_sigmoid_backward(int threads, const float *y, const float *dy, float *dx, int64_t n);
void sw_kernel_scaled_tanh_backward(int threads, float a, float b, const float *y, const float *dy,
                                    float *dx, int64_t n);
void sw_kernel_softplus_backward(int threads, const float *y, const float *dy, float *dx,
                                 int64_t n);
void sw_kernel_gelu_backward(int threads, const float *x, const float *dy, float *dx, int64_t n);

/* ---- dropout.c: elements are numbered channels-last inside a row; y may be x ---- */

struct sw_kernel_dropout {
    struct sw_philox key;
    uint64_t step;
    uint32_t first_row; /* global index of row 0 */
    uint32_t threshold; /* kept where word >= threshold */
    float scale;        /* of what is kept */
    uint32_t low_below; /* what is lost becomes low where word < low_below, else high */
    float low, high;
    float std; /* above 0: none of that, but normal numbers of this deviation are added */
};

/* Rows of `features` elements that lie in channels-last order already. */
void sw_kernel_dropout_rows(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                            int64_t features, const float *x, float *y);
/* Plain [rows, channels, pixels]; channels divisible by 4. */
void sw_kernel_dropout_planes(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                              int64_t channels, int64_t pixels, const float *x, float *y);
/* [rows, ceil(channels/block), pixels, block]; channels divisible by 4, block 4, 8 or 16. Padding
 * channels become zero. */
void sw_kernel_dropout_blocked(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                               int64_t channels, int64_t pixels, int64_t block, const float *x,
                               float *y);
/* One element, by its number in a row. */
float sw_kernel_dropout_element(const struct sw_kernel_dropout *d, uint32_t row, uint32_t number,
                                float x);

/* ---- softmax.c: [rows, classes] plain; labels have been checked, all but those equal to `ignore`
 * (INT64_MIN: none of them is) ---- */

/* prob = softmax(x), prob may be x; returns the sum over rows of -log prob[label]. */
double sw_kernel_softmax_loss(int threads, int64_t rows, int64_t classes, const float *x,
                              const int32_t *label, int64_t ignore, float *prob);
/* dx = scale (prob - onehot(label)), zero in rows..padded_rows; dx may be prob. */
void sw_kernel_softmax_loss_backward(int threads, int64_t rows, int64_t padded_rows,
                                     int64_t classes, const float *prob, const int32_t *label,
                                     int64_t ignore, float scale, float *dx);

/* ---- row_loss.c: [rows, columns] plain; formulas, and what y is, there ---- */

enum sw_kernel_loss {
    SW_KERNEL_EUCLIDEAN,
    SW_KERNEL_SIGMOID,
    SW_KERNEL_SOFTMAX,
    SW_KERNEL_POISSON,
    SW_KERNEL_HINGE, /* this and the next by labels, which have been checked */
    SW_KERNEL_RANKING,
};

struct sw_kernel_row_loss {
    enum sw_kernel_loss kind;
    int64_t columns;
    float margin; /* hinges */
    bool squared;
};

/* Returns the sum of the rows' losses; y is not x. target or label, by kind. */
double sw_kernel_row_losses(int threads, const struct sw_kernel_row_loss *k, int64_t rows,
                            const float *x, const float *target, const int32_t *label, float *y);
/* dx = scale dL/dx, zero in rows..padded_rows; dx may be y. target is read where dL/dx is not y. */
void sw_kernel_row_losses_backward(int threads, enum sw_kernel_loss kind, int64_t rows,
                                   int64_t padded_rows, int64_t columns, const float *y,
                                   const float *target, float scale, float *dx);
/* The hinge of the dot products anchor match and anchor other; slope [rows] is its derivative by
 * the margin. kind is not read. */
double sw_kernel_triplets(int threads, const struct sw_kernel_row_loss *k, int64_t rows,
                          const float *anchor, const float *match, const float *other,
                          float *slope);
/* dx = scale slope (plus - minus), either of which may be NULL for zero. */
void sw_kernel_triplets_backward(int threads, int64_t rows, int64_t padded_rows, int64_t columns,
                                 const float *slope, float scale, const float *plus,
                                 const float *minus, float *dx);

/* ---- classes.c: which classes a row of scores names, [rows, classes] plain ---- */

/* Rows whose label has fewer than top_k scores before it: larger ones, equal ones of a lower index,
 * and ones that compare with nothing (NaN). Labels equal to `ignore` are no hits. */
int64_t sw_kernel_top_k_hits(int threads, int64_t rows, int64_t classes, int64_t top_k,
                             const float *x, const int32_t *label, int64_t ignore);
/* The same for the best of a row's labels, which are the columns where target is above 1/2;
 * *counted becomes the number of rows that have any. */
int64_t sw_kernel_top_k_hits_of_many(int threads, int64_t rows, int64_t classes, int64_t top_k,
                                     const float *x, const float *target, int64_t *counted);
/* counts [classes][4]: for every class the rows that name it and have it, those that name it, again
 * the first, and those that have it as their label or one of their labels. A row names its top_k
 * best scores, or with top_k 0 those above threshold. By label (target NULL) with one column, a
 * label is 0 or 1: whether the row is of the class. */
void sw_kernel_count_classes(int64_t rows, int64_t classes, int64_t top_k, float threshold,
                             const float *x, const int32_t *label, int64_t ignore,
                             const float *target, double *counts);

/* ---- argsort.c ---- */

/* place [rows, top_k]: of the largest of x [rows, columns] in falling order; of equal ones the
 * lower place first, NaN last. top_k <= columns. */
void sw_kernel_argsort(int threads, int64_t rows, int64_t columns, int64_t top_k, const float *x,
                       int32_t *place);

/* ---- embedding.c: lists of tokens, which have been checked ---- */

struct sw_kernel_lists {
    int64_t valid, lists; /* the first `valid` count, the others give zeros */
    int64_t length, vocabulary;
    int32_t skip; /* stands for no token */
};

/* y [lists, width]: the mean of a list's rows of weight [vocabulary, width]. */
void sw_kernel_embedding(int threads, const struct sw_kernel_lists *l, int64_t width,
                         const int32_t *token, const float *weight, float *y);
void sw_kernel_embedding_backward(int threads, const struct sw_kernel_lists *l, int64_t width,
                                  const int32_t *token, const float *dy, float *dweight);
/* y [lists, vocabulary], of lists of length 1. */
void sw_kernel_onehot(int threads, const struct sw_kernel_lists *l, const int32_t *token, float *y);

/* ---- recurrent.c: one step of a cell, `units` neighbours of `hidden`; on the calling thread ----
 */

enum sw_kernel_cell_kind { SW_KERNEL_RNN_TANH, SW_KERNEL_RNN_RELU, SW_KERNEL_GRU, SW_KERNEL_LSTM };

/* Pointers are those of the first unit; gates hold the products, and then the gates; blocks of
 * gates and biases are `hidden` apart, rows a pitch. */
struct sw_kernel_cell {
    enum sw_kernel_cell_kind kind;
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

/* dh, dc: pitch `hidden`. dh comes with what the step after gave, and leaves with what goes past
 * the gates to the step before (gru; else it is left over); dc likewise. */
struct sw_kernel_cell_back {
    enum sw_kernel_cell_kind kind;
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

struct sw_kernel_windows {
    int64_t in_h, in_w, out_h, out_w; /* pixels */
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

/* col [channels kernel_h kernel_w, rows out_w]: what the windows of output rows first_row and on
 * see in image [channels, in_h, in_w]; zero where they see padding. */
void sw_kernel_im2col(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                      int64_t rows, const float *image, float *col);
/* The transposed map: adds col to the pixels it was taken from. */
void sw_kernel_col2im_add(const struct sw_kernel_windows *w, int64_t channels, int64_t first_row,
                          int64_t rows, const float *col, float *image);

/* ---- bias.c: a matrix of rows that lie `step` apart; on the calling thread ---- */

/* y[r, c] += bias[r] (rows) or bias[c] (columns), then max(0, .) if relu; bias may be NULL. */
void sw_kernel_bias_rows(int64_t rows, int64_t columns, int64_t step, const float *bias, bool relu,
                         float *y);
void sw_kernel_bias_columns(int64_t rows, int64_t columns, int64_t step, const float *bias,
                            bool relu, float *y);
/* Sum of n elements, in fixed lanes and blocks and then in double. */
double sw_kernel_sum(const float *x, int64_t n);
/* sum[c] = sum over r of x[r, c], accumulated in double in row order. */
void sw_kernel_sum_columns(int64_t rows, int64_t columns, int64_t step, const float *x, float *sum);

/* ---- linear.c ---- */

void sw_kernel_combine(int threads, float alpha, const float *x, float beta, float *y,
                       int64_t n); /* y = alpha x + beta y; y is not read where beta is 0 */
void sw_kernel_multiply(int threads, const float *a, const float *b, float *y,
                        int64_t n); /* y = a b by element; y may be a or b */

/* ---- softmax_axis.c: plain [rows, classes, places], along classes ---- */

/* y may be x. */
void sw_kernel_softmax(int threads, int64_t rows, int64_t classes, int64_t places, const float *x,
                       float *y);
/* dx may be dy. */
void sw_kernel_softmax_backward(int threads, int64_t rows, int64_t classes, int64_t places,
                                const float *y, const float *dy, float *dx);

/* ---- layer_norm.c: rows of a plain matrix ---- */

struct sw_kernel_layer_norm {
    int64_t rows, n;
    float eps;
    const float *x, *scale, *bias;
    float *y;       /* may be x */
    float *moments; /* [rows, 2]: mean, 1 / standard deviation */
    const float *dy;
    float *dx; /* may be dy */
    float *dscale, *dbias;
};
void sw_kernel_layer_norm(int threads, const struct sw_kernel_layer_norm *k);
/* dscale and dbias; before dx overwrites dy. */
void sw_kernel_layer_norm_columns(int threads, const struct sw_kernel_layer_norm *k);
void sw_kernel_layer_norm_backward(int threads, const struct sw_kernel_layer_norm *k);

/* ---- pooling.c: plain planes of in_h x in_w; dilation is not read ---- */

/* Writes the first largest value in row-major order (a NaN is larger than all), and to index,
 * unless NULL, its pixel in the plane. */
void sw_kernel_max_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        const float *x, float *y, int32_t *index);
void sw_kernel_max_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 const float *dy, const int32_t *index, float *dx);
/* What an average divides by: the window clipped to the padded plane, to the plane, or as it is. */
enum sw_kernel_divisor { SW_KERNEL_PADDED, SW_KERNEL_INSIDE, SW_KERNEL_WHOLE };
void sw_kernel_avg_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        enum sw_kernel_divisor by, const float *x, float *y);
void sw_kernel_avg_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 enum sw_kernel_divisor by, const float *dy, float *dx);

/* ---- lrn.c: across channels of plain [rows, channels, pixels], and within channels ---- */

struct sw_kernel_lrn {
    int64_t rows, channels, pixels, size; /* size odd */
    float alpha, beta, k;
};

/* scale, unless NULL, keeps k + alpha/size sum x^2. */
void sw_kernel_lrn(int threads, const struct sw_kernel_lrn *l, const float *x, float *y,
                   float *scale);
/* Within a channel: planes of height x width x lanes, where lanes are neighbouring channels (1: a
 * plain plane), and windows of size x size. */
struct sw_kernel_lrn_within {
    int64_t planes, height, width, lanes, size; /* size odd, at most 255; lanes at most 16 */
    float alpha, beta, k;
};
void sw_kernel_lrn_within(int threads, const struct sw_kernel_lrn_within *l, const float *x,
                          float *y, float *scale);
void sw_kernel_lrn_within_backward(int threads, const struct sw_kernel_lrn_within *l,
                                   const float *x, const float *scale, const float *dy,
                                   float *ratio, float *dx);

/* ratio is room for as many elements as x. */
void sw_kernel_lrn_backward(int threads, const struct sw_kernel_lrn *l, const float *x,
                            const float *scale, const float *dy, float *ratio, float *dx);

/* ---- reorder.c: 4 bytes each, [rows, channels, pixels] and [rows, blocks, pixels, block] ---- */

/* Padding channels become zero. */
void sw_kernel_block_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                              int64_t block, const uint32_t *plain, uint32_t *blocked);
void sw_kernel_unblock_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                int64_t block, const uint32_t *blocked, uint32_t *plain);
/* Sets the channels beyond `channels` of the last block to zero. */
void sw_kernel_zero_channel_padding(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                    int64_t block, float *blocked);

/* ---- batch_norm.c: sums and normalisation by channel; formulas there ---- */

/* Where the elements of a channel lie. Channels are in groups of `lanes` neighbours: 16 or less, or
 * 1 when the neighbours are pixels (plain NCHW; pixel_stride is 1 then). */
struct sw_kernel_channels {
    int64_t channels, rows, pixels;
    int64_t row_stride, pixel_stride, group_stride; /* elements */
    int lanes;
    bool padded; /* the last group has all its lanes in storage, zeros where there is no channel */
};

enum { SW_KERNEL_CHANNEL_PARTS = 16, SW_KERNEL_CHANNEL_LANES = 16 };

/* sums[c] = sum of x, sums[channels + c] = sum of x^2. parts: room for 2 * PARTS * channels. */
void sw_kernel_channel_sums(int threads, const struct sw_kernel_channels *k, const float *x,
                            double *parts, double *sums);
/* A relu behind, which sees y = factor (x - mean) + bias. NULL: there is none. */
struct sw_kernel_relu {
    const float *factor, *bias;
};
/* sums[c] = sum of dy, sums[channels + c] = sum of dy (x - mean) inv_std. */
void sw_kernel_channel_sums_backward(int threads, const struct sw_kernel_channels *k,
                                     const struct sw_kernel_relu *relu, const float *x,
                                     const float *mean, const float *inv_std, const float *dy,
                                     double *parts, double *sums);
/* y = factor (x - mean) + bias, with relu max(0, that); y may be x. */
void sw_kernel_channel_normalise(int threads, const struct sw_kernel_channels *k, bool relu,
                                 const float *x, const float *mean, const float *factor,
                                 const float *bias, float *y);
/* dx = a dy - b - c (x - mean); dx may be dy. */
void sw_kernel_channel_backward(int threads, const struct sw_kernel_channels *k,
                                const struct sw_kernel_relu *relu, const float *x,
                                const float *mean, const float *a, const float *b, const float *c,
                                const float *dy, float *dx);

/* ---- picture.c: rows of pixels; packed ones are 4 bytes, the last of which is not looked at ----
 */

/* y[i] = (x[i] - mean) gain, or of x[n-1-i]. */
void sw_kernel_scale_u8(int64_t n, const uint8_t *x, float mean, float gain, bool mirrored,
                        float *y);
void sw_kernel_scale_f32(int64_t n, const float *x, float mean, float gain, bool mirrored,
                         float *y);
/* The same of packed pixels, to three planes that are `plane` floats apart; mean[3], gain[3]. */
void sw_kernel_scale_packed(int64_t n, const uint8_t *x, const float *mean, const float *gain,
                            bool mirrored, float *y, int64_t plane);
/* y[i] = (y[i] - mean[i]) gain, or with mean[n-1-i]. */
void sw_kernel_subtract_scale(int64_t n, const float *mean, float gain, bool mirrored, float *y);
/* y[i] = (y[i] - mean) gain */
void sw_kernel_rescale(int64_t n, float mean, float gain, float *y);
/* y[i] = sum over k of weight[k] x[k step + i]: rows of a picture to one row. */
void sw_kernel_blend_u8(int64_t n, int64_t taps, const uint8_t *x, int64_t step,
                        const float *weight, float *y);
void sw_kernel_blend_f32(int64_t n, int64_t taps, const float *x, int64_t step, const float *weight,
                         float *y);
/* y[i] = sum over k of weight[i taps + k] x[first[i] + k]: one row to another width. */
void sw_kernel_stretch(int64_t n, int64_t taps, const int32_t *first, const float *weight,
                       const float *x, float *y);
/* The same of packed pixels, 4 floats each; y [n, 4]. */
void sw_kernel_stretch_packed(int64_t n, int64_t taps, const int32_t *first, const float *weight,
                              const float *x, float *y);
/* As sw_kernel_scale_packed, of packed floats. */
void sw_kernel_scale_packed_f32(int64_t n, const float *x, const float *mean, const float *gain,
                                bool mirrored, float *y, int64_t plane);
/* y = a x; a [rows, columns] row by row. */
void sw_kernel_matrix_vector(int64_t rows, int64_t columns, const float *a, const float *x,
                             float *y);

/* ---- units.c: of restricted Boltzmann machines; formulas in kernels/units.h ---- */

/* Rows of units. `total`, where it is not NULL: of every row, how often a bias counts, and the
 * draws of softmax units. */
struct sw_kernel_units {
    enum sw_units units;
    int64_t rows, columns;
    int64_t first_column; /* in the whole row, of which words are drawn; not of softmax */
    const float *x;       /* [rows, columns] */
    const float *bias;    /* [columns]; NULL: x are the means themselves */
    const float *total;   /* [rows]; NULL: 1 */
    float *mean;          /* [rows, columns], may be x; NULL: not wanted */
    float *sample;        /* the same */
    float *share;         /* softmax: [rows, columns] for work; may be x, or mean */
    struct sw_philox key;
    uint64_t step;
    uint32_t first_row; /* global */
};
void sw_kernel_units(int threads, const struct sw_kernel_units *u);

/* energy[r], of the states x or of summing out, where x is what the other side gives; added to what
 * is there where `add`. */
struct sw_kernel_unit_energy {
    enum sw_units units;
    bool free, add;
    int64_t rows, columns;
    const float *x, *bias, *total; /* as above */
    double *energy;
};
void sw_kernel_unit_energy(int threads, const struct sw_kernel_unit_energy *e);

/* A step of annealed importance sampling: log_weight[r] falls by what the hidden units of the row
 * have more of free energy with `to` x than with `from` x, and x becomes `to` x. */
struct sw_kernel_anneal {
    enum sw_units units;
    int64_t rows, columns;
    float from, to;
    float *x;
    const float *bias;
    double *log_weight;
};
void sw_kernel_anneal(const struct sw_kernel_anneal *a);

/* Of every row one visible unit, drawn, is turned into 1 - v; rise[r]: by how much that raises the
 * free energy. */
struct sw_kernel_flip {
    enum sw_units hidden_units;
    int64_t rows, visible, hidden;
    const float *v, *x; /* [rows, visible], and what it gives to the hidden units, [rows, hidden] */
    const float *weight; /* [hidden, visible] */
    const float *bias, *visible_bias;
    double *rise;
    struct sw_philox key;
    uint64_t step;
    uint32_t first_row;
};
void sw_kernel_flip(int threads, const struct sw_kernel_flip *f);

/* sum[c] = shift + the sum over rows of x, first_factor times those of the first rows. */
void sw_kernel_two_sums(int64_t rows, int64_t first_rows, int64_t columns, float first_factor,
                        float shift, const float *x, float *sum);
void sw_kernel_row_sums(int threads, int64_t rows, int64_t columns, const float *x, float *sum);

#endif
