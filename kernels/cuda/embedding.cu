/* Looks up rows of a table by integers; formulas in kernels/cpu/embedding.c. The gradient of a row
 * of the table is summed by the block of the row's first token. It collects the equal tokens of a
 * tile in shared memory, in order, and then adds their gradients in that order, which is the CPU's,
 * while the loads of several gradients are under way. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/divide.h"
#include "kernels/ops/embedding.h"

typedef struct sw_token_lists lists;

static __device__ __forceinline__ int64_t valid_lists(const lists &k, const struct sw_step *step)
{
    return sw_op_valid_rows(step, k.rows) * k.per_row;
}

/* Is token i valid? A token that is not in the vocabulary is reported. */
static __device__ __forceinline__ bool counts(const lists &k, const int32_t *tokens, uint32_t i,
                                              struct sw_cuda_trouble *trouble)
{
    int32_t token = tokens[i];
    uint32_t in_row = (uint32_t)(k.per_row * k.length);

    if (token == k.skip)
        return false;
    if (token >= 0 && token < k.vocabulary)
        return true;

    sw_report_invalid(trouble, SW_FOUND_TOKEN, 0, i / in_row, i % in_row, k.vocabulary,
                      (double)token);
    return false;
}

/* Returns the tokens of a list that are not skipped. */
static __device__ __forceinline__ int32_t tokens_of(const lists &k, const int32_t *tokens,
                                                    int64_t list)
{
    int32_t n = 0;
    for (int64_t i = list * k.length; i < (list + 1) * k.length; i++)
        n += tokens[i] != k.skip ? 1 : 0;
    return n;
}

static int64_t all_lists(const lists &k)
{
    return k.rows * k.per_row;
}

/* Kernels number the tokens in 32 bits. */
static bool fits(const lists &k)
{
    return all_lists(k) * k.length <= INT32_MAX;
}

/* ---- Forward ---- */

static __global__ void forward(struct sw_embedding_args a, unsigned wide,
                               struct sw_cuda_trouble *trouble)
{
    const lists &k = a.lists;
    const struct sw_row_walk w = sw_walk_rows(wide);

    const int64_t valid = valid_lists(k, a.step), all = k.rows * k.per_row;
    for (int64_t list = w.row; list < all; list += w.row_step)
        for (int64_t c = w.column; c < a.width; c += wide) {
            int32_t n = 0;
            float sum = 0.0f;

            for (int64_t t = list * k.length; t < (list + 1) * k.length && list < valid; t++) {
                n += a.token[t] != k.skip ? 1 : 0;
                if (counts(k, a.token, (uint32_t)t, trouble))
                    sum += a.weight[a.token[t] * a.width + c];
            }

            a.y[list * a.width + c] = n > 1 ? sum / (float)n : sum;
        }
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_embedding_args *a = (const struct sw_embedding_args *)args;
    const unsigned wide = sw_threads_for(a->width);

    if (!fits(a->lists))
        return SW_CUDA_NO_KERNEL;
    return SW_LAUNCH(forward, sw_walk_blocks(all_lists(a->lists), wide, l), SW_THREADS, l, *a, wide,
                     l->trouble);
}

/* ---- Gradient ---- */

enum {
    ADJACENT = 4, /* tokens of a tile that a thread compares */
    TILE = SW_THREADS * ADJACENT,
    UNDER_WAY = 8 /* loads of gradients */
};

/* The tokens of a tile that equal the one of the block. */
struct equals {
    uint32_t found[SW_THREADS / 4]; /* by each thread, a byte each */
    int32_t list[TILE];
    float share[TILE]; /* of the gradient of the list: 1 / its tokens */
};

/* Returns the sum of the first n bytes. */
static __device__ __forceinline__ int sum_bytes(const uint32_t *words, unsigned n)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < n / 4; i++)
        sum += words[i] * 0x01010101u >> 24;
    for (unsigned i = 0; i < n % 4; i++)
        sum += words[n / 4] >> 8 * i & 0xff;

    return (int)sum;
}

/* Is no token before the i-th equal to it? */
static __device__ bool is_first(const int32_t *tokens, int32_t i)
{
    __shared__ int before;

    for (int32_t end = i; end > 0; end -= TILE) {
        __syncthreads(); /* all have read it */
        if (threadIdx.x == 0)
            before = 0;
        __syncthreads();

        for (int j = 0; j < ADJACENT; j++) {
            int32_t at = end - 1 - j * SW_THREADS - (int32_t)threadIdx.x;
            if (at >= 0 && tokens[at] == tokens[i])
                before = 1; /* all threads that write it store the same value */
        }

        __syncthreads();
        if (before)
            return false;
    }

    return true;
}

/* Collects the tokens in [from, end) of a tile that equal `token`, and returns their number to all
 * threads. They have read what was collected before when they call it. */
