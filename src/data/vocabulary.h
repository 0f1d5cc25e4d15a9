/* Text as numbers: how a text is cut into tokens, and which number each token has. A vocabulary is
 * read from a file, or made from texts: the most frequent token is 0, tokens of equal frequency are
 * in the order of their bytes, so that it depends on nothing but the texts.
 *
 * Thread rule: one owner while it is made; a finished one may be read by any thread. */
#pragma once

#include "data/lexicon.h"

enum sw_text_unit {
    SW_TEXT_BYTES,
    SW_TEXT_CHARACTERS, /* of UTF-8 (RFC 3629) */
    SW_TEXT_WORDS,      /* between blanks, tabs and line ends */
};

/* A text that is being cut up. */
struct sw_text {
    const char *what; /* borrowed: the file, for messages */
    const char *begin, *at, *end;
    enum sw_text_unit unit;
    const char *line_end; /* of words: the token at the end of each line; NULL or empty: none */
};

/* The next token, borrowed from the text or its line_end; *n is 0 at the end.
 * Errors: SW_ERR_FORMAT naming the byte that is no UTF-8. */
int sw_text_next(struct sw_text *t, const char **token, size_t *n,
                 struct sw_err *err) SW_MUST_CHECK;

struct sw_vocabulary {
    struct sw_lexicon tokens; /* numbered from 0; private */
    int32_t unknown;          /* what stands for every other token, or -1 */
    int32_t line_end;         /* of words: the token at the end of each line, or -1 */
};

void sw_vocabulary_fini(struct sw_vocabulary *v); /* a zeroed one is accepted */

/* From the tokens that `met` has counted. max_tokens > 0 keeps so many at most, of which `unknown`
 * is one. unknown has a token in any case: its own where the texts have it, else the last; NULL or
 * empty, nothing stands for tokens that are not kept. Errors: SW_ERR_NOMEM. */
int sw_vocabulary_make(struct sw_vocabulary *v, const struct sw_lexicon *met, int64_t max_tokens,
                       const char *unknown, struct sw_err *err) SW_MUST_CHECK;
/* From a list: a token a line, in their order; \n, \t, \r, \\ and \xHH stand for bytes. unknown as
 * above. Errors: SW_ERR_FORMAT naming the line, SW_ERR_NOMEM. */
int sw_vocabulary_parse(struct sw_vocabulary *v, const char *what, const char *list, size_t bytes,
                        const char *unknown, struct sw_err *err) SW_MUST_CHECK;

/* Says which token stands at the end of lines; NULL or empty, none, as after making. */
void sw_vocabulary_mark_lines(struct sw_vocabulary *v, const char *line_end);

/* How many tokens it has; and a hash of which token has which number, by which vocabularies are
 * compared. */
int64_t sw_vocabulary_count(const struct sw_vocabulary *v);
uint64_t sw_vocabulary_identity(const struct sw_vocabulary *v);
/* The number of a token, that of `unknown` where it has none, or -1. */
int32_t sw_vocabulary_find(const struct sw_vocabulary *v, const char *token, size_t n);
const char *sw_vocabulary_token(const struct sw_vocabulary *v, int32_t id, size_t *n);
