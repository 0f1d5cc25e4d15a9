/* What the files of the cuda device share. Internal to device/cuda. CUDA's own types appear by
 * their tags only, so that this header compiles where no toolkit is.
 *
 * driver.c    in libsinga: loads this module, and says what is known of GPUs before one is open
 * module.c    the exported table: GPUs, opening
 * open.c      opening a device, its memory, the device table
 * device.c    what calls answer, waiting
 * cuda_calls.h  what open.c puts into the table of the device: the functions of the next four
 * stream.c    streams, waiting, host functions
 * event.c     events
 * copy.c      copies
 * graph.c     captured streams
 * ops.c       operations (kernels/op.h): finds the kernel; op_*.c those of products and kernels
 * nccl.c      sums over GPUs: a module of its own, which has this header and nothing else of here
 * bridge.c    operations that no kernel computes: on the host, by way of copies
 * libraries.c handles of NVIDIA's libraries, products by cuBLAS; light.c by cuBLASLt
 * conv_graph.c  one convolution of cuDNN
 * plans.c     the table of plans; plan_*.c one kind each
 *
 * Errors. A call that fails names device and cause; what breaks the context (a wild address, a lost
 * GPU) is kept and met by everything after. Kernels that find bad data (a label that no class has)
 * write it into `trouble`, host memory that the GPU sees; who waits looks there.
 *
 * A kernel launch has no answer but the thread's last error, which sw_cuda_enter clears: code that
 * calls the runtime without entering must clear what it may leave. Handles, workspaces and plans
 * are made before anything is captured. Device memory, streams and events belong to the GPU of the
 * calling thread, so each function of the table enters first. tests/cuda_on_host compiles these
 * files for the CPU. */
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

enum {
    SW_CUDA_CALLS = 1024,          /* host functions that wait in one stream */
    SW_CUDA_ROOM_BYTES = 32 << 20, /* what an operation, or cuBLAS, may use of a stream */
    SW_CUDA_ALIGN_BYTES = 256,     /* of what lies in scratch */
};

/* Frozen after opening, but for what the lock guards. */
struct sw_cuda_device {
    struct sw_device base; /* first member */
    int gpu;               /* the driver's number */
    int processors;        /* multiprocessors */
    size_t capacity;
    enum sw_precision precision;     /* of products */
    struct sw_device *cpu;           /* owned: computes what no kernel does */
    struct sw_cuda_trouble *trouble; /* owned; host memory */
    void *data_error_device;         /* the same, as kernels see it */
    int cancelled;                   /* atomic */
    uint64_t bridged;                /* atomic: operations computed on the host */
    struct sw_mutex lock;            /* guards all below */
    size_t in_use, peak;
    struct sw_err sticky_error; /* the error that broke the context; code SW_OK: none did */
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
/* The same without looking for errors: for freeing. */
void sw_cuda_use(const struct sw_cuda_device *d);
/* Converts the result of a runtime call (an enum cudaError). */
int sw_cuda_check(struct sw_cuda_device *d, int status, const char *what,
                  struct sw_err *err) SW_MUST_CHECK;
/* The error that kernels reported; SW_OK for none. */
int sw_cuda_trouble_of(const struct sw_cuda_device *d, struct sw_err *err) SW_MUST_CHECK;
/* Waits until ask(handle) no longer answers "not ready", an enum cudaError; gives up a while after
 * the device was cancelled. */
int sw_cuda_poll(struct sw_cuda_device *d, int (*ask)(void *handle), void *handle, const char *what,
                 struct sw_err *err) SW_MUST_CHECK;

/* A host function that waits in a stream. */
struct sw_cuda_call {
    struct sw_cuda_stream *stream;
    void (*fn)(void *user);
    void *user;
};

/* One owner: the worker's thread that uses it. */
struct sw_cuda_stream {
    struct sw_stream base; /* first member */
    struct sw_cuda_device *device;
    struct CUstream_st *stream; /* owned, as all of these */
    struct cublasContext *blas; /* made on first use, as the two below */
    struct cublasLtContext *lt;
    struct cudnnContext *dnn;
    void *room;       /* device memory: SW_CUDA_ROOM_BYTES, made on first use */
    double *partials; /* device memory: SW_CUDA_PARTIALS of them, for sums over rows */
    int *finite_flag, *finite_flag_device; /* host memory that kernels see: whether all_finite */
    struct sw_cuda_call *calls;            /* [SW_CUDA_CALLS], a ring */
    uint64_t called;                       /* functions queued so far */
    uint64_t ran;                          /* atomic: that have run */
    bool captured;                         /* queued work becomes part of a graph, */
    struct sw_err refused; /* why the capture fails; code SW_OK: so far it does not */
    void *bridge;          /* host memory for operations that no kernel computes */
    size_t bridge_bytes;
};

static inline struct sw_cuda_stream *sw_cuda_stream_of(struct sw_stream *s)
{
    return (struct sw_cuda_stream *)(void *)s;
}

/* Detects if the two modules were built from different sources, in most cases. */
#define SW_CUDA_INSIDE_BYTES                                                                       \
    ((uint32_t)(sizeof(struct sw_cuda_device) + sizeof(struct sw_cuda_stream)))

/* How a kernel is started on a stream. */
struct sw_cuda_launch sw_cuda_launch_of(struct sw_stream *s);

/* graph.c. Refuses what a stream that is captured cannot do, before CUDA does; SW_OK for others. */
int sw_cuda_capture_refuse(struct sw_cuda_stream *s, const char *what,
                           struct sw_err *err) SW_MUST_CHECK;

/* ops.c, bridge.c */
int sw_cuda_run(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err);
int sw_cuda_bridge(struct sw_stream *s, const struct sw_op *op, const void *args,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                       struct sw_err *err);
