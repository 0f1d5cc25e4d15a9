/* A pool: many small allocations with one end. Everything a recipe owns lives in its pool, so that
 * half-built recipes are freed by one call on every error path. One owner, no lock. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct sw_pool_chunk;

/* Zero-initialise; free with sw_pool_fini. */
struct sw_pool {
    struct sw_pool_chunk *chunks; /* owned */
    bool failed;                  /* an allocation failed since the start */
};

void sw_pool_fini(struct sw_pool *p);
/* Zeroed memory, aligned for any type; NULL when exhausted (and `failed` is set). */
void *sw_pool_alloc(struct sw_pool *p, size_t count, size_t size);
char *sw_pool_copy(struct sw_pool *p, const char *s, size_t bytes); /* adds a zero */
char *sw_pool_format(struct sw_pool *p, const char *fmt, ...) SW_PRINTF(2, 3);
