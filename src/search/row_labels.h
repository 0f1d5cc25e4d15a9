/* Labels of the rows that are searched: one class per row, or a set of classes. Two rows are
 * relevant to each other if they share a label (thesis, 5.7.1). Plain data; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_LABELS_MOST_CLASSES = 65536 };

/* Exactly one of `single` and `sets` is not NULL; both are borrowed. */
struct sw_row_labels {
    int64_t count;
    int classes;
    const int32_t *single; /* [count], 0 to classes - 1 */
    const uint64_t
        *sets; /* [count][sw_label_words(classes)]: class c is bit c % 64 of word c / 64 */
};

static inline int sw_label_words(int classes)
{
    return (classes + 63) / 64;
}

static inline bool sw_row_has_label(const struct sw_row_labels *l, int64_t row, int label)
{
    if (l->single)
        return l->single[row] == label;
    return l->sets[row * sw_label_words(l->classes) + label / 64] >> (label % 64) & 1;
}

/* Whether row i of a and row j of b, which have as many classes and the same form, share a label.
 */
static inline bool sw_row_labels_share(const struct sw_row_labels *a, int64_t i,
                                       const struct sw_row_labels *b, int64_t j)
{
    if (a->single)
        return a->single[i] == b->single[j];

    const int words = sw_label_words(a->classes);
    uint64_t both = 0;

    for (int w = 0; w < words; w++)
        both |= a->sets[i * words + w] & b->sets[j * words + w];
    return both != 0;
}

/* Checks 1 to SW_LABELS_MOST_CLASSES classes and that all labels are in that range. `what` names
 * the labels in errors. Errors: SW_ERR_FORMAT naming the row. */
int sw_row_labels_check(const struct sw_row_labels *l, const char *what,
                        struct sw_err *err) SW_MUST_CHECK;
