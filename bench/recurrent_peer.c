/* GRU and LSTM layers of the size of recipes/char-rnn.ini on a GPU, beside cuDNN's own:
 *
 *     recurrent_peer [--device cuda:N] [--precision fp32|tf32|fp16]
 *
 * Each row is the time of a forward pass with what backward needs, and of both gradients, for all
 * steps of a batch: the operations of this program as a CUDA graph, and cudnnRNNForward,
 * cudnnRNNBackwardData_v8 and cudnnRNNBackwardWeights_v8 with every algorithm that the library
 * accepts, of which the fastest counts. cuDNN reads step-major sequences without padding, with
 * which it is fastest; in fp16 its arrays have 16 bits. Exit status 77: there is no GPU. */
#include "base/os.h"
#include "device/cuda/cuda_module.h"
#include "device/op.h"
#include "kernels/ops/recurrent.h"
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 3, CALLS = 20, WINDOWS = 5, NO_GPU = 77 };

static const struct sw_recurrent layers[] = {
    {.kind = SW_CELL_GRU, .rows = 50, .steps = 50, .inputs = 101, .hidden = 512, .pitch = 512},
    {.kind = SW_CELL_LSTM, .rows = 50, .steps = 50, .inputs = 101, .hidden = 512, .pitch = 512},
    {.kind = SW_CELL_GRU, .rows = 50, .steps = 50, .inputs = 512, .hidden = 512, .pitch = 512},
    {.kind = SW_CELL_GRU, .rows = 32, .steps = 50, .inputs = 256, .hidden = 256, .pitch = 256},
    {.kind = SW_CELL_LSTM, .rows = 32, .steps = 50, .inputs = 1024, .hidden = 1024, .pitch = 1024},
};

struct times {
    double forward_us, backward_us; /* 0: not measured */
};

static void must(int rc, const struct sw_err *err)
{
    if (rc == SW_OK)
        return;
    fprintf(stderr, "recurrent_peer: %s\n", err->text);
    exit(1);
}

static void must_cuda(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "recurrent_peer: %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

static void must_dnn(cudnnStatus_t e, const char *what)
{
    if (e == CUDNN_STATUS_SUCCESS)
        return;
    fprintf(stderr, "recurrent_peer: %s: %s\n", what, cudnnGetErrorString(e));
    exit(1);
}

/* The median over windows of the microseconds of a call; false if a call fails. */
static bool time_calls(bool (*call)(void *user), bool (*wait)(void *user), void *user, double *us)
{
    double window[WINDOWS];

    for (int i = 0; i < WARM_UP; i++)
        if (!call(user))
            return false;
    if (!wait(user))
        return false;

    for (int w = 0; w < WINDOWS; w++) {
        const int64_t began = sw_os()->monotonic_ns();
        for (int i = 0; i < CALLS; i++)
            if (!call(user))
                return false;
        if (!wait(user))
            return false;
        window[w] = (double)(sw_os()->monotonic_ns() - began) * 1e-3 / CALLS;

        for (int i = w; i > 0 && window[i] < window[i - 1]; i--) {
            const double larger = window[i - 1];
            window[i - 1] = window[i];
            window[i] = larger;
        }
    }

    *us = window[WINDOWS / 2];
    return true;
}

/* ---- This program ---- */

struct ours {
    struct sw_device *dev;
    struct sw_stream *stream;
    struct sw_graph *graph;
};

static bool launch_ours(void *user)
{
    struct ours *o = user;
    struct sw_err err;
    must(sw_graph_launch(o->stream, o->graph, &err), &err);
    return true;
}

static bool wait_ours(void *user)
{
    struct ours *o = user;
    struct sw_err err;
    must(sw_stream_wait(o->stream, &err), &err);
    return true;
}

/* An array of small numbers on the device; freed when the process ends. */
static float *array(struct ours *o, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(float);
    float *host = malloc(bytes);
    void *there = NULL;
    struct sw_err err;

    must(sw_device_alloc(o->dev, bytes, "recurrent_peer", &there, &err), &err);
    if (!host)
        abort();
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)(i * 7919 % 101 - 50) * 1e-3f;

    must(sw_copy(o->stream, there, host, bytes, &err), &err);
    must(sw_stream_wait(o->stream, &err), &err);
    free(host);
    return there;
}

