/* Words that are classes: which number each of them has. The same words give the same numbers,
 * whatever order they come in. */
#pragma once

#include "data/lexicon.h"
#include "recipe/option.h"

enum { SW_MAX_CLASS_NUMBERS = 1 << 16 };

/* Before any word is met: the classes that a key lists are the first words, in its order. key names
 * it in errors. Errors: SW_ERR_INVALID (listed twice), SW_ERR_NOMEM. */
int sw_classes_list(struct sw_lexicon *words, const struct sw_strings *names, const char *key,
                    struct sw_err *err) SW_MUST_CHECK;

enum sw_class_order {
    SW_CLASSES_LISTED,   /* as they were added: a list gave them in their order */
    SW_CLASSES_SORTED,   /* by their bytes */
    SW_CLASSES_NUMBERED, /* words that all are whole numbers below SW_MAX_CLASS_NUMBERS are the
                            classes themselves; else sorted */
};

/* After all words were met: sets *number to new memory (sw_free) with the class of each word.
 * *naming is as in struct sw_records. Errors: SW_ERR_NOMEM. */
int sw_classes_number(const struct sw_lexicon *words, enum sw_class_order how, int32_t **number,
                      int64_t *classes, uint64_t *naming, struct sw_err *err) SW_MUST_CHECK;
