/* Buckets: gradients that are reduced over devices together, because one large transfer is quicker
 * than many small ones, while others are still being computed. Backward completes gradients from
 * the top layer down; a bucket is a run of them, closed as soon as it is large enough. The
 * reduction needs one order on all devices, while the next step's forward pass wants the lowest
 * layers first. The order computed here simulates one link that, whenever it is free, takes the
 * lowest layer among those that backward has completed by then.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdint.h>

/* A gradient, in the order in which backward completes them. */
struct sw_bucket_item {
    int64_t elements; /* float, with padding */
    int layer;        /* in topological order */
    double ready_s;   /* since the begin of backward; nondecreasing over the items */
};

struct sw_bucket {
    int first, count; /* items */
    int64_t elements;
    int layer; /* the lowest */
    double ready_s;
};

/* Partitions items into buckets, each of at least `bytes` except the last; an item is never split.
 * `out` has room for `count` buckets; returns their number. */
int sw_buckets_split(const struct sw_bucket_item *items, int count, int64_t bytes,
                     struct sw_bucket *out);
/* Sets order[i] to the i-th bucket to be reduced. */
void sw_buckets_order(const struct sw_bucket *buckets, int count, double link_bytes_per_s,
                      int *order);
