/* Opens a device; allocates its memory; its table of functions. */
#include "base/os.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/nccl_module.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* ---- Memory ---- */

static void count_bytes(struct sw_cuda_device *d, size_t more, size_t less)
{
    sw_mutex_lock(&d->lock);
    d->in_use += more;
    d->in_use -= less;
    d->peak = d->in_use > d->peak ? d->in_use : d->peak;
    sw_mutex_unlock(&d->lock);
}

static int out_of_memory(struct sw_cuda_device *d, size_t bytes, const char *what,
                         struct sw_err *err)
{
    size_t left = 0, all = 0;

    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&left, &all);
    return sw_err_set(
        err, SW_ERR_NOMEM,
        "%s is out of memory: %s needs %zu bytes, and %zu of %zu are free (use a smaller batch)",
        d->base.name, what, bytes, left, all);
}

/* The memory of a GPU is on no NUMA node. */
static int alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);
    void *p = NULL;

    int rc = sw_cuda_enter(d, err);
    if (rc != SW_OK)
        return rc;

    cudaError_t status = cudaMalloc(&p, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation)
        return out_of_memory(d, bytes, what, err);

    /* The default stream does not synchronize with ours, so the host waits. */
    if (status == cudaSuccess)
        status = cudaMemset(p, 0, bytes ? bytes : 1);
    if (status == cudaSuccess)
        status = cudaStreamSynchronize(cudaStreamLegacy);
    rc = sw_cuda_check(d, (int)status, what, err);
    if (rc != SW_OK) {
        (void)cudaFree(p);
        return rc;
    }

    count_bytes(d, bytes, 0);
    *out = p;
    return SW_OK;
}

/* cudaFree waits until nothing uses the memory. */
static void free_bytes(struct sw_device *dev, void *p, size_t bytes)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);
    sw_cuda_use(d);
    (void)cudaFree(p);
    count_bytes(d, 0, bytes);
}

/* The first device pins the memory for all devices. */
static void pin(struct sw_device *dev, void *p, size_t bytes, bool pinned)
{
    sw_cuda_use(sw_cuda_device_of(dev));

    if (pinned)
        (void)cudaHostRegister(p, bytes, cudaHostRegisterPortable);
    else
        (void)cudaHostUnregister(p);

    (void)cudaGetLastError(); /* if it fails, copies are only slower */
}

static int host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);
    void *p = NULL;

    int rc = sw_cuda_enter(d, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_check(d, (int)cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocPortable), what,
                       err);
    if (rc != SW_OK)
        return rc;

    memset(p, 0, bytes);
    *out = p;
    return SW_OK;
}

/* As cudaFree, cudaFreeHost waits until nothing uses the memory. */
static void host_free(struct sw_device *dev, void *p, size_t bytes)
{
    sw_cuda_use(sw_cuda_device_of(dev));
    (void)cudaFreeHost(p);
}

static struct sw_device_bytes bytes_of(struct sw_device *dev)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);

    sw_mutex_lock(&d->lock);

    struct sw_device_bytes b = {.in_use = d->in_use, .peak = d->peak, .capacity = d->capacity};
    b.bridged = __atomic_load_n(&d->bridged, __ATOMIC_RELAXED);
    sw_mutex_unlock(&d->lock);

    return b;
}

/* ---- Life ---- */

static void cancel(struct sw_device *dev)
{
    __atomic_store_n(&sw_cuda_device_of(dev)->cancelled, 1, __ATOMIC_RELAXED);
}

static void close_device(struct sw_device *dev)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);

    sw_cuda_use(d);
    if (d->trouble)
        (void)cudaFreeHost(d->trouble);
    sw_device_close(d->cpu);
    sw_mutex_fini(&d->lock);
    sw_free(d);
}

static int alloc_data_error(struct sw_cuda_device *d, struct sw_err *err)
{
    void *p = NULL;
    cudaError_t status = cudaHostAlloc(&p, sizeof *d->trouble, cudaHostAllocMapped);

    if (status == cudaSuccess) {
        d->trouble = p;
        memset(p, 0, sizeof *d->trouble);
        status = cudaHostGetDevicePointer(&d->data_error_device, p, 0);
    }

    return sw_cuda_check(d, (int)status, "allocating mapped host memory", err);
}

