/* Elements of a box of one tensor to the same box of another, whatever the layouts are; and padding
 * set to zero. */
#include "kernels/cuda/layout.cuh"

template <typename T>
static __global__ void copy_box(struct sw_cuda_box b, int64_t n, const T *src, T *dst)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t from, to;
        sw_box_places(b, i, &from, &to);
        dst[to] = b.add ? (T)(src[from] + dst[to]) : src[from];
    }
}

int sw_cuda_copy_box(const struct sw_cuda_box *b, const void *src, void *dst,
                     const struct sw_cuda_launch *l)
{
    int64_t n = sw_box_count(b);
    if (n == 0)
        return (int)cudaSuccess;
    if (b->element_bytes == 1)
        SW_START(copy_box<uint8_t>, sw_blocks_for(n, l), SW_THREADS, l, *b, n, (const uint8_t *)src,
                 (uint8_t *)dst);
    else if (b->add)
        SW_START(copy_box<float>, sw_blocks_for(n, l), SW_THREADS, l, *b, n, (const float *)src,
                 (float *)dst);
    else
        SW_START(copy_box<uint32_t>, sw_blocks_for(n, l), SW_THREADS, l, *b, n,
                 (const uint32_t *)src, (uint32_t *)dst);
    return (int)cudaGetLastError();
}

struct bounds {
    int64_t dim[SW_CUDA_DIMS], padded[SW_CUDA_DIMS];
};

static __global__ void zero_padding(struct sw_cuda_layout at, struct bounds b, int64_t n, float *x)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t offset = 0, rest = i;
        bool outside = false;
        for (int d = at.ndim - 1; d >= 0; d--) {
            int64_t index = rest % b.padded[d];
            rest /= b.padded[d];
            outside = outside || index >= b.dim[d];
            offset += sw_offset_along(at, d, index);
        }
        if (outside)
            x[offset] = 0.0f;
    }
}

int sw_cuda_zero_padding(const struct sw_cuda_layout *at, const int64_t *dim, const int64_t *padded,
                         float *x, const struct sw_cuda_launch *l)
{
    struct bounds b = {};
    int64_t n = 1, here = 1;
    for (int d = 0; d < at->ndim; d++) {
        n *= b.padded[d] = padded[d];
        here *= b.dim[d] = dim[d];
    }
    if (n == here)
        return (int)cudaSuccess;
    SW_START(zero_padding, sw_blocks_for(n, l), SW_THREADS, l, *at, b, n, x);
    return (int)cudaGetLastError();
}
