/* Operations by channel: sums, batch normalization, sparsity, bias. Formulas in
 * kernels/cpu/channels.c and kernels/ops/sparsity.h. Sums have two stages: blocks add parts of the
 * (row, pixel) pairs of some channels, whose number depends only on the shape, and then the parts
 * are added in a fixed order. The backward pass recomputes y = factor (x - mean) + bias with the
 * same fused operation, so that a relu passes the same elements. */
#include "kernels/cuda/places.cuh"
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/sparsity.h"

/* The arguments, the channel layout, and the arrays in scratch. */
struct pass {
    struct sw_batch_norm_args n;
    struct sw_channels k;
    struct sw_places places;
    double *parts;          /* [parts, 2, C] */
    float *factor;          /* [C], of y = factor (x - mean) + bias */
    float *constant, *of_x; /* [C], of dx = factor dy - constant - of_x (x - mean) */
};

static bool begin(struct pass *b, const struct sw_cuda_launch *l, const void *args)
{
    b->n = *(const struct sw_batch_norm_args *)args;
    b->parts = (double *)l->room;
    b->constant = (float *)b->n.b.scratch;
    b->of_x = b->constant + b->n.b.desc.dim[1];
    b->factor = b->of_x + b->n.b.desc.dim[1];
    if (!sw_cuda_channels(&b->n.b.desc, &b->k))
        return false;

    b->places = sw_places_of(&b->k);
    return true;
}

/* ---- Elements ---- */

/* How vectors of elements adjacent in a row lie: in one channel, in as many channels, or (then an
 * element at a time) across borders of channels and rows, or not aligned. */
enum lie { ONE_CHANNEL, OWN_CHANNELS, ACROSS };

static enum lie lie_of(const struct sw_channels *k, int n)
{
    if (k->row_stride % n)
        return ACROSS;
    if (k->lanes == 1)
        return k->group_stride % n ? ACROSS : ONE_CHANNEL;

    return k->channels % n || k->pixel_stride % n || (k->padded && k->lanes % n) ? ACROSS
                                                                                 : OWN_CHANNELS;
}

/* Calls E::at<T, n, own>(args, at, c) for the n elements at offset `at`, which are in channels c to
 * c + own - 1, or in padding. */
template <typename T, int n, int own, typename E, typename A>
static __global__ void each_element(A args, struct sw_channels k, struct sw_places places)
{
    for (int64_t r = blockIdx.y; r < k.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row() * n; i < k.row_stride; i += sw_stride_in_row() * n) {
            uint32_t c, pixel;
            sw_element_at(k, places, i, &c, &pixel);
            E::template at<T, n, own>(args, r * k.row_stride + i, c);
        }
}

/* aligned: all arrays are. */
template <typename T, typename E, typename A>
static int start_elements(E, const A &args, const struct sw_channels *k, bool aligned,
                          const struct sw_cuda_launch *l)
{
    constexpr int n = sw_wide<T>;
    const enum lie lie = aligned ? lie_of(k, n) : ACROSS;
    const struct sw_places places = sw_places_of(k);

    return lie == ONE_CHANNEL    ? SW_LAUNCH((each_element<T, n, 1, E, A>), sw_row_grid(k, n),
                                             SW_THREADS, l, args, *k, places)
           : lie == OWN_CHANNELS ? SW_LAUNCH((each_element<T, n, n, E, A>), sw_row_grid(k, n),
                                             SW_THREADS, l, args, *k, places)
                                 : SW_LAUNCH((each_element<T, 1, 1, E, A>), sw_row_grid(k),
                                             SW_THREADS, l, args, *k, places);
}

/* ---- Sums ---- */

/* How blocks divide the elements. A thread reads vectors of `wide` adjacent elements, pixels of a
 * plane or channels of a pixel; threads at the same column of a block read the same channels, every
 * slots-th vector. Walking to the next one adds `step`, and `wrap` if it begins another row. */
struct division {
    int64_t vectors; /* of a channel in a row */
    int64_t row_stride, stride, group_stride;
    int64_t step, wrap, step_vectors;
    unsigned groups, parts, columns, wide;
    bool planes;
};

enum { FLIGHT = 4, MOST_PARTS = 512, BLOCKS = 1024, COLUMNS = 32, LINES = SW_THREADS / COLUMNS };

