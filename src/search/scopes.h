/* Precision and recall at scope: among the first k results of a ranking, the share that is
 * relevant, and the share of all relevant rows that is found; k is the scope. Over k / R, where R
 * is the number of ranked rows, recall is the "recall-candidates ratio" of the thesis
 * (Figure 5.10). Curves are sampled at a series of scopes that is dense enough to draw. Pure
 * functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SW_MOST_SCOPES = 128 };

struct sw_scope_curve {
    int count;                  /* of scopes; 0: none */
    int64_t at[SW_MOST_SCOPES]; /* ascending */
    double precision[SW_MOST_SCOPES], recall[SW_MOST_SCOPES];
};

/* Empties a curve of rankings of `rows` rows: 1, 2, ... 10, 12, 15, 20, 25, 30, 40, ... 100, 120,
 * ... and `rows` itself. */
void sw_scope_curve_begin(struct sw_scope_curve *c, int64_t rows);

/* Counts the relevant ones among the first at[i] results: hits [c->count]. The scopes begin with
 * those of sw_scope_curve_begin(c, count). */
void sw_scope_hits(const struct sw_scope_curve *c, const bool *relevant, int64_t count,
                   int64_t *hits);

/* Adds a ranking in which the last of its hits is not 0. */
void sw_scope_curve_add(struct sw_scope_curve *c, const int64_t *hits);
/* Turns the sums over `queries` rankings into means. */
void sw_scope_curve_end(struct sw_scope_curve *c, int64_t queries);
