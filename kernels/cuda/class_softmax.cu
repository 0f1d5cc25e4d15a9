/* The softmax in two levels; formulas in kernels/cpu/class_softmax.c and
 * device/ops/class_softmax.c. Only the device knows the rows of each class, so a grid is large
 * enough for every grouping of its shape, and a block without work ends at once. One kernel
 * multiplies all classes. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/ops/class_softmax.h"
#include "kernels/ops/softmax_loss.h"

/* ---- Groups ---- */

/* Rows are sorted by counting, in parts of 2^bits rows: a table has the rows of each class and
 * part, and then the position of the first of them. A row's position is that of its part plus the
 * earlier rows of its class there. Parts are small, unless that makes the table large. */
enum { SMALLEST_PART_BITS = 10, MOST_COUNTS = 1 << 18 };

static int part_bits(const struct sw_class_group_args *a)
{
    int bits = SMALLEST_PART_BITS;
    while (a->rows >> bits > 0 && (a->rows >> bits) * a->kind.classes > MOST_COUNTS)
        bits++;
    return bits;
}

static int64_t parts_of(const struct sw_class_group_args *a)
{
    return (a->rows >> part_bits(a)) + 1;
}

static size_t group_room(const void *args)
{
    const struct sw_class_group_args *a = (const struct sw_class_group_args *)args;
    return (size_t)(a->kind.classes * parts_of(a)) * sizeof(unsigned);
}

/* Sets the label of every row and counts; an invalid label is reported, and then ignored. */
static __global__ void classify(struct sw_class_group_args a, int bits, int64_t parts, uint64_t who,
                                unsigned *table, struct sw_cuda_trouble *trouble)
{
    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows);
    const int64_t ignored = sw_labels_ignored(&a.labels);

    for (int64_t r = sw_first(); r < valid; r += sw_stride()) {
        const int64_t word = a.labels.label[r];
        const bool counts = word != ignored && sw_label_fits(word, a.kind.words, r, who, trouble);
        const int64_t c = counts ? sw_class_of(&a.kind, word) : -1;

        a.label[r] = (int32_t)c;
        if (counts)
            atomicAdd(&table[c * parts + (r >> bits)], 1u);
    }
}

/* Returns the sum of the values of the threads before this one. */
static __device__ unsigned sum_before(unsigned mine, unsigned *room)
{
    const unsigned t = threadIdx.x;

    room[t] = mine;
    __syncthreads();

    for (unsigned distance = 1; distance < SW_THREADS; distance *= 2) {
        const unsigned more = t >= distance ? room[t - distance] : 0;
        __syncthreads();
        room[t] += more;
        __syncthreads();
    }

    return room[t] - mine;
}

/* Turns counts into positions, in one block, whose threads have some adjacent classes each. */
static __global__ void find_positions(int64_t classes, int64_t parts, unsigned *table,
                                      int32_t *begin)
{
    __shared__ unsigned room[SW_THREADS];

    const int64_t each = (classes + SW_THREADS - 1) / SW_THREADS, first = threadIdx.x * each;
    const int64_t end = first + each < classes ? first + each : classes;
    unsigned mine = 0;

    for (int64_t i = first * parts; i < end * parts; i++)
        mine += table[i];

    unsigned at = sum_before(mine, room);
    for (int64_t c = first; c < end; c++) {
        begin[c] = (int32_t)at;
        for (int64_t i = c * parts; i < (c + 1) * parts; i++) {
            const unsigned rows = table[i];
            table[i] = at;
            at += rows;
        }
    }

    if (threadIdx.x == SW_THREADS - 1)
        begin[classes] = (int32_t)at;
}

static __global__ void order_rows(struct sw_class_group_args a, int bits, int64_t parts,
                                  const unsigned *table)
{
    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows);

    for (int64_t r = sw_first(); r < valid; r += sw_stride()) {
        const int32_t c = a.label[r];
        if (c < 0)
            continue;

        unsigned at = table[c * parts + (r >> bits)];
        for (int64_t before = r >> bits << bits; before < r; before++)
            at += a.label[before] == c ? 1u : 0u;
        a.order[at] = (int32_t)r;
    }
}