/* Older GPUs have no bf16: cuBLAS and cuDNN would refuse it in the middle of a run. They compute
 * tf32 as fp32, which is no error. */
static int check_precision(const struct sw_cuda_device *d, struct sw_err *err)
{
    int major = 0, minor = 0;
    cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->gpu);

    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->gpu);
    if (status != cudaSuccess || major >= 8 || d->precision != SW_PRECISION_BF16)
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_UNSUPPORTED,
        "%s has compute capability %d.%d, and precision = bf16 needs 8.0 or later; use "
        "precision = fp16, or fp32",
        d->base.name, major, minor);
}

static int start(struct sw_cuda_device *d, struct sw_err *err)
{
    size_t left = 0;
    cudaError_t status = cudaSetDevice(d->gpu);

    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&d->processors, cudaDevAttrMultiProcessorCount, d->gpu);
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&left, &d->capacity);

    int rc = sw_cuda_check(d, (int)status, "opening the device", err);
    if (rc != SW_OK)
        return rc;
    rc = check_precision(d, err);
    if (rc != SW_OK)
        return rc;
    rc = alloc_data_error(d, err);
    if (rc != SW_OK)
        return rc;

    return sw_cpu_open_as(true, d->precision, &d->cpu, err);
}

int sw_cuda_open_device(int gpu, int index, enum sw_precision precision, struct sw_device **out,
                        struct sw_err *err)
{
    struct sw_cuda_device *d = sw_calloc(1, sizeof *d);
    if (!d)
        return sw_err_nomem(err, "cuda device", sizeof *d);

    sw_mutex_init(&d->lock);
    d->gpu = gpu;
    d->precision = d->base.precision = precision;
    d->base.ops = &sw_cuda_ops;
    d->base.caps = &sw_driver_cuda.caps;
    d->base.index = index;
    snprintf(d->base.name, sizeof d->base.name, "cuda:%d", index);

    int rc = start(d, err);
    if (rc != SW_OK) {
        close_device(&d->base);
        return rc;
    }

    *out = &d->base;
    return SW_OK;
}

static int collectives(struct sw_device *dev, const struct sw_collective_ops **out,
                       struct sw_err *err)
{
    const struct sw_nccl_module *m;

    int rc = sw_nccl_load(&m, err);
    if (rc != SW_OK)
        return rc;
    if (m->private_bytes != SW_CUDA_INSIDE_BYTES)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "the NCCL module and the CUDA module were built from different sources: "
                          "install both from one build");

    *out = m->collectives;
    return SW_OK;
}

const struct sw_device_ops sw_cuda_ops = {
    .close = close_device,
    .cancel = cancel,
    .alloc = alloc,
    .free = free_bytes,
    .pin = pin,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .bytes = bytes_of,
    .stream_new = sw_cuda_stream_new,
    .stream_free = sw_cuda_stream_free,
    .stream_wait = sw_cuda_stream_wait,
    .run_lanes = sw_stream_run_lanes_in_turn,
    .event_new = sw_cuda_event_new,
    .event_free = sw_cuda_event_free,
    .event_record = sw_cuda_event_record,
    .event_wait = sw_cuda_event_wait,
    .event_host_wait = sw_cuda_event_host_wait,
    .call = sw_cuda_call,
    .copy = sw_cuda_copy,
    .copy_peer = sw_cuda_copy_peer,
    .copy_2d = sw_cuda_copy_2d,
    .run = sw_cuda_run,
    .fill_zero = sw_cuda_fill_zero,
    .all_finite = sw_cuda_all_finite,
    .capture_begin = sw_cuda_capture_begin,
    .capture_end = sw_cuda_capture_end,
    .graph_launch = sw_cuda_graph_launch,
    .graph_free = sw_cuda_graph_free,
    .can_access_peer = sw_cuda_reaches,
    .enable_peer_access = sw_cuda_reach,
    .collectives = collectives,
    .plans = &sw_cuda_plans,
};