static __device__ int collect(const struct sw_embedding_gradient_args &a,
                              const struct sw_divisor &length, int32_t token, int64_t from,
                              int64_t end, struct equals *to)
{
    const int64_t mine = from + ADJACENT * threadIdx.x;
    unsigned char n = 0;

    for (int j = 0; j < ADJACENT; j++)
        n += mine + j < end && a.token[mine + j] == token ? 1 : 0;
    ((unsigned char *)to->found)[threadIdx.x] = n;
    __syncthreads();

    int at = n > 0 ? sum_bytes(to->found, threadIdx.x) : 0;
    for (int j = 0; j < ADJACENT && n > 0; j++) {
        if (mine + j >= end || a.token[mine + j] != token)
            continue;

        int32_t list = (int32_t)sw_divide(&length, (uint32_t)(mine + j));
        to->list[at] = list;
        to->share[at++] = 1.0f / (float)tokens_of(a.lists, a.token, list);
    }

    const int all = sum_bytes(to->found, SW_THREADS);
    __syncthreads();
    return all;
}

/* Adds the gradients of column c of the collected tokens to the sum. */
static __device__ float add_collected(const struct equals &k, int n, const float *dy, int64_t width,
                                      int64_t c, float sum)
{
    int i = 0;

    for (; i + UNDER_WAY <= n; i += UNDER_WAY) {
        float v[UNDER_WAY];

        for (int j = 0; j < UNDER_WAY; j++)
            v[j] = dy[k.list[i + j] * width + c];
        for (int j = 0; j < UNDER_WAY; j++)
            sum += k.share[i + j] * v[j];
    }

    for (; i < n; i++)
        sum += k.share[i] * dy[k.list[i] * width + c];

    return sum;
}

/* A block takes a token and SW_THREADS columns. */
static __global__ void backward(struct sw_embedding_gradient_args a, struct sw_divisor length,
                                struct sw_cuda_trouble *trouble)
{
    __shared__ struct equals room;

    const int32_t tokens = (int32_t)(valid_lists(a.lists, a.step) * a.lists.length);
    const int64_t column = (int64_t)blockIdx.y * SW_THREADS + threadIdx.x;
    for (int64_t i = blockIdx.x; i < tokens; i += gridDim.x) {
        const int32_t token = a.token[i];
        float sum = 0.0f;

        if (!counts(a.lists, a.token, (uint32_t)i, trouble) || !is_first(a.token, (int32_t)i))
            continue;

        for (int64_t from = i; from < tokens; from += TILE) {
            const int n = collect(a, length, token, from, tokens, &room);
            if (column < a.width)
                sum = add_collected(room, n, a.dy, a.width, column, sum);
        }

        if (column < a.width)
            a.dweight[token * a.width + column] = sum;
    }
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_embedding_gradient_args *a = (const struct sw_embedding_gradient_args *)args;
    const int64_t table = a->lists.vocabulary * a->width,
                  tokens = all_lists(a->lists) * a->lists.length,
                  columns = (a->width + SW_THREADS - 1) / SW_THREADS;

    if (!fits(a->lists) || columns > 65535)
        return SW_CUDA_NO_KERNEL;

    cudaError_t answer = cudaMemsetAsync(a->dweight, 0, (size_t)table * sizeof(float), l->stream);
    if (answer != cudaSuccess || tokens == 0 || columns == 0)
        return (int)answer;

    const dim3 grid(sw_blocks_of(tokens, INT32_MAX), (unsigned)columns, 1);
    return SW_LAUNCH(backward, grid, SW_THREADS, l, *a, sw_divisor_of(a->lists.length), l->trouble);
}

/* ---- One-hot ---- */

static __global__ void onehot(struct sw_onehot_args a, unsigned wide,
                              struct sw_cuda_trouble *trouble)
{
    const lists &k = a.lists;
    const struct sw_row_walk w = sw_walk_rows(wide);

    const int64_t valid = valid_lists(k, a.step), all = k.rows * k.per_row;
    for (int64_t list = w.row; list < all; list += w.row_step) {
        const bool is_set = list < valid && counts(k, a.token, (uint32_t)list, trouble);
        const int32_t token = is_set ? a.token[list] : -1;

        for (int64_t c = w.column; c < k.vocabulary; c += wide)
            a.y[list * k.vocabulary + c] = c == token ? 1.0f : 0.0f;
    }
}

static int launch_onehot(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_onehot_args *a = (const struct sw_onehot_args *)args;
    const unsigned wide = sw_threads_for(a->lists.vocabulary);

    if (!fits(a->lists))
        return SW_CUDA_NO_KERNEL;
    return SW_LAUNCH(onehot, sw_walk_blocks(all_lists(a->lists), wide, l), SW_THREADS, l, *a, wide,
                     l->trouble);
}

SW_CUDA_KERNELS(embedding) = {{{&sw_op_embedding, launch_forward, NULL},
                               {&sw_op_embedding_gradient, launch_backward, NULL},
                               {&sw_op_onehot, launch_onehot, NULL},
                               {}}};
