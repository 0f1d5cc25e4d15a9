/* Convolution by im2col and matrix products, one product per image, group and band of output rows:
 *
 *   forward            dst [M/g, P] = weight [M/g, K] col [K, P]
 *   backward data      col [K, P] = weight^T diff_dst [M/g, P], then added back to the pixels
 *   backward weights   diff_weight [M/g, K] += diff_dst [M/g, P] col^T
 *
 * with K = C/g Kh Kw and P the output pixels of the band. Bands are small enough to keep col in the
 * L2 cache. Bands, the order of additions and the partial sums of the weight gradient depend only
 * on the shape, so results do not depend on the number of threads. */
#include "base/os.h"
#include "device/cpu/blas.h"
#include "device/cpu/ref.h"
#include "kernels/cpu/kernels.h"
#include <omp.h>
#include <string.h>

enum {
    COL_FLOATS = 128 << 10, /* 512 KiB */
    SLICE_COLUMNS = 256,    /* of the weight gradient per task */
    WEIGHT_TASKS = 16,      /* tasks of the weight gradient, to divide among threads */
    MAX_CHUNKS = 8,
};

struct conv {
    struct sw_ref_plan ref;
    struct sw_kernel_windows windows;
    int64_t rows, groups, in_channels, out_channels; /* channels of one group */
    int64_t taps;                                    /* kernel_h kernel_w */
    int64_t piece_rows;                              /* output rows of a band */
    bool bias, relu, pointwise;                      /* pointwise: the image is its own col */
    /* The weight gradient: tasks are (chunk of images, group, slice of channels). Chunk 0 sums in
     * place, the others in scratch. */
    int64_t slice_channels, slice_piece_rows, chunks;
    size_t col_offset, col_bytes, partial_offset;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t out_pixels(const struct conv *c)
{
    return c->windows.out_h * c->windows.out_w;
}

static int64_t in_pixels(const struct conv *c)
{
    return c->windows.in_h * c->windows.in_w;
}

static int64_t columns(const struct conv *c)
{
    return c->in_channels * c->taps;
}

/* The col buffer of the calling thread. */
static float *my_col(const struct conv *c, const struct sw_plan_args *a)
{
    return sw_ref_scratch(a, c->col_offset + (size_t)omp_get_thread_num() * c->col_bytes);
}

/* ---- Forward ---- */

/* Computes a band of output rows from `first` on, for one group of one image; pointers are at image
 * and group. */
static void forward_piece(const struct conv *c, const float *image, const float *weight,
                          const float *bias, int64_t first, float *col, float *dst)
{
    int64_t rows = min64(c->piece_rows, c->windows.out_h - first);
    int64_t pixels = rows * c->windows.out_w, at = first * c->windows.out_w, step = pixels;
    const float *matrix = col;

    if (c->pointwise) {
        matrix = image + at;
        step = in_pixels(c);
    } else {
        sw_kernel_im2col(&c->windows, c->in_channels, first, rows, image, col);
    }

    sw_cpu_sgemm(sw_product_of(c->out_channels, pixels, columns(c), sw_stored(weight, columns(c)),
                               sw_stored(matrix, step), dst + at, out_pixels(c)));
    sw_kernel_bias_rows(c->out_channels, pixels, out_pixels(c), bias, c->relu, dst + at);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct conv *c = (const struct conv *)p;
    const float *src = sw_ref_source(&c->ref, a);
    int64_t pieces = ceil_div(c->windows.out_h, c->piece_rows);

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t task = 0; task < c->rows * c->groups * pieces; task++) {
        int64_t block = task / pieces, g = block % c->groups; /* block: group of an image */
        forward_piece(c, src + block * c->in_channels * in_pixels(c),
                      a->weight + g * c->out_channels * columns(c),
                      c->bias ? a->bias + g * c->out_channels : NULL, task % pieces * c->piece_rows,
                      my_col(c, a), (float *)a->dst + block * c->out_channels * out_pixels(c));
    }

    return SW_OK;
}

/* ---- Gradient of the source ---- */

