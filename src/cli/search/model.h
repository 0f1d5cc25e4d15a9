/* Codes of a model (search/code_model.h) in place of vectors, for the sub-verbs of `singa-ws
 * search`. Main thread. */
#pragma once

#include "cli/search/arrays.h"
#include "search/code_model.h"

struct sw_search_model_options {
    const char *model, *view; /* NULL: none */
};

/* Rows of an option table; `member` is the place of the struct above in its holder. */
#define SW_SEARCH_MODEL_ROWS(holder, member)                                                       \
    SW_CLI_TEXT_OPTION(holder, member.model, "model", "MODEL",                                     \
                       "encode the vectors by a model of search train: to codes for an index of "  \
                       "codes, else to its real values"),                                          \
        SW_CLI_TEXT_OPTION(holder, member.view, "view", "VIEW",                                    \
                           "with --model: which of its views they are, image or text")

/* A usage error for a wrong --view: SW_EXIT_USAGE; else SW_EXIT_DONE. */
int sw_search_model_check(const char *verb, const struct sw_search_model_options *o);

/* Opens the model, if one is named, and encodes the vectors of an array in place: to codes or to
 * values. Errors: those of sw_code_model_open and of sw_search_model_encode. */
int sw_search_model_apply(const struct sw_search_model_options *o, bool codes, int threads,
                          struct sw_search_array *a, struct sw_err *err) SW_MUST_CHECK;
/* The same with an open model; view is 0 or 1, `what` names the array in errors. Errors:
 * SW_ERR_INVALID (dimensions, codes), SW_ERR_NOMEM, SW_ERR_CANCELLED, SW_ERR_FORMAT (the file
 * changed). */
int sw_search_model_encode(const struct sw_code_model *m, int view, const char *what, bool codes,
                           int threads, struct sw_search_array *a,
                           struct sw_err *err) SW_MUST_CHECK;

/* Makes codes of the vectors of an array, in place: bit j is set where number j is above the median
 * of number j in `base` (for half of them, rounded down, it is). base has as many dimensions.
 * Errors: SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_search_median_codes(const struct sw_vectors *base, struct sw_search_array *a,
                           struct sw_err *err) SW_MUST_CHECK;
