/* The interface to the module with the device `cuda` (device/module.h), which makes one package run
 * on machines with and without the NVIDIA driver. The module exports one table, sw_cuda_module, and
 * nothing else; this header is the whole interface. The module is singa_cuda.so; SINGA_CUDA_MODULE
 * names another file. Any thread. */
#pragma once

#include "device/driver.h"
#include "device/plan.h"

/* Increased with every change of what the two sides share: this table, device.h, plan.h, op.h or
 * the arguments of an operation. */
enum { SW_CUDA_ABI = 22 };
/* Detects most changes for which SW_CUDA_ABI was not increased. */
#define SW_CUDA_TABLE_BYTES                                                                        \
    ((uint32_t)(sizeof(struct sw_cuda_module) + sizeof(struct sw_device_ops) +                     \
                sizeof(struct sw_device) + sizeof(struct sw_plan_makers) +                         \
                sizeof(struct sw_plan)))

/* A GPU as the CUDA driver describes it. */
struct sw_cuda_gpu {
    char bus[20]; /* "0000:34:00.0" */
    char name[96];
    char uuid[44]; /* "GPU-6e2c0a3e-...", as nvidia-smi has it */
    int64_t memory_bytes;
    int major, minor; /* compute capability */
};

struct sw_cuda_module {
    uint32_t abi, table_bytes; /* always first */
    const char *libraries;     /* "CUDA 13.0, cuBLAS 13.1.0, cuDNN 9.19.0" */
    /* Stores the number of GPUs. Errors: SW_ERR_NOTFOUND (no GPU), SW_ERR_UNSUPPORTED (the driver
     * is too old). */
    int (*count)(int *out, struct sw_err *err);
    int (*describe)(int gpu, struct sw_cuda_gpu *out, struct sw_err *err);
    /* Opens GPU number `gpu` of the driver as a device called "cuda:INDEX". */
    int (*open)(int gpu, int index, enum sw_precision precision, struct sw_device **out,
                struct sw_err *err);
};

/* Loads the module and checks that there is a GPU. Errors say what is missing: SW_ERR_UNSUPPORTED,
 * SW_ERR_NOTFOUND. */
int sw_cuda_load(const struct sw_cuda_module **out, struct sw_err *err) SW_MUST_CHECK;

/* Whether two PCI addresses are the same; they may differ in leading zeros and case. */
bool sw_cuda_same_bus(const char *a, const char *b);

extern const struct sw_driver sw_driver_cuda;
