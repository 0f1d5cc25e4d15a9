/* The gradient of skip-gram; formulas in kernels/cpu/skip_gram.c. A block per context adds the
 * vectors of its outputs. For the output vectors, the outputs of all centers are sorted by their
 * rows, so that a row's outputs are adjacent and in the order of the text. Blocks take equally many
 * of them, however frequent a word is: a row that continues in the next block leaves a partial sum,
 * and a last kernel adds these. */
#include "kernels/cuda/skip_gram.cuh"
#include "kernels/cuda/sort.cuh"
#include "kernels/divide.h"

typedef struct sw_skip_gram_shape shape;

enum {
    COLUMNS = 128, /* threads of a block, which have a column each */
    UNDER_WAY = 8  /* loads of vectors */
};

/* ---- Gradient of the contexts ---- */

/* Multiples of rows of a matrix that a block adds. */
struct terms {
    float factor[COLUMNS];
    int64_t at[COLUMNS];   /* offsets of the rows in the matrix */
    uint32_t key[COLUMNS]; /* terms of equal keys have one sum; not set where there is one key */
    unsigned room[COLUMNS / 32];
};

/* Adds terms [from, to) to a sum; column: of the first row of the matrix. */
static __device__ float add_terms(const struct terms &t, unsigned from, unsigned to,
                                  const float *column, float sum)
{
    unsigned i = from;

    for (; i + UNDER_WAY <= to; i += UNDER_WAY) {
        float v[UNDER_WAY];

        for (unsigned j = 0; j < UNDER_WAY; j++)
            v[j] = column[t.at[i + j]];
        for (unsigned j = 0; j < UNDER_WAY; j++)
            sum += t.factor[i + j] * v[j];
    }

    for (; i < to; i++)
        sum += t.factor[i] * column[t.at[i]];

    return sum;
}

/* Sets *of to the row of output o of center k, and *factor to its slope, if center j is a context
 * of k and k has such an output. */
static __device__ bool find_output(const struct sw_skip_gram_gradient_args &a, int64_t r,
                                   const int32_t *row, int64_t j, int64_t k, int o, int64_t *of,
                                   float *factor)
{
    const shape &s = a.shape;
    if (k == j)
        return false;

    const struct sw_center c = sw_center_of(s, row, k);
    if (j < c.reach.from || j >= c.reach.to || o >= c.picks[SW_PICK_OUTPUTS])
        return false;

    const float *slope = a.slope + (r * s.length + k) * sw_slopes_per_center(&s) + 1;
    *of = c.picks[SW_PICK_FIRST_OUTPUT + o] >> 1;
    *factor = slope[(int64_t)o * c.contexts + j - c.reach.from - (j > k)];
    return true;
}

/* Returns column c of the gradient of center j as a context of the centers around it. The block
 * collects the terms of as many pairs of a center and an output as it has threads. */
static __device__ float context_gradient(const struct sw_skip_gram_gradient_args &a, int64_t r,
                                         const int32_t *row, int64_t j, int64_t c, float scale,
                                         struct terms *t)
{
    const shape &s = a.shape;
    const int outputs = (int)s.outputs;
    const int64_t from = j > s.window ? j - s.window : 0;
    const int64_t to = row[0] < j + s.window + 1 ? row[0] : j + s.window + 1;
    const int pairs = (int)(to - from) * outputs;
    float sum = 0;

    for (int first = 0; first < pairs; first += COLUMNS) {
        const int i = first + (int)threadIdx.x;
        int64_t of = 0;
        float factor = 0;
        const bool is =
            i < pairs && find_output(a, r, row, j, from + i / outputs, i % outputs, &of, &factor);
        unsigned all, at = sw_block_rank(is, t->room, &all);

        if (is) {
            t->factor[at] = scale * factor;
            t->at[at] = of * s.width;
        }
        __syncthreads();

        if (c < s.width)
            sum = add_terms(*t, 0, all, a.output + c, sum);
    }

    return sum;
}

