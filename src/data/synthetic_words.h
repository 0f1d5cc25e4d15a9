/* Generated words for the synthetic format: running text, word counts, and tags that correlate with
 * a class. All are pure functions of the keys and the position, so any thread can generate any
 * record.
 *
 * Text is a Markov chain (Markov 1913): token a is followed by one of four others with
 * probabilities 1/2, 1/4, 1/8 and 1/8, chosen from a and the same in every split. So no model can
 * predict better than 1.75 bits (1.213 nats) a token, or be right in more than half of the cases,
 * and a model that knows the last token can reach both. The chain restarts every SW_SYNTHETIC_RUN
 * tokens, so that any position is computed from the beginning of its run. */
#pragma once

#include "base/philox.h"
#include <stdint.h>

enum { SW_SYNTHETIC_RUN = 1024 };

struct sw_synthetic_words {
    uint64_t class_key; /* key of everything that is the same in every split */
    uint64_t split_key;
    int64_t tokens; /* number of distinct tokens, 1 or more */
};

/* Generates tokens [first, first + n) of the text of the split. */
void sw_synthetic_text(const struct sw_synthetic_words *w, int64_t first, int64_t n, int32_t *out);

/* The classes of a record: one or two; the second equals the first if there is only one. */
struct sw_synthetic_labels {
    int64_t of[2];
};

/* Generates the counts of n words in the text of a record: words of its classes, one in four of
 * each, occur two to five times, others once at random. draw is a random word of the record. */
void sw_synthetic_counts(const struct sw_synthetic_words *w, uint64_t draw,
                         struct sw_synthetic_labels labels, int64_t n, float *out);

/* Generates one to n tags, three in four from the eight of one of the classes, then -1. */
void sw_synthetic_tags(const struct sw_synthetic_words *w, uint64_t draw,
                       struct sw_synthetic_labels labels, int64_t n, int32_t *out);