static struct division divide(const struct sw_channels *k, int wide)
{
    struct division d = {};

    d.planes = k->lanes == 1;
    d.wide = (d.planes ? k->pixels : k->padded ? k->lanes : k->channels) % wide == 0 ? wide : 1;
    d.columns = 1;
    while (!d.planes && d.columns * d.wide < (k->padded ? k->lanes : k->channels) &&
           d.columns < (d.wide > 1 ? 64 / d.wide : (unsigned)COLUMNS))
        d.columns *= 2;

    const int64_t together = d.planes ? 1 : d.columns * d.wide, slots = SW_THREADS / d.columns;
    d.groups = (unsigned)((k->channels + together - 1) / together);
    d.group_stride = d.planes || k->padded ? k->group_stride : together;
    d.vectors = d.planes ? k->pixels / d.wide : k->pixels;
    d.row_stride = k->row_stride;
    d.stride = d.planes ? d.wide : k->pixel_stride;
    d.step_vectors = slots % d.vectors;
    d.step = slots / d.vectors * d.row_stride + d.step_vectors * d.stride;
    d.wrap = d.row_stride - d.vectors * d.stride;

    d.parts = MOST_PARTS;
    while (d.parts > 1 &&
           (d.parts * d.groups > BLOCKS || d.parts * slots * FLIGHT > k->rows * d.vectors))
        d.parts /= 2;

    return d;
}

int64_t sw_cuda_channel_doubles(const struct sw_channels *channels, enum sw_dtype type)
{
    const int wide = SW_WIDE_BYTES / (int)sw_dtype_bytes(type);
    return 2 * divide(channels, wide).parts * channels->channels;
}

/* The position of a thread. */
struct walk {
    int64_t at, vector;
};

static __device__ __forceinline__ void go_on(const struct division &d, struct walk *w)
{
    w->at += d.step;
    w->vector += d.step_vectors;
    if (w->vector >= d.vectors) {
        w->vector -= d.vectors;
        w->at += d.wrap;
    }
}

/* Sums of x and x^2, or for backward of dy and dy (x - mean), of some channels. */
template <int n> struct sums {
    double one[n], two[n];
    float mean[n], factor[n], bias[n];
};

template <typename T, bool back, int wide, int n>
static __device__ __forceinline__ void add(struct sums<n> *s, bool relu,
                                           const struct sw_vector<T, wide> &x,
                                           const struct sw_vector<T, wide> &dy)
{
    for (int j = 0; j < wide; j++) {
        const int c = n == 1 ? 0 : j;
        const float here = sw_value(x.v[j]);
        double v = (double)here, other = v;

        if (back) {
            const bool passes = !relu || fmaf(s->factor[c], here - s->mean[c], s->bias[c]) > 0;
            other -= (double)s->mean[c];
            v = passes ? (double)sw_value(dy.v[j]) : 0;
        }

        s->one[c] += v;
        s->two[c] += v * other;
    }
}

/* Several loads are under way before their elements are added. */
template <typename T, bool back, int wide, int n>
static __device__ __forceinline__ void add_vectors(const struct pass &b, const struct division &d,
                                                   int64_t from, int64_t to, int64_t group_at,
                                                   struct sums<n> *s)
{
    const unsigned slots = SW_THREADS / d.columns;
    int64_t e = from + threadIdx.x / d.columns;
    struct walk w = {group_at + e / d.vectors * d.row_stride, e % d.vectors};
    struct sw_vector<T, wide> x[FLIGHT], dy[FLIGHT] = {
    };

    w.at += w.vector * d.stride;
    for (; e + (FLIGHT - 1) * slots < to; e += FLIGHT * slots) {
        for (int i = 0; i < FLIGHT; i++) {
            x[i] = sw_vector_at<T, wide>(b.n.x, w.at);
            if (back)
                dy[i] = sw_vector_at<T, wide>(b.n.dy, w.at);
            go_on(d, &w);
        }

        for (int i = 0; i < FLIGHT; i++)
            add<T, back, wide, n>(s, b.n.b.relu, x[i], dy[i]);
    }

    for (; e < to; e += slots) {
        x[0] = sw_vector_at<T, wide>(b.n.x, w.at);
        if (back)
            dy[0] = sw_vector_at<T, wide>(b.n.dy, w.at);
        add<T, back, wide, n>(s, b.n.b.relu, x[0], dy[0]);
        go_on(d, &w);
    }
}