static void backward_data_block(const struct conv *c, const float *diff_dst, const float *weight,
                                float *col, float *diff)
{
    memset(diff, 0, (size_t)(c->in_channels * in_pixels(c)) * sizeof *diff);

    for (int64_t first = 0; first < c->windows.out_h; first += c->piece_rows) {
        int64_t rows = min64(c->piece_rows, c->windows.out_h - first);
        int64_t pixels = rows * c->windows.out_w;
        sw_cpu_sgemm(sw_product_of(
            columns(c), pixels, c->out_channels, sw_transposed(weight, columns(c)),
            sw_stored(diff_dst + first * c->windows.out_w, out_pixels(c)), col, pixels));
        sw_kernel_col2im_add(&c->windows, c->in_channels, first, rows, col, diff);
    }
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct conv *c = (const struct conv *)p;
    float *diff = sw_ref_diff(&c->ref, a);

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t block = 0; block < c->rows * c->groups; block++)
        backward_data_block(c, (const float *)a->diff_dst + block * c->out_channels * out_pixels(c),
                            a->weight + block % c->groups * c->out_channels * columns(c),
                            my_col(c, a), diff + block * c->in_channels * in_pixels(c));

    sw_ref_diff_done(&c->ref, a);
    return SW_OK;
}

/* ---- Gradients of weight and bias ---- */

/* Adds the gradient of one image to a slice: the columns of diff_weight [M/g, K] that belong to
 * `channels` channels. Pointers are at image and group, and at the slice's first channel and
 * column. */
static void add_weight_slice(const struct conv *c, int64_t channels, const float *image,
                             const float *diff_dst, bool first_image, float *col,
                             float *diff_weight)
{
    for (int64_t first = 0; first < c->windows.out_h; first += c->slice_piece_rows) {
        int64_t rows = min64(c->slice_piece_rows, c->windows.out_h - first);
        int64_t pixels = rows * c->windows.out_w;

        sw_kernel_im2col(&c->windows, channels, first, rows, image, col);
        sw_cpu_sgemm(sw_product_scaled(
            sw_product_of(c->out_channels, channels * c->taps, pixels,
                          sw_stored(diff_dst + first * c->windows.out_w, out_pixels(c)),
                          sw_transposed(col, pixels), diff_weight, columns(c)),
            1, first_image && first == 0 ? 0 : 1));
    }
}

static void weight_task(const struct conv *c, int64_t task, const float *src, const float *diff_dst,
                        float *col, float *diff_weight)
{
    int64_t slices = ceil_div(c->in_channels, c->slice_channels);
    int64_t channel = task % slices * c->slice_channels, g = task / slices % c->groups;
    int64_t chunk = task / slices / c->groups;
    int64_t from = c->rows * chunk / c->chunks, to = c->rows * (chunk + 1) / c->chunks;

    for (int64_t n = from; n < to; n++) {
        int64_t block = n * c->groups + g;
        add_weight_slice(c, min64(c->slice_channels, c->in_channels - channel),
                         src + (block * c->in_channels + channel) * in_pixels(c),
                         diff_dst + block * c->out_channels * out_pixels(c), n == from, col,
                         diff_weight + g * c->out_channels * columns(c) + channel * c->taps);
    }
}

static void bias_gradient(const struct conv *c, const float *diff_dst, float *diff_bias)
{
    int64_t channels = c->groups * c->out_channels, pixels = out_pixels(c);

#pragma omp parallel for num_threads(c->ref.threads) schedule(static)
    for (int64_t m = 0; m < channels; m++) {
        double sum = 0;
        for (int64_t n = 0; n < c->rows; n++)
            sum += sw_kernel_sum(diff_dst + (n * channels + m) * pixels, pixels);
        diff_bias[m] = (float)sum;
    }
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct conv *c = (const struct conv *)p;
    const float *src = sw_ref_source(&c->ref, a);
    int64_t count = sw_desc_count(&p->weight);
    int64_t tasks = c->chunks * c->groups * ceil_div(c->in_channels, c->slice_channels);
    float *partial = sw_ref_scratch(a, c->partial_offset);

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t chunk = task / (tasks / c->chunks);
        weight_task(c, task, src, a->diff_dst, my_col(c, a),
                    chunk ? partial + (chunk - 1) * count : a->diff_weight);
    }

    for (int64_t chunk = 1; chunk < c->chunks; chunk++)
        sw_kernel_add(c->ref.threads, a->diff_weight, partial + (chunk - 1) * count, count);
    if (c->bias)
        bias_gradient(c, a->diff_dst, a->diff_bias);

    return SW_OK;
}

