/* Lookup of table rows by integers: word vectors and their means, and one-hot vectors. A list of
 * `length` tokens gives one output row; matrices and tables are plain. Only lists of the step's
 * valid rows are read, the others give zeros. A token outside 0..vocabulary-1 that is not `skip` is
 * SW_ERR_INVALID naming row and value, and the operation writes nothing. Formulas:
 * kernels/cpu/embedding.c. */
#pragma once

#include "kernels/op.h"
#include "kernels/row_list.h"

enum { SW_TOKEN_NO_SKIP = INT32_MIN };

/* The shape and the vocabulary of lists of tokens. */
struct sw_token_lists {
    int64_t rows;    /* samples */
    int64_t per_row; /* lists per sample */
    int64_t length;  /* tokens per list */
    int64_t vocabulary;
    int32_t skip; /* padding token, which is skipped, or SW_TOKEN_NO_SKIP */
};

/* Sets the error of an invalid token; returns SW_ERR_INVALID. */
int sw_tokens_report_bad(int64_t row, int64_t place, int64_t token, int64_t vocabulary,
                         struct sw_err *err) SW_MUST_CHECK;

/* Sets y [rows per_row, width] to the mean of the rows of weight [vocabulary, width] over the
 * tokens of each list, zero for a list without tokens. */
struct sw_embedding_args {
    struct sw_token_lists lists;
    int64_t width;
    const int32_t *token;
    const float *weight;
    const struct sw_step *step;
    float *y;
};
extern const struct sw_op sw_op_embedding;

/* Sets dweight [vocabulary, width] to the sum of dy over all lists and their tokens in order, each
 * divided by the number of tokens in its list that are not skipped; zero for tokens that do not
 * occur. */
struct sw_embedding_gradient_args {
    struct sw_token_lists lists;
    int64_t width;
    const int32_t *token;
    const float *dy;
    const struct sw_step *step;
    float *dweight;
    struct sw_row_list *listed; /* host memory: unless NULL, dweight gets the rows of the tokens
                                   that occur, and the list of these (kernels/row_list.h) */
};
extern const struct sw_op sw_op_embedding_gradient;

/* Sets y [rows per_row, vocabulary] to 1 at the token, 0 elsewhere. */
struct sw_onehot_args {
    struct sw_token_lists lists; /* of length 1 */
    const int32_t *token;
    const struct sw_step *step;
    float *y;
};
extern const struct sw_op sw_op_onehot;