/* The time of an operation as a graph; its first run opens libraries. */
static double time_operation(struct ours *o, const struct sw_op *op, const void *args)
{
    struct sw_err err;
    double us = 0;

    must(sw_op_run(o->stream, op, args, &err), &err);
    must(sw_capture_begin(o->stream, &err), &err);
    must(sw_op_run(o->stream, op, args, &err), &err);
    must(sw_capture_end(o->stream, &o->graph, &err), &err);

    (void)time_calls(launch_ours, wait_ours, o, &us);
    sw_graph_free(o->dev, o->graph);
    return us;
}

static struct times time_ours(struct ours *o, const struct sw_recurrent *r)
{
    const int64_t places = r->rows * r->steps, state = r->rows * r->hidden;
    const int64_t gates = sw_cell_gates(r->kind) * r->hidden;
    const int64_t biases = sw_cell_biases(r->kind) * r->hidden;
    const struct sw_recurrent_args a = {.r = *r,
                                        .x = array(o, places * r->inputs),
                                        .weight = array(o, gates * r->inputs),
                                        .recurrent = array(o, gates * r->hidden),
                                        .bias = array(o, biases),
                                        .h = array(o, state),
                                        .c = array(o, state),
                                        .carried = true,
                                        .gates =
                                            array(o, places * sw_cell_saved(r->kind) * r->hidden),
                                        .before = array(o, places * r->hidden),
                                        .y = array(o, places * r->hidden)};
    struct sw_step step = {.valid_rows = r->rows, .batch_valid_rows = r->rows};
    struct sw_recurrent_args forward = a;
    const struct sw_recurrent_gradient_args backward = {.r = *r,
                                                        .x = a.x,
                                                        .weight = a.weight,
                                                        .recurrent = a.recurrent,
                                                        .gates = a.gates,
                                                        .before = a.before,
                                                        .dy = array(o, places * r->hidden),
                                                        .dgates = array(o, places * biases),
                                                        .dstate = array(o, 2 * state),
                                                        .dx = array(o, places * r->inputs),
                                                        .dweight = array(o, gates * r->inputs),
                                                        .drecurrent = array(o, gates * r->hidden),
                                                        .dbias = array(o, biases)};
    void *step_there = NULL;
    struct sw_err err;

    must(sw_device_alloc(o->dev, sizeof step, "step", &step_there, &err), &err);
    must(sw_copy(o->stream, step_there, &step, sizeof step, &err), &err);
    forward.step = step_there;

    return (struct times){.forward_us = time_operation(o, &sw_op_recurrent, &forward),
                          .backward_us = time_operation(o, &sw_op_recurrent_gradient, &backward)};
}

/* ---- cuDNN ---- */

struct peer {
    cudnnHandle_t dnn;
    cudaStream_t stream;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    cudnnTensorDescriptor_t h_desc, c_desc; /* c: of lstm, else NULL */
    void *h, *h_next, *dh, *c, *c_next, *dc;
    void *x, *y, *dy, *dx, *weights, *dweights, *room, *kept;
    size_t weights_bytes, room_bytes, kept_bytes;
};

/* The lengths of sequences are in their descriptions. */
static bool dnn_forward(void *user)
{
    const struct peer *p = user;
    return cudnnRNNForward(p->dnn, p->rnn, CUDNN_FWD_MODE_TRAINING, NULL, p->x_desc, p->x,
                           p->y_desc, p->y, p->h_desc, p->h, p->h_next, p->c_desc, p->c, p->c_next,
                           p->weights_bytes, p->weights, p->room_bytes, p->room, p->kept_bytes,
                           p->kept) == CUDNN_STATUS_SUCCESS;
}

static bool dnn_backward(void *user)
{
    const struct peer *p = user;

    return cudnnRNNBackwardData_v8(p->dnn, p->rnn, NULL, p->y_desc, p->y, p->dy, p->x_desc, p->dx,
                                   p->h_desc, p->h, NULL, p->dh, p->c_desc, p->c, NULL, p->dc,
                                   p->weights_bytes, p->weights, p->room_bytes, p->room,
                                   p->kept_bytes, p->kept) == CUDNN_STATUS_SUCCESS &&
           cudnnRNNBackwardWeights_v8(p->dnn, p->rnn, CUDNN_WGRAD_MODE_ADD, NULL, p->x_desc, p->x,
                                      p->h_desc, p->h, p->y_desc, p->y, p->weights_bytes,
                                      p->dweights, p->room_bytes, p->room, p->kept_bytes,
                                      p->kept) == CUDNN_STATUS_SUCCESS;
}

