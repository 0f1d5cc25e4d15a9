/* Matrices in text files, plain or .gz: a line for each row, values separated by blanks or tabs,
 * also at the end of a line. Every row has as many values as the first. No state; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* Handles a row. values are valid during the call. */
typedef int sw_number_row_visit(void *user, int64_t row, const float *values, int64_t columns,
                                struct sw_err *err);

struct sw_number_rows {
    const char *path;
    uint64_t max_bytes; /* limit for the file's content */
    bool bits;          /* values must be 0 or 1; otherwise finite */
    int64_t columns;    /* that each row must have; 0: those of the first row, which are set here */
    int64_t rows;       /* that the file must have */
    const char *rows_of; /* what has as many, for messages: a file */
    sw_number_row_visit *visit;
    void *user;
};

/* Calls visit for every row, in order. Errors: SW_ERR_FORMAT naming file, line and value for a
 * value that is not valid, a row of another length or an empty line before the last row, and for
 * another number of rows; SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM; those of visit. */
int sw_number_rows_read(struct sw_number_rows *r, struct sw_err *err) SW_MUST_CHECK;
