/* Bags of words: a list of words for each record, such as the tags of an image or a set of labels.
 * While bags are added, words get ids in the order of arrival. sw_bags_number then replaces these
 * ids (with those of a vocabulary, or with classes) and drops words without a new id.
 *
 * Thread rule: one owner until the ids are replaced; afterwards sw_bags_get may be called from any
 * thread. */
#pragma once

#include "data/lexicon.h"

/* Zero-initialize; free with fini. */
struct sw_bags {
    struct sw_lexicon words;
    int64_t *end; /* owned; end[i]: index in id behind the last word of bag i */
    int64_t count, capacity;
    int32_t *id; /* owned */
    int64_t ids, id_capacity;
};

void sw_bags_fini(struct sw_bags *b);

/* Adds a bag with the blank-separated words of text. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_bags_add(struct sw_bags *b, const char *text, struct sw_err *err) SW_MUST_CHECK;
/* Adds a bag of n ids, which are not replaced. Errors: SW_ERR_NOMEM. */
int sw_bags_put(struct sw_bags *b, const int32_t *id, int64_t n, struct sw_err *err) SW_MUST_CHECK;
/* Replaces id w by number[w]; words with number[w] < 0 are dropped. */
void sw_bags_number(struct sw_bags *b, const int32_t *number);

/* Returns the ids of bag i and sets *n to their count; valid until the next add. */
const int32_t *sw_bags_get(const struct sw_bags *b, int64_t i, int64_t *n);
/* The word count of the largest bag. */
int64_t sw_bags_most(const struct sw_bags *b);