static bool dnn_wait(void *user)
{
    const struct peer *p = user;
    return cudaStreamSynchronize(p->stream) == cudaSuccess;
}

static void *zeros(size_t bytes)
{
    void *p = NULL;
    must_cuda(cudaMalloc(&p, bytes ? bytes : 1), "memory");
    must_cuda(cudaMemset(p, 0, bytes ? bytes : 1), "memory");
    return p;
}

/* Describes the sequences and allocates what does not depend on the algorithm. */
static void describe(struct peer *p, const struct sw_recurrent *r, enum sw_precision precision)
{
    const bool half = precision == SW_PRECISION_FP16;
    const cudnnDataType_t type = half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    const size_t element = half ? 2 : 4, places = (size_t)(r->rows * r->steps);
    const size_t state_bytes = (size_t)(r->rows * r->hidden) * element;
    const int rows = (int)r->rows, hidden = (int)r->hidden, steps = (int)r->steps;
    const int state[3] = {1, rows, hidden}, strides[3] = {rows * hidden, hidden, 1};
    int *lengths = malloc((size_t)rows * sizeof *lengths);
    float padding = 0;

    if (!lengths)
        abort();
    for (int i = 0; i < rows; i++)
        lengths[i] = steps;

    must_dnn(cudnnCreateRNNDataDescriptor(&p->x_desc), "sequence");
    must_dnn(cudnnCreateRNNDataDescriptor(&p->y_desc), "sequence");
    must_dnn(cudnnCreateTensorDescriptor(&p->h_desc), "state");
    must_dnn(cudnnSetRNNDataDescriptor(p->x_desc, type, layout, steps, rows, (int)r->inputs,
                                       lengths, &padding),
             "sequence");
    must_dnn(
        cudnnSetRNNDataDescriptor(p->y_desc, type, layout, steps, rows, hidden, lengths, &padding),
        "sequence");
    must_dnn(cudnnSetTensorNdDescriptor(p->h_desc, type, 3, state, strides), "state");
    free(lengths);

    p->x = zeros(places * (size_t)r->inputs * element);
    p->dx = zeros(places * (size_t)r->inputs * element);
    p->y = zeros(places * (size_t)r->hidden * element);
    p->dy = zeros(places * (size_t)r->hidden * element);
    p->h = zeros(state_bytes);
    p->h_next = zeros(state_bytes);
    p->dh = zeros(state_bytes);

    const bool has_c = r->kind == SW_CELL_LSTM;
    p->c_desc = has_c ? p->h_desc : NULL;
    p->c = has_c ? zeros(state_bytes) : NULL;
    p->c_next = has_c ? zeros(state_bytes) : NULL;
    p->dc = has_c ? zeros(state_bytes) : NULL;
}

/* Chooses an algorithm; false if the library does not have it for this layer. */
static bool choose(struct peer *p, const struct sw_recurrent *r, enum sw_precision precision,
                   cudnnRNNAlgo_t algorithm)
{
    const bool half = precision == SW_PRECISION_FP16;
    const cudnnDataType_t type = half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const cudnnMathType_t math = half                             ? CUDNN_TENSOR_OP_MATH
                                 : precision == SW_PRECISION_TF32 ? CUDNN_DEFAULT_MATH
                                                                  : CUDNN_FMA_MATH;
    cudnnDropoutDescriptor_t dropout;

    must_dnn(cudnnCreateDropoutDescriptor(&dropout), "dropout");
    must_dnn(cudnnSetDropoutDescriptor(dropout, p->dnn, 0, NULL, 0, 0), "dropout");
    must_dnn(cudnnCreateRNNDescriptor(&p->rnn), "layer");

    if (cudnnSetRNNDescriptor_v8(p->rnn, algorithm, r->kind == SW_CELL_GRU ? CUDNN_GRU : CUDNN_LSTM,
                                 CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                 type, CUDNN_DATA_FLOAT, math, (int32_t)r->inputs,
                                 (int32_t)r->hidden, (int32_t)r->hidden, 1, dropout,
                                 CUDNN_RNN_PADDED_IO_DISABLED) != CUDNN_STATUS_SUCCESS)
        return false;
    if (algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC &&
        cudnnBuildRNNDynamic(p->dnn, p->rnn, (int)r->rows) != CUDNN_STATUS_SUCCESS)
        return false;
    if (cudnnGetRNNWeightSpaceSize(p->dnn, p->rnn, &p->weights_bytes) != CUDNN_STATUS_SUCCESS ||
        cudnnGetRNNTempSpaceSizes(p->dnn, p->rnn, CUDNN_FWD_MODE_TRAINING, p->x_desc,
                                  &p->room_bytes, &p->kept_bytes) != CUDNN_STATUS_SUCCESS)
        return false;

    p->weights = zeros(p->weights_bytes);
    p->dweights = zeros(p->weights_bytes);
    p->room = zeros(p->room_bytes);
    p->kept = zeros(p->kept_bytes);
    return true;
}

