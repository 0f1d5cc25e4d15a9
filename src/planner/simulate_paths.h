/* The links that the transfers of a simulation cross: those of collective operations as one
 * transfer each, since their members send equal amounts at the same time. One thread. */
#pragma once

#include "planner/machine_model.h"
#include "planner/simulate_links.h"

/* Workers first, first + stride, ... */
struct sw_plansim_members {
    int first, stride, count;
};

/* What moves, and its unit. */
enum sw_plansim_path_kind {
    SW_PLANSIM_EXCHANGE,  /* from every member to every other; what one sends to another */
    SW_PLANSIM_SPREAD,    /* from one worker to every other member; what each gets */
    SW_PLANSIM_COLLECT,   /* the opposite */
    SW_PLANSIM_ALLREDUCE, /* reduce-scatter and all-gather by direct exchange, first inside hosts,
                         then between them; the array */
    SW_PLANSIM_FACTORS,   /* to every member, to other hosts once; what each member has */
    SW_PLANSIM_FACTORS_TO_ALL, /* to every other worker of the host; likewise */
    SW_PLANSIM_PUSH, /* to the servers of a host. Devices send a whole unit each, workers in the
                    memory of another host together */
    SW_PLANSIM_PULL, /* the opposite */
};

struct sw_plansim_paths {
    const struct sw_machine_model *machine; /* borrowed */
    const double *capacity;                 /* borrowed [links]: bytes per second, or INFINITY */
    struct sw_plansim_known_path **known;   /* owned [workers]: lists, by the first member */
    int workers;
    double *bytes[2]; /* owned [links]: scratch: of a path's first copies, and of those that follow
                         them */
    int *touched;     /* owned [links] */
    int touched_count;
    int *together; /* owned [workers]: of a path's members, how many are on a member's host */
};

/* Worker w computes on device w. Free with sw_plansim_paths_fini in every case. Errors:
 * SW_ERR_NOMEM.
 */
int sw_plansim_paths_init(struct sw_plansim_paths *p, const struct sw_machine_model *machine,
                          const double *capacity, int workers, struct sw_err *err) SW_MUST_CHECK;
void sw_plansim_paths_fini(struct sw_plansim_paths *p);
/* at: the worker of SPREAD and COLLECT, the host of PUSH and PULL; else 0. Errors: SW_ERR_NOMEM. */
int sw_plansim_paths_get(struct sw_plansim_paths *p, enum sw_plansim_path_kind kind,
                         struct sw_plansim_members members, int at,
                         const struct sw_plansim_path **out, struct sw_err *err) SW_MUST_CHECK;
