/* Updaters: the formulas of kernels/updaters. A thread block updates a chunk of one parameter, four
 * elements per thread with reads and writes of 16 bytes. Compiled without fused multiply-add, so
 * that parameters have the same bits as on the CPU. Every formula has a row in the table at the
 * end. */
#include "kernels/cuda/params.cuh"
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

struct alignas(16) four {
    float v[4];
};

static __device__ __forceinline__ float clipped(float g, float limit)
{
    return !(limit > 0) ? g : g < -limit ? -limit : g > limit ? limit : g;
}

/* What all elements of a parameter share. */
template <typename K> struct each_element {
    K constants;
    float scale, clip;
    bool has_s0, has_s1;
};

/* Updates one element; returns true if something is not finite. */
template <sw_formula formula, typename K>
static __device__ __forceinline__ bool step(const each_element<K> &k, float g, float &w, float &s0,
                                            float &s1)
{
    const struct sw_element old = {w, s0, s1};
    const struct sw_element e = formula(&k.constants, old, k.scale * clipped(g, k.clip));

    w = e.w;
    s0 = e.s0;
    s1 = e.s1;
    return (sw_non_finite(g) | sw_non_finite(w) | (k.has_s0 ? sw_non_finite(s0) : 0) |
            (k.has_s1 ? sw_non_finite(s1) : 0)) != 0;
}

/* n elements from `first` on. */
template <sw_formula formula, typename K>
static __device__ bool step_all(const struct sw_update_op_args &a, const each_element<K> &k,
                                int64_t first, int n)
{
    float *w = a.value + first, *s0 = k.has_s0 ? a.slot[0] + first : NULL,
          *s1 = k.has_s1 ? a.slot[1] + first : NULL;
    const float *g = a.gradient + first;
    bool fits = ((uintptr_t)w | (uintptr_t)s0 | (uintptr_t)s1 | (uintptr_t)g) % sizeof(four) == 0;
    int whole = fits ? n / 4 : 0;
    bool bad = false;

    for (int i = (int)threadIdx.x; i < whole; i += SW_THREADS) {
        const four gs = ((const four *)g)[i], zero = {{0, 0, 0, 0}};
        four ws = ((four *)w)[i], s0s = s0 ? ((four *)s0)[i] : zero,
             s1s = s1 ? ((four *)s1)[i] : zero;

        for (int j = 0; j < 4; j++)
            bad |= step<formula>(k, gs.v[j], ws.v[j], s0s.v[j], s1s.v[j]);

        ((four *)w)[i] = ws;
        if (s0)
            ((four *)s0)[i] = s0s;
        if (s1)
            ((four *)s1)[i] = s1s;
    }

    for (int i = 4 * whole + (int)threadIdx.x; i < n; i += SW_THREADS) {
        float v0 = s0 ? s0[i] : 0, v1 = s1 ? s1[i] : 0;

        bad |= step<formula>(k, g[i], w[i], v0, v1);
        if (s0)
            s0[i] = v0;
        if (s1)
            s1[i] = v1;
    }

    return bad;
}

template <sw_formula formula, typename K> static __global__ void update(struct sw_update_op_args a)
{
    if (a.control && a.control->dropped)
        return;

    const int param = sw_find_param(a.numbers, a.params);
    const struct sw_update_numbers *n = &a.numbers[param];
    const K *constants = (const K *)(const void *)n->constants;
    const each_element<K> k = {*constants, a.control ? a.control->scale : n->gradient_scale,
                               a.control ? a.clip_value * (float)a.control->loss_scale
                                         : a.clip_value,
                               a.slot[0] != NULL, a.slot[1] != NULL};
    const int64_t from = ((int64_t)blockIdx.x - n->first_chunk) * SW_UPDATE_CHUNK,
                  left = n->count - from;

    if (step_all<formula>(a, k, n->first + from,
                          left < SW_UPDATE_CHUNK ? (int)left : SW_UPDATE_CHUNK))
        a.non_finite[param] = true; /* all threads that write it store the same value */
}

template <sw_formula formula, typename K>
static void start(const struct sw_update_op_args *a, const struct sw_cuda_launch *l)
{
    SW_START((update<formula, K>), (unsigned)a->chunks, SW_THREADS, l, *a);
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
    if (a->chunks == 0)
        return (int)cudaSuccess;

    f->start(a, l);
    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(update) = {{{&sw_op_update, launch_update, NULL}, {}}};
