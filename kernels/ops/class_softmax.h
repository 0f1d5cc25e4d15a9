/* A softmax in two levels for a large vocabulary (Goodman, "Classes for Fast Maximum Entropy
 * Training", 2001; Mikolov et al., "Extensions of Recurrent Neural Network Language Model", 2011):
 * every word belongs to one class, and
 *
 *   p(word | x) = p(class of word | x) p(word | class, x)
 *
 * with a softmax over the classes and one over the words of a class. So the loss of a row costs
 * classes + words of its class products instead of one per word. Matrices are plain. A class is a
 * range of words. With SW_BINS_FREQUENCY class c of C begins at word V (c / C)^2: if words are
 * numbered from the most frequent one and Zipf's law holds, these are bins of equal sums of the
 * root of the frequency. With SW_BINS_EQUAL all classes have equally many words.
 *
 * The rows are grouped by the class of their label, so that each class multiplies its rows with its
 * words. Position i of this order is row order[i]; class c has positions begin[c] .. begin[c + 1] -
 * 1. Rows with the ignored label and invalid rows are left out: begin[classes] rows remain. */
#pragma once

#include "kernels/labels.h"

enum sw_word_bins { SW_BINS_FREQUENCY, SW_BINS_EQUAL };
enum { SW_MAX_WORD_CLASSES = 1 << 16, SW_MAX_WORDS = 1 << 26 };

/* At least as many words as classes. */
struct sw_word_classes {
    int64_t words, classes;
    enum sw_word_bins bins;
};

/* Returns the first word of class c; that of c = classes is the number of words. */
SW_BOTH int64_t sw_class_first(const struct sw_word_classes *k, int64_t c)
{
    if (k->bins == SW_BINS_EQUAL)
        return c * k->words / k->classes;

    const int64_t first = c * c * k->words / (k->classes * k->classes);
    return first > c ? first : c; /* no class is empty */
}

/* Returns the class of a word. */
SW_BOTH int64_t sw_class_of(const struct sw_word_classes *k, int64_t word)
{
    int64_t c = 0, end = k->classes;

    while (end - c > 1) {
        const int64_t middle = c + (end - c) / 2;
        if (sw_class_first(k, middle) <= word)
            c = middle;
        else
            end = middle;
    }

    return c;
}

/* Returns the number of words of class c, and that of the largest class. */
SW_BOTH int64_t sw_class_words(const struct sw_word_classes *k, int64_t c)
{
    return sw_class_first(k, c + 1) - sw_class_first(k, c);
}
SW_BOTH int64_t sw_class_widest(const struct sw_word_classes *k)
{
    int64_t most = 0;
    for (int64_t c = 0; c < k->classes; c++)
        most = sw_class_words(k, c) > most ? sw_class_words(k, c) : most;
    return most;
}

/* Groups the rows by the class of their label, in their order within a class, and sets label[r] to
 * the class of row r, -1 for an ignored label. */
struct sw_class_group_args {
    int64_t rows;
    struct sw_word_classes kind;
    struct sw_labels labels; /* words */
    const struct sw_step *step;
    int32_t *label; /* [rows]; of invalid rows not written */
    int32_t *order; /* [rows] */
    int32_t *begin; /* [classes + 1] */
};
extern const struct sw_op sw_op_class_group;

/* For rows in groups: sets prob to the probabilities of the words of the row's class, at position i
 * from prob[i, 0] on, and adds weight times the sum of -log prob[word] to result->sum. */
struct sw_class_words_args {
    int64_t rows, width;
    int64_t widest; /* sw_class_widest */
    struct sw_word_classes kind;
    float factor; /* of the loss */
    struct sw_labels labels;
    const int32_t *order, *begin;
    const float *x;      /* [rows, width] */
    const float *weight; /* [words, width] */
    const float *bias;   /* [words] */
    float *grouped;      /* [rows, width]: x in the order of groups */
    float *prob;         /* [rows, widest] */
    struct sw_result *result;
};
extern const struct sw_op sw_op_class_words;

/* The gradient of that loss, with the scale of sw_softmax_gradient_args: sets dweight and dbias,
 * which are zero for the words of classes without rows, and adds to dx. Overwrites prob. */
struct sw_class_words_gradient_args {
    int64_t rows, width, widest, batch_rows;
    struct sw_word_classes kind;
    float factor;
    struct sw_labels labels;
    const struct sw_step *step;
    const double *counted; /* as in sw_softmax_gradient_args */
    const int32_t *order, *begin;
    const float *weight, *grouped;
    float *prob;          /* [rows, widest] */
    float *dweight;       /* [words, width] */
    float *dbias;         /* [words] */
    float *dgrouped, *dx; /* [rows, width]: scratch, and the gradient of x; both NULL: not needed */
};
extern const struct sw_op sw_op_class_words_gradient;

/* Sets score[r, w], the score of word w within its class, to log p(w), given the scores of the
 * classes. */
struct sw_class_log_softmax_args {
    int64_t rows;
    struct sw_word_classes kind;
    const float *class_score; /* [rows, classes] */
    float *score;             /* [rows, words] */
};
extern const struct sw_op sw_op_class_log_softmax;

/* ---- CPU, of one row ---- */

/* Turns the scores at position i into probabilities; returns -log p of the row's word. */
double sw_kernel_class_row(const struct sw_class_words_args *a, int64_t i);
/* Turns the probabilities at position i into scale (p - onehot). */
void sw_kernel_class_row_gradient(const struct sw_class_words_gradient_args *a, float scale,
                                  int64_t i);
