/* A worker's curves and links in the history. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* Handles of links in the history, of a worker. */
struct sw_worker_links {
    int *to_server;   /* owned [servers of the table]: links for gradients */
    int *from_server; /* owned [servers of the table]: links for values, where they are copied */
    int *sync; /* owned [servers]: links to servers of other groups; only of the server group's
                  first worker */
    int64_t *sync_recorded_bytes; /* owned [servers]: bytes recorded so far */
    int *sums;                    /* owned [workers]: links of the all-reduce; NULL: none */
    int *factors;     /* owned [workers]: links for factors; NULL: they are not exchanged */
    int *activations; /* owned [group size]: links for activations; -1: nothing is sent */
    int64_t *activations_recorded_ns; /* owned [group size]: nanoseconds recorded so far */
};

/* Creates the handles of curves and links, after the history is open. */
int sw_worker_open_history(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
