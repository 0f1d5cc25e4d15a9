/* A worker's curves and links in the history. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* Handles of links in the history, of a worker. */
struct sw_worker_links {
    int *to_server;            /* owned [servers of the table]: gradients to each */
    int *from_server;          /* owned, likewise: values from it, where they have to move */
    int *sync;                 /* owned [servers]: to those of other groups; of the group's first */
    int64_t *sync_told;        /* owned, likewise: bytes that are recorded */
    int *sums;                 /* owned [workers]: gradients to each; NULL: no worker sums */
    int *factors;              /* owned [workers]: factors to each; NULL: they are not exchanged */
    int *activations;          /* owned [group size]: to each; -1: nothing goes there */
    int64_t *activations_told; /* owned, likewise: nanoseconds that are recorded */
};

/* Handles of curves and links, once the history is open. */
int sw_worker_open_history(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
