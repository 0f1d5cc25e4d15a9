/* Common parts of the tests of the cuda device: opens a GPU, or prints why there is none.
 * SINGA_CUDA_MODULE may name the module with kernels on the host (tests/cuda_on_host). */
#pragma once

#include "device/cuda/cuda_module.h"
#include "device_support.h"

enum { SKIPPED = 77 }; /* exit status of a test program that was skipped */

/* Opens GPU `index`; returns NULL and prints the reason if there is none. */
static inline struct sw_device *open_gpu_as(int index, enum sw_precision precision)
{
    struct sw_device *dev = NULL;
    struct sw_err err = {0};
    const struct sw_device_args args = {.index = index, .precision = precision};
    if (sw_driver_cuda.open(&args, &dev, &err) == SW_OK)
        return dev;
    print_message("skipped: %s\n", err.text);
    return NULL;
}

static inline struct sw_device *open_gpu(int index)
{
    return open_gpu_as(index, SW_PRECISION_FP32);
}

/* For main: whether there is a GPU to test on. */
static inline bool has_gpu(void)
{
    struct sw_device *dev = open_gpu(0);
    sw_device_close(dev);
    return dev;
}
