/* Probes whether a device computes what the host computes: the same short program runs on both, and
 * the results are compared within the rounding of other orders of summation. The program has a
 * convolution and its gradients (the one of the bias is a reduction), an update and a product, the
 * latter two also from a captured graph where the device has them. The contract is in
 * device/probe.h. */
#include "device/driver.h"
#include "device/op.h"
#include "device/plan.h"
#include "device/probe.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/gemm.h"

#include "base/os.h"
#include <math.h>

enum {
    IMAGES = 4,
    CHANNELS = 8,
    SIDE = 12,
    OUTPUTS = 16,
    KERNEL = 3,
    WEIGHTS = OUTPUTS * CHANNELS * KERNEL * KERNEL,
    PIXELS = IMAGES * CHANNELS * SIDE * SIDE,
    MATRIX = OUTPUTS * OUTPUTS,
};

/* Arrays that both devices have. */
enum array { SRC, WEIGHT, BIAS, DIFF_WEIGHT, DIFF_BIAS, PRODUCT, ARRAYS };

static const struct {
    const char *what;
    int count;
} arrays[ARRAYS] = {
    [SRC] = {"a source", PIXELS},     [WEIGHT] = {"an update", WEIGHTS},
    [BIAS] = {"a bias", OUTPUTS},     [DIFF_WEIGHT] = {"the gradient of a convolution", WEIGHTS},
    [DIFF_BIAS] = {"a sum", OUTPUTS}, [PRODUCT] = {"a matrix product", MATRIX},
};

struct program {
    struct sw_device *dev;
    struct sw_stream *stream; /* owned */
    float *data[ARRAYS];      /* owned device memory */
    struct sw_plan *plan;     /* owned */
    struct sw_plan_args args;
    void *own[SW_PLAN_ARRAYS]; /* owned device memory: dst, saved, scratch */
    size_t bytes[SW_PLAN_ARRAYS];
    struct sw_graph *graph; /* owned, or NULL */
    float *result;          /* owned [ARRAYS][PIXELS] */
};

static float *result_of(const struct program *p, int array)
{
    return p->result + (size_t)array * PIXELS;
}

static int allocate(struct program *p, struct sw_err *err)
{
    uint32_t seed = 1;
    void *data;

    p->result = sw_calloc((size_t)ARRAYS * PIXELS, sizeof(float));
    if (!p->result)
        return sw_err_nomem(err, "test data", (size_t)ARRAYS * PIXELS * sizeof(float));

    int rc = sw_stream_new(p->dev, 1, &p->stream, err);
    for (int a = 0; a < ARRAYS && rc == SW_OK; a++) {
        const size_t bytes = (size_t)arrays[a].count * sizeof(float);

        rc = sw_device_alloc(p->dev, bytes, "test data", &data, err);
        if (rc != SW_OK)
            break;

        p->data[a] = data;
        for (int i = 0; i < arrays[a].count; i++) {
            seed = seed * 1664525u + 1013904223u;
            result_of(p, a)[i] = (float)((int32_t)(seed >> 20) * 2 - 4095) / 4096;
        }

        rc = sw_copy(p->stream, data, result_of(p, a), bytes, err);
    }

    return rc == SW_OK ? sw_stream_wait(p->stream, err) : rc;
}

static int make_plan(struct program *p, struct sw_err *err)
{
    const struct sw_desc src =
        sw_desc_plain(SW_F32, 4, (const int64_t[]){IMAGES, CHANNELS, SIDE, SIDE});
    const struct sw_desc weight =
        sw_desc_plain(SW_F32, 4, (const int64_t[]){OUTPUTS, CHANNELS, KERNEL, KERNEL});
    const struct sw_conv_shape shape = {.outputs = OUTPUTS,
                                        .groups = 1,
                                        .kernel_h = KERNEL,
                                        .kernel_w = KERNEL,
                                        .stride_h = 1,
                                        .stride_w = 1,
                                        .pad_h = 1,
                                        .pad_w = 1,
                                        .dilation_h = 1,
                                        .dilation_w = 1,
                                        .out_h = SIDE,
                                        .out_w = SIDE,
                                        .bias = true,
                                        .weight_layout = &weight};
    const struct sw_plan_request q = {
        .kind = SW_PLAN_CONVOLUTION,
        .stream = p->stream,
        .src = &src,
        .passes = {.backward_data = true, .backward_weights = true, .training = true},
        .shape.conv = &shape};

    int rc = sw_plan_new(&q, &p->plan, err);
    if (rc != SW_OK)
        return rc;

    sw_plan_bytes(p->plan, p->bytes);

    const int own[] = {SW_PLAN_DST, SW_PLAN_SAVED, SW_PLAN_SCRATCH};
    for (size_t i = 0; i < sizeof own / sizeof *own && rc == SW_OK; i++)
        if (p->bytes[own[i]] > 0)
            rc = sw_device_alloc(p->dev, p->bytes[own[i]], "test data", &p->own[own[i]], err);

    p->args = (struct sw_plan_args){.src = p->data[SRC],
                                    .weight = p->data[WEIGHT],
                                    .bias = p->data[BIAS],
                                    .dst = p->own[SW_PLAN_DST],
                                    .diff_dst = p->own[SW_PLAN_DST],
                                    .diff_weight = p->data[DIFF_WEIGHT],
                                    .diff_bias = p->data[DIFF_BIAS],
                                    .saved = p->own[SW_PLAN_SAVED],
                                    .scratch = p->own[SW_PLAN_SCRATCH]};
    return rc;
}

