/* A set of words, each with a number and a count: the vocabulary of a text, class names, or tags.
 * Numbers are assigned in the order of arrival; sw_lexicon_rank computes an order that does not
 * depend on it. A word is any sequence of bytes. One owner while it grows; afterwards any thread
 * may read it. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

/* Numbers are 32-bit, and all words together have at most 2 GiB. */
struct sw_lexicon {
    uint64_t max_bytes; /* memory limit for words and hash table; 0: only the limits above */
    struct sw_lexicon_word *word; /* owned; private, as all below */
    int32_t count;
    int32_t capacity;
    int32_t *slot; /* owned; hash table: number + 1 of a word, 0: empty */
    uint32_t slots;
    char *text; /* owned */
    size_t text_bytes, text_capacity;
};

void sw_lexicon_fini(struct sw_lexicon *l); /* a zeroed one is empty and accepted */

/* Finds or adds a word, adds `times` to its count, and sets *id to its number. Errors:
 * SW_ERR_NOMEM, SW_ERR_UNSUPPORTED beyond the limits above, SW_ERR_FORMAT beyond max_bytes. */
int sw_lexicon_add(struct sw_lexicon *l, const char *bytes, size_t n, int64_t times, int32_t *id,
                   struct sw_err *err) SW_MUST_CHECK;
/* The number of a word, or -1. */
int32_t sw_lexicon_find(const struct sw_lexicon *l, const char *bytes, size_t n);
/* The zero-terminated bytes of a word, valid until the next add. */
const char *sw_lexicon_word(const struct sw_lexicon *l, int32_t id, size_t *n);
int64_t sw_lexicon_times(const struct sw_lexicon *l, int32_t id);
void sw_lexicon_set_times(struct sw_lexicon *l, int32_t id, int64_t times);

enum sw_lexicon_order {
    SW_LEXICON_BY_BYTES, /* as unsigned bytes compare, a prefix first */
    SW_LEXICON_BY_TIMES, /* the most frequent first; ties by bytes */
};

/* Sets order[k] to the number of the k-th word; order has room for l->count. */
void sw_lexicon_rank(const struct sw_lexicon *l, enum sw_lexicon_order how, int32_t *order);

/* A hash of the words in that order (NULL: in the order of their numbers), never 0. */
uint64_t sw_lexicon_identity(const struct sw_lexicon *l, const int32_t *order);
