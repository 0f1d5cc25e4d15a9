/* ctest-labels: gpu
 * Sums of many rows on a GPU compared with the CPU, in every layout: channels, columns, layer
 * normalization. Blocks divide the rows; the bits must not change from run to run. Skipped without
 * a GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/half.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/sums.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

static void assert_close(const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= 1e-5 * (1 + fabs(b[i]))))
            fail_msg("sum %lld is %.9g instead of %.9g", (long long)i, a[i], b[i]);
}

static void assert_close_floats(const float *a, const float *b, int64_t n, float limit)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= limit * (1 + fabsf(b[i]))))
            fail_msg("element %lld is %.9g instead of %.9g", (long long)i, (double)a[i],
                     (double)b[i]);
}

/* Host arrays of a normalization, and the same on the GPU. */
struct arrays {
    void *x, *dy, *dx;
    float *channel; /* channel: scale, bias, mean, inv_std, dscale, dbias */
    double *sums;
    void *scratch;
};

static struct sw_batch_norm_args args_of(const struct sw_desc *d, const struct arrays *a, bool relu)
{
    const int64_t c = d->dim[1];
    return (struct sw_batch_norm_args){.b = {.desc = *d,
                                             .relu = relu,
                                             .sums = a->sums,
                                             .scratch = a->scratch,
                                             .scale = a->channel,
                                             .bias = a->channel + c,
                                             .mean = a->channel + 2 * c,
                                             .inv_std = a->channel + 3 * c},
                                       .x = a->x,
                                       .dy = a->dy,
                                       .dx = a->dx,
                                       .dscale = a->channel + 4 * c,
                                       .dbias = a->channel + 5 * c};
}

static float *floats_of(enum sw_dtype t, const void *x, int64_t n)
{
    float *y = get_floats(n);

    for (int64_t i = 0; i < n; i++)
        y[i] = t == SW_F32    ? ((const float *)x)[i]
               : t == SW_BF16 ? sw_bf16_value(((const uint16_t *)x)[i])
                              : sw_fp16_value(((const uint16_t *)x)[i]);
    return y;
}

static void *random_elements(struct rng *r, enum sw_dtype t, int64_t n, double to)
{
    float *x = random_floats(r, n, -1, to);

    for (int64_t i = 0; i < n && t != SW_F32; i++)
        ((uint16_t *)(void *)x)[i] = t == SW_BF16 ? sw_bf16_of(x[i]) : sw_fp16_of(x[i]);
    return x;
}

