/* Opens, closes and cancels a simulated GPU; its table of functions. */
#include "device/collective.h"
#include "device/sim/capture.h"
#include "device/sim/memory.h"

static void cancel(struct sw_device *dev)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    sw_mutex_lock(&d->lock);

    d->cancelled = true;
    for (int i = 0; i < SW_SIM_STREAMS; i++)
        if (d->stream[i])
            sw_sim_stream_cancel(d->stream[i]);

    sw_mutex_unlock(&d->lock);
}

/* d->lock is held. Sets the error of the stream of this lane. */
static void fail_stream(struct sw_sim_device *d, const struct sw_sim_lane *lane,
                        const struct sw_err *why)
{
    for (int i = 0; i < SW_SIM_STREAMS; i++) {
        struct sw_sim_stream *s = d->stream[i];
        if (!s || s->lane != lane)
            continue;

        sw_mutex_lock(&s->lock);

        if (s->err.code == SW_OK) {
            s->err = *why;
            (void)sw_err_prefix(&s->err, why->code, "%s", s->base.dev->name);
        }

        sw_mutex_unlock(&s->lock);
    }
}

/* Freeing cannot fail, so freeing memory in use is an error of the stream that uses it. */
static void free_memory(struct sw_device *dev, void *p, size_t bytes)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);
    const struct sw_sim_lane *lane = NULL;
    struct sw_err err;

    sw_mutex_lock(&d->lock);
    if (sw_sim_free(d, p, &lane, &err) != SW_OK)
        fail_stream(d, lane, &err);
    sw_mutex_unlock(&d->lock);
}

static void close_device(struct sw_device *dev)
{
    cancel(dev);
    sw_sim_release(sw_sim_device_of(dev));
}

static int collectives(struct sw_device *dev, const struct sw_collective_ops **out,
                       struct sw_err *err)
{
    *out = &sw_sim_collectives;
    return SW_OK;
}

static const struct sw_device_ops ops = {
    .close = close_device,
    .cancel = cancel,
    .alloc = sw_sim_alloc,
    .free = free_memory,
    .host_alloc = sw_sim_host_alloc,
    .host_free = sw_sim_host_free,
    .bytes = sw_sim_bytes,
    .name = sw_sim_memory_name,
    .stream_new = sw_sim_stream_new,
    .stream_name = sw_sim_stream_name,
    .stream_free = sw_sim_stream_free,
    .stream_wait = sw_sim_stream_wait,
    .run_lanes = sw_stream_run_lanes_in_turn,
    .event_new = sw_sim_event_new,
    .event_free = sw_sim_event_free,
    .event_record = sw_sim_event_record,
    .event_wait = sw_sim_event_wait,
    .event_host_wait = sw_sim_event_host_wait,
    .call = sw_sim_call,
    .copy = sw_sim_copy,
    .copy_peer = sw_sim_copy_peer,
    .copy_2d = sw_sim_copy_2d,
    .run = sw_sim_run,
    .fill_zero = sw_sim_fill_zero,
    .all_finite = sw_sim_all_finite,
    .capture_begin = sw_sim_capture_begin,
    .capture_end = sw_sim_capture_end,
    .graph_launch = sw_sim_graph_launch,
    .graph_free = sw_sim_graph_free,
    .can_access_peer = sw_sim_peer_reaches,
    .enable_peer_access = sw_sim_peer_reach,
    .collectives = collectives,
    .plans = &sw_sim_plans,
};

int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err)
{
    if (index < 0 || index >= conf->gpus)
        return sw_err_set(err, SW_ERR_INVALID,
                          "there is no simulated GPU sim:%d; there are %d, starting at sim:0",
                          index, conf->gpus);

    struct sw_sim_device *d;
    int rc = sw_sim_device_new(conf, index, &d, err);
    if (rc != SW_OK)
        return rc;

    d->base.ops = &ops;
    d->base.caps = &sw_driver_sim.caps;

    if (index == (conf->faulty < 0 ? conf->gpus - 1 : conf->faulty)) {
        d->slow = conf->slow;
        if (conf->fault != SW_SIM_NO_FAULT)
            sw_sim_inject(&d->base, conf->fault, conf->fault_at - 1);
    }

    *out = &d->base;
    return SW_OK;
}
