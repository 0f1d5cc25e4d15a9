/* The GPUs of the machine map against those that NVIDIA's driver lets this process use. Containers
 * hide the one from the other in both directions: PCI shows GPUs that were not handed in, or shows
 * none of those that were. Called once, before anybody else reads the map. */
#ifndef SW_CLUSTER_DRIVER_H
#define SW_CLUSTER_DRIVER_H

#include "cluster/machine.h"

/* Asks the driver, and matches the map with its answer. Errors: those of sw_cuda_load
 * (device/cuda/cuda_module.h), SW_ERR_NOMEM. */
int sw_machine_ask_driver(struct sw_machine *m, struct sw_err *err) SW_MUST_CHECK;

/* What the driver says of a GPU. */
struct sw_driver_gpu {
    char bus[20]; /* "0000:34:00.0" */
    char name[96];
};
/* GPUs of the map that are not in the list are hidden, and numbers close up; those of the list that
 * the map lacks follow, near to no node. */
int sw_machine_match_gpus(struct sw_machine *m, const struct sw_driver_gpu *list, int count,
                          struct sw_err *err) SW_MUST_CHECK;

#endif
