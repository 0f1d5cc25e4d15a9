/* The sub-verbs of `singa-ws search`; the rows of src/cli/search.c. */
#pragma once

#include "cli/cli.h"

extern const struct sw_verb sw_search_index, sw_search_query, sw_search_map, sw_search_recall,
    sw_search_train, sw_search_project, sw_search_words;

/* The row of --neighbors in a sub-verb's option table, and that of --candidates with it. */
enum { SW_SEARCH_USUAL_NEIGHBORS = 10 };
#define SW_SEARCH_NEIGHBORS_ROW(holder)                                                            \
    {                                                                                              \
        .name = "neighbors", .arg = "N", .help = "number of neighbors; default: 10",               \
        .type = SW_CLI_INT, .offset = offsetof(holder, k), .min = 1, .letter = 'k'                 \
    }
#define SW_SEARCH_NEIGHBORS_ROWS(holder)                                                           \
    SW_SEARCH_NEIGHBORS_ROW(holder),                                                               \
        SW_CLI_INT_OPTION(holder, candidates, "candidates", "N", 1,                                \
                          "order the N nearest codes by the distances of their vectors")

/* The row of --threads in a sub-verb's option table. */
#define SW_SEARCH_THREADS_OPTION(holder)                                                           \
    SW_CLI_INT_OPTION(holder, threads, "threads", "N", 1, "threads; default: one for each core")