/* Adds the values of every columns-th thread; the first threads get the sums. */
static __device__ __forceinline__ void add_slots(double *room, unsigned columns)
{
    const unsigned t = threadIdx.x;

    __syncthreads();
    for (unsigned half = SW_THREADS / 2; half >= columns; half /= 2) {
        if (t < half)
            room[t] += room[t + half];
        __syncthreads();
    }
}

/* planes: a vector is in one channel. */
template <typename T, bool back, int wide, bool planes>
static __global__ void sum_parts(struct pass b, struct division d, const struct sw_step *step)
{
    enum { N = planes ? 1 : wide }; /* channels per thread */
    __shared__ double first[SW_THREADS], second[SW_THREADS];

    const unsigned t = threadIdx.x, group = blockIdx.x / d.parts, part = blockIdx.x % d.parts;
    const unsigned column = t % d.columns;
    const int64_t channels = b.k.channels, c = ((int64_t)group * d.columns + column) * N;
    const int64_t elements = (step ? sw_op_valid_rows(step, b.k.rows) : b.k.rows) * d.vectors;
    const int64_t each = (elements + d.parts - 1) / d.parts, from = part * each;
    struct sums<N> s = {
    };

    for (unsigned j = 0; back && j < N && c + j < channels; j++) {
        s.mean[j] = b.n.b.mean[c + j];
        s.factor[j] = b.n.b.relu ? b.factor[c + j] : 0.0f;
        s.bias[j] = b.n.b.relu ? b.n.b.bias[c + j] : 0.0f;
    }

    if (c < channels)
        add_vectors<T, back, wide, N>(b, d, from, from + each < elements ? from + each : elements,
                                      group * d.group_stride + column * N, &s);

    for (unsigned j = 0; j < N; j++) {
        first[t] = s.one[j];
        second[t] = s.two[j];
        add_slots(first, d.columns);
        add_slots(second, d.columns);

        if (t < d.columns && c + j < channels) {
            b.parts[2 * part * channels + c + j] = first[t];
            b.parts[(2 * part + 1) * channels + c + j] =
                back ? second[t] * (double)b.n.b.inv_std[c + j] : second[t];
        }

        __syncthreads();
    }
}