/* A block takes a center and COLUMNS columns. */
static __global__ void context_gradients(struct sw_skip_gram_gradient_args a, unsigned tiles)
{
    __shared__ struct terms t;

    const shape &s = a.shape;
    const int64_t valid = sw_op_valid_rows(a.step, s.rows), j = blockIdx.x / tiles;
    const int64_t column = (int64_t)(blockIdx.x % tiles) * COLUMNS + threadIdx.x;
    const float scale = a.weight * a.step->backward_scale;
    for (int64_t r = blockIdx.y; r < valid; r += gridDim.y) {
        const int32_t *row = a.picks + r * sw_picks_per_row(&s);
        if (j >= row[0])
            continue;

        const int64_t at = r * s.length + sw_pick_center(&s, row, j)[SW_PICK_POSITION];
        const float sum = context_gradient(a, r, row, j, column, scale, &t);
        if (column < s.width)
            a.dx[at * s.width + column] = sum;
    }
}

/* ---- Gradient of the outputs ---- */

constexpr int64_t MOST_OUTPUTS = 1 << 20; /* outputs that are sorted at once */
constexpr int64_t MOST_CHUNKS = 4096;
constexpr int64_t LEAST_CHUNK = 16;    /* outputs */
constexpr int64_t MOST_SUMS = 3 << 20; /* floats for partial sums */

/* The outputs of some rows, sorted by their rows in the matrix. Output o of center k of row r is
 * number (r * length + k) * outputs + o. Blocks take chunks of `each` of them. */
struct sorted {
    struct sw_skip_gram_gradient_args a;
    int64_t first_row;
    struct sw_sort sort;
    struct sw_divisor length, outputs, contexts;
    int each, chunks;
    float *part; /* [chunks, 2, width]: the sums of a chunk's first row, if that began before, and
                    of its last row, if that goes on after it */
};

struct output {
    int64_t r;
    uint32_t k, o;
};

static __device__ __forceinline__ struct output output_at(const struct sorted &p, uint32_t number)
{
    struct output at;

    at.o = sw_divide_off(&p.outputs, &number);
    at.k = sw_divide_off(&p.length, &number);
    at.r = p.first_row + number;
    return at;
}

/* The key of numbers without an output; it comes last. */
static __device__ __forceinline__ uint32_t no_output(const struct sorted &p)
{
    return (uint32_t)p.a.shape.output_rows;
}

static __global__ void list_outputs(struct sorted p)
{
    const shape &s = p.a.shape;
    const int64_t valid = sw_op_valid_rows(p.a.step, s.rows);

    SW_ROLLED
    for (int64_t i = sw_first(); i < p.sort.n; i += sw_stride()) {
        const struct output at = output_at(p, (uint32_t)i);
        const int32_t *row = p.a.picks + at.r * sw_picks_per_row(&s);
        const int32_t *center = sw_pick_center(&s, row, at.k);
        const bool is =
            at.r < valid && (int32_t)at.k < row[0] && (int32_t)at.o < center[SW_PICK_OUTPUTS];

        p.sort.key[0][i] = is ? (uint32_t)(center[SW_PICK_FIRST_OUTPUT + at.o] >> 1) : no_output(p);
        p.sort.number[0][i] = (uint32_t)i;
    }
}

/* The chunk of a block. */
struct chunk {
    int64_t number;
    int from, to;
    uint32_t before, after; /* the keys there */
};

static __device__ struct chunk chunk_of(const struct sorted &p, int64_t number)
{
    const int from = (int)number * p.each, to = p.sort.n - from < p.each ? p.sort.n : from + p.each;
    const struct chunk k = {number, from, to, from > 0 ? p.sort.key[0][from - 1] : no_output(p),
                            to < p.sort.n ? p.sort.key[0][to] : no_output(p)};
    return k;
}

/* Sets *of to the row of context i of an output, and *factor to its slope, if there are so many. */
static __device__ bool find_context(const struct sorted &p, const struct output &at, int i,
                                    int64_t *of, float *factor)
{
    const shape &s = p.a.shape;
    const struct sw_center c =
        sw_center_of(s, p.a.picks + at.r * sw_picks_per_row(&s), (int64_t)at.k);
    if (i >= c.contexts)
        return false;

    const float *slope = p.a.slope + (at.r * s.length + at.k) * sw_slopes_per_center(&s) + 1;
    *of = at.r * s.length + sw_context_position(s, c, i);
    *factor = slope[(int64_t)at.o * c.contexts + i];
    return true;
}

/* Collects the terms of as many pairs of an output and a context, from pair `first` of a chunk on,
 * as the block has threads; returns how many there are. */
