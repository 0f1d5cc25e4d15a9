/* The clock operation of GPUs: a nanosecond counter that all multiprocessors share. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/clock.h"

static __global__ void read_clock(int64_t *ns)
{
    *ns = sw_clock_ns();
}

static int launch_clock(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_clock_args *a = (const struct sw_clock_args *)args;
    return SW_LAUNCH(read_clock, 1, 1, l, a->ns);
}

SW_CUDA_KERNELS(clock) = {{{&sw_op_clock, launch_clock, NULL}, {}}};
