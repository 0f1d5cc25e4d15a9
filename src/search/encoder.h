/* Turns vectors into binary codes, and into the real values whose signs these are. Bit j is set if
 *
 *     value_j = planes_j . (features - center) + shifts_j > 0
 *
 * where the features are the vector itself or, with anchors, its euclidean distances to them. With
 * waves the value is the cosine of waves_j times that. Which planes keep neighborhoods is the
 * matter of a method (search/code_method.h); random ones make the share of bits that differ an
 * estimate of the angle between two vectors (Charikar, "Similarity estimation techniques from
 * rounding algorithms", STOC 2002). An encoder is plain arrays, so that a file holds it and queries
 * get the same one. Frozen once its parts are filled; then any thread. */
#pragma once

#include "search/codes.h"
#include "search/vectors.h"

enum sw_encoder_part {
    SW_ENCODER_CENTER,  /* [features] */
    SW_ENCODER_PLANES,  /* [bits][features]: normal vectors of hyperplanes */
    SW_ENCODER_SHIFTS,  /* [bits]; NULL: zeros */
    SW_ENCODER_WAVES,   /* [bits]: angular frequencies; NULL: the values are not waves */
    SW_ENCODER_ANCHORS, /* [anchors][dims]; NULL: the features are the vector */
    SW_ENCODER_PARTS,
};

struct sw_encoder {
    int dims, bits;
    int anchors;                         /* 0: none */
    const float *part[SW_ENCODER_PARTS]; /* borrowed, or owned (sw_encoder_room) */
};

static inline int sw_encoder_features(const struct sw_encoder *e)
{
    return e->anchors ? e->anchors : e->dims;
}
/* The number of floats of a part. */
uint64_t sw_encoder_part_count(const struct sw_encoder *e, enum sw_encoder_part part);

/* Memory for a part, zeroed, which is owned by the encoder from then on; NULL after an error. An
 * encoder whose parts are all of this kind is freed with sw_encoder_fini. */
float *sw_encoder_room(struct sw_encoder *e, enum sw_encoder_part part, struct sw_err *err);
void sw_encoder_fini(struct sw_encoder *e); /* a zeroed one is accepted */

/* Writes the mean of checked vectors to center [dims], and normal numbers that depend on the seed
 * alone to planes [bits][dims]. */
void sw_encoder_random(const struct sw_vectors *v, int bits, uint64_t seed, float *center,
                       float *planes);

/* Writes the codes of vectors of e->dims to words [count][sw_code_words(bits)]. A product is
 * computed in double in a fixed order, so codes are equal on every machine (with waves or anchors
 * as far as its cosine is). Errors: SW_ERR_CANCELLED, SW_ERR_NOMEM. */
int sw_encoder_encode(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      uint64_t *words, struct sw_err *err) SW_MUST_CHECK;
/* Writes the values to out [count][bits]. Errors: as above. */
int sw_encoder_values(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      float *out, struct sw_err *err) SW_MUST_CHECK;
/* Writes the features to out [count][features]. Errors: as above. */
int sw_encoder_features_of(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                           float *out, struct sw_err *err) SW_MUST_CHECK;
