/* Partitioning a net inside a group of workers (SINGA, TOMM 5.3): how an output is spread, and what
 * has to move between two ways of spreading it. Rows are samples (dimension 0), columns features
 * (dimension 1, with all that lies behind it). Pure arithmetic, any thread. */
#pragma once

#include "base/tree.h"
#include "kernels/desc.h"

enum sw_dist {
    SW_DIST_ROWS,    /* every worker has its rows */
    SW_DIST_COLUMNS, /* every worker has its columns of all rows */
    SW_DIST_FULL,    /* every worker has everything; its gradients are terms of a sum */
    SW_DIST_SUMS,    /* every worker has a term of everything; its gradients are full */
    SW_DIST_ONE,     /* one worker has everything, the others nothing */
    SW_DISTS
};
const char *sw_dist_name(enum sw_dist d); /* rows, columns, full, sums, one */

/* A way of spreading; whole outputs also differ by where they are, columns by what stays together.
 */
struct sw_spread {
    enum sw_dist dist;
    int at;         /* the worker, with SW_DIST_ONE; else 0 */
    int64_t groups; /* with SW_DIST_COLUMNS: workers have whole ones of so many equal groups of
                       neighbouring columns; 0: each column is one */
    /* With SW_DIST_COLUMNS: it is `whole` other columns that are cut, among which this output's
     * begin at `first` (below 0: before them): those of a concat of which it is a part, or of a
     * slice of it. What lies elsewhere nobody has. whole 0: its own are cut. */
    int64_t first, whole;
};
bool sw_spread_equal(struct sw_spread a, struct sw_spread b);

/* A rectangle of an output: rows and columns. Empty when either count is 0. */
struct sw_rect {
    int64_t row, rows, column, columns;
};
bool sw_rect_is_empty(const struct sw_rect *r);
struct sw_rect sw_rect_meet(const struct sw_rect *a, const struct sw_rect *b);

/* What worker i of `workers` has of an output of rows x columns. */
struct sw_rect sw_spread_rect(struct sw_spread s, int64_t rows, int64_t columns, int workers,
                              int i);

/* What worker `from` sends to worker `to` (another one) when an output goes from one way of
 * spreading to another; empty when nothing moves between the two. backward: its gradient goes back.
 * What is a term of a sum (an output in sums, a gradient of a full one) every worker sends to
 * everybody, of each what that one is to have. */
struct sw_rect sw_movement(struct sw_spread a, struct sw_spread b, bool backward, int64_t rows,
                           int64_t columns, int workers, int from, int to);
/* Are the pieces that come together terms to be added? */
bool sw_movement_adds(struct sw_spread a, struct sw_spread b, bool backward);

/* One cell of the movement table (parallel training, section 4): the name of the collective
 * operation and the floats that it moves in total for B rows of d features over K workers, as B d
 * (k_minus_1 (K-1) + k_minus_1_over_k (K-1)/K + whole); between columns that are cut in different
 * ways that is the most it can be. NULL: there is no such connection. */
struct sw_movement_cell {
    const char *forward, *backward;
    int k_minus_1, k_minus_1_over_k, whole;
};
const struct sw_movement_cell *sw_movement_cell(struct sw_spread from, struct sw_spread to);
