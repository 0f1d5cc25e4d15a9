/* Skip-gram with negative sampling or a hierarchical softmax: which pairs of words a text gives,
 * their losses and gradients. Formulas and sources: kernels/cpu/skip_gram.c. Rows are windows of
 * running text, `length` tokens each; matrices are plain. All devices draw the same pairs. */
#pragma once

#include "base/philox.h"
#include "kernels/op.h"
#include "kernels/row_list.h"

enum { SW_SKIP_GRAM_WINDOW = 64 }; /* the largest window */

struct sw_skip_gram_shape {
    int64_t rows, length, width;
    int64_t window;     /* most words before and behind a center that are its contexts */
    int64_t outputs;    /* most outputs of a center: its word and negatives, or nodes of its path */
    int64_t vocabulary; /* tokens are -1 (none) and 0 .. vocabulary - 1 */
    int64_t output_rows; /* of the matrix of output vectors */
};

/* What is known of the words; the arrays are in device memory and frozen. */
struct sw_skip_gram_words {
    const float *keep;     /* [vocabulary]: the probability that an occurrence is not left out */
    int64_t negatives;     /* words drawn per center, from the distribution below */
    const uint32_t *below; /* [drawn]: Walker's alias method: column i is the word i if the random
                              word is below this, else alias[i] */
    const int32_t *alias;  /* [drawn]; NULL: hierarchical softmax */
    int64_t drawn;
    const int32_t *path;     /* [path_count]: node * 2 + label, from the root on; or NULL */
    const int64_t *path_end; /* [vocabulary]: the end of the path of each word; or NULL */
    int64_t path_count;
};

/* Bytes of the arrays that forward writes and the gradient reads, for all rows. */
static inline size_t sw_skip_gram_pick_bytes(const struct sw_skip_gram_shape *s)
{
    return (size_t)(s->rows * (1 + s->length * (3 + s->outputs))) * sizeof(int32_t);
}
static inline size_t sw_skip_gram_slope_bytes(const struct sw_skip_gram_shape *s)
{
    return (size_t)(s->rows * s->length * (1 + 2 * s->window * s->outputs)) * sizeof(float);
}

/* Draws the pairs of every valid row and sets loss [rows] to the sum over them, zero for other
 * rows. result: the sum over rows, and how many are valid. The random words of a row depend only on
 * the key, the step and its global number. */
struct sw_skip_gram_args {
    struct sw_skip_gram_shape shape;
    struct sw_skip_gram_words words;
    struct sw_philox key;
    float weight; /* factor of result.sum */
    const int32_t *token;
    const float *x;      /* [rows, length, width] */
    const float *output; /* [output_rows, width] */
    const struct sw_step *step;
    int32_t *picks; /* the centers, their contexts and outputs */
    float *slope;   /* derivatives by the scores */
    float *loss;
    struct sw_result *result;
};
extern const struct sw_op sw_op_skip_gram;

/* Sets dx [rows, length, width], unless NULL, and doutput [output_rows, width] to the gradient of
 * the loss, times weight and the step's scale. */
struct sw_skip_gram_gradient_args {
    struct sw_skip_gram_shape shape;
    float weight;
    const float *x;
    const float *output;
    const struct sw_step *step;
    const int32_t *picks;
    const float *slope;
    float *dx;
    float *doutput;
    struct sw_row_list *listed; /* host memory: unless NULL, doutput gets the rows of the outputs
                                   that occur, and the list of these (kernels/row_list.h). A GPU
                                   writes all rows and no list */
};
extern const struct sw_op sw_op_skip_gram_gradient;
