/* Bags of words: for each record a list of words, as tags of pictures and sets of labels are. They
 * are collected with numbers in the order of arrival, then numbered anew (by a vocabulary, as
 * classes); words that have no number then are left out.
 *
 * Thread rule: one owner until it is numbered; afterwards get from any thread. */
#pragma once

#include "data/lexicon.h"

/* Zero-initialise; free with fini. */
struct sw_bags {
    struct sw_lexicon words;
    int64_t *end; /* owned; where the words of a bag end in id */
    int64_t count, capacity;
    int32_t *id; /* owned */
    int64_t ids, id_capacity;
};

void sw_bags_fini(struct sw_bags *b);

/* Adds a bag of the words between blanks in text. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_bags_add(struct sw_bags *b, const char *text, struct sw_err *err) SW_MUST_CHECK;
/* Gives word w the number number[w]; those below 0 are left out. */
void sw_bags_number(struct sw_bags *b, const int32_t *number);

/* The numbers of bag i, *n of them; valid until the next add. */
const int32_t *sw_bags_get(const struct sw_bags *b, int64_t i, int64_t *n);
/* How many words the largest bag has. */
int64_t sw_bags_most(const struct sw_bags *b);
