/* k-means (Lloyd, "Least squares quantization in PCM", 1982): centroids of clusters of vectors.
 * Main thread; results do not depend on threads. */
#pragma once

#include "search/vectors.h"

/* Writes `count` centroids of checked vectors, of which there are as many or more, to out
 * [count][dims]. They begin as different rows that the seed alone chooses; a cluster that loses all
 * rows becomes the row that is farthest from its centroid. Errors: SW_ERR_INVALID (count),
 * SW_ERR_NOMEM, SW_ERR_CANCELLED, those of sw_exact_search. */
int sw_clusters_of(const struct sw_vectors *v, int count, uint64_t seed, int threads, float *out,
                   struct sw_err *err) SW_MUST_CHECK;
