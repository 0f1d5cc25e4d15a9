/* Common declarations of the cuda device. Internal to device/cuda. CUDA types appear only by their
 * struct tags, so that this header compiles without the toolkit.
 *
 * driver.c    in libsinga: loads this module; properties of GPUs known before one is open
 * module.c    the exported table: GPUs, opening
 * open.c      opening a device, its memory, the device table
 * device.c    conversion of errors, waiting
 * cuda_calls.h  functions of the next four files, which open.c puts into the device table
 * stream.c    streams, waiting, host functions
 * event.c     events
 * copy.c      copies
 * graph.c     captured streams
 * ops.c       operations (kernels/op.h): finds the kernel; op_*.c: operations of several kernels
 * nccl.c      all-reduces: a separate module, which uses only this header
 * bridge.c    operations without a kernel: computed on the host, on copies
 * libraries.c handles of NVIDIA's libraries, products by cuBLAS; light.c by cuBLASLt
 * conv_engine.c  the engine of cuDNN for a convolution; conv_graph.c runs it
 * plans.c     the table of plans; plan_*.c one kind each
 *
 * Errors. The error of a call names device and cause. A sticky error, which breaks the context (an
 * invalid address, a lost GPU), is stored and returned by all later calls. Kernels that find bad
 * data (a label without a class) write it to mapped host memory, data_error, which every wait
 * checks.
 *
 * A kernel launch reports errors only as the last error of the thread, which sw_cuda_enter clears:
 * code that calls the runtime without entering must clear the error that it may leave. Handles,
 * workspaces and plans are created before a capture begins. Device memory, streams and events
 * belong to the GPU of the calling thread, so each function of the table enters first.
 * tests/cuda_on_host compiles these files for the CPU. */
#pragma once

#include "device/cuda/cuda_module.h"
#include "device/op.h"
#include "device/plan.h"
#include "kernels/cuda/kernels.h"
#include "thread/thread.h"

struct CUstream_st;
struct CUevent_st;
struct cublasContext;
struct cublasLtContext;
struct cudnnContext;
struct sw_cuda_conv_gpu;

enum {
    SW_CUDA_CALLS = 1024,          /* maximum number of host functions queued on one stream */
    SW_CUDA_ROOM_BYTES = 32 << 20, /* workspace of a stream for operations and for cuBLAS */
    SW_CUDA_ALIGN_BYTES = 256,     /* alignment of buffers in scratch */
};

/* Frozen after opening, except what the lock guards. */
struct sw_cuda_device {
    struct sw_device base; /* first member */
    int gpu;               /* device number of the driver */
    int processors;        /* multiprocessors */
    size_t capacity;
    enum sw_precision precision;     /* precision of products */
    struct sw_device *cpu;           /* owned: computes operations that have no kernel */
    struct sw_cuda_trouble *trouble; /* owned; host memory */
    void *data_error_device;         /* its device address */
    int cancelled;                   /* atomic */
    uint64_t bridged;                /* atomic: operations computed on the host */
    struct sw_mutex lock;            /* guards all below */
    size_t in_use, peak;
    struct sw_err sticky_error; /* the error that broke the context; code SW_OK: none */
};

static inline struct sw_cuda_device *sw_cuda_device_of(struct sw_device *dev)
{
    return (struct sw_cuda_device *)(void *)dev;
}

/* device.c */
extern const struct sw_device_ops sw_cuda_ops;
extern const struct sw_plan_makers sw_cuda_plans;

int sw_cuda_open_device(int gpu, int index, enum sw_precision precision, struct sw_device **out,
                        struct sw_err *err) SW_MUST_CHECK;
/* Makes this GPU the current one of the calling thread. Errors: an earlier error that broke the
 * device, errors of kernels, SW_ERR_CANCELLED. */
int sw_cuda_enter(struct sw_cuda_device *d, struct sw_err *err) SW_MUST_CHECK;
/* Makes this GPU the current one without checking for errors: for freeing. */
void sw_cuda_use(const struct sw_cuda_device *d);
/* Converts the result of a runtime call (an enum cudaError). */
int sw_cuda_check(struct sw_cuda_device *d, int status, const char *what,
                  struct sw_err *err) SW_MUST_CHECK;
/* Returns the data error that a kernel reported, or SW_OK. */
int sw_cuda_trouble_of(const struct sw_cuda_device *d, struct sw_err *err) SW_MUST_CHECK;
/* Waits until query(handle), an enum cudaError, is no longer cudaErrorNotReady; gives up some time
 * after the device was cancelled. */
int sw_cuda_poll(struct sw_cuda_device *d, int (*query)(void *handle), void *handle,
                 const char *what, struct sw_err *err) SW_MUST_CHECK;

/* A host function that is queued on a stream. */
struct sw_cuda_call {
    struct sw_cuda_stream *stream;
    void (*fn)(void *user);
    void *user;
};

/* One owner: the worker's thread that uses it. */
struct sw_cuda_stream {
    struct sw_stream base; /* first member */
    struct sw_cuda_device *device;
    struct CUstream_st *stream; /* owned, as are the members below */
    struct cublasContext *blas; /* created at first use, as are the two below */
    struct cublasLtContext *lt;
    struct cudnnContext *dnn;
    struct sw_cuda_conv_gpu *conv; /* with dnn: the graphs of convolutions */
    void *room;                    /* device memory: SW_CUDA_ROOM_BYTES, allocated at first use */
    double *partials;              /* device memory [SW_CUDA_PARTIALS]: partial sums over rows */
    int *finite_flag, *finite_flag_device; /* mapped host memory: result of all_finite */
    struct sw_cuda_call *calls;            /* [SW_CUDA_CALLS], a ring */
    uint64_t called;                       /* number of functions queued so far */
    uint64_t ran;                          /* atomic: number of functions that have run */
    bool captured;                         /* the stream is being captured */
    struct sw_err refused; /* why the capture has failed; code SW_OK: it has not failed */
    void *bridge;          /* host buffer for operations without a kernel */
    size_t bridge_bytes;
};

static inline struct sw_cuda_stream *sw_cuda_stream_of(struct sw_stream *s)
{
    return (struct sw_cuda_stream *)(void *)s;
}

/* Detects in most cases that the two modules were built from different sources. */
#define SW_CUDA_INSIDE_BYTES                                                                       \
    ((uint32_t)(sizeof(struct sw_cuda_device) + sizeof(struct sw_cuda_stream)))

/* The launch arguments of kernels on a stream. */
struct sw_cuda_launch sw_cuda_launch_of(struct sw_stream *s);

/* graph.c. Returns SW_ERR_UNSUPPORTED if the stream is being captured, which then fails because of
 * `what`; else SW_OK. */
int sw_cuda_capture_refuse(struct sw_cuda_stream *s, const char *what,
                           struct sw_err *err) SW_MUST_CHECK;

/* ops.c, bridge.c */
int sw_cuda_run(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err);
int sw_cuda_bridge(struct sw_stream *s, const struct sw_op *op, const void *args,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                       struct sw_err *err);
