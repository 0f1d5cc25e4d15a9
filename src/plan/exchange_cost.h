/* Cost model of the exchange modes of a fully-connected layer's gradients (parallel training,
 * section 5; Poseidon 4.3.2 chooses by floats alone): the time that a mode adds to a step, from the
 * bandwidth of links and memory, the throughput of matrix products, and the computing that overlaps
 * with the exchange.
 *
 * All layers share a worker's link and the overlapping computing. The top layer's gradient is ready
 * first, so the exchange ends max over k of (S(k) - W(k)) after the computing, where S(k) is the
 * link time of layer k and all layers above it, and W(k) the computing time below k. Layers are
 * evaluated from the bottom up, and the cost of one is how much later the step ends than without
 * it. sw_exchange_cost is pure. */
#pragma once

#include "base/exchange_mode.h"
#include <stdbool.h>
#include <stdint.h>

/* Approximate throughput of this machine, for choices of `auto`. */
struct sw_throughputs {
    bool known, measured; /* measured: by this process, and not saved yet */
    double worker_flops_per_s, server_flops_per_s; /* of matrix products */
    double memory_bytes_per_s;                     /* of host memory, for one worker or server */
    double device_memory_bytes_per_s;              /* of a GPU's memory; 0: unknown */
    double link_bytes_per_s;                       /* of a device, in each direction; 0: none */
    double measured_at;                            /* Unix time; 0: unknown */
    double wake_s; /* until a thread goes on that another one wakes; 0: unknown */
    double copy_s; /* of a small copy to a device, in a row of such copies; 0: unknown */
};

/* What all hosts of a job take for the speed of each, so that they choose alike. */
struct sw_host_rates {
    double link_bytes_per_s;   /* of the slowest link between two hosts, in each direction */
    double flops_per_s;        /* of matrix products, by all workers of the slowest host */
    double memory_bytes_per_s; /* of a host's memory, for one worker */
    char source[256];          /* "measured, from a to b" */
};

/* For hosts whose rates nobody measured (usual_rates.h): a network of 1 Gbit/s, and a host of a few
 * cores. */
extern const struct sw_host_rates sw_usual_host_rates;

/* Use of a worker's link in a step by the layers evaluated so far. */
struct sw_exchange_link {
    double busy_s;    /* time to move their bytes */
    double exposed_s; /* time by which the exchange ends after the computing */
    int64_t whole;    /* parameters of layers that exchange whole gradients */
};

struct sw_exchange_cost_args {
    int workers, servers;
    int hosts;   /* above 1: the workers are hosts, and the link is their network; 0: one host */
    double rows; /* of the whole batch, of factors */
    double inputs, outputs;
    bool devices; /* workers have memory of their own */
    bool reduces; /* and devices reduce whole gradients without servers */
    bool peers;   /* bytes go directly between devices, else through the host */
    double flops_per_s, server_flops_per_s; /* of matrix products, by a worker and by a server */
    double memory_bytes_per_s;              /* of host memory, for a worker or server */
    double link_bytes_per_s;                /* of a device, in each direction */
    double hidden_s;                        /* computing time that overlaps with the exchange */
    struct sw_exchange_link link;           /* use by the layers below */
    int64_t others;                         /* parameters of layers below that were not evaluated */
};

struct sw_exchange_price {
    double ms[SW_EXCHANGE_MODES];                    /* time that the exchange adds to a step */
    struct sw_exchange_link link[SW_EXCHANGE_MODES]; /* use including this layer, for each mode */
};
void sw_exchange_cost(const struct sw_exchange_cost_args *t, struct sw_exchange_price *out);

/* Elements that a layer's gradients (with a bias) and new values move between memories in a step,
 * and the count of the papers (Poseidon 4.3: whole matrices in both directions; a worker's own
 * factors (K-1)^2 times). t->servers: number of servers that own a shard of the layer. */
struct sw_exchange_count {
    int64_t moved, counted;
};
struct sw_exchange_count sw_exchange_count(enum sw_exchange_mode mode,
                                           const struct sw_exchange_cost_args *t, int64_t params);
