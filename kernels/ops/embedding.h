/* Rows of a table picked by whole numbers: word vectors and their means, and one-hot vectors. A
 * list of `length` tokens makes one output row; matrices and tables are plain. Only lists of the
 * step's valid rows are looked at, the others give zeros. A token outside 0..vocabulary-1 that is
 * not `skip` is SW_ERR_INVALID naming row and value; nothing is written then. Formulas:
 * kernels/cpu/embedding.c. */
#pragma once

#include "kernels/op.h"

enum { SW_TOKEN_NO_SKIP = INT32_MIN };

/* The lists of tokens, and how they are read. */
struct sw_token_lists {
    int64_t rows;    /* samples */
    int64_t per_row; /* lists in one */
    int64_t length;  /* tokens in a list */
    int64_t vocabulary;
    int32_t skip; /* token that stands for none, or SW_TOKEN_NO_SKIP */
};

/* The message of an error about a token. */
int sw_tokens_say_bad(int64_t row, int64_t place, int64_t token, int64_t vocabulary,
                      struct sw_err *err) SW_MUST_CHECK;

/* y [rows per_row, width]: per list the mean of weight [vocabulary, width] over its tokens, zero
 * for one without tokens. */
struct sw_embedding_args {
    struct sw_token_lists lists;
    int64_t width;
    const int32_t *token;
    const float *weight;
    const struct sw_step *step;
    float *y;
};
extern const struct sw_op sw_op_embedding;

/* dweight [vocabulary, width]: the sum of dy over all lists, in order, and the tokens of each list;
 * zero for tokens that do not occur. */
struct sw_embedding_gradient_args {
    struct sw_token_lists lists;
    int64_t width;
    const int32_t *token;
    const float *dy;
    const struct sw_step *step;
    float *dweight;
};
extern const struct sw_op sw_op_embedding_gradient;

/* y [rows per_row, vocabulary]: 1 at the token, 0 elsewhere. */
struct sw_onehot_args {
    struct sw_token_lists lists; /* of length 1 */
    const int32_t *token;
    const struct sw_step *step;
    float *y;
};
extern const struct sw_op sw_op_onehot;
