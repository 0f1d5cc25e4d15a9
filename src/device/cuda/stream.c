/* Streams: non-blocking CUDA streams, each with its own library handles and workspaces, so that
 * nothing is shared between threads. */
#include "base/os.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/libraries.h"
#include <cuda_runtime_api.h>

struct sw_cuda_launch sw_cuda_launch_of(struct sw_stream *stream)
{
    const struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    return (struct sw_cuda_launch){.stream = s->stream,
                                   .processors = s->device->processors,
                                   .precision = s->device->precision,
                                   .partials = s->partials,
                                   .room = s->room,
                                   .trouble = s->device->data_error_device};
}

static int query_stream(void *stream)
{
    return (int)cudaStreamQuery(stream);
}

int sw_cuda_stream_wait(struct sw_stream *stream, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_capture_refuse(s, "waiting for the stream", err);
    if (rc != SW_OK)
        return rc;

    sw_cuda_use(s->device);
    return sw_cuda_poll(s->device, query_stream, s->stream, "waiting for a stream", err);
}

/* ---- Host functions ---- */

/* Runs a host function on a thread of the driver. After a data error or a cancellation it is not
 * called. */
static void CUDART_CB run_call(void *user)
{
    struct sw_cuda_call *c = user;
    struct sw_cuda_stream *s = c->stream;
    const struct sw_cuda_call mine = *c;
    bool healthy = !__atomic_load_n(&s->device->trouble->found, __ATOMIC_ACQUIRE) &&
                   !__atomic_load_n(&s->device->cancelled, __ATOMIC_RELAXED);

    __atomic_add_fetch(&s->ran, 1, __ATOMIC_RELEASE);
    if (healthy)
        mine.fn(mine.user);
}

static int query_slots(void *stream)
{
    struct sw_cuda_stream *s = stream;
    bool full = s->called - __atomic_load_n(&s->ran, __ATOMIC_ACQUIRE) >= SW_CUDA_CALLS;
    return full ? (int)cudaErrorNotReady : (int)cudaSuccess;
}

int sw_cuda_call(struct sw_stream *stream, void (*fn)(void *user), void *user, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_capture_refuse(s, "a host function", err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    if (query_slots(s) != (int)cudaSuccess) {
        rc = sw_cuda_poll(s->device, query_slots, s, "waiting for host functions", err);
        if (rc != SW_OK)
            return rc;
    }

    struct sw_cuda_call *c = &s->calls[s->called % SW_CUDA_CALLS];
    *c = (struct sw_cuda_call){.stream = s, .fn = fn, .user = user};
    s->called++;

    cudaError_t status = cudaLaunchHostFunc(s->stream, run_call, c);
    if (status != cudaSuccess)
        s->called--;

    return sw_cuda_check(s->device, (int)status, "a host function", err);
}

/* ---- Life ---- */

/* Creates a stream with the highest priority if urgent, else with the default one. CUDA schedules
 * streams with lower numbers first. */
static cudaError_t create(bool urgent, cudaStream_t *out)
{
    int least = 0, greatest = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    return e == cudaSuccess
               ? cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, urgent ? greatest : least)
               : e;
}

static int allocate(struct sw_cuda_stream *s, bool urgent, struct sw_err *err)
{
    struct sw_cuda_device *d = s->device;
    void *flag = NULL, *flag_device = NULL, *partials = NULL;
    cudaError_t e = create(urgent, &s->stream);

    if (e == cudaSuccess)
        e = cudaMalloc(&partials, SW_CUDA_PARTIALS * sizeof *s->partials);
    s->partials = partials;
    if (e == cudaSuccess)
        e = cudaHostAlloc(&flag, sizeof *s->finite_flag, cudaHostAllocMapped);
    s->finite_flag = flag;
    if (e == cudaSuccess)
        e = cudaHostGetDevicePointer(&flag_device, flag, 0);
    s->finite_flag_device = flag_device;

    return sw_cuda_check(d, (int)e, "creating a stream", err);
}

/* Frees a stream once nothing of it runs. A host function that hangs still uses the buffers, which
 * are then leaked. */
void sw_cuda_stream_free(struct sw_stream *stream)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    bool runs = false;

    sw_cuda_use(s->device);

    if (s->stream) {
        int rc = sw_cuda_poll(s->device, query_stream, s->stream, "freeing a stream", NULL);
        (void)rc; /* callers that need the error have waited before */
        runs = cudaStreamQuery(s->stream) == cudaErrorNotReady;
        (void)cudaGetLastError(); /* the error is also recorded as the last error */
    }

    if (runs)
        return;

    sw_cuda_libraries_free(s);
    if (s->stream)
        (void)cudaStreamDestroy(s->stream);
    (void)cudaFree(s->partials);
    if (s->finite_flag)
        (void)cudaFreeHost(s->finite_flag);
    sw_free(s->bridge);
    sw_free(s->calls);
    sw_free(s);
}

int sw_cuda_stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                       struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);

    int rc = sw_cuda_enter(d, err);
    if (rc != SW_OK)
        return rc;

    struct sw_cuda_stream *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "cuda stream", sizeof *s);

    s->base.dev = dev;
    s->device = d;
    s->calls = sw_calloc(SW_CUDA_CALLS, sizeof *s->calls);

    rc = s->calls ? allocate(s, urgent, err)
                  : sw_err_nomem(err, "cuda stream", SW_CUDA_CALLS * sizeof *s->calls);
    if (rc != SW_OK) {
        sw_cuda_stream_free(&s->base);
        return rc;
    }

    *out = &s->base;
    return SW_OK;
}
