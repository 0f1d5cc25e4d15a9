/* Is the history in order? For `doctor`. Opens the file for reading only. Any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_history_health {
    char sqlite[16];     /* version of the library */
    bool wal_reset_safe; /* it has the fix of the WAL-reset bug (3.51.3); our lock covers for it */
    bool exists, writable;
    int64_t bytes, wal_bytes;
    int64_t runs;
    int version;      /* of the schema */
    int waiting;      /* runs with rows that are not merged yet */
    char damage[200]; /* what quick_check found; "": nothing */
};

/* check: also read the whole file. What is wrong with the file is in `damage`; errors are those of
 * the system: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_history_health(const char *path, bool check, struct sw_history_health *out,
                      struct sw_err *err) SW_MUST_CHECK;
