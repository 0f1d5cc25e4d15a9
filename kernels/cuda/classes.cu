/* Compares the predicted classes of a row of scores with its label or labels. Of equal scores the
 * lower class comes first; a NaN is never predicted. Also finds the largest values of a row. */
#include "kernels/cuda/rows.cuh"
#include "kernels/ops/argsort.h"
#include "kernels/ops/classes.h"

#define PRESENT_ABOVE 0.5f /* targets are 0 and 1, or fractions of 1 */

/* ---- Accuracy ---- */

/* Returns the class of the best score among the labels of a row, -1 without labels. */
static __device__ int64_t best_label(const float *x, const float *target, int64_t n)
{
    int64_t best = -1;

    for (int64_t j = 0; j < n; j++)
        if (target[j] > PRESENT_ABOVE && (best < 0 || !(x[j] <= x[best])))
            best = j;

    return best;
}

static __global__ void top_k(struct sw_top_k_args a, uint64_t who, double *part,
                             struct sw_cuda_trouble *trouble)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows), n = a.classes;
    const int64_t ignored = sw_labels_ignored(&a.labels);
    double hits = 0, counted = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        const float *x = a.x + r * n;
        int64_t label = a.target ? best_label(x, a.target + r * n, n) : a.labels.label[r];
        bool counts =
            a.target ? label >= 0 : label != ignored && sw_label_fits(label, n, r, who, trouble);
        float mine = counts ? x[label] : 0.0f;
        double after = 0;

        for (int64_t j = threadIdx.x; j < n && counts; j += blockDim.x)
            after += x[j] < mine || (x[j] == mine && j > label) ? 1 : 0;
        after = sw_block_sum(after, room);
        hits += counts && (double)(n - 1) - after < (double)a.top_k ? 1 : 0;
        counted += counts ? 1 : 0;
    }

    sw_store_partial(part, hits, counted);
}

static int launch_top_k(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_top_k_args *a = (const struct sw_top_k_args *)args;
    unsigned blocks = sw_sum_blocks(a->rows);

    SW_START(top_k, blocks, sw_threads_for(a->classes), l, *a,
             (uint64_t)(uintptr_t)sw_op_top_k.name, l->partials, l->trouble);
    return SW_LAUNCH(sw_add_row_partials, 1, SW_THREADS, l, l->partials, blocks, 1.0f, a->result);
}

/* ---- The best positions of a row ---- */

/* A position in a row, and its value. */
struct place {
    float value;
    int32_t place; /* -1: nothing */
};

/* Does value a at position i rank before value b at position j? NaN is last. */
static __device__ __forceinline__ bool comes_before(float a, int64_t i, float b, int64_t j)
{
    bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan || b_is_nan)
        return a_is_nan && b_is_nan ? i < j : b_is_nan;
    return a > b || (a == b && i < j);
}

/* Returns the best candidate of all threads of a block to all of them. */
static __device__ struct place block_best(struct place mine, struct place *room)
{
    unsigned t = threadIdx.x;

    room[t] = mine;
    __syncthreads();

    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            struct place a = room[t], b = room[t + half];
            room[t] =
                a.place < 0 || (b.place >= 0 && comes_before(b.value, b.place, a.value, a.place))
                    ? b
                    : a;
        }

        __syncthreads();
    }

    struct place best = room[0];
    __syncthreads();
    return best;
}

/* Returns the best value of a row that ranks after `last` (position -1: the best of all); called by
 * a whole block. */
static __device__ struct place best_after(const float *x, int64_t n, struct place last,
                                          struct place *room)
{
    struct place mine = {0.0f, -1};

    for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
        if ((last.place < 0 || comes_before(last.value, last.place, x[j], j)) &&
            (mine.place < 0 || comes_before(x[j], j, mine.value, mine.place)))
            mine = {x[j], (int32_t)j};

    return block_best(mine, room);
}

/* ---- Counts per class ---- */

/* One block per row: finds the last of its top_k classes, one by one. */
static __global__ void find_last(struct sw_class_count_args a, struct place *last_predicted)
{
    __shared__ struct place room[SW_THREADS];

    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows), n = a.classes;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        struct place last = {0.0f, -1};
        for (int64_t k = 0; k < a.top_k && k < n; k++)
            last = best_after(a.x + r * n, n, last, room);
        if (threadIdx.x == 0)
            last_predicted[r] = {last.value, last.place};
    }
}

/* Does a row predict class c: among its top_k, or above the threshold? NaN is never predicted. */
static __device__ bool predicts(const struct sw_class_count_args &a,
                                const struct place *last_predicted, int64_t r, int64_t c)
{
    float x = a.x[r * a.classes + c];

    if (a.top_k == 0)
        return x > a.threshold;

    struct place last = last_predicted[r];
    return x == x && !comes_before(last.value, last.place, x, c);
}

