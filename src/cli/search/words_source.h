/* The vectors of words that `singa-ws search words` works on: from a checkpoint of a net of text, a
 * file of word2vec or GloVe, or an array and a list of words. Main thread. */
#pragma once

#include "cli/cli.h"
#include "data/word_vectors.h"

struct sw_words_source {
    const char *what;       /* VECTORS: a run, a checkpoint, a text file or an array */
    const char *tensor;     /* of a checkpoint; NULL: the weight of its first embedding layer */
    const char *vocabulary; /* list of the words of a source that has none; or NULL */
    const char *db;         /* --db, or NULL */
};

/* Reads words and vectors. *has_words is whether the source has words of its own: then the list is
 * not read. Free the vectors with sw_word_vectors_fini also after an error. Errors: those of
 * sw_weights_find, of sw_word_vectors_read, of tensor/npy.h and tensor/safetensors.h,
 * SW_ERR_FORMAT, SW_ERR_INVALID. */
int sw_words_source_read(const struct sw_words_source *s, struct sw_word_vectors *v,
                         bool *has_words, struct sw_err *err) SW_MUST_CHECK;

/* The row of a word, also of its lower case where it is not among the words as it is written; or
 * -1. */
int32_t sw_words_row(const struct sw_lexicon *words, const char *word);
/* Whether the vector of a row has a direction: it is not zero. */
bool sw_words_points(const struct sw_word_vectors *v, int32_t row);
/* The same as sw_words_row for a word that has to exist and to have a direction. Errors:
 * SW_ERR_NOTFOUND, which names words like it; SW_ERR_FORMAT for a vector of zeros. */
int sw_words_need(const struct sw_word_vectors *v, const char *what, const char *word, int32_t *row,
                  struct sw_err *err) SW_MUST_CHECK;
