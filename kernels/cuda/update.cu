/* Updaters: the formulas of kernels/updaters, one element per thread. Compiled without fused
 * multiply-add, so that parameters have the same bits as on the CPU. Every formula has a row in the
 * table at the end. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/update.h"
#include "kernels/updaters/adadelta.h"
#include "kernels/updaters/adagrad.h"
#include "kernels/updaters/adamax.h"
#include "kernels/updaters/adamw.h"
#include "kernels/updaters/finite.h"
#include "kernels/updaters/nesterov.h"
#include "kernels/updaters/rmsprop.h"
#include "kernels/updaters/sgd.h"
#include <string.h>

static __device__ __forceinline__ float clipped(float g, float limit)
{
    return !(limit > 0) ? g : g < -limit ? -limit : g > limit ? limit : g;
}

template <sw_formula formula, typename K> static __global__ void update(struct sw_update_op_args a)
{
    const K *there = (const K *)(const void *)a.numbers->constants;
    const K constants = *there;
    const float scale = a.control ? a.control->scale : a.numbers->gradient_scale;
    const float clip = a.control ? a.clip_value * (float)a.control->loss_scale : a.clip_value;

    if (a.control && a.control->dropped)
        return;

    for (int64_t i = sw_first(); i < a.count; i += sw_stride()) {
        float g = a.gradient[i];
        struct sw_element e = {a.value[i], a.slot[0] ? a.slot[0][i] : 0.0f,
                               a.slot[1] ? a.slot[1][i] : 0.0f};

        e = formula(&constants, e, scale * clipped(g, clip));

        uint32_t bad = sw_non_finite(g) | sw_non_finite(e.w);

        a.value[i] = e.w;
        if (a.slot[0]) {
            a.slot[0][i] = e.s0;
            bad |= sw_non_finite(e.s0);
        }

        if (a.slot[1]) {
            a.slot[1][i] = e.s1;
            bad |= sw_non_finite(e.s1);
        }

        if (bad)
            *a.non_finite = true; /* all threads that write it store the same value */
    }
}

template <sw_formula formula, typename K>
static void start(const struct sw_update_op_args *a, const struct sw_cuda_launch *l)
{
    SW_START((update<formula, K>), sw_blocks_for(a->count, l), SW_THREADS, l, *a);
}

struct formula {
    const char *name;
    size_t constants_bytes;
    void (*start)(const struct sw_update_op_args *a, const struct sw_cuda_launch *l);
};

static const struct formula formulas[] = {
    {"sgd_plain", sizeof(struct sw_sgd), start<sw_sgd_plain, struct sw_sgd>},
    {"sgd_momentum", sizeof(struct sw_sgd), start<sw_sgd_momentum, struct sw_sgd>},
    {"nesterov", sizeof(struct sw_nesterov), start<sw_nesterov_step, struct sw_nesterov>},
    {"adagrad", sizeof(struct sw_adagrad), start<sw_adagrad_step, struct sw_adagrad>},
    {"rmsprop", sizeof(struct sw_rmsprop), start<sw_rmsprop_step, struct sw_rmsprop>},
    {"adadelta", sizeof(struct sw_adadelta), start<sw_adadelta_step, struct sw_adadelta>},
    {"adam", sizeof(struct sw_adam), start<sw_adam_step, struct sw_adam>},
    {"adamw", sizeof(struct sw_adam), start<sw_adamw_step, struct sw_adam>},
    {"adamax", sizeof(struct sw_adamax), start<sw_adamax_step, struct sw_adamax>},
};

static const struct formula *find(const char *name, size_t constants_bytes)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (strcmp(formulas[i].name, name) == 0 && formulas[i].constants_bytes == constants_bytes)
            return &formulas[i];
    return NULL;
}

static int launch_update(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_update_op_args *a = (const struct sw_update_op_args *)args;
    const struct formula *f = find(a->formula->name, a->formula->constants_bytes);
    if (!f)
        return SW_CUDA_NO_KERNEL;

    f->start(a, l);
    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(update) = {{{&sw_op_update, launch_update, NULL}, {}}};
