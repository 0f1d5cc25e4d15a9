/* Links: each GPU has one in each direction, to the host and to its peers. A copy occupies the link
 * for its bytes divided by the bandwidth, after earlier copies, and then takes the latency. A copy
 * between GPUs occupies the outgoing link of one and the incoming link of the other at the same
 * time, or, without peer access, both one after the other through the host. Copies inside a GPU
 * take no time. The time is real: streams sleep. */
#include "device/sim/memory.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Occupies the links for one hop and returns when the copy ends. NULL: that end is the host. */
static int64_t hop(struct sw_sim_link *out, struct sw_sim_link *in, int64_t now_ns, size_t bytes,
                   const struct sw_sim_conf *conf)
{
    double rate = (double)conf->link_bytes_per_s;
    int64_t transfer_ns = rate > 0 ? (int64_t)((double)bytes / rate * 1e9) : 0;
    int64_t begin_ns = larger(now_ns, larger(out ? out->free_ns : 0, in ? in->free_ns : 0));
    struct sw_sim_link *ends[] = {out, in};

    for (int i = 0; i < 2; i++) {
        if (!ends[i])
            continue;

        ends[i]->free_ns = begin_ns + transfer_ns;
        ends[i]->traffic.busy_ns += transfer_ns;
        ends[i]->traffic.bytes += bytes;
    }

    return begin_ns + transfer_ns + conf->latency_us * 1000;
}

bool sw_sim_link_direct(struct sw_sim_device *by, const struct sw_sim_device *dst,
                        const struct sw_sim_device *src)
{
    const struct sw_sim_device *peer = dst == by ? src : dst;
    if (!dst || !src || !peer || peer == by)
        return false;

    sw_mutex_lock(&by->link_lock);

    bool direct = by->reached >> peer->base.index & 1;
    sw_mutex_unlock(&by->link_lock);
    return direct;
}

int64_t sw_sim_link_pass(struct sw_sim_link *out, struct sw_sim_link *in, int64_t now_ns,
                         size_t bytes, bool direct, const struct sw_sim_conf *conf)
{
    if (!out || !in || direct)
        return hop(out, in, now_ns, bytes, conf);
    return hop(NULL, in, hop(out, NULL, now_ns, bytes, conf), bytes, conf);
}

/* Devices are locked in the order of their addresses. */
int64_t sw_sim_link_take(struct sw_sim_device *by, struct sw_sim_device *dst,
                         struct sw_sim_device *src, size_t bytes, int64_t now_ns)
{
    struct sw_sim_device *low = dst, *high = src;
    bool direct = sw_sim_link_direct(by, dst, src);

    if (!low || (high && (uintptr_t)low > (uintptr_t)high)) {
        low = src;
        high = dst;
    }

    sw_mutex_lock(&low->link_lock);
    if (high)
        sw_mutex_lock(&high->link_lock);

    int64_t end_ns =
        sw_sim_link_pass(src ? &src->link[SW_SIM_OUT] : NULL, dst ? &dst->link[SW_SIM_IN] : NULL,
                         now_ns, bytes, direct, &by->conf);
    if (high)
        sw_mutex_unlock(&high->link_lock);
    sw_mutex_unlock(&low->link_lock);

    return end_ns;
}

bool sw_sim_peer_reaches(struct sw_device *dev, struct sw_device *peer)
{
    return sw_sim_device_of(dev)->conf.peer != SW_SIM_PEER_NO && dev->index != peer->index;
}

int sw_sim_peer_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    if (!sw_sim_peer_reaches(dev, peer))
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s has no peer access to %s", dev->name,
                          peer->name);

    sw_mutex_lock(&d->link_lock);
    d->reached |= (uint64_t)1 << peer->index;
    sw_mutex_unlock(&d->link_lock);

    return SW_OK;
}

struct sw_sim_traffic sw_sim_traffic(struct sw_device *dev, enum sw_sim_direction direction)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    sw_mutex_lock(&d->link_lock);

    struct sw_sim_traffic t = d->link[direction].traffic;
    sw_mutex_unlock(&d->link_lock);
    return t;
}
