/* The plan of an all-reduce by the devices: with allreduce and `copy = none` the gradients of
 * several workers are reduced in buckets (exchange/reduce/buckets.h, exchange/reduce/allreduce.h)
 * while backward goes on, and never go through the host. The backend, the devices' library or
 * copies, is chosen once the devices are open; on several hosts it is the library or none, and the
 * hosts agree on it when they have met. Planned with the table, made before the workers' memory;
 * then frozen. */
#pragma once

#include "device/collective.h"
#include "exchange/reduce/allreduce.h"
#include "exchange/reduce/buckets.h"

enum sw_reducer { SW_REDUCER_SERVERS, SW_REDUCER_COPIES, SW_REDUCER_LIBRARY };

/* The members of a library's collective over several hosts. */
struct sw_sums_members {
    int all, first; /* 0: only those of this host */
    struct sw_collective_id id;
};

struct sw_sums {
    enum sw_reducer reducer;
    const struct sw_collective_ops *library; /* of a LIBRARY */
    char why[320];                           /* explanation for users; "": nothing to reduce */
    char refusal[200];                       /* on several hosts: why not by LIBRARY; "": see why */
    struct sw_sums_members over_hosts;
    struct sw_collective *members; /* owned, once made: of a LIBRARY */
    struct sw_bucket *buckets;     /* owned [count] */
    int64_t *elements;             /* owned [count] */
    int *order;                    /* owned [count]: in which they are reduced */
    int count;                     /* 0: servers reduce */
    int *bucket_of;                /* owned [parameters of the table]; -1: in no bucket */
    int64_t
        *at_of; /* owned [parameters of the table]: elements before the parameter in its bucket */
    struct sw_allreduce *all_reduce; /* owned, once memory is allocated */
    int first_ms;                    /* limit for devices to connect and make the first sum */
};
