/* Copies and peer access. The CUDA runtime finds out where memory is, since the host and all GPUs
 * share one address space. */
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_private.h"
#include <cuda_runtime_api.h>

int sw_cuda_copy(struct sw_stream *stream, void *dst, const void *src, size_t bytes,
                 struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK || bytes == 0)
        return rc;

    return sw_cuda_check(s->device,
                         (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, s->stream),
                         "copy", err);
}

bool sw_cuda_reaches(struct sw_device *dev, struct sw_device *peer)
{
    int can = 0, from = sw_cuda_device_of(dev)->gpu;
    if (peer->ops != &sw_cuda_ops || from == sw_cuda_device_of(peer)->gpu)
        return false;

    cudaError_t status = cudaDeviceCanAccessPeer(&can, from, sw_cuda_device_of(peer)->gpu);
    return status == cudaSuccess && can;
}

int sw_cuda_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(dev);

    if (!sw_cuda_reaches(dev, peer))
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s has no peer access to %s", dev->name,
                          peer->name);

    int rc = sw_cuda_enter(d, err);
    if (rc != SW_OK)
        return rc;

    cudaError_t status = cudaDeviceEnablePeerAccess(sw_cuda_device_of(peer)->gpu, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        status = cudaSuccess;
    }

    return sw_cuda_check(d, (int)status, "enabling peer access", err);
}

/* Between GPUs without peer access the driver copies through the host, which is slower: on some
 * boards direct copies corrupt data. */
int sw_cuda_copy_peer(struct sw_stream *stream, struct sw_device *dst_dev, void *dst,
                      struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    bool to_gpu = dst_dev->ops == &sw_cuda_ops, from_gpu = src_dev->ops == &sw_cuda_ops;
    if ((!to_gpu && !dst_dev->host_memory) || (!from_gpu && !src_dev->host_memory) ||
        (dst_dev != stream->dev && src_dev != stream->dev))
        return sw_err_set(err, SW_ERR_INVALID, "%s: copy_peer: cannot copy from %s to %s",
                          stream->dev->name, src_dev->name, dst_dev->name);

    int from = from_gpu ? sw_cuda_device_of(src_dev)->gpu : -1;
    int to = to_gpu ? sw_cuda_device_of(dst_dev)->gpu : -1;
    if (from < 0 || to < 0 || from == to)
        return sw_cuda_copy(stream, dst, src, bytes, err);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK || bytes == 0)
        return rc;

    return sw_cuda_check(s->device, (int)cudaMemcpyPeerAsync(dst, to, src, from, bytes, s->stream),
                         "copy_peer", err);
}

int sw_cuda_copy_2d(struct sw_stream *stream, const struct sw_copy_2d *c, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    if (c->rows < 0 || (c->rows > 1 && (c->dst_pitch < c->width || c->src_pitch < c->width)))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: copy_2d: %lld rows of %zu bytes do not fit pitches of %zu and %zu "
                          "bytes",
                          stream->dev->name, (long long)c->rows, c->width, c->dst_pitch,
                          c->src_pitch);

    if (c->rows <= 1 || (c->dst_pitch == c->width && c->src_pitch == c->width))
        return sw_cuda_copy(stream, c->dst, c->src, c->width * (size_t)c->rows, err);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK || c->width == 0)
        return rc;

    return sw_cuda_check(s->device,
                         (int)cudaMemcpy2DAsync(c->dst, c->dst_pitch, c->src, c->src_pitch,
                                                c->width, (size_t)c->rows, cudaMemcpyDefault,
                                                s->stream),
                         "copy_2d", err);
}

int sw_cuda_fill_zero(struct sw_stream *stream, void *dst, size_t bytes, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK || bytes == 0)
        return rc;

    return sw_cuda_check(s->device, (int)cudaMemsetAsync(dst, 0, bytes, s->stream), "fill_zero",
                         err);
}
