/* Sets of vectors that are searched: float rows in memory that somebody else owns (an array, a
 * mapped index file), and the distances between them. A distance is computed in double in a fixed
 * order, so it is the same number on every path that leads to it. Pure functions; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_SEARCH_MOST_DIMS = 65536 };

/* n vectors of d floats, row by row. */
struct sw_vectors {
    const float *at; /* [count][dims], borrowed */
    int64_t count;
    int dims;
};

static inline const float *sw_vector(const struct sw_vectors *v, int64_t row)
{
    return v->at + row * v->dims;
}

/* How near two vectors are. What is compared is the first column; it is smaller for nearer ones:
 * euclidean  |a - b|^2      shown to users as |a - b|
 * cosine     1 - a.b / (|a| |b|)
 * dot        -a.b           shown as a.b */
enum sw_metric { SW_METRIC_EUCLIDEAN, SW_METRIC_COSINE, SW_METRIC_DOT, SW_METRIC_COUNT };

const char *sw_metric_name(enum sw_metric m);
/* False for an unknown name. */
bool sw_metric_parse(const char *name, enum sw_metric *m);
/* The number that users see for a compared distance. */
double sw_metric_shown(enum sw_metric m, double distance);

/* The compared distance of two vectors of `dims` finite floats; for cosine neither is zero. */
double sw_vector_distance(enum sw_metric m, const float *a, const float *b, int dims);
/* a.a in double; it does not overflow. */
double sw_vector_norm2(const float *a, int dims);

/* Checks that the set has 1 to 2^31 - 1 vectors of 1 to SW_SEARCH_MOST_DIMS finite floats, and for
 * cosine that none is zero. `what` names the set in errors. Errors: SW_ERR_FORMAT naming the row.
 */
int sw_vectors_check(const struct sw_vectors *v, enum sw_metric m, const char *what,
                     struct sw_err *err) SW_MUST_CHECK;
