/* The CPU as a device: opening, streams, events, and the light operations of the table, whose
 * arithmetic is in kernels/cpu. Everything runs immediately on the calling thread and its OpenMP
 * team, so waiting does nothing. */
#include "base/os.h"
#include "device/cpu/blas.h"
#include "device/cpu/rounded.h"
#include "device/op.h"
#include "device/send_limit.h"
#include "kernels/cpu/kernels.h"
#include <omp.h>
#include <string.h>

/* ---- Streams and events ---- */

struct sw_event {
    char unused; /* recorded work is already done */
};

static int stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                      struct sw_err *err)
{
    (void)urgent; /* operations run immediately */
    if (threads < 1)
        return sw_err_set(err, SW_ERR_INVALID, "a stream of %s needs at least 1 thread, not %d",
                          dev->name, threads);

    struct sw_cpu_stream *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "cpu stream", sizeof *s);

    s->base.dev = dev;
    s->threads = threads;

#ifndef SW_HAVE_ONEDNN
    int rc = sw_blas_hold_stream(&s->base, err); /* operations use it for products */
    if (rc != SW_OK) {
        sw_free(s);
        return rc;
    }

#endif
    omp_set_num_threads(threads); /* for libraries that use OpenMP; applies to the calling thread */
    *out = &s->base;
    return SW_OK;
}

static void stream_attach(struct sw_stream *stream)
{
    omp_set_num_threads(sw_cpu_threads(stream));
}

static int host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err)
{
    void *p = sw_calloc(1, bytes);
    if (!p)
        return sw_err_nomem(err, what, bytes);

    *out = p;
    return SW_OK;
}

static void host_free(struct sw_device *dev, void *p, size_t bytes)
{
    sw_free(p);
}

static void stream_free(struct sw_stream *stream)
{
    struct sw_cpu_stream *s = sw_cpu_stream_of(stream);

    if (s->dnnl)
        s->dnnl_free(s->dnnl);
    if (s->blas)
        sw_blas_release(s->threads);
    sw_free(s);
}

static int stream_wait(struct sw_stream *s, struct sw_err *err)
{
    return SW_OK;
}

/* Runs lanes in parallel. All threads of the stream take part, even those without a lane, since
 * changing the size of a team costs new threads. Nested teams are disabled. */
static int run_lanes(struct sw_stream *stream, int lanes, sw_stream_lane *lane, void *user,
                     struct sw_err *err)
{
    int threads = sw_cpu_threads(stream), first = lanes, result = SW_OK;

#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int i = 0; i < lanes; i++) {
        struct sw_err own = {0};

        omp_set_num_threads(1);

        int rc = lane(user, i, &own);
        if (rc == SW_OK)
            continue;

#pragma omp critical(sw_lane)
        if (i < first) {
            first = i;
            result = rc;
            *err = own;
        }
    }

    omp_set_num_threads(threads);
    return result;
}

static int event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err)
{
    struct sw_event *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "cpu event", sizeof *e);

    *out = e;
    return SW_OK;
}

static void event_free(struct sw_event *e)
{
    sw_free(e);
}

static int event_record(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    return SW_OK;
}

static int event_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    return SW_OK;
}

static int event_host_wait(struct sw_event *e, struct sw_err *err)
{
    return SW_OK;
}

static int call(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err)
{
    fn(user);
    return SW_OK;
}

/* ---- Light operations ---- */

static int run(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err)
{
    return sw_op_compute(op, sw_cpu_threads(s), s->dev->precision, args, err);
}

static int copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err)
{
    sw_kernel_copy(sw_cpu_threads(s), dst, src, (int64_t)bytes);
    return SW_OK;
}

static int copy_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                     struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err)
{
    if (!dst_dev->host_memory || !src_dev->host_memory)
        return sw_err_set(err, SW_ERR_INVALID,
                          "copy_peer: a stream of %s cannot copy from %s to %s; use a stream of "
                          "the device that owns the memory",
                          s->dev->name, src_dev->name, dst_dev->name);
    return copy(s, dst, src, bytes, err);
}

static int copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err)
{
    if (c->dst_pitch == c->width && c->src_pitch == c->width) {
        sw_kernel_copy(sw_cpu_threads(s), c->dst, c->src, (int64_t)c->width * c->rows);
        return SW_OK;
    }

    for (size_t r = 0; r < (size_t)c->rows; r++)
        memcpy((char *)c->dst + r * c->dst_pitch, (const char *)c->src + r * c->src_pitch,
               c->width);

    return SW_OK;
}

