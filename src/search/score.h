/* How good a search is, by labels: average precision over a whole ranking (thesis, Equation 5.12,
 * where R is the number of ranked rows)
 *
 *     AP(q) = sum over k of P(k) d(k) / sum over k of d(k)
 *
 * with d(k) = 1 if result k shares a label with the query, and P(k) the precision among the first
 * k. Its mean over the queries is MAP. Any thread. */
#pragma once

#include "search/codes.h"
#include "search/row_labels.h"
#include "search/scopes.h"
#include "search/vectors.h"

enum { SW_SCORE_LEVELS = 11 };

/* AP of a ranking: relevant [count] in its order. -1 if none is relevant. */
double sw_average_precision(const bool *relevant, int64_t count);

/* The mean AP of all orders in which results of equal distance could come: relevant and distance
 * [count], by ascending distance (McSherry and Najork, "Computing information retrieval performance
 * measures efficiently in the presence of tied scores", ECIR 2008, Equation 7). Of n results of a
 * distance, r are relevant; N results are nearer, R of them relevant. Then result i of the n adds
 * r / n (R + 1 + (i - 1) (r - 1) / (n - 1)) / (N + i) to the sum. -1 if none is relevant. */
double sw_average_precision_tied(const bool *relevant, const double *distance, int64_t count);

/* The interpolated precision at recall 0, 0.1, ... 1: the largest precision at any rank whose
 * recall is that or more. Zeros if none is relevant. */
void sw_precision_at_recall(const bool *relevant, int64_t count, double precision[SW_SCORE_LEVELS]);

/* The share of the true k nearest that a search returned: both [queries][k] ids. */
double sw_recall(const int64_t *found, const int64_t *truth, int64_t queries, int64_t k);

struct sw_score_args {
    const struct sw_vectors *base, *queries;
    const struct sw_codes *base_codes, *query_codes;        /* in place of the vectors, or NULL */
    const struct sw_row_labels *base_labels, *query_labels; /* as many classes, the same form */
    enum sw_metric metric;
    bool leave_out_same; /* base and queries are the same rows: query i does not rank row i */
};

struct sw_class_map {
    double map;
    int64_t queries; /* that have the class and a relevant row */
};

struct sw_score {
    double map;
    double precision[SW_SCORE_LEVELS]; /* mean of sw_precision_at_recall */
    struct sw_scope_curve scopes;      /* means over the queries of precision and recall at scope */
    int64_t queries;                   /* that have a relevant row; the means are over these */
    int64_t without;                   /* queries that have none */
    int classes;
    struct sw_class_map *per_class; /* owned [classes] */
};

/* Ranks all of `base` for each query: vectors by exact distances, ties by row; codes by Hamming
 * distance, of which AP is that of ties (above) and all else that of one random order of the ties,
 * always the same one, since many are equal and rows of a file may be ordered by class. Sets are
 * checked. Free the result with sw_score_fini. Errors: SW_ERR_INVALID (sizes), SW_ERR_NOMEM,
 * SW_ERR_CANCELLED. */
int sw_score_map(const struct sw_score_args *a, int threads, struct sw_score *out,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_score_fini(struct sw_score *s); /* a zeroed one is accepted */