/* A block has 32 of the 2 C sums, and 8 threads for each. */
static __global__ void add_parts(struct pass b, unsigned parts, const struct sw_step *step)
{
    __shared__ double room[SW_THREADS];

    const int64_t channels = b.k.channels;
    const int64_t i = (int64_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    double sum = 0;
    for (unsigned part = threadIdx.x / COLUMNS; part < parts && i < 2 * channels; part += LINES)
        sum += b.parts[2 * part * channels + i];

    room[threadIdx.x] = sum;
    add_slots(room, COLUMNS);
    if (threadIdx.x >= COLUMNS || i >= 2 * channels)
        return;

    sum = room[threadIdx.x];
    b.n.b.sums[i] = sum;
    if (b.n.dbias && i < channels)
        b.n.dbias[i] = (float)sum;
    if (b.n.dscale && i >= channels)
        b.n.dscale[i - channels] = (float)sum;
    if (i == 0) {
        int64_t rows = step ? sw_op_valid_rows(step, b.k.rows) : b.k.rows;
        b.n.b.sums[2 * channels] = (double)(rows * b.k.pixels);
    }
}

template <typename T, bool back>
static int sum_up(const struct pass *b, const struct sw_step *step, const struct sw_cuda_launch *l)
{
    constexpr int wide = sw_wide<T>;
    const struct division d = divide(&b->k, wide);
    const unsigned blocks = d.groups * d.parts;

    /* Arrays of devices are aligned; another order of the sums would give other bits. */
    if (d.wide > 1 && (!sw_is_wide(b->n.x) || !sw_is_wide(back ? b->n.dy : NULL)))
        return SW_CUDA_NO_KERNEL;

    if (d.planes && d.wide > 1)
        SW_START((sum_parts<T, back, wide, true>), blocks, SW_THREADS, l, *b, d, step);
    else if (d.planes)
        SW_START((sum_parts<T, back, 1, true>), blocks, SW_THREADS, l, *b, d, step);
    else if (d.wide > 1)
        SW_START((sum_parts<T, back, wide, false>), blocks, SW_THREADS, l, *b, d, step);
    else
        SW_START((sum_parts<T, back, 1, false>), blocks, SW_THREADS, l, *b, d, step);

    return SW_LAUNCH(add_parts, (unsigned)((2 * b->k.channels + COLUMNS - 1) / COLUMNS), SW_THREADS,
                     l, *b, d.parts, step);
}

template <typename T>
static int sum_forward(const struct pass *b, const struct sw_step *step,
                       const struct sw_cuda_launch *l)
{
    return sum_up<T, false>(b, step, l);
}

template <typename T> static int sum_backward(const struct pass *b, const struct sw_cuda_launch *l)
{
    return sum_up<T, true>(b, NULL, l);
}

int sw_cuda_channel_sums(const struct sw_cuda_channel_sums *a, const struct sw_cuda_launch *l)
{
    struct pass b = {};

    b.k = a->channels;
    b.n.x = a->x;
    b.parts = a->parts;
    b.n.b.sums = a->sums;
    b.n.dbias = a->rounded;

    return SW_BY_TYPE(a->type, sum_forward, &b, a->step, l);
}

/* The bytes of the parts of an activation; 0 where no kernel supports its layout. */
static size_t parts_bytes(const struct sw_desc *d)
{
    struct sw_channels k;
    return sw_cuda_channels(d, &k) ? (size_t)sw_cuda_channel_doubles(&k, d->dtype) * sizeof(double)
                                   : 0;
}

static size_t sums_room(const void *args)
{
    return parts_bytes(&((const struct sw_batch_norm_args *)args)->b.desc);
}

static int launch_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = (const struct sw_batch_norm_args *)args;
    struct sw_cuda_channel_sums sums = {};
    if (!sw_cuda_channels(&a->b.desc, &sums.channels))
        return SW_CUDA_NO_KERNEL;

    sums.type = a->b.desc.dtype;
    sums.x = a->x;
    sums.parts = (double *)l->room;
    sums.sums = a->b.sums;
    return sw_cuda_channel_sums(&sums, l);
}

/* The factors of y = factor (x - mean) + bias. */
static __global__ void find_factors(struct pass b)
{
    for (int64_t c = sw_first(); c < b.k.channels; c += sw_stride())
        b.factor[c] = (float)((double)b.n.b.scale[c] * (double)b.n.b.inv_std[c]);
}

static int launch_sums_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, l, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_BY_TYPE(b.n.b.desc.dtype, sum_backward, &b, l);
}

/* ---- Normalization ---- */

static __global__ void find_moments(struct pass b)
{
    int64_t channels = b.k.channels;
    double count = b.n.b.sums[2 * channels], m = (double)b.n.b.momentum;

    for (int64_t c = sw_first(); c < channels; c += sw_stride()) {
        double mean = b.n.b.sums[c] / count,
               variance = b.n.b.sums[channels + c] / count - mean * mean;

        variance = variance < 0 ? 0 : variance; /* below 0 only by rounding; NaN stays NaN */

        double inv_std = 1 / sqrt(variance + (double)b.n.b.eps);
        b.n.b.mean[c] = (float)mean;
        b.n.b.inv_std[c] = (float)inv_std;

        b.factor[c] = (float)((double)b.n.b.scale[c] * (double)(float)inv_std);
        if (b.n.b.update_mean) {
            double unbiased = count > 1 ? variance * count / (count - 1) : variance;
            b.n.b.update_mean[c] = (float)(m * (double)b.n.b.update_mean[c] + (1 - m) * mean);
            b.n.b.update_variance[c] =
                (float)(m * (double)b.n.b.update_variance[c] + (1 - m) * unbiased);
        }
    }
}

/* y = factor (x - mean) + bias of elements of one channel, or of `own` channels. */
template <int n, int own> struct line {
    float factor[own], mean[own], bias[own];

    __device__ __forceinline__ line(const struct pass &b, const float *means, uint32_t c)
    {
        sw_load<float, own>(b.factor, c, factor);
        sw_load<float, own>(means, c, mean);
        sw_load<float, own>(b.n.b.bias, c, bias);
    }
    __device__ __forceinline__ float y(int j, float x) const
    {
        const int c = own == 1 ? 0 : j;
        return fmaf(factor[c], x - mean[c], bias[c]);
    }
};

