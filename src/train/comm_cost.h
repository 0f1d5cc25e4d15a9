/* What the ways in which a fully-connected layer's gradients can come together cost a step
 * (parallel training, section 5; Poseidon 4.3.2 chooses by floats alone): time by the bandwidth of
 * links, the rates of matrix products and of memory, and what else is computed meanwhile.
 * Estimates: each layer is looked at as if it had the links to itself. sw_comm_cost is pure. */
#ifndef SW_TRAIN_COMM_COST_H
#define SW_TRAIN_COMM_COST_H

#include "base/comm_way.h"
#include "net/net.h"

struct sw_job;

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
};

/* ms[way]: what a step takes longer for the layer's gradient than if that were there for nothing.
 */
void sw_comm_cost(const struct sw_comm_terms *t, double ms[SW_COMM_WAYS]);

/* The same for a layer of a job, with the rates of the machine (rates.c). */
void sw_comm_predict(struct sw_job *job, const struct sw_net_comm_layer *l,
                     double ms[SW_COMM_WAYS]);

/* Values that a layer's gradients (with a bias) and new values move between memories in a step, and
 * what the papers count (Poseidon 4.3: whole matrices both ways; of factors a worker's own part
 * (K-1)^2 times). servers: that have a part of the layer. */
struct sw_comm_count {
    int64_t moved, counted;
};
struct sw_comm_count sw_comm_count(enum sw_comm_way way, const struct sw_comm_terms *t,
                                   int64_t params);

#endif
