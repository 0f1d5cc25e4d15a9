/* Skip-gram; formulas in kernels/cpu/skip_gram.c, random words and arrays in kernels/skip_gram.h. A
 * block per row picks the centers; a block per center picks its outputs and computes its scores, a
 * warp for one output and four contexts at a time; a block per row adds up the losses. */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/skip_gram.cuh"

typedef struct sw_skip_gram_shape shape;

enum {
    PAIR_THREADS = 128,
    WARPS = PAIR_THREADS / 32,
    SIDE_BY_SIDE = 4 /* contexts that share the loads of an output */
};

/* ---- Picking ---- */

static __device__ __forceinline__ struct sw_philox4 words_of(const struct sw_skip_gram_args &a,
                                                             int64_t r, int64_t first)
{
    return sw_philox_at(a.key, a.step->step, (uint32_t)(a.step->first_row + r),
                        (uint32_t)(first / 4));
}

/* Is the token at position t of row r a center? A token that is not in the vocabulary is reported.
 * The two words are in one Philox block, because the number of the first is even. */
static __device__ bool is_center(const struct sw_skip_gram_args &a, int64_t r, int64_t t,
                                 int32_t *reach, struct sw_cuda_trouble *trouble)
{
    const int32_t token = a.token[r * a.shape.length + t];
    if (token < -1 || token >= a.shape.vocabulary)
        sw_report_invalid(trouble, SW_FOUND_TOKEN, 0, r, t, a.shape.vocabulary, (double)token);
    if (token < 0 || token >= a.shape.vocabulary)
        return false;

    const int64_t first = sw_skip_gram_first_word(&a.words, t);
    const struct sw_philox4 w = words_of(a, r, first);
    *reach = sw_skip_gram_reach(&a.shape, w.v[first % 4 + 1]);
    return sw_skip_gram_keeps(&a.words, token, w.v[first % 4]);
}

/* Sets positions and reaches of the centers of every row, and their number. */
static __global__ void pick_centers(struct sw_skip_gram_args a, struct sw_cuda_trouble *trouble)
{
    __shared__ unsigned room[SW_THREADS / 32];

    const shape &s = a.shape;
    const int64_t valid = sw_op_valid_rows(a.step, s.rows);
    for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
        int32_t *row = a.picks + r * sw_picks_per_row(&s);
        int32_t count = 0;

        for (int64_t from = 0; from < s.length && r < valid; from += blockDim.x) {
            const int64_t t = from + threadIdx.x;
            int32_t reach = 0;
            const bool is = t < s.length && is_center(a, r, t, &reach, trouble);
            unsigned all, before = sw_block_rank(is, room, &all);

            if (is) {
                int32_t *center = row + 1 + (count + before) * sw_picks_per_center(&s);
                center[SW_PICK_POSITION] = (int32_t)t;
                center[SW_PICK_REACH] = reach;
            }
            count += (int32_t)all;
        }

        if (threadIdx.x == 0)
            row[0] = count;
    }
}

/* Returns the word that the i-th pair of random words draws, in one Philox block. */
static __device__ int32_t draw(const struct sw_skip_gram_args &a, int64_t r, int64_t t, int64_t i)
{
    const int64_t first = sw_skip_gram_first_word(&a.words, t) + 2 + 2 * i;
    const struct sw_philox4 w = words_of(a, r, first);
    return sw_skip_gram_draw(&a.words, w.v[first % 4], w.v[first % 4 + 1]);
}

/* Sets the outputs of a center to its word and the drawn words; returns their number. */
static __device__ int32_t pick_negatives(const struct sw_skip_gram_args &a, int64_t r, int64_t t,
                                         int32_t token, unsigned *room, int32_t *output)
{
    int32_t count = 1;

    if (threadIdx.x == 0)
        output[0] = token * 2 + 1;

    for (int64_t from = 0; from < a.words.negatives; from += blockDim.x) {
        const int64_t i = from + threadIdx.x;
        const int32_t drawn = i < a.words.negatives ? draw(a, r, t, i) : token;
        unsigned all, before = sw_block_rank(drawn != token, room, &all);

        if (drawn != token)
            output[count + (int32_t)before] = drawn * 2;
        count += (int32_t)all;
    }

    return count;
}

static __device__ int32_t pick_path(const struct sw_skip_gram_args &a, int32_t token,
                                    int32_t *output)
{
    const int64_t from = sw_skip_gram_path_begin(&a.words, token),
                  n = a.words.path_end[token] - from;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        output[i] = a.words.path[from + i];
    return (int32_t)n;
}

/* Returns the number of outputs; all threads can read them. */
static __device__ int32_t pick_outputs(const struct sw_skip_gram_args &a, int64_t r, unsigned *room,
                                       int32_t *center)
{
    const int32_t t = center[SW_PICK_POSITION], token = a.token[r * a.shape.length + t];
    int32_t *output = center + SW_PICK_FIRST_OUTPUT;
    const int32_t n =
        a.words.alias ? pick_negatives(a, r, t, token, room, output) : pick_path(a, token, output);

    if (threadIdx.x == 0)
        center[SW_PICK_OUTPUTS] = n;
    __syncthreads();

    return n;
}

/* ---- Scores ---- */

