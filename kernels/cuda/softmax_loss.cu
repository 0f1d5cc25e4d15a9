/* Softmax with cross-entropy by a label; formulas in kernels/cpu/softmax_loss.c. One block per
 * row. */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/ops/softmax_loss.h"

/* prob may be x: the score at the label is read before the first element is written. */
static __global__ void forward(struct sw_softmax_loss_args a, uint64_t who, double *part,
                               struct sw_cuda_trouble *trouble)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];

    int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows), n = a.classes;
    const int64_t ignored = sw_labels_ignored(&a.labels);
    double loss = 0, counted = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        const float *x = a.x + r * n;
        float *y = a.prob + r * n, m;
        int64_t label = a.labels.label[r];
        bool counts = label != ignored && sw_label_fits(label, n, r, who, trouble);
        float at_label = counts ? x[label] : 0.0f;

        double sum = sw_block_exp(x, n, y, &m, most, room);

        float scale = (float)(1.0 / sum);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            y[i] *= scale;
        loss += counts ? log(sum) - ((double)at_label - (double)m) : 0;
        counted += counts ? 1 : 0;
    }

    sw_store_partial(part, loss, counted);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_loss_args *a = (const struct sw_softmax_loss_args *)args;
    unsigned blocks = sw_sum_blocks(a->rows);

    SW_START(forward, blocks, sw_threads_for(a->classes), l, *a,
             (uint64_t)(uintptr_t)sw_op_softmax_loss.name, l->partials, l->trouble);
    return SW_LAUNCH(sw_add_row_partials, 1, SW_THREADS, l, l->partials, blocks, a->weight,
                     a->result);
}

static __global__ void backward(struct sw_softmax_gradient_args a, unsigned wide)
{
    int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows), n = a.classes;
    const int64_t ignored = sw_labels_ignored(&a.labels);
    const float scale = sw_softmax_gradient_scale(&a);
    const struct sw_row_walk w = sw_walk_rows(wide);

    for (int64_t r = w.row; r < a.rows; r += w.row_step) {
        const int64_t label = r < valid ? a.labels.label[r] : ignored;
        const bool counts = r < valid && label != ignored;
        const float *prob = a.prob + r * n;
        float *dx = a.dx + r * n;

        for (int64_t i = w.column; i < n; i += wide)
            dx[i] = counts ? scale * (prob[i] - (label == i ? 1.0f : 0.0f)) : 0.0f;
    }
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_gradient_args *a = (const struct sw_softmax_gradient_args *)args;
    const unsigned wide = sw_threads_for(a->classes);

    return SW_LAUNCH(backward, sw_walk_blocks(a->rows, wide, l), SW_THREADS, l, *a, wide);
}

SW_CUDA_KERNELS(softmax_loss) = {{{&sw_op_softmax_loss, launch_forward, NULL},
                                  {&sw_op_softmax_loss_gradient, launch_backward, NULL},
                                  {}}};
