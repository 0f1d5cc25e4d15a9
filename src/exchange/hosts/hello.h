/* What two hosts tell each other first: lines "field=value", such as the version of the program, a
 * hash of the recipe, and the identity of the data. Both must say the same. The text of the other
 * host is not trusted: it may hold anything. Any thread may call. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct sw_hello {
    const char *host; /* the host's name */
    const char *text; /* lines, each with its newline; not zero-terminated */
    size_t bytes;
};

/* Is it such lines, with names and of printable characters? */
bool sw_hello_is_valid(const char *text, size_t bytes);
/* Compares field by field; the order of fields does not matter. Errors: SW_ERR_INVALID, which names
 * both hosts, the first field that differs or that one of them lacks, and both values. */
int sw_hello_compare(const struct sw_hello *own, const struct sw_hello *other,
                     struct sw_err *err) SW_MUST_CHECK;
