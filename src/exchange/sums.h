/* Sums of gradients by the devices themselves: with allreduce and `copy = none`, what several
 * workers push is added up in buckets (exchange/reduce/buckets.h, exchange/reduce/allreduce.h)
 * while backward goes on, and never comes to the host: by the devices' library or by copies, which
 * is chosen once they are open. Planned with the table, made before the workers' memory; frozen. */
#pragma once

#include "device/collective.h"
#include "exchange/reduce/allreduce.h"
#include "exchange/reduce/buckets.h"

enum sw_reducer { SW_REDUCER_SERVERS, SW_REDUCER_COPIES, SW_REDUCER_LIBRARY };

struct sw_sums {
    enum sw_reducer reducer;
    const struct sw_collective_ops *library; /* of a LIBRARY */
    char why[320];                           /* for people; "": there is nothing to add up */
    struct sw_collective *members;           /* owned, once it is made: of a LIBRARY */
    struct sw_bucket *buckets;               /* owned [count] */
    int64_t *elements;                       /* owned [count] */
    int *order;                              /* owned [count]: in which they are added up */
    int count;                               /* 0: servers add up */
    int *bucket_of;                          /* owned [parameters of the table]: -1: in none */
    int64_t *at_of;                          /* owned, likewise: elements before it in its bucket */
    struct sw_allreduce *all_reduce;         /* owned, once there is memory */
    int first_ms;                            /* how long devices may take to meet, and to add up */
};
