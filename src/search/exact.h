/* Exact k-nearest-neighbor search: every query is compared with every vector. Products of blocks
 * (the gemm operation of the host's device) give each distance in float with a bound of its error;
 * where that bound cannot rule a vector out, the distance is computed again in double. So the
 * answer is that of double arithmetic, and does not depend on blocks, threads or the library. */
#pragma once

#include "search/nearest.h"
#include "search/vectors.h"

/* Finds the k nearest of `base` for each query: out [queries][k], nearest first, ties by id.
 * Both sets are checked (sw_vectors_check) and have the same dims; 1 <= k <= base->count.
 * Errors: SW_ERR_INVALID, SW_ERR_NOMEM, SW_ERR_CANCELLED, those of the host's device. */
int sw_exact_search(const struct sw_vectors *base, enum sw_metric m,
                    const struct sw_vectors *queries, int64_t k, int threads,
                    struct sw_neighbor *out, struct sw_err *err) SW_MUST_CHECK;

/* Ranks all of `base` for one query: out [base->count], nearest first, ties by id. */
void sw_exact_rank(const struct sw_vectors *base, enum sw_metric m, const float *query,
                   struct sw_neighbor *out);

/* The share of arguments that every search checks: dims and k. Errors: SW_ERR_INVALID. */
int sw_search_check(int64_t base, int base_dims, int query_dims, int64_t k, int threads,
                    struct sw_err *err) SW_MUST_CHECK;
