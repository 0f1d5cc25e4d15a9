/* Measures the throughput of operations on a device: the median of several timed passes, after a
 * first one that is not counted. The owner of the stream calls. The contract is in
 * device/throughput.h. */
#include "device/throughput.h"
#include "device/op.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/gemm.h"

#include "base/os.h"

enum { STAGE_FLOATS = 1 << 18, BLOCK_FLOATS = 1 << 24, MIN_PASSES = 3, MAX_PASSES = 15 };

int sw_throughput_fill(struct sw_stream *s, float *x, int64_t n, struct sw_err *err)
{
    size_t bytes = STAGE_FLOATS * sizeof(float);
    float *stage = sw_calloc(1, bytes);
    uint32_t seed = 1;

    if (!stage)
        return sw_err_nomem(err, "data to measure with", bytes);

    for (int i = 0; i < STAGE_FLOATS; i++) {
        seed = seed * 1664525u + 1013904223u;
        stage[i] = (float)((int32_t)(seed >> 20) * 2 - 4095) / 4096;
    }

    int rc = SW_OK;
    for (int64_t at = 0; at < n && rc == SW_OK; at += STAGE_FLOATS) {
        int64_t count = n - at < STAGE_FLOATS ? n - at : STAGE_FLOATS;
        rc = sw_copy(s, x + at, stage, (size_t)count * sizeof(float), err);
    }

    struct sw_err late;
    int waited =
        sw_stream_wait(s, rc == SW_OK ? err : &late); /* the copies still read the staging buffer */
    sw_free(stage);

    return rc == SW_OK ? waited : rc;
}

static int time_pass(struct sw_stream *s,
                     int (*run)(struct sw_stream *s, void *args, struct sw_err *err), void *args,
                     int64_t *ns, struct sw_err *err)
{
    int64_t began_ns = sw_os()->monotonic_ns();

    int rc = run(s, args, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(s, err);
    if (rc != SW_OK)
        return rc;

    *ns = sw_os()->monotonic_ns() - began_ns;
    *ns = *ns > 0 ? *ns : 1;
    return SW_OK;
}

int sw_throughput_of(struct sw_stream *s, double units,
                     int (*run)(struct sw_stream *s, void *args, struct sw_err *err), void *args,
                     int budget_ms, struct sw_throughput *out, struct sw_err *err)
{
    int64_t sorted[MAX_PASSES], ns, spent_ns = 0;

    int passes = 0, rc = time_pass(s, run, args, &ns, err); /* warm-up */
    if (rc != SW_OK)
        return rc;

    while (passes < MAX_PASSES &&
           (passes < MIN_PASSES || spent_ns < budget_ms * INT64_C(1000000))) {
        rc = time_pass(s, run, args, &ns, err);
        if (rc != SW_OK)
            return rc;

        spent_ns += ns;

        int at = passes++;
        for (; at > 0 && sorted[at - 1] > ns; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = ns;
    }

    *out = (struct sw_throughput){units / (double)sorted[passes / 2], units / (double)sorted[0]};
    return SW_OK;
}

static int multiply(struct sw_stream *s, void *args, struct sw_err *err)
{
    return sw_op_run(s, &sw_op_gemm, args, err);
}

int sw_throughput_product(struct sw_stream *s, float *const abc[3], int side, int budget_ms,
                          struct sw_throughput *out, struct sw_err *err)
{
    struct sw_gemm_args args = {
        .m = side, .n = side, .k = side, .alpha = 1, .a = abc[0], .b = abc[1], .c = abc[2]};
    int64_t n = (int64_t)side * side;

    int rc = sw_throughput_fill(s, abc[0], n, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_throughput_fill(s, abc[1], n, err);
    if (rc != SW_OK)
        return rc;

    return sw_throughput_of(s, 2.0 * (double)n * side, multiply, &args, budget_ms, out, err);
}

static int add_arrays(struct sw_stream *s, void *args, struct sw_err *err)
{
    return sw_op_run(s, &sw_op_combine, args, err);
}

int sw_throughput_memory(struct sw_stream *s, float *x, float *y, int64_t *n, int budget_ms,
                         struct sw_throughput *out, struct sw_err *err)
{
    int64_t written = 0, began_ns = sw_os()->monotonic_ns(), spent_ns = 0;

    while (written < *n && (written == 0 || spent_ns < budget_ms * INT64_C(1000000))) {
        int64_t count = *n - written < BLOCK_FLOATS ? *n - written : BLOCK_FLOATS;
        int rc = sw_throughput_fill(s, x + written, count, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_throughput_fill(s, y + written, count, err);
        if (rc != SW_OK)
            return rc;

        written += count;
        spent_ns = sw_os()->monotonic_ns() - began_ns;
    }

    struct sw_combine_args args = {.n = written, .alpha = 1, .beta = 1, .x = x, .y = y};
    double bytes = 3.0 * (double)written * sizeof(float);
    *n = written;

    return sw_throughput_of(s, bytes, add_arrays, &args, budget_ms, out, err);
}