/* The arguments of a normalization by these means. */
struct normalization {
    struct pass b;
    const float *mean;
};

struct normalize {
    template <typename T, int n, int own>
    static __device__ void at(const struct normalization &a, int64_t at, uint32_t c)
    {
        const struct pass &b = a.b;
        float v[n] = {};

        if (c < b.k.channels) {
            const struct line<n, own> line(b, a.mean, c);
            sw_load<T, n>(b.n.x, at, v);
            for (int j = 0; j < n; j++) {
                v[j] = line.y(j, v[j]);
                v[j] = b.n.b.relu && 0.0f > v[j] ? 0.0f : v[j];
            }
        }

        sw_store<T, n>(b.n.y, at, v);
    }
};

template <typename T>
static int start_normalize(const struct pass *b, const float *mean, const struct sw_cuda_launch *l)
{
    const struct normalization a = {*b, mean};
    const bool aligned = sw_is_wide(b->n.x) && sw_is_wide(b->n.y) && sw_is_wide(b->factor) &&
                         sw_is_wide(mean) && sw_is_wide(b->n.b.bias);

    return start_elements<T>(normalize(), a, &b->k, aligned, l);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, l, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_moments, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_BY_TYPE(b.n.b.desc.dtype, start_normalize, &b, b.n.b.mean, l);
}

static int launch_again(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, l, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_BY_TYPE(b.n.b.desc.dtype, start_normalize, &b, b.n.b.mean, l);
}

static __global__ void find_running_factors(struct pass b)
{
    for (int64_t c = sw_first(); c < b.k.channels; c += sw_stride())
        b.factor[c] = (float)((double)b.n.b.scale[c] /
                              sqrt((double)b.n.b.running_variance[c] + (double)b.n.b.eps));
}

static int launch_running(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, l, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_running_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_BY_TYPE(b.n.b.desc.dtype, start_normalize, &b, b.n.b.running_mean, l);
}

/* dx = scale / std (dy - sum dy / m - xhat sum(dy xhat) / m), m elements per channel. */
static __global__ void find_gradient_factors(struct pass b)
{
    int64_t channels = b.k.channels;
    double count = b.n.b.sums[2 * channels];

    for (int64_t c = sw_first(); c < channels; c += sw_stride()) {
        double inv_std = (double)b.n.b.inv_std[c], factor = (double)b.n.b.scale[c] * inv_std;

        b.factor[c] = (float)factor;
        b.constant[c] = (float)(factor * b.n.b.sums[c] / count);
        b.of_x[c] = (float)(factor * inv_std * b.n.b.sums[channels + c] / count);
    }
}

struct backward {
    template <typename T, int n, int own>
    static __device__ void at(const struct pass &b, int64_t at, uint32_t c)
    {
        float v[n] = {}, dy[n], constant[own], of_x[own];

        if (c < b.k.channels) {
            const struct line<n, own> line(b, b.n.b.mean, c);
            sw_load<float, own>(b.constant, c, constant);
            sw_load<float, own>(b.of_x, c, of_x);
            sw_load<T, n>(b.n.x, at, v);
            sw_load<T, n>(b.n.dy, at, dy);

            for (int j = 0; j < n; j++) {
                const int i = own == 1 ? 0 : j;
                const float passed = !b.n.b.relu || line.y(j, v[j]) > 0 ? dy[j] : 0.0f;
                v[j] = line.factor[i] * passed - constant[i] - of_x[i] * (v[j] - line.mean[i]);
            }
        }

        sw_store<T, n>(b.n.dx, at, v);
    }
};

template <typename T>
static int start_backward(const struct pass *b, const struct sw_cuda_launch *l)
{
    const bool aligned = sw_is_wide(b->n.x) && sw_is_wide(b->n.dy) && sw_is_wide(b->n.dx) &&
                         sw_is_wide(b->factor) && sw_is_wide(b->constant) && sw_is_wide(b->of_x) &&
                         sw_is_wide(b->n.b.mean) && sw_is_wide(b->n.b.bias);

    return start_elements<T>(backward(), *b, &b->k, aligned, l);
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, l, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_gradient_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_BY_TYPE(b.n.b.desc.dtype, start_backward, &b, l);
}