/* Returns the sum over a warp to all its threads. */
static __device__ __forceinline__ float warp_sum(float x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Replaces a score by its slope; returns the loss. */
static __device__ __forceinline__ float loss_of(float label, float *score)
{
    const float side = 2.0f * label - 1.0f, x = side * *score;
    const float e = expf(-fabsf(x)), small = 1.0f / (1.0f + e);

    *score = -side * (x < 0 ? small : e * small);
    return (x < 0 ? -x : 0.0f) + log1pf(e);
}

/* The vectors of the contexts of a center. */
struct contexts {
    int count;
    int64_t at[2 * SW_SKIP_GRAM_WINDOW]; /* offsets in x */
};

static __device__ void find_contexts(const shape &s, int64_t r, const struct sw_center &k,
                                     struct contexts *c)
{
    if (threadIdx.x == 0)
        c->count = k.contexts;
    for (int i = (int)threadIdx.x; i < k.contexts; i += PAIR_THREADS)
        c->at[i] = (r * s.length + sw_context_position(s, k, i)) * s.width;
}

/* Computes the scores of output v and of the contexts from `first` on. */
static __device__ void score(const struct contexts &c, int first, const float *x, int64_t width,
                             const float *v, float *sum)
{
    const float *of[SIDE_BY_SIDE];

    for (int i = 0; i < SIDE_BY_SIDE; i++) {
        of[i] = x + c.at[first + i < c.count ? first + i : c.count - 1];
        sum[i] = 0;
    }

    for (int64_t e = threadIdx.x % 32; e < width; e += 32)
        for (int i = 0; i < SIDE_BY_SIDE; i++)
            sum[i] += v[e] * of[i][e];
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        sum[i] = warp_sum(sum[i]);
}

/* Sets the slopes of a center; returns each thread's part of the loss. */
static __device__ double score_outputs(const struct sw_skip_gram_args &a, const int32_t *output,
                                       int outputs, const struct contexts &c, float *slope)
{
    const int lane = (int)(threadIdx.x % 32);
    const int groups = (c.count + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
    double loss = 0;

    for (int i = (int)(threadIdx.x / 32); i < outputs * groups; i += WARPS) {
        const int o = i / groups, first = i % groups * SIDE_BY_SIDE;
        const int64_t width = a.shape.width;
        float sum[SIDE_BY_SIDE], mine = 0;

        score(c, first, a.x, width, a.output + (output[o] >> 1) * width, sum);
        for (int j = 0; j < SIDE_BY_SIDE; j++)
            mine = lane == j ? sum[j] : mine;

        if (lane < SIDE_BY_SIDE && first + lane < c.count) {
            loss += (double)loss_of((float)(output[o] & 1), &mine);
            slope[o * c.count + first + lane] = mine;
        }
    }

    return loss;
}

/* Picks the outputs of every center, and computes its slopes and its loss. */
static __global__ void score_centers(struct sw_skip_gram_args a)
{
    __shared__ unsigned room[WARPS];
    __shared__ double sums[PAIR_THREADS];
    __shared__ struct contexts contexts;

    const shape &s = a.shape;
    const int64_t valid = sw_op_valid_rows(a.step, s.rows);
    for (int64_t r = blockIdx.y; r < valid; r += gridDim.y) {
        int32_t *row = a.picks + r * sw_picks_per_row(&s);

        for (int64_t k = blockIdx.x; k < row[0]; k += gridDim.x) {
            int32_t *center = row + 1 + k * sw_picks_per_center(&s);
            float *slope = a.slope + (r * s.length + k) * sw_slopes_per_center(&s);

            find_contexts(s, r, sw_center_of(s, row, k), &contexts);
            const int outputs = pick_outputs(a, r, room, center); /* a barrier */
            double loss =
                score_outputs(a, center + SW_PICK_FIRST_OUTPUT, outputs, contexts, slope + 1);

            loss = sw_block_sum(loss, sums);
            if (threadIdx.x == 0)
                slope[0] = (float)loss;
        }
    }
}

static __global__ void add_losses(struct sw_skip_gram_args a, double *part)
{
    __shared__ double room[SW_THREADS];

    const shape &s = a.shape;
    const int64_t valid = sw_op_valid_rows(a.step, s.rows), each = sw_slopes_per_center(&s);
    double loss = 0, rows = 0;
    for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
        const int32_t centers = a.picks[r * sw_picks_per_row(&s)]; /* zero for other rows */
        double mine = 0;

        for (int64_t k = threadIdx.x; k < centers; k += blockDim.x)
            mine += (double)a.slope[(r * s.length + k) * each];

        mine = sw_block_sum(mine, room);
        if (threadIdx.x == 0)
            a.loss[r] = (float)mine;
        loss += mine;
        rows += r < valid ? 1 : 0;
    }

    sw_store_partial(part, loss, rows);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_skip_gram_args *a = (const struct sw_skip_gram_args *)args;
    const shape &s = a->shape;
    const unsigned blocks = sw_sum_blocks(s.rows);
    const dim3 centers(sw_blocks_of(s.length, INT32_MAX), sw_blocks_of(s.rows, 65535), 1);

    SW_START(pick_centers, sw_blocks_of(s.rows, 65535), sw_threads_for(s.length), l, *a,
             l->trouble);
    SW_START(score_centers, centers, PAIR_THREADS, l, *a);
    SW_START(add_losses, blocks, sw_threads_for(s.length), l, *a, l->partials);
    return SW_LAUNCH(sw_add_row_partials, 1, SW_THREADS, l, l->partials, blocks, a->weight,
                     a->result);
}

SW_CUDA_KERNELS(skip_gram) = {
    {{&sw_op_skip_gram, launch_forward, NULL},
     {&sw_op_skip_gram_gradient, sw_cuda_skip_gram_gradient, sw_cuda_skip_gram_gradient_room},
     {}}};
