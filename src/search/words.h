/* Questions to vectors of words: which words are near another (cosine), and the fourth word of an
 * analogy, "a is to b as c is to ?". Words are rows of a set of unit vectors. Pure functions; the
 * calling thread waits for those of the search. */
#pragma once

#include "search/nearest.h"
#include "search/vectors.h"

/* Divides every row by its length, in place; a row of zeros stays; its cosine to others counts
 * as 0. Elements are finite. */
void sw_words_unit(float *values, int64_t count, int dims);

/* Rows of the set. */
struct sw_analogy {
    int32_t a, b, c;
};

/* Finds the k nearest other words of each word: out [count][k], nearest first, ties by row; the
 * compared distance is -cosine, as of SW_METRIC_DOT. unit: rows of sw_words_unit; 1 <= k <
 * unit->count. Errors: SW_ERR_INVALID, SW_ERR_NOMEM, SW_ERR_CANCELLED, those of the host's device.
 */
int sw_words_nearest(const struct sw_vectors *unit, const int32_t *words, int64_t count, int64_t k,
                     int threads, struct sw_neighbor *out, struct sw_err *err) SW_MUST_CHECK;

/* Answers analogies by the words that are nearest to b - a + c, of unit vectors (Mikolov, Yih,
 * Zweig, "Linguistic Regularities in Continuous Space Word Representations", 2013; 3CosAdd of Levy
 * and Goldberg, 2014). a, b and c are not answers, so k <= unit->count - 3. The rest as above. */
int sw_words_analogies(const struct sw_vectors *unit, const struct sw_analogy *questions,
                       int64_t count, int64_t k, int threads, struct sw_neighbor *out,
                       struct sw_err *err) SW_MUST_CHECK;
