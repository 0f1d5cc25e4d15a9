/* A token bucket limits how many bytes are sent per second: it is kept as the time from which on
 * the next chunk may go, and each chunk moves that by the time that its bytes take at the limit. It
 * lags behind the clock by at most SW_TOKEN_BURST_NS, so that who wakes late makes up for it: in
 * any time T at most rate * (T + burst) bytes go, and one chunk more.
 *
 * Pure: the caller has the clock and the lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_TOKEN_BURST_NS = 10000000 };

struct sw_token_bucket {
    int64_t bytes_per_s; /* 0: no limit */
    int64_t free_ns;     /* from when on the next chunk may go */
};

/* May a chunk go now? */
static inline bool sw_token_bucket_is_free(const struct sw_token_bucket *b, int64_t now_ns)
{
    return b->bytes_per_s == 0 || b->free_ns <= now_ns;
}
/* A chunk goes now, whether or not it may. */
void sw_token_bucket_charge(struct sw_token_bucket *b, int64_t now_ns, size_t bytes);
/* Takes back a charge for bytes that were not sent. */
void sw_token_bucket_refund(struct sw_token_bucket *b, size_t bytes);
