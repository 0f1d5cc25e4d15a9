/* Common declarations of the CPU device: the private structs behind sw_device and sw_stream, the
 * two tables of plans, and windows. Internal to device/cpu. A math library
 * never chooses its number of threads: the stream determines it.
 *
 * driver.c    the driver: properties known before the device is open
 * cpu.c       device table, streams, copies; operations come as data (device/op.h)
 * memory.c    allocation and its counters
 * layout.c    conversion of tensors between layouts
 * deconv.c    transposed convolution, by either kind of plans
 * blas.c      OpenBLAS on one thread, and the memory it needs; blas_module.c is the module
 * team.c      the threads that compute
 * rounded.c   products whose factors are rounded first
 * ref_*.c     plans by im2col and OpenBLAS: the oracle of the tests, and the build without oneDNN
 * dnnl_*.c    plans by oneDNN, and its product on one thread
 *
 * If a process cannot get memory (ulimit -v), the libraries do not return errors: OpenBLAS retries
 * forever (blas.c), oneDNN writes code to address 0, libgomp ends the process. Therefore OpenBLAS
 * is held with buffers for all threads that may call it before it is used, oneDNN compiles only
 * after sw_cpu_need_room has succeeded, and threads start their teams with sw_cpu_start_team
 * (team.c). All three return SW_ERR_NOMEM with the limit. */
#pragma once

#include "device/driver.h"
#include "device/plan.h"
#include "kernels/precision.h"
#include "kernels/product.h"

extern const struct sw_driver sw_driver_cpu;

struct sw_cpu_device {
    struct sw_device base;    /* first member */
    struct sw_device_ops ops; /* the common table with this device's plans; base.ops points here */
    const struct sw_plan_makers *exact;  /* makers that compute in fp32 */
    const struct sw_plan_makers *halves; /* makers that read 16 bits, sum in fp32; or NULL */
    struct sw_plan_makers rounded;       /* makers that round the factors of products first */
};

static inline struct sw_cpu_device *sw_cpu_device_of(struct sw_device *dev)
{
    return (struct sw_cpu_device *)(void *)dev;
}

/* One owner: the worker's thread that made it. */
struct sw_cpu_stream {
    struct sw_stream base; /* first member */
    int threads;
    bool blas;  /* OpenBLAS is held for these threads (blas.h) */
    void *dnnl; /* engine and stream, owned; made on first use by the oneDNN files */
    void (*dnnl_free)(void *dnnl); /* set together with dnnl, called once by stream_free */
};

static inline struct sw_cpu_stream *sw_cpu_stream_of(struct sw_stream *s)
{
    return (struct sw_cpu_stream *)(void *)s;
}
static inline int sw_cpu_threads(const struct sw_stream *s)
{
    return ((const struct sw_cpu_stream *)(const void *)s)->threads;
}

extern const struct sw_plan_makers sw_cpu_ref_plans;
#ifdef SW_HAVE_ONEDNN
extern const struct sw_plan_makers sw_cpu_dnnl_plans;
/* Makers of convolutions and inner products on 16-bit operands; NULL if the processor cannot
 * multiply them. Errors: SW_ERR_UNSUPPORTED for unsupported dimensions. */
const struct sw_plan_makers *sw_cpu_dnnl_halves(enum sw_precision precision);
#endif

/* The bottom or right padding that an output size implies: how far the last window extends beyond
 * the input. Negative if the last window ends before the input does. */
static inline int64_t sw_conv_pad_after(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                        int64_t pad, int64_t dilation)
{
    return (out - 1) * stride + dilation * (kernel - 1) + 1 - pad - in;
}

/* memory.c: the table's functions for memory. */
int sw_cpu_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err);
void sw_cpu_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes);
struct sw_device_bytes sw_cpu_bytes(struct sw_device *dev);
void sw_cpu_free(struct sw_device *dev, void *p, size_t bytes);
/* Checks that so many more bytes are available. Call it before library calls that allocate and hang
 * or crash without memory. Errors: SW_ERR_NOMEM naming what. */
int sw_cpu_need_room(const char *what, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* "oneDNN 2.6.3"; "" in a build without it. */
const char *sw_cpu_dnnl_version(void);
/* Computes the product on the calling thread alone, inside a parallel region or outside; by
 * OpenBLAS, which is held (blas.h). */
void sw_cpu_sgemm(struct sw_product p);
/* A product for operations on a stream: computed by oneDNN if the build has it, which supports
 * newer processors. Reference plans use sw_cpu_sgemm, since they must be independent of oneDNN. */
void sw_cpu_multiply(const struct sw_product *p);
/* dnnl_gemm.c. Prepares oneDNN before the first product, which cannot report missing memory.
 * Errors: SW_ERR_NOMEM. */
int sw_cpu_dnnl_prepare(struct sw_err *err) SW_MUST_CHECK;
void sw_cpu_dnnl_sgemm(const struct sw_product *p);

/* deconv.c. Used by the makers of both tables; image is the layout of the output. */
int sw_cpu_deconvolution(const struct sw_plan_request *q, const struct sw_desc *image,
                         struct sw_plan **out, struct sw_err *err) SW_MUST_CHECK;

/* Reserves `bytes` of a plan's scratch, aligned to a cache line; returns their offset in bytes. */
static inline size_t sw_cpu_reserve(struct sw_plan *p, size_t bytes)
{
    return sw_plan_reserve(p, bytes, 64);
}

/* Computes the gradient of a bias over the channels of an output, or over the columns of a matrix,
 * with a scratch buffer of sw_cpu_bias_room bytes. */
size_t sw_cpu_bias_room(const struct sw_desc *dst);
void sw_cpu_bias_gradient(int threads, const struct sw_desc *dst, const float *diff_dst, void *room,
                          float *diff_bias);

/* layout.c. Copies values from one layout to another of the same dtype and logical shape, in any
 * layout; padding of `to` becomes zero. Conversions between blocked channels and plain NCHW are
 * fast. src and dst must not overlap. */
void sw_cpu_reorder(int threads, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst);
