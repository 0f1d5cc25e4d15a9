/* Rows of a table picked by whole numbers; formulas in kernels/cpu/embedding.c. The gradient of a
 * table's row is summed by the block of its first token, which goes on from each to the next one
 * like it: in their order, and nothing has to be added atomically. */
#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ int64_t valid_lists(const struct sw_cuda_lists &a)
{
    return sw_valid(a.step, a.rows) * a.per_row;
}

/* Is token i to be looked up? One that is not in the vocabulary is told. */
static __device__ __forceinline__ bool counts(const struct sw_cuda_lists &a, int64_t i,
                                              struct sw_cuda_trouble *trouble)
{
    int32_t token = a.token[i];
    int64_t in_row = a.per_row * a.length;
    if (token == a.skip)
        return false;
    if (token >= 0 && token < a.vocabulary)
        return true;
    sw_tell(trouble, SW_FOUND_TOKEN, 0, i / in_row, i % in_row, a.vocabulary, (double)token);
    return false;
}

static __device__ __forceinline__ int64_t tokens_of(const struct sw_cuda_lists &a, int64_t list)
{
    int64_t n = 0;
    for (int64_t i = list * a.length; i < (list + 1) * a.length; i++)
        n += a.token[i] != a.skip ? 1 : 0;
    return n;
}

static __global__ void forward(struct sw_cuda_lists a, struct sw_cuda_trouble *trouble)
{
    int64_t valid = valid_lists(a), lists = a.rows * a.per_row;
    for (int64_t i = sw_first(); i < lists * a.width; i += sw_stride()) {
        int64_t list = i / a.width, c = i % a.width, n = 0;
        float sum = 0.0f;
        for (int64_t t = list * a.length; t < (list + 1) * a.length && list < valid; t++) {
            n += a.token[t] != a.skip ? 1 : 0;
            if (counts(a, t, trouble))
                sum += a.weight[a.token[t] * a.width + c];
        }
        a.y[i] = n > 1 ? sum / (float)n : sum;
    }
}

int sw_cuda_embedding(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l)
{
    SW_START(forward, sw_blocks_for(a->rows * a->per_row * a->width, l), SW_THREADS, l, *a,
             l->trouble);
    return (int)cudaGetLastError();
}

/* Links every token to the next one like it, and says which are the first: a block per token looks
 * back until it finds one, which is not far where words come often. */
static __global__ void link_tokens(struct sw_cuda_lists a, struct sw_cuda_trouble *trouble)
{
    __shared__ int room[SW_THREADS];
    int64_t tokens = valid_lists(a) * a.length;
    for (int64_t i = blockIdx.x; i < tokens; i += gridDim.x) {
        bool mine = counts(a, i, trouble);
        int before = 0; /* counted from 1 */
        for (int64_t end = i; end > 0 && mine && before == 0; end -= blockDim.x) {
            int64_t j = end - 1 - threadIdx.x;
            before = sw_block_most(j >= 0 && a.token[j] == a.token[i] ? (int)j + 1 : 0, room);
        }
        if (threadIdx.x > 0)
            continue;
        a.first[i] = mine && before == 0 ? 1 : 0;
        if (before > 0)
            a.next[before - 1] = (int32_t)i;
    }
}

static __global__ void backward(struct sw_cuda_lists a)
{
    int64_t tokens = valid_lists(a) * a.length;
    for (int64_t i = blockIdx.x; i < tokens; i += gridDim.x) {
        if (!a.first[i])
            continue;
        for (int64_t c = threadIdx.x; c < a.width; c += blockDim.x) {
            float sum = 0.0f;
            for (int64_t j = i; j >= 0; j = a.next[j]) {
                int64_t list = j / a.length;
                sum += 1.0f / (float)tokens_of(a, list) * a.dy[list * a.width + c];
            }
            a.y[a.token[i] * a.width + c] = sum;
        }
    }
}

int sw_cuda_embedding_backward(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l)
{
    int64_t table = a->vocabulary * a->width, tokens = a->rows * a->per_row * a->length;
    cudaError_t answer = cudaMemsetAsync(a->y, 0, (size_t)table * sizeof(float), l->stream);
    if (answer == cudaSuccess)
        answer = cudaMemsetAsync(a->next, 0xff, (size_t)tokens * sizeof *a->next, l->stream);
    if (answer != cudaSuccess)
        return (int)answer;
    unsigned blocks = sw_blocks_of(tokens, 65535);
    SW_START(link_tokens, blocks, sw_threads_for(tokens), l, *a, l->trouble);
    SW_START(backward, blocks, sw_threads_for(a->width), l, *a);
    return (int)cudaGetLastError();
}

static __global__ void onehot(struct sw_cuda_lists a, struct sw_cuda_trouble *trouble)
{
    int64_t valid = valid_lists(a), lists = a.rows * a.per_row;
    for (int64_t i = sw_first(); i < lists * a.vocabulary; i += sw_stride()) {
        int64_t list = i / a.vocabulary, c = i % a.vocabulary;
        a.y[i] = list < valid && counts(a, list, trouble) && a.token[list] == c ? 1.0f : 0.0f;
    }
}

int sw_cuda_onehot(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l)
{
    SW_START(onehot, sw_blocks_for(a->rows * a->per_row * a->vocabulary, l), SW_THREADS, l, *a,
             l->trouble);
    return (int)cudaGetLastError();
}