/* ---- Bias ---- */

/* y = x + bias scale; x NULL: 0, bias NULL: 0, scale NULL: 1. */
struct bias {
    int64_t channels;
    const void *x;
    const float *bias;
    const struct sw_step *scale;
    bool relu;
    void *y;
};

struct add_bias {
    template <typename T, int n, int own>
    static __device__ void at(const struct bias &a, int64_t at, uint32_t c)
    {
        const float factor = a.scale ? a.scale->backward_scale : 1.0f;
        float v[n] = {}, bias[own] = {};

        if (c < a.channels && a.x)
            sw_load<T, n>(a.x, at, v);
        if (c < a.channels && a.bias)
            sw_load<float, own>(a.bias, c, bias);

        for (int j = 0; j < n; j++) {
            v[j] += bias[own == 1 ? 0 : j] * factor;
            v[j] = a.relu && 0.0f > v[j] ? 0.0f : v[j];
        }

        sw_store<T, n>(a.y, at, v);
    }
};

template <typename T>
static int start_bias(const struct bias *a, const struct sw_channels *k,
                      const struct sw_cuda_launch *l)
{
    const bool aligned = sw_is_wide(a->x) && sw_is_wide(a->bias) && sw_is_wide(a->y);
    return start_elements<T>(add_bias(), *a, k, aligned, l);
}

int sw_cuda_channel_bias(const struct sw_channels *channels, enum sw_dtype type, const void *x,
                         const float *bias, bool relu, void *y, const struct sw_cuda_launch *l)
{
    const struct bias a = {channels->channels, x, bias, NULL, relu, y};
    return SW_BY_TYPE(type, start_bias, &a, channels, l);
}

/* ---- Sparsity ---- */

static __global__ void penalty(struct sw_sparsity_args a, struct sw_channels k)
{
    __shared__ double room[SW_THREADS];

    const double least = 1e-6; /* mean activations are clamped to least .. 1 - least */
    int64_t channels = k.channels;
    double rho = (double)a.rho, beta = (double)a.beta, mine = 0, count = a.sums[2 * channels];
    double rows = (double)sw_op_valid_rows(a.step, k.rows);
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
        double mean = a.sums[c] / (count > 0 ? count : 1);
        mean = mean < least ? least : mean > 1 - least ? 1 - least : mean; /* NaN passes */
        mine += beta * (rho * log(rho / mean) + (1 - rho) * log((1 - rho) / (1 - mean)));
        a.slope[c] = (float)(beta * ((1 - rho) / (1 - mean) - rho / mean) / (double)k.pixels);
    }

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0) {
        a.result->sum = sum * rows;
        a.result->weight = rows;
    }
}

static int launch_sparsity_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_cuda_channel_sums sums = {};
    if (!sw_cuda_channels(&a->desc, &sums.channels))
        return SW_CUDA_NO_KERNEL;

    sums.x = a->x;
    sums.step = a->step;
    sums.parts = (double *)l->room;
    sums.sums = a->sums;
    return sw_cuda_channel_sums(&sums, l);
}

static size_t sparsity_room(const void *args)
{
    return parts_bytes(&((const struct sw_sparsity_args *)args)->desc);
}

static int launch_sparsity(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    return SW_LAUNCH(penalty, 1, SW_THREADS, l, *a, k);
}

static int launch_sparsity_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    const struct bias b = {k.channels, a->dy, a->slope, a->step, false, a->dx};
    return start_bias<float>(&b, &k, l);
}

SW_CUDA_KERNELS(batch_norm) = {{{&sw_op_batch_norm_sums, launch_sums, sums_room},
                                {&sw_op_batch_norm, launch_forward, NULL},
                                {&sw_op_batch_norm_again, launch_again, NULL},
                                {&sw_op_batch_norm_running, launch_running, NULL},
                                {&sw_op_batch_norm_sums_gradient, launch_sums_backward, sums_room},
                                {&sw_op_batch_norm_gradient, launch_backward, NULL},
                                {&sw_op_sparsity_sums, launch_sparsity_sums, sparsity_room},
                                {&sw_op_sparsity, launch_sparsity, NULL},
                                {&sw_op_sparsity_gradient, launch_sparsity_backward, NULL},
                                {}}};