static int launch_group(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_class_group_args *a = (const struct sw_class_group_args *)args;
    const int bits = part_bits(a);
    const int64_t parts = parts_of(a);
    unsigned *table = (unsigned *)l->room;

    if (a->rows == 0)
        return 0;

    const cudaError_t e = cudaMemsetAsync(table, 0, group_room(a), l->stream);
    if (e != cudaSuccess)
        return (int)e;

    SW_START(classify, sw_blocks_for(a->rows, l), SW_THREADS, l, *a, bits, parts,
             (uint64_t)(uintptr_t) "class_softmax_loss", table, l->trouble);
    SW_START(find_positions, 1, SW_THREADS, l, a->kind.classes, parts, table, a->begin);
    return SW_LAUNCH(order_rows, sw_blocks_for(a->rows, l), SW_THREADS, l, *a, bits, parts,
                     (const unsigned *)table);
}

/* ---- Rows and words of a class ---- */

/* Returns the last class for which `begins` is true, as it is for the first one; bisects. */
template <typename F>
static __device__ __forceinline__ int64_t last_class(int64_t classes, const F &begins)
{
    int64_t c = 0, end = classes;

    while (end - c > 1) {
        const int64_t middle = c + (end - c) / 2;
        if (begins(middle))
            c = middle;
        else
            end = middle;
    }

    return c;
}

/* The number of words that the row at a position chooses from, and its own one among them. */
struct words {
    int64_t count, own;
};

static __device__ __forceinline__ struct words words_at(const struct sw_word_classes &kind,
                                                        const struct sw_labels &labels,
                                                        const int32_t *order, const int32_t *begin,
                                                        int64_t position)
{
    const int64_t c =
        last_class(kind.classes, [=](int64_t other) { return begin[other] <= position; });
    const int64_t first = sw_class_first(&kind, c);

    return {sw_class_first(&kind, c + 1) - first, labels.label[order[position]] - first};
}

/* Some rows of a class, which tiles of products have. */
struct rows_of_class {
    int64_t at, count; /* positions */
    int64_t first, words;
};

/* Class c has the slots begin[c] / SW_TILE_ROWS + c to that of class c + 1, of SW_TILE_ROWS rows
 * each: at least as many as it needs, and the first one of a class is found by bisection. */
static int64_t slots_of(int64_t rows, const struct sw_word_classes *kind)
{
    return rows / SW_TILE_ROWS + kind->classes;
}

static __device__ __forceinline__ int64_t first_slot(const int32_t *begin, int64_t c)
{
    return begin[c] / SW_TILE_ROWS + c;
}

/* Finds the rows of a slot; false if there are none. */
static __device__ bool find_rows(const struct sw_word_classes &kind, const int32_t *begin,
                                 int64_t slot, struct rows_of_class *out)
{
    const int64_t c =
        last_class(kind.classes, [=](int64_t other) { return first_slot(begin, other) <= slot; });
    const int64_t at = begin[c] + (slot - first_slot(begin, c)) * SW_TILE_ROWS;
    const int64_t rest = begin[c + 1] - at, first = sw_class_first(&kind, c);

    *out = {at, rest < SW_TILE_ROWS ? rest : (int64_t)SW_TILE_ROWS, first,
            sw_class_first(&kind, c + 1) - first};
    return rest > 0;
}

/* The blocks for all tiles of `size` of each of `count` classes or slots. */
static dim3 blocks_for_tiles(int64_t count, int64_t length, int64_t size)
{
    return dim3((unsigned)count, (unsigned)((length + size - 1) / size), 1);
}

/* A grid has at most 65535 tiles of a class or a row. */
static bool fits(int64_t widest, int64_t width)
{
    return widest <= 65535LL * SW_COLUMNS && width <= 65535LL * SW_TILE_COLUMNS;
}

/* ---- Forward ---- */

/* Blocks of products on a multiprocessor, so that enough loads are under way. */
enum { BLOCKS_AT_ONCE = 4 };

