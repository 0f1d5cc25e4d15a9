/* Reads the elements of a tensor in a safetensors file of any type as doubles, piece by piece, for
 * the statistics and differences of `weights`. One owner. */
#pragma once

#include "base/str.h"
#include "tensor/safetensors.h"

enum { SW_VALUES_PIECE = 65536 }; /* elements read at once */

/* Zero-initialise; free with sw_values_fini. */
struct sw_values {
    const struct sw_st_file *f; /* borrowed */
    const struct sw_st_entry *e;
    uint64_t at, count; /* elements read so far, and in total */
    double *piece;      /* owned: the elements read last */
    void *raw;          /* owned */
    size_t n;           /* number of elements in piece */
};

/* Begins to read one tensor of an open file, both borrowed until sw_values_fini. Errors:
 * SW_ERR_NOMEM. */
int sw_values_begin(struct sw_values *v, const struct sw_st_file *f, const struct sw_st_entry *e,
                    struct sw_err *err) SW_MUST_CHECK;
/* Reads the next elements into piece[0 .. n); n is 0 at the end. */
int sw_values_next(struct sw_values *v, struct sw_err *err) SW_MUST_CHECK;
void sw_values_fini(struct sw_values *v);

struct sw_value_stats {
    double min, max, mean, norm; /* of the finite elements; NaN if there are none */
    uint64_t count, not_finite;
};
int sw_value_stats(const struct sw_st_file *f, const struct sw_st_entry *e,
                   struct sw_value_stats *out, struct sw_err *err) SW_MUST_CHECK;

/* The differences of two tensors of the same shape, element by element. */
struct sw_value_diff {
    double max_abs,
        max_rel;  /* |a - b|, also relative to the larger of |a|, |b|; infinite if one is NaN */
    double scale; /* the largest finite |value| of both */
    uint64_t count, differing;
};
int sw_value_diff(const struct sw_st_file *fa, const struct sw_st_entry *a,
                  const struct sw_st_file *fb, const struct sw_st_entry *b,
                  struct sw_value_diff *out, struct sw_err *err) SW_MUST_CHECK;

/* "96x3x11x11"; "scalar" without dimensions. */
void sw_entry_shape(const struct sw_st_entry *e, struct sw_bytes *out);
