/* Buckets: gradients that are added over devices together, because one large transfer is quicker
 * than many small ones, while others are still being computed. Backward completes gradients from
 * the top layer down; a bucket is a run of them, closed as soon as it is large enough. Who adds
 * them up needs one order on all devices, which the next step's forward wants to be the opposite:
 * the lowest layers first. The order made here is what a link would do that is asked, whenever it
 * is free, for the lowest layer among what backward has completed by then.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdint.h>

/* A gradient, in the order in which backward completes them. */
struct sw_bucket_item {
    int64_t elements; /* float, with padding */
    int layer;        /* in topological order */
    double ready_s;   /* since backward's begin; never less than the one before */
};

struct sw_bucket {
    int first, count; /* items */
    int64_t elements;
    int layer; /* the lowest */
    double ready_s;
};

/* Cuts items into buckets, each at least `bytes` but the last; an item is never cut. Room for as
 * many buckets as items; returns how many there are. */
int sw_buckets_cut(const struct sw_bucket_item *items, int count, int64_t bytes,
                   struct sw_bucket *out);
/* order[i] becomes the i-th bucket to be added up. */
void sw_buckets_order(const struct sw_bucket *buckets, int count, double link_bytes_per_s,
                      int *order);