static __global__ void group_rows(struct sw_class_words_args a, unsigned wide)
{
    const int64_t rows = a.begin[a.kind.classes];
    const struct sw_row_walk w = sw_walk_rows(wide);

    for (int64_t r = w.row; r < rows; r += w.row_step) {
        const float *from = a.x + a.order[r] * a.width;
        for (int64_t c = w.column; c < a.width; c += wide)
            a.grouped[r * a.width + c] = from[c];
    }
}

struct scores {
    float *at;
    int64_t pitch;
    const float *bias;

    __device__ void set(int64_t row, int64_t word, float sum) const
    {
        at[row * pitch + word] = sum + bias[word];
    }
};

/* A block has the rows of a slot and a tile of their words. */
template <bool TENSOR>
static __global__ void __launch_bounds__(SW_THREADS, BLOCKS_AT_ONCE)
    score_words(struct sw_class_words_args a, enum sw_precision precision)
{
    struct rows_of_class k;
    const int64_t j = (int64_t)blockIdx.y * SW_TILE_COLUMNS;

    if (!find_rows(a.kind, a.begin, blockIdx.x, &k) || j >= k.words)
        return;

    const struct sw_tile_product p = {{a.grouped + k.at * a.width, a.width},
                                      {a.weight + (k.first + j) * a.width, a.width},
                                      k.count,
                                      k.words - j,
                                      a.width,
                                      precision};
    sw_multiply_tile<TENSOR, true, true>(
        p, scores{a.prob + k.at * a.widest + j, a.widest, a.bias + k.first + j});
}

/* Turns the scores of each row into probabilities, one block per row; part: the sums of losses. */
static __global__ void choose(struct sw_class_words_args a, double *part)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];

    const int64_t rows = a.begin[a.kind.classes];
    double loss = 0;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const struct words w = words_at(a.kind, a.labels, a.order, a.begin, r);
        float *x = a.prob + r * a.widest, own = x[w.own], m;
        const double sum = sw_block_exp(x, w.count, x, &m, most, room);

        const float scale = (float)(1.0 / sum);
        for (int64_t i = threadIdx.x; i < w.count; i += blockDim.x)
            x[i] *= scale;
        loss += log(sum) - ((double)own - (double)m);
    }

    if (threadIdx.x == 0)
        part[blockIdx.x] = loss;
}

static __global__ void add_losses(const double *part, unsigned parts, float factor,
                                  struct sw_result *result)
{
    __shared__ double room[SW_THREADS];

    double sum = 0;
    for (unsigned i = threadIdx.x; i < parts; i += blockDim.x)
        sum += part[i];
    sum = sw_block_sum(sum, room);

    if (threadIdx.x == 0)
        result->sum += (double)factor * sum;
}

static int launch_words(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_class_words_args *a = (const struct sw_class_words_args *)args;
    const unsigned wide = sw_threads_for(a->width), parts = sw_sum_blocks(a->rows);
    const dim3 tiles = blocks_for_tiles(slots_of(a->rows, &a->kind), a->widest, SW_TILE_COLUMNS);

    if (a->rows == 0)
        return 0;
    if (!fits(a->widest, a->width))
        return SW_CUDA_NO_KERNEL;

    SW_START(group_rows, sw_walk_blocks(a->rows, wide, l), SW_THREADS, l, *a, wide);
    if (sw_on_tensor_cores(l->precision))
        SW_START(score_words<true>, tiles, SW_THREADS, l, *a, l->precision);
    else
        SW_START(score_words<false>, tiles, SW_THREADS, l, *a, l->precision);
    SW_START(choose, parts, sw_threads_for(a->widest), l, *a, l->partials);
    return SW_LAUNCH(add_losses, 1, SW_THREADS, l, (const double *)l->partials, parts, a->factor,
                     a->result);
}

/* ---- Gradient ---- */

