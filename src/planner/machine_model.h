/* A machine as the planner sees it, real or imagined: devices that compute, and the links between
 * them as a tree of hubs (PCIe switches, host bridges, hosts, the network switch). Data goes from a
 * device up to the closest common hub and down again, and transfers that share a link share its
 * throughput; pairs of devices may also have a link of their own (NVLink). Frozen once made; any
 * thread reads it. A device with memory of its own has a hub of its own, whose link upwards is the
 * device's.
 *
 * A device is what one worker computes on: a GPU, or a set of cores. Workers on cores of one host
 * share its memory: nothing is sent between them. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* A figure and where it comes from: "given by --gflops", "measured 2026-11-28", "assumed". */
struct sw_figure {
    double value; /* 0: unknown */
    char source[64];
};

struct sw_device_model {
    char name[48]; /* "cuda:0", "cores 0-1"; with several hosts "b: cuda:0" */
    int hub;
    int host;
    bool host_memory;             /* it computes in the host's memory */
    int threads;                  /* math threads; 0: a GPU, or a simulated one */
    struct sw_figure flops_per_s; /* of matrix products */
    struct sw_figure bytes_per_s; /* of its memory, when it computes alone */
    double thread_bytes_per_s;    /* most that one of its threads moves; 0: no limit is known */
    int64_t memory_bytes;         /* of its own memory, or of its host's; 0: no limit is known */
};

/* A place where links meet, and its link upwards: the same throughput in both directions, at the
 * same time. */
struct sw_hub_model {
    char name[48]; /* "PCIe switch 0", "host b", "network" */
    int parent;    /* lower than its own index; -1: the root */
    int host;      /* -1: above all hosts; the number of hosts: server hosts, all in one hub */
    bool memory;   /* of a host: copies that do not go directly between devices stop here */
    struct sw_figure bytes_per_s; /* 0: no limit is known */
    double latency_s;             /* of a copy or message over it */
};

/* A link of two devices that leaves the hubs aside, in each direction. */
struct sw_pair_model {
    int a, b; /* devices, a < b */
    struct sw_figure bytes_per_s;
    double latency_s;
};

struct sw_machine_model {
    char name[96];                  /* "this machine", "4 hosts with 1 GPU each" */
    struct sw_device_model *device; /* owned; those of a host are neighbors */
    int device_count;
    struct sw_hub_model *hub; /* owned; 0 is the root */
    int hub_count;
    struct sw_pair_model *pair; /* owned; ascending a, then b */
    int pair_count;
    int hosts;
    /* Hosts with one server each and no workers, which get the gradients; 0: none. Together they
     * are host number `hosts`, whose link has the throughput of all of theirs, because every one
     * of them has an equal share of each parameter. The runtime has no such hosts. */
    int server_hosts;
    struct sw_figure core_flops_per_s, core_bytes_per_s; /* of one core of a host: for servers */
    int threads_per_worker; /* fewer than there are cores for each worker; 0: as many */
    int server_threads;     /* math threads of a host that its servers may use */
    /* Between devices of one host: do copies go directly, or through host memory (each byte twice)?
     */
    bool peers;
    /* Devices keep mirrors of parameters that servers update on the host, whatever the framework
     * is. They do not reach each other: factors go by way of the host's memory, too. */
    bool mirrors;
    double launch_s; /* time of a device to begin an operation; 0 on cores */
    double wake_s;   /* until a worker on cores goes on for which another one makes something */
};

enum { SW_MODEL_DEVICES = 1024, SW_MODEL_DEPTH = 8 /* hubs from a device's up to the root */ };

void sw_machine_model_free(struct sw_machine_model *m); /* NULL is accepted; frees m itself */

/* ---- Paths ---- */

enum { SW_PATH_LINKS = 16 };

/* The links that data crosses from one device to another: hub h upwards is link 2 h, downwards
 * 2 h + 1; pair p from a to b is link 2 hub_count + 2 p, from b to a one more. Pairs come first.
 *
 * Without `peers` data between two devices of a host goes to the closest common hub with memory,
 * and from there in a second copy, which begins when the first has ended: `stop` says how many
 * links the first one crosses. */
struct sw_model_path {
    int link[SW_PATH_LINKS];
    int count;          /* 0: both compute in the same memory */
    int stop;           /* count: one copy */
    double bytes_per_s; /* of the slowest link; of two copies together, one after the other */
    double latency_s;   /* the largest of a copy's links; of two copies the sum */
};
struct sw_model_path sw_machine_model_path(const struct sw_machine_model *m, int from, int to);
/* By way of the host's memory, whatever links the devices have, as activations go, and factors of
 * devices with mirrors. */
struct sw_model_path sw_machine_model_staged_path(const struct sw_machine_model *m, int from,
                                                  int to);
/* Between a device and the memory of a host, as servers use it: of its own host the closest one. */
struct sw_model_path sw_machine_model_to_host(const struct sw_machine_model *m, int device,
                                              int host);
struct sw_model_path sw_machine_model_from_host(const struct sw_machine_model *m, int host,
                                                int device);
int sw_machine_model_links(const struct sw_machine_model *m); /* number of links */
/* Throughput (INFINITY: unknown) and latency of a link, and its name for users ("host b, sending").
 */
double sw_machine_model_rate(const struct sw_machine_model *m, int link);
double sw_machine_model_latency(const struct sw_machine_model *m, int link);
const char *sw_machine_model_link_name(const struct sw_machine_model *m, int link, char out[80]);
