/* Runs an operation that has no CUDA kernel on the CPU: copies its arrays to host memory, computes
 * there, copies the results back, and waits for the stream each time. Arrays inside one another are
 * copied once and stay aliased. Every use is counted in device->bridged. The contract is in
 * device/cuda/bridge.h. */
#include "device/cuda/bridge.h"
#include "base/os.h"
#include "device/cuda/cuda_calls.h"
#include <stdio.h>
#include <string.h>

/* The index of the array that contains array i: i itself or a larger one (the first of equal ones).
 */
static int containing_array(const struct sw_cuda_ferry *f, int i)
{
    uintptr_t from = (uintptr_t)f->device[i], to = from + f->bytes[i];

    for (int j = 0; j < f->count; j++) {
        uintptr_t begin = (uintptr_t)f->device[j], end = begin + f->bytes[j];
        bool first = f->bytes[j] > f->bytes[i] || (f->bytes[j] == f->bytes[i] && j < i);
        if (first && f->bytes[j] && begin <= from && to <= end)
            return containing_array(f, j);
    }

    return i;
}

static int reserve_host_buffer(struct sw_cuda_stream *s, size_t bytes, struct sw_err *err)
{
    if (bytes <= s->bridge_bytes)
        return SW_OK;

    void *more = sw_realloc_array(s->bridge, 1, bytes);
    if (!more)
        return sw_err_nomem(err, "host buffer for operations that run on the CPU", bytes);

    s->bridge = more;
    s->bridge_bytes = bytes;
    return SW_OK;
}

int sw_cuda_ferry_out(struct sw_stream *stream, struct sw_cuda_ferry *f, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    size_t bytes = SW_CUDA_ALIGN_BYTES, at = 0;

    for (int i = 0; i < f->count; i++)
        bytes += sw_aligned(f->bytes[i], SW_CUDA_ALIGN_BYTES);

    int rc = sw_cuda_capture_refuse(s, "an operation that runs on the CPU", err);
    if (rc == SW_OK)
        rc = reserve_host_buffer(s, bytes, err);

    char *buffer = s->bridge;

    buffer += sw_aligned((uintptr_t)buffer, SW_CUDA_ALIGN_BYTES) - (uintptr_t)buffer;
    for (int i = 0; i < f->count && rc == SW_OK; i++) {
        if (!f->bytes[i] || containing_array(f, i) != i)
            continue;

        f->host[i] = buffer + at;
        at += sw_aligned(f->bytes[i], SW_CUDA_ALIGN_BYTES);
        rc = sw_cuda_copy(stream, f->host[i], f->device[i], f->bytes[i], err);
    }

    for (int i = 0; i < f->count && rc == SW_OK; i++) {
        int container = containing_array(f, i);
        if (f->bytes[i] && container != i)
            f->host[i] =
                (char *)f->host[container] + ((char *)f->device[i] - (char *)f->device[container]);
    }

    __atomic_add_fetch(&s->device->bridged, 1, __ATOMIC_RELAXED);
    return rc == SW_OK ? sw_cuda_stream_wait(stream, err) : rc;
}

int sw_cuda_ferry_back(struct sw_stream *stream, const struct sw_cuda_ferry *f, struct sw_err *err)
{
    for (int i = 0; i < f->count; i++) {
        if (!f->written[i] || !f->bytes[i])
            continue;

        int rc = sw_cuda_copy(stream, f->device[i], f->host[i], f->bytes[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_cuda_stream_wait(stream, err); /* the next operation may use the buffer */
}

int sw_cuda_bridge(struct sw_stream *stream, const struct sw_op *op, const void *args,
                   struct sw_err *err)
{
    struct sw_op_arrays list;
    struct sw_cuda_ferry f = {.count = 0};
    uint64_t copy[SW_OP_ARGS_BYTES / sizeof(uint64_t)]; /* aligned for any member */
    char what[80];

    snprintf(what, sizeof what, "%s, which runs on the CPU,", op->name);

    int rc = sw_cuda_capture_refuse(sw_cuda_stream_of(stream), what, err);
    if (rc != SW_OK)
        return rc;

    memcpy(copy, args, op->args_bytes);
    sw_op_list(op, args, &list);

    for (; f.count < list.count; f.count++) {
        const struct sw_op_array *a = &list.array[f.count];
        memcpy(&f.device[f.count], (const char *)args + a->offset, sizeof(void *));
        f.bytes[f.count] = f.device[f.count] ? a->bytes : 0;
        f.written[f.count] = a->written;
    }

    rc = sw_cuda_ferry_out(stream, &f, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < f.count; i++)
        memcpy((char *)copy + list.array[i].offset, &f.host[i], sizeof(void *));
    rc = sw_op_compute(op, 1, sw_cuda_device_of(stream->dev)->precision, copy, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_ferry_back(stream, &f, err);
}
