#include "kernels/cpu/hogwild.h"

#include "kernels/cpu/kernel.h"

__attribute__((no_sanitize("thread"))) SW_KERNEL void sw_hogwild_add(float *shared, const float *to,
                                                                     const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        shared[i] += from ? to[i] - from[i] : to[i];
}
