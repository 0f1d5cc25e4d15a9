/* The state of the history file, for `doctor`. Opens the file for reading only. Any thread may
 * call. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_history_health {
    char sqlite[16];     /* version of the SQLite library */
    bool wal_reset_safe; /* the library has the fix of the WAL-reset bug (3.51.3); without it our
                            lock prevents the bug */
    bool exists, writable;
    int64_t bytes, wal_bytes;
    int64_t runs;
    int version;      /* of the schema */
    int waiting;      /* number of runs with unmerged spools */
    char damage[200]; /* the problem that quick_check found; "": none */
};

/* Fills *out. check: also run quick_check, which reads the whole file. A damaged file is reported
 * in `damage`. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_history_health(const char *path, bool check, struct sw_history_health *out,
                      struct sw_err *err) SW_MUST_CHECK;
