/* The limit of what this host sends to all others together, bytes_per_s: a token bucket
 * (base/token_bucket.h), which is charged for every chunk and its head.
 *
 * Messages of the fabric itself are counted but never wait: a beat that is late would lose a host.
 */
#include "exchange/hosts/fabric_private.h"

bool sw_fabric_may_send(struct sw_fabric *f)
{
    if (sw_token_bucket_is_free(&f->bucket, sw_fabric_now(f)))
        return true;

    if (sw_fabric_paced_ns(f) > f->bucket.free_ns) {
        __atomic_store_n(&f->paced_ns, f->bucket.free_ns, __ATOMIC_RELAXED);
        sw_cond_broadcast(&f->stop); /* its thread sleeps until then */
    }

    return false;
}

void sw_fabric_charge(struct sw_fabric *f, size_t bytes)
{
    if (f->bucket.bytes_per_s > 0) /* the clock is read for a limit only */
        sw_token_bucket_charge(&f->bucket, sw_fabric_now(f), bytes + SW_FRAME_HEAD);
}

void sw_fabric_refund(struct sw_fabric *f, size_t bytes)
{
    sw_token_bucket_refund(&f->bucket, bytes + SW_FRAME_HEAD);
}
