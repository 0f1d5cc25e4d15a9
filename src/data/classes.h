/* Maps words to class numbers. The same words give the same numbers in whatever order they arrive.
 */
#pragma once

#include "data/lexicon.h"
#include "recipe/option.h"

enum { SW_MAX_CLASS_NUMBERS = 1 << 16 };

/* Call before any word is added: the classes listed by a key become the first words, in that order.
 * key is its name, for errors. Errors: SW_ERR_INVALID (listed twice), SW_ERR_NOMEM. */
int sw_classes_list(struct sw_lexicon *words, const struct sw_strings *names, const char *key,
                    struct sw_err *err) SW_MUST_CHECK;

/* Call before any word is added: the lines of a file become the first words, without empty ones.
 * Errors: those of reading, SW_ERR_FORMAT without names or with one twice, SW_ERR_NOMEM. */
int sw_classes_read(struct sw_lexicon *words, const char *path, struct sw_err *err) SW_MUST_CHECK;

/* Call before any word is added: the classes of a trained net become the first words. Errors:
 * SW_ERR_NOMEM. */
int sw_classes_of(struct sw_lexicon *words, const struct sw_lexicon *names,
                  struct sw_err *err) SW_MUST_CHECK;

enum sw_class_order {
    SW_CLASSES_LISTED,   /* in the order in which they were added (by sw_classes_list) */
    SW_CLASSES_SORTED,   /* by their bytes */
    SW_CLASSES_NUMBERED, /* if all words are integers below SW_MAX_CLASS_NUMBERS, these are the
                            classes; else sorted */
};

/* Call after all words were added: sets *number to new memory (free with sw_free) with the class of
 * each word. *naming is as in struct sw_records. Errors: SW_ERR_NOMEM. */
int sw_classes_number(const struct sw_lexicon *words, enum sw_class_order how, int32_t **number,
                      int64_t *classes, uint64_t *naming, struct sw_err *err) SW_MUST_CHECK;

/* Sets *names, which is empty, to the words in the order of their classes. Only for words that are
 * not numbers themselves (naming is not 0). Errors: SW_ERR_NOMEM. */
int sw_classes_name(struct sw_lexicon *names, const struct sw_lexicon *words, const int32_t *number,
                    struct sw_err *err) SW_MUST_CHECK;
