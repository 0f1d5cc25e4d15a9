/* What the ways in which a fully-connected layer's gradients can come together cost a step
 * (parallel training, section 5; Poseidon 4.3.2 chooses by floats alone): time by the bandwidth of
 * links, the rates of matrix products and of memory, and what else is computed meanwhile.
 *
 * All layers share a worker's link and what is computed meanwhile. The top layer's gradient is
 * there first, so a layer's bytes are through when all from there down are: behind the end of the
 * computing by S(k) - W(k) of whichever layer k makes that the most, where S(k) is what the layers
 * up to k take on the link and W(k) what is computed below k. Layers are asked from the bottom up,
 * and the price of one is how much later the step ends than without it. sw_comm_cost is pure. */
#pragma once

#include "base/comm_way.h"
#include <stdbool.h>
#include <stdint.h>

/* How fast this machine is, roughly, for what `auto` weighs. */
struct sw_rates {
    bool known, measured;                          /* measured: just now, and not kept yet */
    double worker_flops_per_s, server_flops_per_s; /* of matrix products */
    double memory_bytes_per_s;                     /* of the host's memory, for one of those */
    double device_memory_bytes_per_s;              /* of a GPU's own; 0: not known */
    double link_bytes_per_s;                       /* of a device, in each direction; 0: none */
};

/* A worker's link in a step, with the layers that have been asked so far. */
struct sw_comm_link {
    double busy_s;    /* their bytes */
    double exposed_s; /* by which the step ends later than its computing */
    int64_t whole;    /* parameters of those that give whole gradients */
};

struct sw_comm_terms {
    int workers, servers;
    double rows; /* of the whole batch, of factors */
    double inputs, outputs;
    bool devices; /* workers have memory of their own */
    bool reduces; /* and add up whole gradients by themselves */
    bool peers;   /* bytes go straight from one to another, else by way of the host */
    double flops_per_s, server_flops_per_s; /* of products, by a worker and by a server */
    double memory_bytes_per_s;              /* of the host's memory, for a worker or server */
    double link_bytes_per_s;                /* of a device, in each direction */
    double hidden_s;                        /* what a worker computes while gradients travel */
    struct sw_comm_link link;               /* with the layers below */
    int64_t others;                         /* parameters of layers below that were not asked */
};

struct sw_comm_price {
    double ms[SW_COMM_WAYS]; /* by which a step is longer than if the gradient were there for
                                nothing */
    struct sw_comm_link link[SW_COMM_WAYS]; /* with this layer, by its way */
};
void sw_comm_cost(const struct sw_comm_terms *t, struct sw_comm_price *out);

/* Values that a layer's gradients (with a bias) and new values move between memories in a step, and
 * what the papers count (Poseidon 4.3: whole matrices both ways; of factors a worker's own part
 * (K-1)^2 times). servers: that have a part of the layer. */
struct sw_comm_count {
    int64_t moved, counted;
};
struct sw_comm_count sw_comm_count(enum sw_comm_way way, const struct sw_comm_terms *t,
                                   int64_t params);
