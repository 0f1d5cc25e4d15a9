/* Variables in .mat files of MATLAB, level 5 ("MAT-File Format", MathWorks; written by `save -v7`
 * and -v6 and by scipy.io.savemat): a header of 128 bytes, then elements, each a matrix, compressed
 * or not. Little-endian, real, full numeric matrices of any integer or float type can be read;
 * others are listed, but refused when read. Level 7.3 is HDF5, another format.
 *
 * No size in a file is trusted: sizes are compared with the bytes available, and with what these
 * can inflate to, before memory is allocated. Values are in column-major order: the first dimension
 * varies fastest. One owner, any thread. */
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
    int64_t count; /* number of values */
    /* private: the element in the file */
    uint64_t at, bytes, inflated_bytes;
    bool compressed;
};

struct sw_mat {
    const char *what;           /* borrowed; names the file in messages */
    const unsigned char *bytes; /* borrowed; the whole file */
    uint64_t size;
    struct sw_mat_variable *variable; /* owned */
    uint64_t max_bytes;               /* limit for an inflated matrix; 0: none. Set after open */
    int count;
};

/* Lists the variables of a file in memory. Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (version, byte
 * order), SW_ERR_NOMEM. */
int sw_mat_open(struct sw_mat *m, const char *what, const void *bytes, uint64_t size,
                struct sw_err *err) SW_MUST_CHECK;
void sw_mat_close(struct sw_mat *m); /* a zeroed one is accepted */

const struct sw_mat_variable *sw_mat_find(const struct sw_mat *m, const char *name); /* or NULL */

/* The values of one variable. */
struct sw_mat_values {
    int type; /* private: storage type in the file */
    const unsigned char *data;
    unsigned char *memory; /* owned, or NULL */
    int64_t count;
};

/* Reads the values of a variable; free with sw_mat_values_fini. Errors: SW_ERR_FORMAT,
 * SW_ERR_UNSUPPORTED (not a numeric matrix), SW_ERR_NOMEM. */
int sw_mat_read(const struct sw_mat *m, const struct sw_mat_variable *v, struct sw_mat_values *out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_mat_values_fini(struct sw_mat_values *x); /* a zeroed one is accepted */
/* Value i, 0 .. count-1, in the file's order. 64-bit integers beyond 2^53 are rounded. */
double sw_mat_value(const struct sw_mat_values *x, int64_t i);