static __device__ unsigned collect(const struct sorted &p, const struct chunk &k, int first,
                                   float scale, struct terms *t)
{
    const uint32_t i = (uint32_t)first + threadIdx.x, n = sw_divide(&p.contexts, i);
    const bool inside = n < (uint32_t)(k.to - k.from);
    const uint32_t key = inside ? p.sort.key[0][k.from + n] : no_output(p);
    int64_t of = 0;
    float factor = 0;
    const bool is =
        key != no_output(p) && find_context(p, output_at(p, p.sort.number[0][k.from + n]),
                                            (int)(i - n * p.contexts.by), &of, &factor);
    unsigned all, at = sw_block_rank(is, t->room, &all);

    if (is) {
        t->factor[at] = scale * factor;
        t->at[at] = of * p.a.shape.width;
        t->key[at] = key;
    }
    __syncthreads();

    return all;
}

/* Stores or adds the sum of a row over a chunk. */
static __device__ void store_sum(const struct sorted &p, const struct chunk &k, uint32_t key,
                                 int64_t c, float sum)
{
    const int64_t width = p.a.shape.width;

    if (key == no_output(p))
        return;
    if (key == k.before)
        p.part[2 * k.number * width + c] = sum;
    else if (key == k.after)
        p.part[(2 * k.number + 1) * width + c] = sum;
    else
        p.a.doutput[key * width + c] += sum;
}

/* A block takes a chunk and COLUMNS columns. */
static __global__ void add_chunks(struct sorted p, unsigned tiles)
{
    __shared__ struct terms t;

    const int64_t width = p.a.shape.width;
    const struct chunk k = chunk_of(p, blockIdx.x / tiles);
    const int64_t c = (int64_t)(blockIdx.x % tiles) * COLUMNS + threadIdx.x;
    const float scale = p.a.weight * p.a.step->backward_scale;
    const int pairs = (k.to - k.from) * (int)p.contexts.by;
    uint32_t key = no_output(p);
    float sum = 0;

    if (p.sort.key[0][k.from] == no_output(p))
        return;

    /* A row of which no center has contexts has no terms. */
    for (int side = 0; side < 2 && c < width; side++)
        p.part[(2 * k.number + side) * width + c] = 0;

    for (int first = 0; first < pairs; first += COLUMNS) {
        const unsigned all = collect(p, k, first, scale, &t);

        for (unsigned from = 0, to; from < all && c < width; from = to) {
            for (to = from + 1; to < all && t.key[to] == t.key[from];)
                to++;

            if (t.key[from] != key) {
                store_sum(p, k, key, c, sum);
                key = t.key[from];
                sum = 0;
            }
            sum = add_terms(t, from, to, p.a.x + c, sum);
        }
    }

    if (c < width)
        store_sum(p, k, key, c, sum);
}

/* Returns the last chunk that a row goes on in that goes on after chunk k. */
static __device__ int64_t last_chunk(const struct sorted &p, int64_t k, uint32_t key)
{
    int64_t last = k + 1, end = p.chunks;

    while (end - last > 1) {
        const int64_t middle = last + (end - last) / 2;
        if (p.sort.key[0][middle * p.each] == key)
            last = middle;
        else
            end = middle;
    }

    return last;
}

/* Adds the partial sums of the rows that begin in a chunk and go on after it. */
static __global__ void add_parts(struct sorted p, unsigned tiles)
{
    const int64_t width = p.a.shape.width;
    const struct chunk k = chunk_of(p, blockIdx.x / tiles);
    const int64_t c = (int64_t)(blockIdx.x % tiles) * COLUMNS + threadIdx.x;
    const uint32_t key = p.sort.key[0][k.to - 1];

    const bool began = p.sort.key[0][k.from] == key && k.before == key;
    if (key == no_output(p) || key != k.after || began || c >= width)
        return;

    const int64_t last = last_chunk(p, k.number, key);
    float sum = p.part[(2 * k.number + 1) * width + c];
    int64_t i = k.number + 1;

    for (; i + UNDER_WAY <= last + 1; i += UNDER_WAY) {
        float v[UNDER_WAY];

        for (int j = 0; j < UNDER_WAY; j++)
            v[j] = p.part[2 * (i + j) * width + c];
        for (int j = 0; j < UNDER_WAY; j++)
            sum += v[j];
    }

    for (; i <= last; i++)
        sum += p.part[2 * i * width + c];

    p.a.doutput[key * width + c] += sum;
}