/* One block per class; its threads divide the rows. */
static __global__ void count_classes(struct sw_class_count_args a,
                                     const struct place *last_predicted, uint64_t who,
                                     struct sw_cuda_trouble *trouble)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows), n = a.classes;
    const int64_t ignored = sw_labels_ignored(&a.labels);
    for (int64_t c = blockIdx.x; c < n; c += gridDim.x) {
        double hits = 0, predicted = 0, present = 0;

        for (int64_t r = threadIdx.x; r < valid; r += blockDim.x) {
            int64_t label = a.target ? 0 : a.labels.label[r];
            if (!a.target &&
                (label == ignored || !sw_label_fits(label, n == 1 ? 2 : n, r, who, trouble)))
                continue;

            /* With one column, label 1 is that column and 0 is none. */
            bool is_present =
                a.target ? a.target[r * n + c] > PRESENT_ABOVE : c == (n == 1 ? label - 1 : label);
            bool is_predicted = predicts(a, last_predicted, r, c);
            hits += is_present && is_predicted ? 1 : 0;
            predicted += is_predicted ? 1 : 0;
            present += is_present ? 1 : 0;
        }

        hits = sw_block_sum(hits, room);
        predicted = sw_block_sum(predicted, room);
        present = sw_block_sum(present, room);

        if (threadIdx.x == 0) {
            a.count[2 * c].sum = a.count[2 * c + 1].sum = hits;
            a.count[2 * c].weight = predicted;
            a.count[2 * c + 1].weight = present;
        }
    }
}

/* Returns the bytes for the last predicted position of each row. */
static size_t count_room(const void *args)
{
    return (size_t)((const struct sw_class_count_args *)args)->rows * sizeof(struct place);
}

static int launch_count(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_class_count_args *a = (const struct sw_class_count_args *)args;
    struct place *last = (struct place *)l->room;

    if (a->top_k > 0)
        SW_START(find_last, sw_blocks_of(a->rows, 65535), sw_threads_for(a->classes), l, *a, last);
    return SW_LAUNCH(count_classes, sw_blocks_of(a->classes, 65535), sw_threads_for(a->rows), l, *a,
                     (const struct place *)last, (uint64_t)(uintptr_t) "precision_recall",
                     l->trouble);
}

/* ---- Sorting ---- */

enum { SORTED = 2048 }; /* positions that a block can sort */

/* Sorts rows of up to SORTED columns, one block each, with Batcher's bitonic sort (1968). Positions
 * beyond the row come last. */
static __global__ void sort_rows(int64_t rows, int64_t columns, int64_t most, int size,
                                 const float *x, int32_t *place)
{
    __shared__ float value[SORTED];
    __shared__ int32_t from[SORTED];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        for (int i = threadIdx.x; i < size; i += blockDim.x) {
            value[i] = i < columns ? x[r * columns + i] : nanf("");
            from[i] = i;
        }

        __syncthreads();

        for (int run = 2; run <= size; run *= 2)
            for (int distance = run / 2; distance > 0; distance /= 2) {
                for (int i = threadIdx.x; i < size; i += blockDim.x) {
                    int j = i ^ distance;
                    bool ascends = (i & run) == 0;

                    if (j > i && comes_before(value[j], from[j], value[i], from[i]) == ascends) {
                        float v = value[i];
                        int32_t f = from[i];

                        value[i] = value[j];
                        from[i] = from[j];
                        value[j] = v;
                        from[j] = f;
                    }
                }

                __syncthreads();
            }

        for (int64_t k = threadIdx.x; k < most; k += blockDim.x)
            place[r * most + k] = from[k];
        __syncthreads();
    }
}

/* For longer rows: selects the best positions one by one. */
static __global__ void select_places(int64_t rows, int64_t columns, int64_t most, const float *x,
                                     int32_t *place)
{
    __shared__ struct place room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        struct place last = {0.0f, -1};

        for (int64_t k = 0; k < most; k++) {
            last = best_after(x + r * columns, columns, last, room);
            if (threadIdx.x == 0)
                place[r * most + k] = last.place;
        }
    }
}

static int launch_argsort(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_argsort_args *a = (const struct sw_argsort_args *)args;
    unsigned blocks = sw_blocks_of(a->rows, 65535);
    int size = 2;

    while (size < a->columns && size < SORTED)
        size *= 2;

    return a->columns <= SORTED ? SW_LAUNCH(sort_rows, blocks, sw_threads_for(size / 2), l, a->rows,
                                            a->columns, a->top_k, size, a->x, a->place)
                                : SW_LAUNCH(select_places, blocks, SW_THREADS, l, a->rows,
                                            a->columns, a->top_k, a->x, a->place);
}

SW_CUDA_KERNELS(classes) = {{{&sw_op_top_k, launch_top_k, NULL},
                             {&sw_op_class_count, launch_count, count_room},
                             {&sw_op_argsort, launch_argsort, NULL},
                             {}}};
