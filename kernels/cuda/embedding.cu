/* Looks up rows of a table by integers; formulas in kernels/cpu/embedding.c. The gradient of a row
 * of the table is summed by the block of its first token, which follows the links to the next equal
 * tokens, so that gradients are added in order and without atomic operations. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/embedding.h"

typedef struct sw_token_lists lists;

static __device__ __forceinline__ int64_t valid_lists(const lists &k, const struct sw_step *step)
{
    return sw_op_valid_rows(step, k.rows) * k.per_row;
}

/* Is token i valid? A token that is not in the vocabulary is reported. */
static __device__ __forceinline__ bool counts(const lists &k, const int32_t *tokens, int64_t i,
                                              struct sw_cuda_trouble *trouble)
{
    int32_t token = tokens[i];
    int64_t in_row = k.per_row * k.length;

    if (token == k.skip)
        return false;
    if (token >= 0 && token < k.vocabulary)
        return true;

    sw_report_invalid(trouble, SW_FOUND_TOKEN, 0, i / in_row, i % in_row, k.vocabulary, (double)token);
    return false;
}

static __device__ __forceinline__ int64_t tokens_of(const lists &k, const int32_t *tokens,
                                                    int64_t list)
{
    int64_t n = 0;
    for (int64_t i = list * k.length; i < (list + 1) * k.length; i++)
        n += tokens[i] != k.skip ? 1 : 0;
    return n;
}

/* ---- Forward ---- */

static __global__ void forward(struct sw_embedding_args a, struct sw_cuda_trouble *trouble)
{
    const lists &k = a.lists;

    const int64_t valid = valid_lists(k, a.step), all = k.rows * k.per_row;
    for (int64_t i = sw_first(); i < all * a.width; i += sw_stride()) {
        int64_t list = i / a.width, c = i % a.width, n = 0;
        float sum = 0.0f;

        for (int64_t t = list * k.length; t < (list + 1) * k.length && list < valid; t++) {
            n += a.token[t] != k.skip ? 1 : 0;
            if (counts(k, a.token, t, trouble))
                sum += a.weight[a.token[t] * a.width + c];
        }

        a.y[i] = n > 1 ? sum / (float)n : sum;
    }
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_embedding_args *a = (const struct sw_embedding_args *)args;
    SW_START(forward, sw_blocks_for(a->lists.rows * a->lists.per_row * a->width, l), SW_THREADS, l,
             *a, l->trouble);
    return (int)cudaGetLastError();
}

/* ---- Gradient ---- */

/* Links every token to the next equal one (-1: none), and marks the first of each kind. Each token
 * has a block, which searches backwards; the search is short if words are frequent. */
static __global__ void link_tokens(struct sw_embedding_gradient_args a, int32_t *next,
                                   int32_t *first, struct sw_cuda_trouble *trouble)
{
    __shared__ int room[SW_THREADS];

    int64_t tokens = valid_lists(a.lists, a.step) * a.lists.length;
    for (int64_t i = blockIdx.x; i < tokens; i += gridDim.x) {
        bool mine = counts(a.lists, a.token, i, trouble);
        int before = 0; /* position of the previous equal token + 1 */

        for (int64_t end = i; end > 0 && mine && before == 0; end -= blockDim.x) {
            int64_t j = end - 1 - threadIdx.x;
            before = sw_block_max_int(j >= 0 && a.token[j] == a.token[i] ? (int)j + 1 : 0, room);
        }

        if (threadIdx.x > 0)
            continue;

        first[i] = mine && before == 0 ? 1 : 0;
        if (before > 0)
            next[before - 1] = (int32_t)i;
    }
}

static __global__ void backward(struct sw_embedding_gradient_args a, const int32_t *next,
                                const int32_t *first)
{
    const lists &k = a.lists;

    int64_t tokens = valid_lists(k, a.step) * k.length;
    for (int64_t i = blockIdx.x; i < tokens; i += gridDim.x) {
        if (!first[i])
            continue;

        for (int64_t c = threadIdx.x; c < a.width; c += blockDim.x) {
            float sum = 0.0f;

            for (int64_t j = i; j >= 0; j = next[j]) {
                int64_t list = j / k.length;
                sum += 1.0f / (float)tokens_of(k, a.token, list) * a.dy[list * a.width + c];
            }

            a.dweight[a.token[i] * a.width + c] = sum;
        }
    }
}

static int64_t all_tokens(const lists &k)
{
    return k.rows * k.per_row * k.length;
}

/* Returns the bytes of the links: two integers per token. */
static size_t backward_room(const void *args)
{
    const struct sw_embedding_gradient_args *a = (const struct sw_embedding_gradient_args *)args;
    return 2 * (size_t)all_tokens(a->lists) * sizeof(int32_t);
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_embedding_gradient_args *a = (const struct sw_embedding_gradient_args *)args;
    const int64_t table = a->lists.vocabulary * a->width, tokens = all_tokens(a->lists);
    int32_t *next = (int32_t *)l->room, *first = next + tokens;
    cudaError_t answer = cudaMemsetAsync(a->dweight, 0, (size_t)table * sizeof(float), l->stream);

    if (answer == cudaSuccess)
        answer = cudaMemsetAsync(next, 0xff, (size_t)tokens * sizeof *next, l->stream);
    if (answer != cudaSuccess)
        return (int)answer;

    unsigned blocks = sw_blocks_of(tokens, 65535);
    SW_START(link_tokens, blocks, sw_threads_for(tokens), l, *a, next, first, l->trouble);
    SW_START(backward, blocks, sw_threads_for(a->width), l, *a, (const int32_t *)next,
             (const int32_t *)first);

    return (int)cudaGetLastError();
}

/* ---- One-hot ---- */

static __global__ void onehot(struct sw_onehot_args a, struct sw_cuda_trouble *trouble)
{
    const lists &k = a.lists;

    const int64_t valid = valid_lists(k, a.step), all = k.rows * k.per_row;
    for (int64_t i = sw_first(); i < all * k.vocabulary; i += sw_stride()) {
        int64_t list = i / k.vocabulary, c = i % k.vocabulary;
        a.y[i] =
            list < valid && counts(k, a.token, list, trouble) && a.token[list] == c ? 1.0f : 0.0f;
    }
}

static int launch_onehot(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_onehot_args *a = (const struct sw_onehot_args *)args;
    const int64_t n = a->lists.rows * a->lists.per_row * a->lists.vocabulary;
    SW_START(onehot, sw_blocks_for(n, l), SW_THREADS, l, *a, l->trouble);
    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(embedding) = {{{&sw_op_embedding, launch_forward, NULL},
                               {&sw_op_embedding_gradient, launch_backward, backward_room},
                               {&sw_op_onehot, launch_onehot, NULL},
                               {}}};
