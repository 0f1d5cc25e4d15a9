/* The part of the PCIe tree that matters for training: GPUs, network cards, their host bridges, and
 * the bridges below which the paths of two devices branch. A GPU is a PCI display or 3D device of
 * vendor 10de. GPUs are numbered by bus id, or on this machine in the order of
 * CUDA_VISIBLE_DEVICES, which hides the others (its numbers follow bus ids with CUDA_DEVICE_ORDER =
 * PCI_BUS_ID). The tree is part of the machine map and frozen with it; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_machine;

enum sw_io_kind { SW_IO_HOST_BRIDGE, SW_IO_BRIDGE, SW_IO_GPU, SW_IO_NIC };

struct sw_io {
    enum sw_io_kind kind;
    int parent;    /* index in machine->io, lower than its own; -1: attached to the processors */
    int node;      /* index in machine->nodes of the only local node, or -1 */
    int package;   /* hwloc logical number of its package, or -1 */
    int gpu;       /* number of a GPU, else -1 */
    char bus[20];  /* "0000:34:00.0"; of a host bridge its first bus, "0000:34" */
    char name[96]; /* model; of a network card its interfaces, too: "eth0"; "": unknown */
    double link_gb_per_s; /* of the PCIe link upwards, one way; 0: unknown */
};

/* The closest common ancestor of two GPUs, from near to far. */
enum sw_gpu_path {
    SW_PATH_SELF,
    SW_PATH_SWITCH,      /* below the same PCIe switch */
    SW_PATH_HOST_BRIDGE, /* below the same host bridge */
    SW_PATH_PACKAGE,     /* in the same package, below different host bridges */
    SW_PATH_ACROSS,      /* in different packages */
};

/* Fills m->io, m->gpus and m->nvlinks from m->topology, which was loaded with I/O devices. Called
 * by machine.c. Errors: SW_ERR_NOMEM. */
int sw_io_find(struct sw_machine *m, struct sw_err *err) SW_MUST_CHECK;

/* The entry of GPU `gpu`, 0 to m->gpu_count - 1. */
const struct sw_io *sw_machine_gpu(const struct sw_machine *m, int gpu);
enum sw_gpu_path sw_gpu_path(const struct sw_machine *m, int a, int b);
const char *sw_gpu_path_name(enum sw_gpu_path path); /* in JSON: switch, host_bridge, ... */
const char *sw_gpu_path_text(enum sw_gpu_path path); /* in messages: "the same PCIe switch" */
/* NVLink bandwidth between two GPUs in GB/s per direction; 0: no NVLink, -1: unknown. */
double sw_gpu_nvlink(const struct sw_machine *m, int a, int b);

/* Applies CUDA_VISIBLE_DEVICES (text; NULL: not set) to `count` GPUs: writes the indices of the
 * visible ones to out, in its order, and returns their number. A prefix of uuid[i] ("GPU-...", "":
 * unknown) selects that GPU. As in CUDA, an item that matches no GPU, or one already listed, ends
 * the list. */
int sw_gpus_visible(const char *text, int count, const char *const *uuid, int *out);