static __global__ void score_gradients(struct sw_class_words_gradient_args a, unsigned wide)
{
    struct sw_softmax_gradient_args scaled = {};
    const struct sw_row_walk w = sw_walk_rows(wide);
    const int64_t rows = a.begin[a.kind.classes];

    scaled.batch_rows = a.batch_rows;
    scaled.weight = a.factor;
    scaled.labels = a.labels;
    scaled.step = a.step;
    scaled.counted = a.counted;

    const float scale = sw_softmax_gradient_scale(&scaled);
    for (int64_t r = w.row; r < rows; r += w.row_step) {
        const struct words k = words_at(a.kind, a.labels, a.order, a.begin, r);
        float *p = a.prob + r * a.widest;

        for (int64_t i = w.column; i < k.count; i += wide)
            p[i] = scale * (p[i] - (i == k.own ? 1.0f : 0.0f));
    }
}

struct weight_gradient {
    float *at;
    int64_t pitch;

    __device__ void set(int64_t word, int64_t column, float sum) const
    {
        at[word * pitch + column] = sum;
    }
};

/* A block has a tile of the words of a class; without rows their gradient is zero. */
template <bool TENSOR>
static __global__ void __launch_bounds__(SW_THREADS, BLOCKS_AT_ONCE)
    weight_gradients(struct sw_class_words_gradient_args a, enum sw_precision precision)
{
    const int64_t c = blockIdx.x, i = (int64_t)blockIdx.y * SW_TILE_ROWS;
    const int64_t first = sw_class_first(&a.kind, c),
                  words = sw_class_first(&a.kind, c + 1) - first;
    const int64_t at = a.begin[c];

    for (int64_t j = 0; i < words && j < a.width; j += SW_TILE_COLUMNS) {
        const struct sw_tile_product p = {{a.prob + at * a.widest + i, a.widest},
                                          {a.grouped + at * a.width + j, a.width},
                                          words - i,
                                          a.width - j,
                                          a.begin[c + 1] - at,
                                          precision};
        sw_multiply_tile<TENSOR, false, false>(
            p, weight_gradient{a.dweight + (first + i) * a.width + j, a.width});
    }
}

/* A block has SW_COLUMNS words of a class. */
static __global__ void bias_gradients(struct sw_class_words_gradient_args a)
{
    __shared__ double room[SW_THREADS];

    const unsigned t = threadIdx.x;
    const int64_t c = blockIdx.x, i = (int64_t)blockIdx.y * SW_COLUMNS + t % SW_COLUMNS;
    const int64_t word = sw_class_first(&a.kind, c) + i;
    const bool exists = word < sw_class_first(&a.kind, c + 1);
    double sum = 0;

    for (int64_t r = a.begin[c] + t / SW_COLUMNS; exists && r < a.begin[c + 1]; r += SW_LINES)
        sum += (double)a.prob[r * a.widest + i];

    room[t] = sum;
    sw_add_lines(room);
    if (t < SW_COLUMNS && exists)
        a.dbias[word] = (float)room[t];
}

/* Each row is that of one position only, so no two threads add to the same element. */
struct source_gradient {
    float *dx;
    const int32_t *order;
    int64_t pitch;

    __device__ void set(int64_t row, int64_t column, float sum) const
    {
        dx[order[row] * pitch + column] += sum;
    }
};

/* A block has the rows of a slot, and a tile of columns. */
template <bool TENSOR>
static __global__ void __launch_bounds__(SW_THREADS, BLOCKS_AT_ONCE)
    source_gradients(struct sw_class_words_gradient_args a, enum sw_precision precision)
{
    struct rows_of_class k;
    const int64_t j = (int64_t)blockIdx.y * SW_TILE_COLUMNS;

    if (!find_rows(a.kind, a.begin, blockIdx.x, &k))
        return;

    const struct sw_tile_product p = {{a.prob + k.at * a.widest, a.widest},
                                      {a.weight + k.first * a.width + j, a.width},
                                      k.count,
                                      a.width - j,
                                      k.words,
                                      precision};
    sw_multiply_tile<TENSOR, true, false>(p, source_gradient{a.dx + j, a.order + k.at, a.width});
}

