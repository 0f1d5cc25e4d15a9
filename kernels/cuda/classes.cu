/* Which classes a row of scores names, against the row's label or labels. Of equal scores the one
 * of the lower class comes first; a NaN is never named. Ranks are counted, so that no row has to be
 * sorted. */
#include "kernels/cuda/rows.cuh"

#define PRESENT_ABOVE 0.5f /* targets are 0 and 1, or shares of 1 */

/* ---- Accuracy ---- */

/* The class of the best score among the labels of a row; -1 without labels. */
static __device__ int64_t best_label(const float *x, const float *target, int64_t n)
{
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (target[j] > PRESENT_ABOVE && (best < 0 || !(x[j] <= x[best])))
            best = j;
    return best;
}

static __global__ void top_k(struct sw_cuda_classes a, uint64_t who, double *part,
                             struct sw_cuda_trouble *trouble)
{
    __shared__ double room[SW_THREADS];
    int64_t valid = sw_valid_steps(a.step, a.per_sample, a.rows), n = a.classes;
    double hits = 0, counted = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        const float *x = a.x + r * n;
        int64_t label = a.target ? best_label(x, a.target + r * n, n) : a.label[r];
        bool counts =
            a.target ? label >= 0 : label != a.ignore && sw_label_fits(label, n, r, who, trouble);
        float mine = counts ? x[label] : 0.0f;
        double after = 0;
        for (int64_t j = threadIdx.x; j < n && counts; j += blockDim.x)
            after += x[j] < mine || (x[j] == mine && j > label) ? 1 : 0;
        after = sw_block_sum(after, room);
        hits += counts && (double)(n - 1) - after < (double)a.top_k ? 1 : 0;
        counted += counts ? 1 : 0;
    }
    sw_put_part(part, hits, counted);
}

int sw_cuda_top_k(const struct sw_cuda_classes *a, const struct sw_cuda_launch *l)
{
    unsigned blocks = sw_sum_blocks(a->rows);
    SW_START(top_k, blocks, sw_threads_for(a->classes), l, *a, (uint64_t)(uintptr_t)a->who,
             l->partials, l->trouble);
    SW_START(sw_add_row_parts, 1, SW_THREADS, l, l->partials, blocks, 1.0f, a->result);
    return (int)cudaGetLastError();
}

/* ---- Counts per class ---- */

/* Does a row name class c: among its top_k, or above the threshold? */
static __device__ bool names(const struct sw_cuda_classes &a, const float *x, int64_t c)
{
    if (a.top_k == 0)
        return x[c] > a.threshold;
    int64_t before = 0;
    for (int64_t j = 0; j < a.classes && before < a.top_k; j++)
        before += x[j] > x[c] || (x[j] == x[c] && j < c) ? 1 : 0;
    return x[c] == x[c] && before < a.top_k;
}

/* A block has a class, its threads share the rows. */
static __global__ void count_classes(struct sw_cuda_classes a, uint64_t who,
                                     struct sw_cuda_trouble *trouble)
{
    __shared__ double room[SW_THREADS];
    int64_t valid = sw_valid_steps(a.step, a.per_sample, a.rows), n = a.classes;
    for (int64_t c = blockIdx.x; c < n; c += gridDim.x) {
        double both = 0, named = 0, present = 0;
        for (int64_t r = threadIdx.x; r < valid; r += blockDim.x) {
            int64_t label = a.target ? 0 : a.label[r];
            if (!a.target &&
                (label == a.ignore || !sw_label_fits(label, n == 1 ? 2 : n, r, who, trouble)))
                continue;
            /* With one column, label 1 is that column and 0 is none. */
            bool is_there =
                a.target ? a.target[r * n + c] > PRESENT_ABOVE : c == (n == 1 ? label - 1 : label);
            bool is_named = names(a, a.x + r * n, c);
            both += is_there && is_named ? 1 : 0;
            named += is_named ? 1 : 0;
            present += is_there ? 1 : 0;
        }
        both = sw_block_sum(both, room);
        named = sw_block_sum(named, room);
        present = sw_block_sum(present, room);
        if (threadIdx.x == 0) {
            a.result[2 * c].sum = a.result[2 * c + 1].sum = both;
            a.result[2 * c].weight = named;
            a.result[2 * c + 1].weight = present;
        }
    }
}

int sw_cuda_count_classes(const struct sw_cuda_classes *a, const struct sw_cuda_launch *l)
{
    SW_START(count_classes, sw_blocks_of(a->classes, 65535), sw_threads_for(a->rows), l, *a,
             (uint64_t)(uintptr_t)a->who, l->trouble);
    return (int)cudaGetLastError();
}

/* ---- The best places of a row ---- */

/* Does value a of place i come before value b of place j? NaN is last. */
static __device__ __forceinline__ bool comes_before(float a, int64_t i, float b, int64_t j)
{
    bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan || b_is_nan)
        return a_is_nan && b_is_nan ? i < j : b_is_nan;
    return a > b || (a == b && i < j);
}

static __global__ void argsort(int64_t rows, int64_t columns, int64_t most, const float *x,
                               int32_t *place)
{
    for (int64_t i = sw_first(); i < rows * columns; i += sw_stride()) {
        int64_t r = i / columns, c = i % columns, before = 0;
        const float *row = x + r * columns;
        for (int64_t j = 0; j < columns && before < most; j++)
            before += j != c && comes_before(row[j], j, row[c], c) ? 1 : 0;
        if (before < most)
            place[r * most + before] = (int32_t)c;
    }
}

int sw_cuda_argsort(int64_t rows, int64_t columns, int64_t top_k, const float *x, int32_t *place,
                    const struct sw_cuda_launch *l)
{
    SW_START(argsort, sw_blocks_for(rows * columns, l), SW_THREADS, l, rows, columns, top_k, x,
             place);
    return (int)cudaGetLastError();
}
