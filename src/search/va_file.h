/* The VA-file (Weber, Schek and Blott, "A Quantitative Analysis and Performance Study for
 * Similarity-Search Methods in High-Dimensional Spaces", VLDB 1998): each dimension is partitioned
 * into 2^b intervals that hold equally many values, and a vector is approximated by the numbers of
 * its intervals, b bits per dimension. From these alone follow a lower and an upper bound of the
 * distance to a query. A search scans the approximations, keeps candidates whose lower bound is at
 * most the k-th smallest upper bound, and then reads candidates by ascending lower bound until it
 * exceeds the k-th distance (the paper's VA-NOA). The answer is that of search/exact.h.
 *
 * For cosine the vectors are approximated after division by their norms. */
#pragma once

#include "search/nearest.h"
#include "search/vectors.h"
#include <stddef.h>

enum { SW_VA_MOST_BITS = 8 };

struct sw_va_file {
    struct sw_vectors vectors; /* that it approximates */
    int bits;                  /* of a dimension: 1, 2, 4 or 8 */
    enum sw_metric metric;
    const float *marks; /* [dims][2^bits + 1], ascending: interval c is marks[c] to marks[c + 1] */
    const uint8_t
        *cells; /* [count / 32, rounded up][row bytes][32]: byte i of the approximations of
                   32 rows, dimension 0 in the lowest bits; zeros follow the last row */
};

size_t sw_va_marks(int dims, int bits);                /* number of floats in marks */
size_t sw_va_row_bytes(int dims, int bits);            /* bytes of an approximation */
size_t sw_va_cells(int64_t count, int dims, int bits); /* bytes of all */
/* Whether bits are possible for a metric: SW_ERR_INVALID names what is. */
int sw_va_check(int bits, enum sw_metric m, struct sw_err *err) SW_MUST_CHECK;

/* Writes the marks and cells of a set of checked vectors to memory of the caller, of the sizes
 * above. Marks are quantiles of at most 65536 vectors, evenly spaced, and the smallest and largest
 * value of all. Errors: SW_ERR_INVALID, SW_ERR_NOMEM, SW_ERR_CANCELLED. */
int sw_va_build(const struct sw_vectors *v, enum sw_metric m, int bits, int threads, float *marks,
                uint8_t *cells, struct sw_err *err) SW_MUST_CHECK;

/* Checks marks that come from a file: finite and ascending. `what` names them in errors. Cells need
 * no check for memory safety. Errors: SW_ERR_FORMAT. */
int sw_va_check_marks(const struct sw_va_file *f, const char *what,
                      struct sw_err *err) SW_MUST_CHECK;

/* As sw_exact_search of its vectors. *read becomes the number of vectors that were read, summed
 * over all queries. */
int sw_va_search(const struct sw_va_file *f, const struct sw_vectors *queries, int64_t k,
                 int threads, struct sw_neighbor *out, int64_t *read,
                 struct sw_err *err) SW_MUST_CHECK;
