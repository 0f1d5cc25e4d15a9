/* The PCIe tree of a machine as far as it matters here: GPUs, network cards, the host bridges they
 * hang under, and the bridges where the ways of two of them part. A GPU is a PCI display or 3D
 * device of vendor 10de; its number is its place in the order of bus ids, or on this machine in
 * CUDA_VISIBLE_DEVICES, which hides the others (and counts in that order under CUDA_DEVICE_ORDER =
 * PCI_BUS_ID). Part of the machine map, and frozen with it; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_machine;

enum sw_io_kind { SW_IO_HOST_BRIDGE, SW_IO_BRIDGE, SW_IO_GPU, SW_IO_NIC };

struct sw_io {
    enum sw_io_kind kind;
    int parent;           /* index in machine->io, lower than its own; -1: on the processors */
    int node;             /* index in machine->nodes: the only one that it is near to, or -1 */
    int package;          /* hwloc logical number of the package it hangs on, or -1 */
    int gpu;              /* number of a GPU, else -1 */
    char bus[20];         /* "0000:34:00.0"; of a host bridge its first bus, "0000:34" */
    char name[96];        /* model; of a network card its interfaces too: "eth0"; "" unknown */
    double link_gb_per_s; /* of the PCIe link upwards, one way; 0: unknown */
};

/* How one GPU reaches another, from near to far. */
enum sw_gpu_path {
    SW_PATH_SELF,
    SW_PATH_SWITCH,      /* both below one PCIe switch */
    SW_PATH_HOST_BRIDGE, /* below one host bridge */
    SW_PATH_PACKAGE,     /* on one package, below different host bridges */
    SW_PATH_ACROSS,      /* across packages */
};

/* Finds all of it in the topology, which was loaded with I/O. For the machine map itself. Errors:
 * SW_ERR_NOMEM. */
int sw_io_find(struct sw_machine *m, struct sw_err *err) SW_MUST_CHECK;

/* The entry of GPU `gpu`, 0 to m->gpu_count - 1. */
const struct sw_io *sw_machine_gpu(const struct sw_machine *m, int gpu);
enum sw_gpu_path sw_gpu_path(const struct sw_machine *m, int a, int b);
const char *sw_gpu_path_name(enum sw_gpu_path path); /* for programs: switch, host_bridge ... */
const char *sw_gpu_path_text(enum sw_gpu_path path); /* for people: "the same PCIe switch" */
/* Gigabytes a second over NVLink between two GPUs, one way; 0: there is none, -1: unknown. */
double sw_gpu_nvlink(const struct sw_machine *m, int a, int b);

/* What CUDA_VISIBLE_DEVICES (text; NULL: not set) leaves of `count` GPUs: their indices into out,
 * in its order; returns how many. uuid[i] ("GPU-...", "" unknown) may be named by a beginning. As
 * in CUDA, an item that names no GPU, or one again, ends the list. */
int sw_gpus_visible(const char *text, int count, const char *const *uuid, int *out);