static int fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err)
{
    sw_kernel_zero(sw_cpu_threads(s), dst, (int64_t)bytes);
    return SW_OK;
}

static int all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err)
{
    *finite = sw_kernel_all_finite(sw_cpu_threads(s), x, n);
    return SW_OK;
}

/* ---- Others: all of the CPU's memory is one ---- */

static bool can_access_peer(struct sw_device *dev, struct sw_device *peer)
{
    return dev->host_memory && peer->host_memory;
}

static int enable_peer_access(struct sw_device *dev, struct sw_device *peer, struct sw_err *err)
{
    if (can_access_peer(dev, peer))
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s has no peer access to %s", dev->name,
                      peer->name);
}

static int collectives(struct sw_device *dev, const struct sw_collective_ops **out,
                       struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s has no collective library: all its workers share one memory", dev->name);
}

/* ---- The device ---- */

/* Prepares the libraries for products; some callers have no stream (bridges of other devices, on
 * one thread). */
static int prepare_products(struct sw_err *err)
{
#ifdef SW_HAVE_ONEDNN
    return sw_cpu_dnnl_prepare(err);
#else
    return sw_blas_hold(1, err);
#endif
}

static void close_device(struct sw_device *dev)
{
#ifndef SW_HAVE_ONEDNN
    sw_blas_release(1);
#endif
    sw_free(dev);
}

static void cancel(struct sw_device *dev)
{
}

static const struct sw_device_ops cpu_ops = {
    .close = close_device,
    .cancel = cancel,
    .alloc = sw_cpu_alloc,
    .place = sw_cpu_place,
    .free = sw_cpu_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .bytes = sw_cpu_bytes,
    .stream_new = stream_new,
    .stream_attach = stream_attach,
    .stream_free = stream_free,
    .stream_wait = stream_wait,
    .run_lanes = run_lanes,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_host_wait = event_host_wait,
    .call = call,
    .copy = copy,
    .copy_2d = copy_2d,
    .copy_peer = copy_peer,
    .fill_zero = fill_zero,
    .run = run,
    .all_finite = all_finite,
    .can_access_peer = can_access_peer,
    .enable_peer_access = enable_peer_access,
    .collectives = collectives,
};

int sw_cpu_open(bool reference, struct sw_device **out, struct sw_err *err)
{
    return sw_cpu_open_as(reference, SW_PRECISION_FP32, out, err);
}

static void choose_plans(struct sw_cpu_device *dev, bool reference)
{
    dev->exact = &sw_cpu_ref_plans;

#ifdef SW_HAVE_ONEDNN
    if (!reference) {
        dev->exact = &sw_cpu_dnnl_plans;
        dev->halves = sw_cpu_dnnl_halves(dev->base.precision);
    }

#else
#endif
    dev->rounded = *dev->exact;
    dev->rounded.make[SW_PLAN_CONVOLUTION] = dev->rounded.make[SW_PLAN_INNER_PRODUCT] =
        sw_cpu_rounded_plan;
    dev->rounded.halves[SW_PLAN_CONVOLUTION] = dev->rounded.halves[SW_PLAN_INNER_PRODUCT] =
        dev->halves;
    dev->ops.plans = dev->base.precision == SW_PRECISION_FP32 ? dev->exact : &dev->rounded;
}

int sw_cpu_open_as(bool reference, enum sw_precision precision, struct sw_device **out,
                   struct sw_err *err)
{
    struct sw_cpu_device *dev = sw_calloc(1, sizeof *dev);
    if (!dev)
        return sw_err_nomem(err, "cpu device", sizeof *dev);

    dev->ops = cpu_ops;
    dev->base.precision = precision;
    choose_plans(dev, reference);
    dev->base.ops = &dev->ops;
    strcpy(dev->base.name, "cpu");
    dev->base.caps = &sw_driver_cpu.caps;
    dev->base.host_memory = dev->base.caps->host_memory;

    int rc = prepare_products(err);
    if (rc != SW_OK) {
        sw_free(dev);
        return rc;
    }

    *out = &dev->base;
    return SW_OK;
}

void sw_device_close(struct sw_device *dev)
{
    if (!dev)
        return;

    struct sw_send_limit *limit = dev->send_limit;
    dev->ops->close(dev);
    sw_send_limit_free(limit);
}

void sw_device_cancel_v(void *device)
{
    sw_device_cancel(device);
}
