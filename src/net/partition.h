/* Partitioning a net inside a group of workers (SINGA, TOMM 5.3): how an output is distributed, and
 * what moves between two distributions. Rows are samples (dimension 0), columns are features
 * (dimension 1 together with all later ones). Pure arithmetic, any thread. */
#pragma once

#include "base/tree.h"
#include "kernels/desc.h"

enum sw_dist {
    SW_DIST_ROWS,    /* every worker has its rows */
    SW_DIST_COLUMNS, /* every worker has its columns of all rows */
    SW_DIST_FULL,    /* every worker has everything; its gradients are partial sums */
    SW_DIST_SUMS,    /* every worker has a partial sum of everything; its gradients are full */
    SW_DIST_ONE,     /* one worker has everything, the others nothing */
    SW_DISTS
};
const char *sw_dist_name(enum sw_dist d); /* rows, columns, full, sums, one */

/* A distribution over workers. With SW_DIST_ONE it includes the worker, with SW_DIST_COLUMNS how
 * columns are grouped. */
struct sw_distribution {
    enum sw_dist dist;
    int at;         /* the worker, with SW_DIST_ONE; else 0 */
    int64_t groups; /* with SW_DIST_COLUMNS: columns are in this many equal groups of neighboring
                       columns, and workers have whole groups; 0: single columns */
    /* With SW_DIST_COLUMNS: not this output's columns are partitioned but `whole` other ones, those
     * of a concat that contains this output or of a slice of it. This output's columns begin at
     * `first` of those (below 0: before them); no worker has columns outside. whole 0: the output's
     * own columns are partitioned. */
    int64_t first, whole;
};
bool sw_distribution_equal(struct sw_distribution a, struct sw_distribution b);

/* Has an output of so many columns enough of them for the distribution? */
bool sw_distribution_suits(struct sw_distribution s, int64_t columns, int workers);

/* A rectangle of an output: rows and columns. Empty when either count is 0. */
struct sw_rect {
    int64_t row, rows, column, columns;
};
bool sw_rect_is_empty(const struct sw_rect *r);
struct sw_rect sw_rect_intersect(const struct sw_rect *a, const struct sw_rect *b);

/* Worker i's shard of an output of rows x columns. */
struct sw_rect sw_distribution_rect(struct sw_distribution s, int64_t rows, int64_t columns,
                                    int workers, int i);

/* An output of rows x columns that goes from one distribution to another. */
struct sw_move {
    struct sw_distribution from, to;
    int64_t rows, columns;
};
/* The rectangle that worker `from` sends to another worker `to`; empty if nothing moves between
 * them. backward: the gradient goes the other way. Partial sums (an output in sums, a gradient of a
 * full one) go from every worker to every other, which gets its shard of each. */
struct sw_rect sw_movement(const struct sw_move *m, bool backward, int workers, int from, int to);
/* are the received pieces partial sums? */
bool sw_movement_adds(struct sw_distribution a, struct sw_distribution b, bool backward);

/* One cell of the movement table (parallel training, section 4): the name of the collective
 * operation and the floats that it moves in total for B rows of d features over K workers, as B d
 * (k_minus_1 (K-1) + k_minus_1_over_k (K-1)/K + whole); between differently partitioned columns
 * that is an upper bound. NULL: there is no such connection. */
struct sw_movement_cell {
    const char *forward, *backward;
    int k_minus_1, k_minus_1_over_k, whole;
};
const struct sw_movement_cell *sw_movement_cell(struct sw_distribution from,
                                                struct sw_distribution to);
