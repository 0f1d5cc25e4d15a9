/* The check of labels. The contract is in search/row_labels.h. */
#include "search/row_labels.h"

int sw_row_labels_check(const struct sw_row_labels *l, const char *what, struct sw_err *err)
{
    if (l->classes < 1 || l->classes > SW_LABELS_MOST_CLASSES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %d classes, expected 1 to %d", what, l->classes,
                          SW_LABELS_MOST_CLASSES);

    const int words = sw_label_words(l->classes);
    const uint64_t beyond = l->classes % 64 ? ~(uint64_t)0 << (l->classes % 64) : 0;

    for (int64_t row = 0; row < l->count; row++) {
        if (l->single && (l->single[row] < 0 || l->single[row] >= l->classes))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: row %lld has label %d, expected 0 to %d",
                              what, (long long)row, l->single[row], l->classes - 1);
        if (l->sets && (l->sets[row * words + words - 1] & beyond))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: row %lld has a label beyond its %d classes",
                              what, (long long)row, l->classes);
    }

    return SW_OK;
}
