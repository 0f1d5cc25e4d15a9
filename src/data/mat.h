/* Variables in .mat files of MATLAB, level 5 ("MAT-File Format", MathWorks; what `save -v7` and -v6
 * write, and scipy.io.savemat): 128 bytes of header, then elements, each a matrix, compressed or
 * not. Numeric matrices of any integer or float type are read, little-endian, real and full; others
 * are listed and refused when they are asked for. Level 7.3 is HDF5, another format.
 *
 * Nothing of a file is believed: sizes are compared with the bytes that there are, and with what
 * they can inflate to, before memory is taken. Values lie in the order of columns: the first
 * dimension runs fastest. One owner, any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_MAT_NAME_BYTES = 64, SW_MAT_MAX_DIMS = 8, SW_MAT_MAX_VARIABLES = 4096 };

struct sw_mat_variable {
    char name[SW_MAT_NAME_BYTES];
    const char *class_name; /* static: double, uint8, cell ... */
    bool readable;          /* a real, full, numeric matrix */
    bool is_u8;
    int ndim; /* 2 or more */
    int64_t dim[SW_MAT_MAX_DIMS];
    int64_t count; /* of values */
    /* private: its element in the file */
    uint64_t at, bytes, inflated_bytes;
    bool compressed;
};

struct sw_mat {
    const char *what;           /* borrowed; names the file in messages */
    const unsigned char *bytes; /* borrowed; the whole file */
    uint64_t size;
    struct sw_mat_variable *variable; /* owned */
    uint64_t max_bytes; /* of a compressed matrix, inflated; 0: of any size. Set behind open */
    int count;
};

/* Lists the variables of a file in memory. Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (version,
 * order of bytes), SW_ERR_NOMEM. */
int sw_mat_open(struct sw_mat *m, const char *what, const void *bytes, uint64_t size,
                struct sw_err *err) SW_MUST_CHECK;
void sw_mat_close(struct sw_mat *m); /* a zeroed one is accepted */

const struct sw_mat_variable *sw_mat_find(const struct sw_mat *m, const char *name); /* or NULL */

/* The values of one variable. */
struct sw_mat_values {
    int type; /* private: of the file */
    const unsigned char *data;
    unsigned char *memory; /* owned, or NULL */
    int64_t count;
};

/* Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (no numeric matrix), SW_ERR_NOMEM. */
int sw_mat_read(const struct sw_mat *m, const struct sw_mat_variable *v, struct sw_mat_values *out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_mat_values_fini(struct sw_mat_values *x); /* a zeroed one is accepted */
/* Value i, 0 .. count-1, in the file's order. 64-bit integers beyond 2^53 are rounded. */
double sw_mat_value(const struct sw_mat_values *x, int64_t i);
