/* Words made by code, for the synthetic format: running text, counts of words and tags that go with
 * a class. All are pure functions of the keys and the place, so any thread may ask for any record.
 *
 * Text is a chain (Markov 1913): behind token a come four others with probabilities 1/2, 1/4, 1/8
 * and 1/8, which are drawn from a and the same in every split. So nobody can predict better than
 * 1.75 bits (1.213 nats) a token, and right in more than half of the cases, and who knows the last
 * token can reach both. The chain begins anew every SW_SYNTHETIC_RUN tokens, so that a place is
 * found by walking from the beginning of its run. */
#pragma once

#include "base/philox.h"
#include <stdint.h>

enum { SW_SYNTHETIC_RUN = 1024 };

struct sw_synthetic_words {
    uint64_t class_key; /* of what is the same in every split */
    uint64_t split_key;
    int64_t tokens; /* how many different ones, 1 or more */
};

/* Tokens [first, first + n) of the split's text. */
void sw_synthetic_text(const struct sw_synthetic_words *w, int64_t first, int64_t n, int32_t *out);

/* How often each of n words is in a record's text: those of its class, one of four, twice to five
 * times, others now and then once. draw is the record's own number. */
void sw_synthetic_counts(const struct sw_synthetic_words *w, uint64_t draw, int64_t label,
                         int64_t n, float *out);

/* One to n tags: three of four are among the class's own eight, the others any; then -1. */
void sw_synthetic_tags(const struct sw_synthetic_words *w, uint64_t draw, int64_t label, int64_t n,
                       int32_t *out);
