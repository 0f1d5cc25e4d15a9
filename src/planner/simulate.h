/* Simulates the steps of a parallel plan on a virtual clock, by the rules of the runtime: a worker
 * runs the net's layers forward and backward in order; the gradient of a layer is sent the moment
 * it exists (or after the last one, with overlap = no), by priority (the parameters that the next
 * forward pass needs first go first) and in chunks, so that an urgent one waits for one chunk at
 * most, but copies of devices in the order of their queues; links are shared by the transfers that
 * cross them; servers take messages in order, sum, update and answer; asynchronous groups go on
 * within their bound of staleness, by way of servers or of factors that go to all devices (sfb).
 * Devices may be slow, links may be slow, a host may be lost. Deterministic by seed; any thread.
 *
 * Workers are simulated one by one; a collective operation is one transfer, which begins when its
 * last member is ready. The cost of a pass comes from sw_cost_pass, so that one worker takes
 * exactly the sum of its layers and the rest of a step. Server groups of hogwild merge their values
 * in time of the servers; that the deltas travel delays nobody and is not simulated. Not simulated
 * either: buckets of small gradients; and that a device receives the factors of two other groups at
 * once, which here come one after the other. */
#pragma once

#include "planner/cost.h"

enum { SW_SIMULATION_STEPS = 8, SW_SIMULATION_MOST_STEPS = 100000 };

/* Something that is slower than the model says. */
struct sw_slowdown {
    int device, link; /* the other one is -1; a link is one of sw_machine_model_path */
    double factor;    /* at least 1 */
};

struct sw_simulation_args {
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_parallel_plan *plan;
    int steps;        /* of every group, at least 2; 0: SW_SIMULATION_STEPS, or fewer of very many
                         asynchronous groups */
    bool no_overlap;  /* gradients are exchanged after the whole backward pass */
    double bandwidth; /* most bytes per second that a host or device sends; 0: no limit */
    double jitter;    /* relative standard deviation of a worker's passes; 0: none */
    uint64_t seed;    /* of the jitter */
    const struct sw_slowdown *slow;
    int slow_count;
    int lost_host;   /* -1: none */
    int64_t lost_at; /* the step, from 1, that it does not do any more */
};

struct sw_simulation {
    /* Of a step, the mean after the first one: of the busiest worker, or of the slowest one of
     * asynchronous groups. All 0 if there was no second step. */
    struct sw_plan_time time;
    double samples_per_s; /* of all groups that are not lost */
    double wait_share;    /* part of the workers' time in which they wait */
    int moves;            /* connections between layers by which activations move */
    /* Of the values that asynchronous groups get: updates of the group less those of the slowest
     * one. */
    double mean_staleness;
    int64_t most_staleness;
    int64_t steps_done; /* of the slowest group: fewer than asked when a host was lost */
    /* Share of the time in which a link is busy; owned [sw_machine_model_links]. */
    double *busy;
    /* Waiting for a layer's parameters or sources, per step of a worker; owned [layers]. */
    double *layer_wait_s;
};

/* Errors: SW_ERR_NOMEM; SW_ERR_INVALID (a slowdown below 1 or not a number, no such device, link,
 * host or location). Free with sw_simulation_fini in every case. */
int sw_simulate(const struct sw_simulation_args *args, struct sw_simulation *out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_simulation_fini(struct sw_simulation *s); /* a zeroed one is accepted */
