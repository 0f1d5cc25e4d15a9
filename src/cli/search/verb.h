/* The sub-verbs of `singa-ws search`; the rows of src/cli/search.c. */
#pragma once

#include "cli/cli.h"

extern const struct sw_verb sw_search_index, sw_search_query, sw_search_map, sw_search_recall;

/* The row of --threads in a sub-verb's option table. */
#define SW_SEARCH_THREADS_OPTION(holder)                                                           \
    SW_CLI_INT_OPTION(holder, threads, "threads", "N", 1, "threads; default: one for each core")
