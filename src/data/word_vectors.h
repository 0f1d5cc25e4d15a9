/* Vectors of words in three formats. As text, as word2vec.c and gensim (save_word2vec_format) write
 * them: a line with the number of words and of dimensions, then for each word a line with the word
 * and its numbers, separated by blanks. As text of GloVe: the same without the first line; a word
 * may contain blanks. In binary, as word2vec.c and gensim write it: the first line, then for each
 * word the word, a blank, 32-bit floats in little-endian order, and a line end or nothing. One
 * owner. */
#pragma once

#include "data/lexicon.h"

enum { SW_WORD_VECTORS_MOST_DIMS = 65536 };

/* Zero-initialize; free with fini. */
struct sw_word_vectors {
    struct sw_lexicon words; /* in the order of the rows */
    float *values;           /* owned [words.count][dims] */
    int dims;
    int64_t repeated; /* rows of a file that are left out: an earlier one has their word */
};

void sw_word_vectors_fini(struct sw_word_vectors *v);

/* Reads a file of any of these formats, plain or .gz; memory grows with its content, not with what
 * its first line says. Values are finite. Nothing is allocated after an error. Errors:
 * SW_ERR_FORMAT naming the line or word and what was expected, SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_NOMEM. */
int sw_word_vectors_read(struct sw_word_vectors *v, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;
/* Writes text of word2vec under a temporary name first; reading it gives the same floats. Errors:
 * SW_ERR_UNSUPPORTED for a word that the format cannot hold, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_word_vectors_write(const struct sw_word_vectors *v, const char *path,
                          struct sw_err *err) SW_MUST_CHECK;
