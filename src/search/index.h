/* An index: a set of vectors or codes together with what makes searching it faster, in a file
 * (search/index_file.h). Its kind is a descriptor, which builds the sections of the file, checks
 * them when one is opened, and searches. Results do not depend on threads. An open index is frozen;
 * any number of threads may search it. */
#pragma once

#include "search/encoder.h"
#include "search/index_file.h"
#include "search/multi_index.h"
#include "search/row_labels.h"
#include "search/va_file.h"

struct sw_index;
struct sw_index_build;

/* What is searched: vectors, codes, or vectors that an encoder turns into codes. The one that is
 * not given has count 0. */
struct sw_search_set {
    struct sw_vectors vectors;
    struct sw_codes codes;
};

struct sw_index_kind {
    const char *name;
    int usual_bits;   /* of a dimension or of a code, where none are given; 0: takes no bits */
    bool holds_codes; /* it compares codes */
    int (*build)(struct sw_index_build *b, struct sw_err *err);
    int (*bind)(struct sw_index *x, struct sw_err *err);
    int (*search)(const struct sw_index *x, const struct sw_search_set *q, int64_t k, int threads,
                  struct sw_neighbor *out, int64_t *read, struct sw_err *err);
};

/* exact, va, codes, mih; NULL at the end. A file stores the place of its kind in this table. */
extern const struct sw_index_kind *const sw_index_kinds[];
const struct sw_index_kind *sw_index_kind_find(const char *name); /* NULL: unknown */

struct sw_index_args {
    const struct sw_index_kind *kind;
    enum sw_metric metric;              /* of vectors */
    int bits;                           /* 0: the usual ones; of codes that are given: theirs */
    uint64_t seed;                      /* of an encoder */
    struct sw_search_set set;           /* checked: vectors or codes, not both */
    const struct sw_row_labels *labels; /* checked, or NULL */
    int threads;
};

/* Builds an index and writes it to PATH, whole or not at all. Errors: SW_ERR_INVALID (a kind that
 * does not suit the set, bits), SW_ERR_NOMEM, SW_ERR_IO, SW_ERR_CANCELLED. */
int sw_index_write(const struct sw_index_args *a, const char *path,
                   struct sw_err *err) SW_MUST_CHECK;

struct sw_index {
    struct sw_index_file file;
    const struct sw_index_kind *kind;
    enum sw_metric metric;
    int64_t count;
    bool has_vectors;
    bool has_labels;
    struct sw_vectors vectors;   /* if has_vectors */
    struct sw_row_labels labels; /* if has_labels */
    struct sw_va_file va;
    struct sw_codes codes;
    struct sw_encoder encoder; /* of an index of codes that has vectors */
    struct sw_multi_index multi;
};

/* Opens an index and checks all it says. Close it with sw_index_close. Errors: those of
 * sw_index_file_open, SW_ERR_FORMAT saying what was expected. */
int sw_index_open(struct sw_index *x, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* The same for the bytes of a file in memory (sw_index_file_parse). */
int sw_index_parse(struct sw_index *x, const char *name, const void *bytes, uint64_t count,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_index_close(struct sw_index *x); /* a zeroed struct is accepted */

/* Finds the k nearest for each query: out [queries][k]. An index of codes takes codes, and if it
 * has an encoder vectors, too; any other takes vectors. *read becomes the number of vectors or
 * codes that were compared with a query, summed over the queries. Errors: SW_ERR_INVALID (a set of
 * another form or dimension, k, threads), SW_ERR_NOMEM, SW_ERR_CANCELLED, SW_ERR_FORMAT (the file
 * changed). */
int sw_index_search(const struct sw_index *x, const struct sw_search_set *q, int64_t k, int threads,
                    struct sw_neighbor *out, int64_t *read, struct sw_err *err) SW_MUST_CHECK;
/* What sw_index_search found for some queries. */
struct sw_candidates {
    const struct sw_neighbor *at; /* [queries][each] */
    int64_t each;
};
/* The k nearest candidates of each query by the distances of their vectors, which the index has:
 * out [queries][k]. Errors: SW_ERR_INVALID, SW_ERR_CANCELLED, SW_ERR_NOMEM, SW_ERR_FORMAT (the file
 * changed). */
int sw_index_reorder(const struct sw_index *x, const struct sw_vectors *queries,
                     struct sw_candidates c, int64_t k, int threads, struct sw_neighbor *out,
                     struct sw_err *err) SW_MUST_CHECK;
/* The answer that recall is measured against: an exhaustive search of the vectors, or of the codes
 * of an index that has no vectors. Errors: as above. */
int sw_index_truth(const struct sw_index *x, const struct sw_search_set *q, int64_t k, int threads,
                   struct sw_neighbor *out, struct sw_err *err) SW_MUST_CHECK;
