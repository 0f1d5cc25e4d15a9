/* The classes of a vocabulary in layers with a softmax in two levels
 * (kernels/ops/class_softmax.h): keys, and the parameters, in the order weight_class, bias_class,
 * weight, bias. */
#pragma once

#include "kernels/ops/class_softmax.h"
#include "layers/layer.h"

struct sw_word_classes_conf {
    int64_t vocabulary;
    int bins; /* enum sw_word_bins */
};
extern const char *const sw_word_bins[];
extern const char *const sw_word_classes_params[];

enum { SW_CLASS_WEIGHT, SW_CLASS_BIAS, SW_WORD_WEIGHT, SW_WORD_BIAS };

/* Option rows; `member` of struct `conf` is a struct sw_word_classes_conf. */
#define SW_WORD_CLASSES_OPTS(conf, member)                                                         \
    SW_OPT_KEY(INT, "vocabulary", conf, member.vocabulary,                                         \
               "number of words; labels are 0 .. vocabulary - 1", .min = 2, .max = SW_MAX_WORDS,   \
               .required = true),                                                                  \
        SW_OPT_KEY(ENUM, "bins", conf, member.bins,                                                \
                   "words of a class: frequency, for words numbered from the most frequent one "   \
                   "(the first classes are small), or equal",                                      \
                   .def = "frequency", .choices = sw_word_bins)

/* Sets the classes. classes: 0 for about the square root of the words. Errors: SW_ERR_INVALID if
 * there are more classes than words. */
int sw_word_classes_init(struct sw_word_classes *k, const struct sw_word_classes_conf *c,
                         int64_t classes, struct sw_err *err) SW_MUST_CHECK;
/* Call in setup: adds the parameters for rows of `width` features. */
void sw_word_classes_add_params(const struct sw_word_classes *k, struct sw_layer *l, int64_t width);
/* Computes score[rows, n] = x[rows, width] weight^T + bias, with the parameters `param` and
 * param + 1. */
int sw_word_classes_score(const struct sw_layer *l, const struct sw_pass *r, int param,
                          int64_t rows, const float *x, float *score,
                          struct sw_err *err) SW_MUST_CHECK;
