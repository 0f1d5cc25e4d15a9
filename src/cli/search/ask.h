/* A search in an index as sub-verbs of `singa-ws search` do it: the index, the queries, and the
 * neighbors that were found. Main thread. */
#pragma once

#include "cli/search/model.h"

struct sw_search_ask {
    struct sw_index index;
    struct sw_search_array queries;
    int64_t count, k; /* queries, neighbors of each */
    int threads;
    struct sw_neighbor *found; /* owned [count][k] */
    enum sw_metric metric;     /* of the distances in found; meaningless if these are bits */
    bool bits;                 /* distances are numbers of bits */
    int64_t read;              /* vectors or codes that were compared with a query */
    double seconds;            /* of the search alone */
};

struct sw_search_ask_args {
    const char *index, *queries;
    struct sw_search_array *computed; /* vectors in place of a file of queries, which are taken;
                                         or NULL */
    const struct sw_search_model_options *model; /* that encodes the queries; NULL: none */
    int64_t k, candidates; /* candidates: 0, or how many codes are ordered by their vectors */
    int64_t threads;
};

/* Opens the index, reads the queries and searches. Free with sw_search_ask_fini also after an
 * error. Errors: those of search/index.h and arrays.h. */
int sw_search_ask(struct sw_search_ask *s, const struct sw_search_ask_args *a,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_search_ask_fini(struct sw_search_ask *s);

/* The distance of a neighbor as users see it. */
double sw_search_ask_shown(const struct sw_search_ask *s, struct sw_neighbor n);
/* "euclidean", "cosine", "dot" or "bits". */
const char *sw_search_ask_unit(const struct sw_search_ask *s);
