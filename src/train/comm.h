/* What was chosen of the ways in which gradients of fully-connected layers come together: comm.c,
 * whose functions are in choices.h. */
#pragma once

#include "base/json.h"
#include "train/comm_cost.h"

struct sw_factors;

/* How gradients of fully-connected layers come together. */
struct sw_comm_choice {
    const char *layer;       /* borrowed from the recipe */
    enum sw_comm_way way;    /* never AUTO */
    bool taken_up;           /* from the checkpoint that the run goes on from */
    double ms[SW_COMM_WAYS]; /* predicted, of a step; NaN: that way cannot be */
};

struct sw_comm_plan {
    struct sw_comm_choice *choices; /* owned: of `auto` */
    int count;
    struct sw_comm_link link;   /* with the choices so far */
    struct sw_factors *factors; /* owned: between devices, once there is memory; or NULL */
    bool failed;                /* there was no memory for a choice */
    struct sw_json *kept;       /* owned: choices of the checkpoint; NULL: there are none */
};
