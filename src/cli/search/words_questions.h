/* A file of analogies in sections, and how many of them vectors of words answer: the format of
 * questions-words.txt of word2vec. Main thread. */
#pragma once

#include "cli/search/words_source.h"
#include "search/words.h"

struct sw_words_section {
    char *name;        /* owned */
    bool syntactic;    /* its name begins with "gram", as those of word2vec; else semantic */
    int64_t questions; /* of the file */
    int64_t covered;   /* all four words have vectors, none of zeros */
    int64_t correct;   /* of those: the nearest word is the fourth */
};

/* Zero-initialize; free with fini. */
struct sw_words_questions {
    struct sw_words_section *section; /* owned [section_count] */
    int section_count;
    struct sw_words_section semantic, syntactic, total; /* sums; no names */
    struct sw_words_covered *covered;                   /* private, as the next two */
    int64_t covered_count, covered_capacity;
    double seconds; /* of the search alone */
};

void sw_words_questions_fini(struct sw_words_questions *q);

/* Reads a file: lines ": NAME" begin sections, the others have four words a b c d, "a is to b as c
 * is to d". Words are found as sw_words_row does. Errors: SW_ERR_FORMAT naming the line and what
 * was expected, SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM; SW_ERR_INVALID if no question is covered.
 */
int sw_words_questions_read(struct sw_words_questions *q, const char *path,
                            const struct sw_word_vectors *v, struct sw_err *err) SW_MUST_CHECK;
/* Answers the covered ones, and counts. unit: rows of sw_words_unit. Errors: those of
 * sw_words_analogies. */
int sw_words_questions_answer(struct sw_words_questions *q, const struct sw_vectors *unit,
                              int threads, struct sw_err *err) SW_MUST_CHECK;

/* Correct answers of the covered questions; NaN without any. */
double sw_words_accuracy(const struct sw_words_section *s);
