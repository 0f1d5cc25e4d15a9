/* The k nearest of those that were offered: a binary heap with the farthest on top, in memory of
 * the caller. Order is by distance and then by id, so the k nearest are the same in whatever order
 * they are offered. One owner. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct sw_neighbor {
    double distance; /* the compared one (vectors.h), or a number of bits; never NaN */
    int64_t id;      /* row of the searched set */
};

static inline bool sw_neighbor_before(struct sw_neighbor a, struct sw_neighbor b)
{
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

struct sw_nearest {
    struct sw_neighbor *at; /* [k], borrowed */
    int64_t k, count;
};

static inline struct sw_nearest sw_nearest_in(struct sw_neighbor *at, int64_t k)
{
    return (struct sw_nearest){at, k, 0};
}

/* No candidate that is farther than this can be among the k nearest. */
static inline double sw_nearest_limit(const struct sw_nearest *n)
{
    return n->count < n->k ? INFINITY : n->at[0].distance;
}

/* Adds a candidate if it is among the k nearest so far. */
void sw_nearest_offer(struct sw_nearest *n, double distance, int64_t id);
/* Sorts what was found, nearest first; the heap ends. */
void sw_nearest_sort(struct sw_nearest *n);
/* Sorts any neighbors, nearest first. */
void sw_neighbors_sort(struct sw_neighbor *at, int64_t count);
/* Merges `lists` lists of [queries][k] neighbors, one after the other at `from`, into out
 * [queries][k], nearest first. An id of -1 is no neighbor. */
void sw_nearest_merge(const struct sw_neighbor *from, int64_t lists, int64_t queries, int64_t k,
                      struct sw_neighbor *out);