static void check_channels(const struct sw_desc *d, bool relu)
{
    struct rng r = rng_of(11);
    struct sw_err err;
    const int64_t n = sw_desc_storage(d), c = d->dim[1], sums = 2 * c + 1;
    const size_t bytes = sw_desc_bytes(d), sum_bytes = (size_t)sums * sizeof(double);
    const size_t channel_bytes = (size_t)(6 * c) * sizeof(float);
    struct arrays here = {random_elements(&r, d->dtype, n, 3),
                          random_elements(&r, d->dtype, n, 1),
                          get_floats(n),
                          random_floats(&r, 6 * c, 0.5f, 1.5f),
                          malloc(sum_bytes),
                          malloc(sw_channel_scratch_bytes(d))};
    double *back = malloc(sum_bytes), *again = malloc(sum_bytes);
    void *dx = get_floats(n);
    assert_true(here.sums && here.scratch && back && again);
    struct arrays there = {
        to_device(gpu, here.x, bytes),  to_device(gpu, here.dy, bytes),
        to_device(gpu, here.dx, bytes), to_device(gpu, here.channel, channel_bytes),
        device_bytes(dev, sum_bytes),   device_bytes(dev, sw_channel_scratch_bytes(d))};
    const struct sw_op *const ops[] = {&sw_op_batch_norm_sums, &sw_op_batch_norm_sums_gradient};
    const struct sw_batch_norm_args a = args_of(d, &here, relu), b = args_of(d, &there, relu);

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(sw_op_run(cpu.stream, ops[i], &a, &err));
        ASSERT_OK(sw_op_run(gpu, ops[i], &b, &err));
        to_host(gpu, back, there.sums, sum_bytes);
        ASSERT_OK(sw_op_run(gpu, ops[i], &b, &err));
        to_host(gpu, again, there.sums, sum_bytes);
        assert_same_bits("sums", back, again, sum_bytes);
        assert_close(back, here.sums, sums);
    }

    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_batch_norm_gradient, &a, &err));
    ASSERT_OK(sw_op_run(gpu, &sw_op_batch_norm_gradient, &b, &err));
    to_host(gpu, dx, there.dx, bytes);
    float *gradient = floats_of(d->dtype, dx, n), *right = floats_of(d->dtype, here.dx, n);
    assert_close_floats(gradient, right, n,
                        d->dtype == SW_F32    ? 1e-4f
                        : d->dtype == SW_BF16 ? ldexpf(1, -7)
                                              : ldexpf(1, -10));

    free(gradient);
    free(right);
    free(here.x);
    free(here.dy);
    free(here.dx);
    free(here.channel);
    free(here.sums);
    free(here.scratch);
    free(back);
    free(again);
    free(dx);
    sw_device_free(dev, there.x, bytes);
    sw_device_free(dev, there.dy, bytes);
    sw_device_free(dev, there.dx, bytes);
    sw_device_free(dev, there.channel, channel_bytes);
    sw_device_free(dev, there.sums, sum_bytes);
    sw_device_free(dev, there.scratch, sw_channel_scratch_bytes(d));
}

static struct sw_desc channels_last(enum sw_dtype t, const int64_t *dim)
{
    struct sw_desc d = sw_desc_plain(t, 4, dim);

    d.stride[1] = 1;
    d.stride[3] = dim[1];
    d.stride[2] = dim[1] * dim[3];
    d.stride[0] = dim[1] * dim[3] * dim[2];

    return d;
}

static void channel_sums_match_the_cpu_in_every_layout(void **state)
{
    static const int64_t shapes[][4] = {{6, 64, 7, 14}, {20, 3, 15, 15}, {5, 66, 7, 7},
                                        {3, 144, 8, 8}, {70, 8, 1, 1},   {2, 1, 4, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < 3; k++) {
            const enum sw_dtype t = k < 2 ? SW_F32 : i % 2 ? SW_F16 : SW_BF16;
            const bool relu = (k + i / 2) % 2;
            struct sw_desc d = sw_desc_plain(t, 4, shapes[i]);
            check_channels(&d, relu);
            d = channels_last(t, shapes[i]);
            check_channels(&d, relu);
            d = sw_desc_blocked(t, 4, shapes[i], 1, 16);
            check_channels(&d, relu);
        }
}

static void check_columns(int64_t rows, int64_t columns)
{
    struct rng r = rng_of(12);
    struct sw_err err;
    const size_t bytes = (size_t)(rows * columns) * sizeof(float),
                 row = (size_t)columns * sizeof(float);
    float *x = random_floats(&r, rows * columns, -1, 1), *here = get_floats(columns),
          *back = get_floats(columns);
    float *x_there = to_device(gpu, x, bytes), *there = device_bytes(dev, row);

    struct sw_sum_rows_args a = {rows, columns, x, here};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_sum_rows, &a, &err));
    a.x = x_there;
    a.sum = there;
    ASSERT_OK(sw_op_run(gpu, &sw_op_sum_rows, &a, &err));
    to_host(gpu, back, there, row);
    assert_close_floats(back, here, columns, 1e-4f);

    struct sw_two_sums_args t = {rows, rows / 3, columns, -2, 0.25f, x, here};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_two_sums, &t, &err));
    t.x = x_there;
    t.sum = there;
    ASSERT_OK(sw_op_run(gpu, &sw_op_two_sums, &t, &err));
    to_host(gpu, back, there, row);
    assert_close_floats(back, here, columns, 1e-4f);

    free(x);
    free(here);
    free(back);
    sw_device_free(dev, x_there, bytes);
    sw_device_free(dev, there, row);
}

