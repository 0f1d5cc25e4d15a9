/* CUDA events, which behave as device.h requires: a wait is for the latest record before it, and a
 * wait for an event that was never recorded returns immediately. */
#include "base/os.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_private.h"
#include <cuda_runtime_api.h>

struct event {
    struct sw_cuda_device *device; /* borrowed */
    cudaEvent_t event;             /* owned */
};

static struct event *event_of(struct sw_event *e)
{
    return (struct event *)(void *)e;
}

int sw_cuda_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);

    int rc = sw_cuda_enter(d, err);
    if (rc != SW_OK)
        return rc;

    struct event *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "cuda event", sizeof *e);

    e->device = d;
    rc = sw_cuda_check(d, (int)cudaEventCreateWithFlags(&e->event, cudaEventDisableTiming),
                       "creating an event", err);
    if (rc != SW_OK) {
        sw_free(e);
        return rc;
    }

    *out = (struct sw_event *)(void *)e;
    return SW_OK;
}

void sw_cuda_event_free(struct sw_event *event)
{
    struct event *e = event_of(event);
    sw_cuda_use(e->device);
    (void)cudaEventDestroy(e->event);
    sw_free(e);
}

int sw_cuda_event_record(struct sw_stream *stream, struct sw_event *e, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_check(s->device, (int)cudaEventRecord(event_of(e)->event, s->stream),
                         "recording an event", err);
}

int sw_cuda_event_wait(struct sw_stream *stream, struct sw_event *e, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_check(s->device, (int)cudaStreamWaitEvent(s->stream, event_of(e)->event, 0),
                         "waiting for an event", err);
}

static int query_event(void *event)
{
    return (int)cudaEventQuery(event);
}

int sw_cuda_event_host_wait(struct sw_event *event, struct sw_err *err)
{
    struct event *e = event_of(event);
    sw_cuda_use(e->device);
    return sw_cuda_poll(e->device, query_event, e->event, "waiting for an event", err);
}
