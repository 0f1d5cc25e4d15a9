/* Text as numbers: how a text is split into tokens, and the number of each token. A vocabulary is
 * read from a file or built from texts: the most frequent token is 0, and tokens of equal frequency
 * are in byte order, so it depends only on the texts.
 *
 * Thread rule: one owner while it is built; afterwards any thread may read it. */
#pragma once

#include "base/str.h"
#include "data/lexicon.h"

enum sw_text_unit {
    SW_TEXT_BYTES,
    SW_TEXT_CHARACTERS, /* of UTF-8 (RFC 3629) */
    SW_TEXT_WORDS,      /* between blanks, tabs and line ends */
};

/* A text being split. */
struct sw_text {
    const char *what; /* borrowed: the file, for messages */
    const char *begin, *at, *end;
    enum sw_text_unit unit;
    const char *line_end; /* words only: token for the end of each line; NULL or empty: none */
};

/* Returns the next token, borrowed from the text or its line_end; *n is 0 at the end. Errors:
 * SW_ERR_FORMAT naming the byte that is not UTF-8. */
int sw_text_next(struct sw_text *t, const char **token, size_t *n,
                 struct sw_err *err) SW_MUST_CHECK;

struct sw_vocabulary {
    struct sw_lexicon tokens; /* numbered from 0, with their counts in the text; private */
    int32_t unknown;          /* replaces tokens that are not in the vocabulary, or -1 */
    int32_t line_end;         /* words only: the token for the end of each line, or -1 */
};

void sw_vocabulary_fini(struct sw_vocabulary *v); /* a zeroed one is accepted */

/* Builds a vocabulary from the tokens counted in `met` at least min_count times, with their counts.
 * max_tokens > 0 limits its size, including `unknown`. unknown always gets a token, and the count
 * of the tokens that it replaces: its own if the texts contain it, else the last; if it is NULL or
 * empty, dropped tokens have no replacement. Errors: SW_ERR_NOMEM, SW_ERR_INVALID (no token is so
 * frequent). */
int sw_vocabulary_make(struct sw_vocabulary *v, const struct sw_lexicon *met, int64_t min_count,
                       int64_t max_tokens, const char *unknown, struct sw_err *err) SW_MUST_CHECK;
/* Parses a list with one token per line, in order; \n, \t, \r, \\ and \xHH are escapes. unknown as
 * above. Errors: SW_ERR_FORMAT naming the line, SW_ERR_NOMEM. */
int sw_vocabulary_parse(struct sw_vocabulary *v, const char *what, const char *list, size_t bytes,
                        const char *unknown, struct sw_err *err) SW_MUST_CHECK;

/* Sets the counts of the tokens to those of a list with one number per line, as many as tokens; a
 * list may lack the count of `unknown` if that is the last token. Errors: SW_ERR_FORMAT naming the
 * line. */
int sw_vocabulary_read_counts(struct sw_vocabulary *v, const char *what, const char *list,
                              struct sw_err *err) SW_MUST_CHECK;

/* Sets the token for the end of lines; NULL or empty: none, as after building. */
void sw_vocabulary_mark_lines(struct sw_vocabulary *v, const char *line_end);

/* The number of tokens, and a hash of all tokens with their numbers for comparing vocabularies. */
int64_t sw_vocabulary_count(const struct sw_vocabulary *v);
uint64_t sw_vocabulary_identity(const struct sw_vocabulary *v);
/* The number of a token, else that of `unknown`, else -1. */
int32_t sw_vocabulary_find(const struct sw_vocabulary *v, const char *token, size_t n);
const char *sw_vocabulary_token(const struct sw_vocabulary *v, int32_t id, size_t *n);

/* Appends a token as a line of such a list, with escapes. */
void sw_vocabulary_add_line(struct sw_bytes *out, const char *token, size_t bytes);