/* The order of the tree, whatever the number of workers: the bits of the host. */
static void rows_of_workers_have_the_sum_of_the_host(void **state)
{
    enum { ROOM = 520, COUNT = 515 };
    struct rng r = rng_of(14);
    struct sw_err err;

    for (int leaves = 1; leaves <= SW_LEAF_SUMS; leaves++) {
        const size_t bytes = (size_t)(leaves * ROOM) * sizeof(double), row = COUNT * sizeof(double);
        double *x = get_doubles(leaves * ROOM), *here = get_doubles(COUNT),
               *back = get_doubles(COUNT);
        for (int i = 0; i < leaves * ROOM; i++)
            x[i] = (double)rng_real(&r, -1, 1) * (i % 3 ? 1e9 : 1e-9);
        double *x_there = to_device(gpu, x, bytes), *there = device_bytes(dev, row);

        struct sw_leaf_sums_args a = {leaves, ROOM, COUNT, x, here};
        ASSERT_OK(sw_op_run(cpu.stream, &sw_op_leaf_sums, &a, &err));
        a.rows = x_there;
        a.sums = there;
        ASSERT_OK(sw_op_run(gpu, &sw_op_leaf_sums, &a, &err));
        to_host(gpu, back, there, row);
        assert_same_bits("sums", back, here, row);

        free(x);
        free(here);
        free(back);
        sw_device_free(dev, x_there, bytes);
        sw_device_free(dev, there, row);
    }
}

static void check_layer_norm(int64_t rows, int64_t n)
{
    struct rng r = rng_of(13);
    struct sw_err err;
    const size_t bytes = (size_t)(rows * n) * sizeof(float), row = (size_t)n * sizeof(float),
                 moments = (size_t)(2 * rows) * sizeof(float);
    float *x = random_floats(&r, rows * n, -1, 1), *dy = random_floats(&r, rows * n, -1, 1);
    float *scale = random_floats(&r, n, 0.5f, 1.5f), *pair = random_floats(&r, 2 * rows, 0.5f, 1);
    float *here[2] = {get_floats(n), get_floats(n)}, *back = get_floats(n);
    struct sw_layer_norm_args a = {.rows = rows,
                                   .n = n,
                                   .x = x,
                                   .scale = scale,
                                   .moments = pair,
                                   .dy = dy,
                                   .dscale = here[0],
                                   .dbias = here[1]};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_layer_norm_gradient, &a, &err));

    void *there[] = {to_device(gpu, x, bytes),      to_device(gpu, scale, row),
                     to_device(gpu, pair, moments), to_device(gpu, dy, bytes),
                     device_bytes(dev, row),        device_bytes(dev, row)};
    a.x = there[0];
    a.scale = there[1];
    a.moments = there[2];
    a.dy = there[3];
    a.dscale = there[4];
    a.dbias = there[5];
    ASSERT_OK(sw_op_run(gpu, &sw_op_layer_norm_gradient, &a, &err));
    for (int i = 0; i < 2; i++) {
        to_host(gpu, back, there[4 + i], row);
        assert_close_floats(back, here[i], n, 1e-4f);
    }

    const size_t size[] = {bytes, row, moments, bytes, row, row};
    for (int i = 0; i < 6; i++)
        sw_device_free(dev, there[i], size[i]);
    free(x);
    free(dy);
    free(scale);
    free(pair);
    free(here[0]);
    free(here[1]);
    free(back);
}

static void column_sums_match_the_cpu(void **state)
{
    static const int64_t shapes[][2] = {{1, 5}, {7, 33}, {3000, 10}, {777, 130}, {100, 1028}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_columns(shapes[i][0], shapes[i][1]);
        check_layer_norm(shapes[i][0], shapes[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channel_sums_match_the_cpu_in_every_layout),
        cmocka_unit_test(column_sums_match_the_cpu),
        cmocka_unit_test(rows_of_workers_have_the_sum_of_the_host),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;

    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