/* ---- Making ---- */

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .free = sw_ref_plan_free,
};

static int64_t rows_in_cache(const struct conv *c, int64_t col_rows)
{
    int64_t rows = COL_FLOATS / (col_rows * c->windows.out_w);
    return rows < 1 ? 1 : min64(rows, c->windows.out_h);
}

static void set_geometry(struct conv *c, const struct sw_desc *src, const struct sw_conv_shape *s)
{
    c->windows = (struct sw_kernel_windows){.in_h = src->dim[2],
                                            .in_w = src->dim[3],
                                            .out_h = s->out_h,
                                            .out_w = s->out_w,
                                            .kernel_h = s->kernel_h,
                                            .kernel_w = s->kernel_w,
                                            .stride_h = s->stride_h,
                                            .stride_w = s->stride_w,
                                            .pad_h = s->pad_h,
                                            .pad_w = s->pad_w,
                                            .dilation_h = s->dilation_h,
                                            .dilation_w = s->dilation_w};
    c->rows = src->dim[0];
    c->groups = s->groups;
    c->in_channels = src->dim[1] / s->groups;
    c->out_channels = s->outputs / s->groups;
    c->taps = s->kernel_h * s->kernel_w;
    c->bias = s->bias;
    c->relu = s->fuse_relu;
    c->pointwise = c->taps == 1 && s->stride_h == 1 && s->stride_w == 1 && s->pad_h == 0 &&
                   s->pad_w == 0 && s->out_h == src->dim[2] && s->out_w == src->dim[3];
}

/* Chooses bands, slices and chunks, which depend on the shape only. */
static void divide_work(struct conv *c)
{
    c->piece_rows = rows_in_cache(c, columns(c));
    c->slice_channels = min64(ceil_div(SLICE_COLUMNS, c->taps), c->in_channels);
    c->slice_piece_rows = rows_in_cache(c, c->slice_channels * c->taps);

    int64_t tasks = c->groups * ceil_div(c->in_channels, c->slice_channels);
    c->chunks = min64(min64(ceil_div(WEIGHT_TASKS, tasks), MAX_CHUNKS), c->rows);
}

static void reserve_scratch(struct conv *c, bool backward_weights_too)
{
    struct sw_plan *p = &c->ref.base;
    int64_t floats = columns(c) * c->piece_rows;
    int64_t slice = c->slice_channels * c->taps * c->slice_piece_rows;

    if (backward_weights_too && slice > floats)
        floats = slice;
    c->col_bytes = ((size_t)(floats * c->windows.out_w) * sizeof(float) + 63) / 64 * 64;
    c->col_offset = sw_cpu_reserve(p, c->col_bytes * (size_t)c->ref.threads);
    if (backward_weights_too)
        c->partial_offset = sw_cpu_reserve(p, (size_t)(c->chunks - 1) * sw_desc_bytes(&p->weight));
}

int sw_ref_convolution(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_conv_shape *shape = q->shape.conv;

    int rc = sw_ref_check_weight_layout(shape->weight_layout, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_blas_hold_stream(q->stream, err);
    if (rc != SW_OK)
        return rc;

    struct conv *c = sw_ref_plan_new(sizeof *c, &ops, q, "im2col:openblas");
    if (!c)
        return sw_err_nomem(err, "convolution plan", sizeof *c);

    struct sw_plan *p = &c->ref.base;
    const int64_t weight[] = {shape->outputs, src->dim[1] / shape->groups, shape->kernel_h,
                              shape->kernel_w};
    const int64_t dst[] = {src->dim[0], shape->outputs, shape->out_h, shape->out_w};
    set_geometry(c, src, shape);
    divide_work(c);
    p->weight = sw_desc_plain(SW_F32, 4, weight);
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, weight);
    p->dst = sw_desc_plain(SW_F32, 4, dst);
    p->backward_reads_src = q->passes.backward_weights;
    reserve_scratch(c, q->passes.backward_weights);
    *out = p;

    return SW_OK;
}
