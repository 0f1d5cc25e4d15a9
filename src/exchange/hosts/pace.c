/* The limit of what this host sends to all others together, bytes_per_s: a token bucket, kept as
 * the time from which on the next chunk may go. Each chunk moves it by the time that its bytes take
 * at that rate. It lags behind the clock by at most BURST_NS, so that who wakes late makes up for
 * it.
 *
 * Messages of the fabric itself are counted but never wait: a beat that is late would lose a host.
 */
#include "exchange/hosts/fabric_private.h"

enum { BURST_NS = 10000000 };

static int64_t duration_ns(const struct sw_fabric *f, size_t bytes)
{
    return (int64_t)((double)(bytes + SW_FRAME_HEAD) / (double)f->args.bytes_per_s * 1e9);
}

bool sw_fabric_may_send(struct sw_fabric *f)
{
    if (f->args.bytes_per_s == 0 || f->free_ns <= sw_fabric_now(f))
        return true;

    if (sw_fabric_paced_ns(f) > f->free_ns) {
        __atomic_store_n(&f->paced_ns, f->free_ns, __ATOMIC_RELAXED);
        sw_cond_broadcast(&f->stop); /* its thread sleeps until then */
    }

    return false;
}

void sw_fabric_charge(struct sw_fabric *f, size_t bytes)
{
    if (f->args.bytes_per_s == 0)
        return;

    int64_t least_ns = sw_fabric_now(f) - BURST_NS;
    f->free_ns = (f->free_ns > least_ns ? f->free_ns : least_ns) + duration_ns(f, bytes);
}

void sw_fabric_refund(struct sw_fabric *f, size_t bytes)
{
    if (f->args.bytes_per_s > 0)
        f->free_ns -= duration_ns(f, bytes);
}
