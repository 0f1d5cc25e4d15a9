/* What the sub-verbs of `singa-ws search` read from .npy files: vectors, codes, labels. Main
 * thread. */
#pragma once

#include "search/index.h"

/* The paragraph about arrays for --help. */
#define SW_SEARCH_ARRAYS_ABOUT                                                                     \
    "Arrays are .npy files. Rows of numbers are vectors; with kinds codes and mih rows of\n"       \
    "unsigned bytes are codes of 8 bits each, the lowest first, and booleans are bits.\n"          \
    "Labels are a class per row, or a column of 0 and 1 for each class."

struct sw_search_array {
    struct sw_search_set set;
    void *owned; /* the memory of the set */
};

/* Reads and checks a set. may_be_codes: unsigned bytes and booleans are codes. Free it with
 * sw_search_array_fini. Errors: those of tensor/npy.h, SW_ERR_FORMAT, SW_ERR_NOMEM. */
int sw_search_array_read(struct sw_search_array *a, const char *path, enum sw_metric m,
                         bool may_be_codes, struct sw_err *err) SW_MUST_CHECK;
void sw_search_array_fini(struct sw_search_array *a); /* a zeroed one is accepted */
static inline int64_t sw_search_array_count(const struct sw_search_array *a)
{
    return a->set.codes.count ? a->set.codes.count : a->set.vectors.count;
}

struct sw_search_labels {
    struct sw_row_labels labels;
    void *owned;
};

/* Reads and checks labels; classes are as many as the largest number needs, or the columns. Free
 * them with sw_search_labels_fini. Errors: as above. */
int sw_search_labels_read(struct sw_search_labels *l, const char *path,
                          struct sw_err *err) SW_MUST_CHECK;
/* The same from values [rows, columns] in memory, which it takes, also with an error. */
int sw_search_labels_of(struct sw_search_labels *l, const char *what, int32_t *values, int64_t rows,
                        int64_t columns, struct sw_err *err) SW_MUST_CHECK;
void sw_search_labels_fini(struct sw_search_labels *l); /* a zeroed one is accepted */

/* The number of threads that --threads gives, or one for each core. Errors: those of the machine
 * map, SW_ERR_INVALID. */
int sw_search_threads(int64_t option, int *threads, struct sw_err *err) SW_MUST_CHECK;
