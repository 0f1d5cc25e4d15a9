/* Converts a text to the typed field of an option row: parsing, range checks, and the reason of an
 * error. */
#pragma once

#include "base/str.h"
#include "recipe/option.h"
#include "recipe/pool.h"
#include <stdbool.h>
#include <stddef.h>

/* What is wrong with a text: the part [offset, offset + bytes) and the reason, which continues
 * "outputs = -3: ". */
struct sw_opt_problem {
    size_t offset, bytes;
    char reason[200];
};

/* Reads text as the row says into conf + row->offset (untouched on failure). Lists are allocated in
 * the pool, strings point to text. False with a problem, or with pool->failed. */
bool sw_opt_read(const struct sw_opt *row, const char *text, struct sw_pool *pool, void *conf,
                 struct sw_opt_problem *problem);

/* Whether it could be read; the value is left alone. */
bool sw_opt_accepts(const struct sw_opt *row, const char *text, struct sw_pool *pool,
                    struct sw_opt_problem *problem);
/* The inverse of sw_opt_read: appends the field of conf as it would be written; returns false for a
 * string that is not set and for an empty list. */
bool sw_opt_write(const struct sw_opt *row, const void *conf, struct sw_bytes *out);

/* Room for any single field, for checking a text without a struct. */
union sw_opt_field {
    int64_t integer;
    double real;
    bool boolean;
    const char *string;
    int choice;
    struct sw_strings strings;
    struct sw_reals reals;
};

/* Whether the row limits its values below or above. */
bool sw_opt_has_min(const struct sw_opt *row);
bool sw_opt_has_max(const struct sw_opt *row);