/* ---- Launching the gradient ---- */

/* Returns how many rows of text are sorted at once. */
static int64_t rows_at_once(const shape &s)
{
    const int64_t of_row = s.length * s.outputs, rows = of_row ? MOST_OUTPUTS / of_row : s.rows;
    return rows < 1 ? 1 : rows < s.rows ? rows : s.rows;
}

/* Chunks depend only on the shape, as the order of the sums does. */
static int64_t chunk_size(const shape &s, int64_t outputs)
{
    const int64_t fit = MOST_SUMS / (2 * s.width), most = fit < MOST_CHUNKS ? fit : MOST_CHUNKS;
    const int64_t each = (outputs + most - 1) / most;
    return each > LEAST_CHUNK ? each : LEAST_CHUNK;
}

size_t sw_cuda_skip_gram_gradient_room(const void *args)
{
    const shape &s = ((const struct sw_skip_gram_gradient_args *)args)->shape;
    return sw_sort_bytes(rows_at_once(s) * s.length * s.outputs) + MOST_SUMS * sizeof(float);
}

/* Adds the gradient of the outputs of some rows of text. */
static int add_rows(const struct sw_skip_gram_gradient_args *a, int64_t first_row, int64_t rows,
                    unsigned tiles, const struct sw_cuda_launch *l)
{
    const shape &s = a->shape;
    const int64_t n = rows * s.length * s.outputs, each = chunk_size(s, n);
    struct sorted p = {*a,
                       first_row,
                       sw_sort_in(l->room, n),
                       sw_divisor_of(s.length),
                       sw_divisor_of(s.outputs),
                       sw_divisor_of(2 * s.window),
                       (int)each,
                       (int)((n + each - 1) / each),
                       NULL};
    p.part = (float *)((char *)l->room + sw_sort_bytes(n));

    SW_START(list_outputs, sw_blocks_for(n, l), SW_THREADS, l, p);
    int status = sw_sort_run(&p.sort, (uint32_t)s.output_rows, l);
    if (status != cudaSuccess)
        return status;

    SW_START(add_chunks, (unsigned)p.chunks * tiles, COLUMNS, l, p, tiles);
    return SW_LAUNCH(add_parts, (unsigned)p.chunks * tiles, COLUMNS, l, p, tiles);
}

static int launch_contexts(const struct sw_skip_gram_gradient_args *a, unsigned tiles,
                           const struct sw_cuda_launch *l)
{
    const shape &s = a->shape;
    const size_t bytes = (size_t)(s.rows * s.length * s.width) * sizeof *a->dx;

    cudaError_t answer = cudaMemsetAsync(a->dx, 0, bytes, l->stream);
    if (answer != cudaSuccess)
        return (int)answer;

    const dim3 grid((unsigned)s.length * tiles, sw_blocks_of(s.rows, 65535), 1);
    return SW_LAUNCH(context_gradients, grid, COLUMNS, l, *a, tiles);
}

int sw_cuda_skip_gram_gradient(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_skip_gram_gradient_args *a = (const struct sw_skip_gram_gradient_args *)args;
    const shape &s = a->shape;
    const int64_t tiles = (s.width + COLUMNS - 1) / COLUMNS, rows = rows_at_once(s);
    const int64_t longest = s.length > MOST_CHUNKS ? s.length : MOST_CHUNKS;

    if (2 * s.width > MOST_SUMS || longest * tiles > INT32_MAX)
        return SW_CUDA_NO_KERNEL;

    cudaError_t answer = cudaMemsetAsync(
        a->doutput, 0, (size_t)(s.output_rows * s.width) * sizeof *a->doutput, l->stream);
    if (answer != cudaSuccess || s.rows * s.length * s.width == 0)
        return (int)answer;

    int status = a->dx ? launch_contexts(a, (unsigned)tiles, l) : (int)cudaSuccess;
    for (int64_t r = 0; r < s.rows && s.outputs > 0 && status == cudaSuccess; r += rows)
        status = add_rows(a, r, rows < s.rows - r ? rows : s.rows - r, (unsigned)tiles, l);

    return status;
}