static int update_and_multiply(struct program *p, struct sw_err *err)
{
    const struct sw_combine_args update = {.n = WEIGHTS,
                                           .alpha = -1.0f / 1024,
                                           .beta = 1,
                                           .x = p->data[DIFF_WEIGHT],
                                           .y = p->data[WEIGHT]};
    const struct sw_gemm_args product = {.m = OUTPUTS,
                                         .n = OUTPUTS,
                                         .k = OUTPUTS,
                                         .alpha = 1,
                                         .a = p->data[WEIGHT],
                                         .b = p->data[SRC],
                                         .c = p->data[PRODUCT]};

    int rc = sw_op_run(p->stream, &sw_op_combine, &update, err);
    return rc == SW_OK ? sw_op_run(p->stream, &sw_op_gemm, &product, err) : rc;
}

static int run_captured(struct program *p, struct sw_err *err)
{
    struct sw_err ignored;

    int rc = sw_capture_begin(p->stream, err);
    if (rc != SW_OK)
        return rc;

    rc = update_and_multiply(p, err);
    int ended = sw_capture_end(p->stream, &p->graph, rc == SW_OK ? err : &ignored);
    if (rc != SW_OK || ended != SW_OK)
        return rc != SW_OK ? rc : ended;

    return sw_graph_launch(p->stream, p->graph, err);
}

static int run_program(struct program *p, struct sw_err *err)
{
    int rc = allocate(p, err);
    if (rc != SW_OK)
        return rc;
    rc = make_plan(p, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_forward(p->plan, &p->args, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_backward_weights(p->plan, &p->args, err);
    if (rc != SW_OK)
        return rc;
    rc = update_and_multiply(p, err); /* a graph may have only what has run before */
    if (rc == SW_OK)
        rc = sw_device_has_graphs(p->dev) ? run_captured(p, err) : update_and_multiply(p, err);

    for (int a = 0; a < ARRAYS && rc == SW_OK; a++)
        rc = sw_copy(p->stream, result_of(p, a), p->data[a],
                     (size_t)arrays[a].count * sizeof(float), err);

    return rc == SW_OK ? sw_stream_wait(p->stream, err) : rc;
}

static void free_program(struct program *p)
{
    if (p->graph)
        sw_graph_free(p->dev, p->graph);
    sw_plan_free(p->plan);

    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        if (p->own[i])
            sw_device_free(p->dev, p->own[i], p->bytes[i]);
    for (int a = 0; a < ARRAYS; a++)
        if (p->data[a])
            sw_device_free(p->dev, p->data[a], (size_t)arrays[a].count * sizeof(float));

    sw_stream_free(p->stream);
    sw_free(p->result);
}

static int compare(const struct program *p, const struct program *host, struct sw_err *err)
{
    for (int a = 0; a < ARRAYS; a++) {
        const float *is = result_of(p, a), *expected = result_of(host, a);
        float largest = 0;

        for (int i = 0; i < arrays[a].count; i++)
            largest = fmaxf(largest, fabsf(expected[i]));
        for (int i = 0; i < arrays[a].count; i++)
            if (!(fabsf(is[i] - expected[i]) <= 1e-3f * largest))
                return sw_err_set(
                    err, SW_ERR_FORMAT, "%s is wrong: element %d of %d is %g, and %g on the CPU",
                    arrays[a].what, i, arrays[a].count, (double)is[i], (double)expected[i]);
    }

    return SW_OK;
}

int sw_probe_compute(struct sw_device *dev, struct sw_err *err)
{
    const struct sw_device_args none = {.precision = SW_PRECISION_FP32};
    struct program p = {.dev = dev}, host = {0};

    int rc = sw_driver_host()->open(&none, &host.dev, err);
    if (rc != SW_OK)
        return rc;

    rc = run_program(&host, err);
    if (rc == SW_OK)
        rc = run_program(&p, err);
    if (rc == SW_OK)
        rc = compare(&p, &host, err);

    free_program(&p);
    free_program(&host);
    sw_device_close(host.dev);
    return rc;
}
