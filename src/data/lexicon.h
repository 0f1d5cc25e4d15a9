/* A set of words, each with a number and how often it was met: the vocabulary of a text, the names
 * of classes, tags. Numbers are given in the order of arrival; sw_lexicon_rank gives them an order
 * that does not depend on it. A word is any bytes.
 * One owner while it grows; a finished one may be read by any thread. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

/* Numbers are 32-bit, and the words together at most 2 GiB. */
struct sw_lexicon {
    uint64_t max_bytes; /* of memory for the words and what finds them; 0: those limits alone */
    struct sw_lexicon_word *word; /* owned; private, as all below */
    int32_t count;
    int32_t capacity;
    int32_t *slot; /* owned; number + 1 of a word by its hash, 0 where none is */
    uint32_t slots;
    char *text; /* owned */
    size_t text_bytes, text_capacity;
};

void sw_lexicon_fini(struct sw_lexicon *l); /* a zeroed one is empty and accepted */

/* Finds or adds a word, counts it `times` times more, and tells its number.
 * Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED beyond the limits above, SW_ERR_FORMAT beyond max_bytes.
 */
int sw_lexicon_add(struct sw_lexicon *l, const char *bytes, size_t n, int64_t times, int32_t *id,
                   struct sw_err *err) SW_MUST_CHECK;
/* The number of a word, or -1. */
int32_t sw_lexicon_find(const struct sw_lexicon *l, const char *bytes, size_t n);
/* The bytes of a word, valid until the next is added; a zero byte follows. */
const char *sw_lexicon_word(const struct sw_lexicon *l, int32_t id, size_t *n);
int64_t sw_lexicon_times(const struct sw_lexicon *l, int32_t id);

enum sw_lexicon_order {
    SW_LEXICON_BY_BYTES, /* as unsigned bytes compare, a prefix first */
    SW_LEXICON_BY_TIMES, /* the most frequent first, equals by bytes */
};

/* Sets order[k] to the number of the k-th word; order has room for l->count. */
void sw_lexicon_rank(const struct sw_lexicon *l, enum sw_lexicon_order how, int32_t *order);

/* An identity of the words in that order (of their numbers when it is NULL), never 0. */
uint64_t sw_lexicon_identity(const struct sw_lexicon *l, const int32_t *order);
