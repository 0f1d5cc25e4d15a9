/* NCCL, the all-reduce backend for several GPUs: a separate module (device/module.h) next to the
 * CUDA device, since many machines with a GPU have no NCCL. Its table is one of collectives;
 * SINGA_NCCL_MODULE names another file than singa_nccl.so. It uses private structs of the CUDA
 * device, so both must come from the same build. Any thread. */
#pragma once

#include "device/collective.h"
#include "device/module.h"

/* Increased with every change of this table, of device/collective.h, or of the structs of devices
 * and streams that both modules use. */
enum { SW_NCCL_ABI = 6 };
#define SW_NCCL_TABLE_BYTES                                                                        \
    ((uint32_t)(sizeof(struct sw_nccl_module) + sizeof(struct sw_collective_ops) +                 \
                sizeof(struct sw_device_ops)))

struct sw_nccl_module {
    struct sw_module_head head;
    uint32_t private_bytes; /* size of the private structs of the CUDA device when this module was
                               built */
    const struct sw_collective_ops *collectives;
};

/* Errors say what is missing: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND. */
int sw_nccl_load(const struct sw_nccl_module **out, struct sw_err *err) SW_MUST_CHECK;