static struct times time_peer(struct peer *p, const struct sw_recurrent *r,
                              enum sw_precision precision, const char **best)
{
    static const struct {
        cudnnRNNAlgo_t algorithm;
        const char *name;
    } algorithms[] = {{CUDNN_RNN_ALGO_STANDARD, "standard"},
                      {CUDNN_RNN_ALGO_PERSIST_STATIC, "persistent"},
                      {CUDNN_RNN_ALGO_PERSIST_DYNAMIC, "persistent, compiled"}};
    struct times least = {0, 0};

    describe(p, r, precision);
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        struct times t;
        if (!choose(p, r, precision, algorithms[i].algorithm) ||
            !time_calls(dnn_forward, dnn_wait, p, &t.forward_us) ||
            !time_calls(dnn_backward, dnn_wait, p, &t.backward_us))
            continue;
        if (least.forward_us == 0 ||
            t.forward_us + t.backward_us < least.forward_us + least.backward_us) {
            least = t;
            *best = algorithms[i].name;
        }
    }
    return least;
}

/* ---- All ---- */

static void print_row(const struct sw_recurrent *r, const struct times *ours,
                      const struct times *peer, const char *algorithm)
{
    const double all = ours->forward_us + ours->backward_us;
    const double of_peer = peer->forward_us + peer->backward_us;

    printf("%-5s %6d %5d %6d %6d %9.1f %9.1f %9.1f %9.1f %6.2f  %s\n",
           r->kind == SW_CELL_GRU ? "gru" : "lstm", (int)r->hidden, (int)r->rows, (int)r->steps,
           (int)r->inputs, ours->forward_us, ours->backward_us, peer->forward_us, peer->backward_us,
           of_peer / all, algorithm);
    (void)fflush(stdout);
}

static enum sw_precision read_precision(const char *text)
{
    for (int p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++)
        if (p != SW_PRECISION_BF16 && strcmp(text, sw_precision_name((enum sw_precision)p)) == 0)
            return (enum sw_precision)p;
    fprintf(stderr, "recurrent_peer: precision: fp32, tf32 or fp16\n");
    exit(2);
}

int main(int argc, char **argv)
{
    struct sw_device_args args = {.precision = SW_PRECISION_TF32};
    struct sw_err err = {0};

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--precision") == 0) {
            args.precision = read_precision(value);
        } else if (strcmp(argv[i], "--device") == 0 && strncmp(value, "cuda:", 5) == 0) {
            args.index = atoi(value + 5);
        } else {
            fprintf(stderr,
                    "usage: recurrent_peer [--device cuda:N] [--precision fp32|tf32|fp16]\n");
            return 2;
        }
    }

    struct ours o = {0};
    if (sw_driver_cuda.open(&args, &o.dev, &err) != SW_OK) {
        printf("skipped: %s\n", err.text);
        return NO_GPU;
    }
    must(sw_stream_new(o.dev, 1, &o.stream, &err), &err);

    struct peer p = {0};
    must_cuda(cudaSetDevice(args.index), "device");
    must_cuda(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking), "stream");
    must_dnn(cudnnCreate(&p.dnn), "cuDNN");
    must_dnn(cudnnSetStream(p.dnn, p.stream), "cuDNN");

    printf("microseconds per batch on %s, %s; ratio: cuDNN %d's time / this time\n", o.dev->name,
           sw_precision_name(args.precision), (int)cudnnGetVersion());
    printf("%-5s %6s %5s %6s %6s %9s %9s %9s %9s %6s\n", "cell", "hidden", "rows", "steps",
           "inputs", "forward", "backward", "forward", "backward", "ratio");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const char *algorithm = "cuDNN has no algorithm";
        const struct times ours = time_ours(&o, &layers[i]);
        const struct times peer = time_peer(&p, &layers[i], args.precision, &algorithm);
        print_row(&layers[i], &ours, &peer, algorithm);
    }
    return 0; /* the process frees the memory */
}
