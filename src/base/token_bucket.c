/* The arithmetic of a token bucket (base/token_bucket.h). */
#include "base/token_bucket.h"

static int64_t duration_ns(const struct sw_token_bucket *b, size_t bytes)
{
    return (int64_t)((double)bytes / (double)b->bytes_per_s * 1e9);
}

void sw_token_bucket_charge(struct sw_token_bucket *b, int64_t now_ns, size_t bytes)
{
    int64_t least_ns = now_ns - SW_TOKEN_BURST_NS;

    if (b->bytes_per_s > 0)
        b->free_ns = (b->free_ns > least_ns ? b->free_ns : least_ns) + duration_ns(b, bytes);
}

void sw_token_bucket_refund(struct sw_token_bucket *b, size_t bytes)
{
    if (b->bytes_per_s > 0)
        b->free_ns -= duration_ns(b, bytes);
}
