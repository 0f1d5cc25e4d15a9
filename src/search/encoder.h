/* Turns vectors into binary codes that keep neighborhoods: bit j of a code says on which side of a
 * hyperplane through the mean of the indexed vectors the vector lies. Hyperplanes are random
 * (Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002), so the share
 * of bits that differ estimates the angle between two vectors. An encoder is plain arrays, so an
 * index file holds it and queries get the same one. */
#pragma once

#include "search/codes.h"
#include "search/vectors.h"

struct sw_encoder {
    int dims, bits;
    const float *center; /* [dims], borrowed */
    const float *planes; /* [bits][dims], borrowed: normal vectors of the hyperplanes */
};

/* Writes the mean of checked vectors to center, and normal numbers that depend on the seed alone to
 * planes. */
void sw_encoder_build(const struct sw_vectors *v, int bits, uint64_t seed, float *center,
                      float *planes);

/* Writes the codes of vectors of e->dims to words [count][sw_code_words(bits)]. A product is
 * computed in double in a fixed order, so codes are equal on every machine. Errors:
 * SW_ERR_CANCELLED, SW_ERR_NOMEM. */
int sw_encoder_encode(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      uint64_t *words, struct sw_err *err) SW_MUST_CHECK;