/* Without rows there are no groups. */
static int clear_gradients(const struct sw_cuda_launch *l,
                           const struct sw_class_words_gradient_args *a)
{
    cudaError_t e = cudaMemsetAsync(a->dweight, 0,
                                    (size_t)(a->kind.words * a->width) * sizeof(float), l->stream);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(a->dbias, 0, (size_t)a->kind.words * sizeof(float), l->stream);
    return (int)e;
}

template <bool TENSOR>
static void start_products(const struct sw_cuda_launch *l,
                           const struct sw_class_words_gradient_args *a)
{
    SW_START(weight_gradients<TENSOR>, blocks_for_tiles(a->kind.classes, a->widest, SW_TILE_ROWS),
             SW_THREADS, l, *a, l->precision);
    if (a->dx)
        SW_START(source_gradients<TENSOR>,
                 blocks_for_tiles(slots_of(a->rows, &a->kind), a->width, SW_TILE_COLUMNS),
                 SW_THREADS, l, *a, l->precision);
}

static int launch_gradient(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_class_words_gradient_args *a =
        (const struct sw_class_words_gradient_args *)args;
    const unsigned wide = sw_threads_for(a->widest);

    if (a->rows == 0)
        return clear_gradients(l, a);
    if (!fits(a->widest, a->width))
        return SW_CUDA_NO_KERNEL;

    SW_START(score_gradients, sw_walk_blocks(a->rows, wide, l), SW_THREADS, l, *a, wide);
    if (sw_on_tensor_cores(l->precision))
        start_products<true>(l, a);
    else
        start_products<false>(l, a);
    return SW_LAUNCH(bias_gradients, blocks_for_tiles(a->kind.classes, a->widest, SW_COLUMNS),
                     SW_THREADS, l, *a);
}

/* ---- All words ---- */

/* Returns log sum exp x to all threads of the block. */
static __device__ double log_sum(const float *x, int64_t n, float *most, double *room)
{
    float m = -CUDART_INF_F;
    double sum = 0;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        m = x[i] > m ? x[i] : m;
    m = sw_block_max(m, most);

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += (double)expf(x[i] - m);
    return (double)m + log(sw_block_sum(sum, room));
}

static __global__ void log_sums(int64_t rows, int64_t n, const float *x, double *sum)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const double all = log_sum(x + r * n, n, most, room);
        if (threadIdx.x == 0)
            sum[r] = all;
    }
}

/* A block has a class of a row. */
static __global__ void shift_words(struct sw_class_log_softmax_args a, const double *of_classes)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];

    const int64_t c = blockIdx.x, first = sw_class_first(&a.kind, c),
                  n = sw_class_first(&a.kind, c + 1) - first;
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        float *x = a.score + r * a.kind.words + first;
        const double of_class = (double)a.class_score[r * a.kind.classes + c] - of_classes[r];
        const float by = (float)(of_class - log_sum(x, n, most, room));

        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            x[i] += by;
    }
}

static size_t log_softmax_room(const void *args)
{
    return (size_t)((const struct sw_class_log_softmax_args *)args)->rows * sizeof(double);
}

static int launch_log_softmax(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_class_log_softmax_args *a = (const struct sw_class_log_softmax_args *)args;
    const int64_t classes = a->kind.classes;
    double *of_classes = (double *)l->room;

    if (a->rows == 0)
        return 0;

    SW_START(log_sums, sw_blocks_of(a->rows, 65535), sw_threads_for(classes), l, a->rows, classes,
             a->class_score, of_classes);
    return SW_LAUNCH(shift_words, dim3((unsigned)classes, sw_blocks_of(a->rows, 65535), 1),
                     sw_threads_for(a->kind.words / classes), l, *a, (const double *)of_classes);
}

SW_CUDA_KERNELS(class_softmax) = {{{&sw_op_class_group, launch_group, group_room},
                                   {&sw_op_class_words, launch_words, NULL},
                                   {&sw_op_class_words_gradient, launch_gradient, NULL},
                                   {&sw_op_class_log_softmax, launch_log_softmax, log_softmax_room},
                                   {}}};
