/* ctest-labels: gpu
 * A GPU as a device: memory, copies, order, and errors. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"
#include "kernels/ops/gemm.h"

#include "kernels/ops/classes.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/row_loss.h"
#include "kernels/ops/softmax_loss.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *stream;

static int begin(void **state)
{
    dev = open_gpu(0);
    assert_non_null(dev);
    stream = new_stream(dev);
    return 0;
}

static int end(void **state)
{
    sw_stream_free(stream);
    sw_device_close(dev);
    return 0;
}

static void memory_is_zero_and_counted(void **state)
{
    enum { BYTES = 100000 };
    static unsigned char here[BYTES];
    struct sw_device_bytes before = sw_device_bytes_of(dev);
    unsigned char *p = device_bytes(dev, BYTES);
    memset(here, 1, BYTES);
    to_host(stream, here, p, BYTES);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(here[i], 0);
    assert_true(sw_device_bytes_of(dev).in_use == before.in_use + BYTES);
    assert_true(sw_device_bytes_of(dev).capacity > BYTES);
    sw_device_free(dev, p, BYTES);
    assert_true(sw_device_bytes_of(dev).in_use == before.in_use);
    assert_true(sw_device_bytes_of(dev).peak >= before.in_use + BYTES);
}

static void failed_allocation_names_the_memory(void **state)
{
    void *p = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_device_alloc(dev, (size_t)1 << 46, "conv1 (activation)", &p, &err),
                     SW_ERR_NOMEM);
    assert_says(&err, dev->name);
    assert_says(&err, "conv1 (activation)");
    assert_says(&err, "70368744177664");
    assert_null(p);
    sw_device_free(dev, device_bytes(dev, 1000), 1000); /* and the device continues to work */
}

static void copies_keep_order_and_pitches(void **state)
{
    enum { ROWS = 5, WIDTH = 12, PITCH = 32 };
    char here[ROWS * PITCH], back[ROWS * WIDTH];
    struct sw_err err;
    for (int i = 0; i < ROWS * PITCH; i++)
        here[i] = (char)i;
    char *p = device_bytes(dev, ROWS * WIDTH), *q = device_bytes(dev, ROWS * WIDTH);
    ASSERT_OK(sw_copy_2d(stream, &(struct sw_copy_2d){p, WIDTH, here, PITCH, WIDTH, ROWS}, &err));
    ASSERT_OK(sw_copy(stream, q, p, ROWS * WIDTH, &err));
    ASSERT_OK(sw_fill_zero(stream, p, ROWS * WIDTH, &err));
    ASSERT_OK(sw_copy(stream, back, q, ROWS * WIDTH, &err));
    ASSERT_OK(sw_stream_wait(stream, &err));
    for (int r = 0; r < ROWS; r++)
        assert_memory_equal(back + r * WIDTH, here + r * PITCH, WIDTH);
    assert_int_equal(
        sw_copy_2d(stream, &(struct sw_copy_2d){p, WIDTH - 1, here, PITCH, WIDTH, ROWS}, &err),
        SW_ERR_INVALID);
    sw_device_free(dev, p, ROWS * WIDTH);
    sw_device_free(dev, q, ROWS * WIDTH);
}

static void devices_copy_to_each_other_and_to_the_host(void **state)
{
    int there[4], here[4] = {1, 2, 3, 4};
    struct sw_err err;
    struct fixture cpu = open_cpu(true, 1);
    struct sw_device *other = open_gpu(0); /* two workers on one GPU */
    struct sw_stream *s = new_stream(other);
    void *p = to_device(stream, here, sizeof here), *q = device_bytes(other, sizeof here);
    ASSERT_OK(sw_copy_peer(s, other, q, dev, p, sizeof here, &err));
    ASSERT_OK(sw_copy_peer(s, cpu.dev, there, other, q, sizeof there, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    assert_memory_equal(there, here, sizeof here);
    sw_device_free(other, q, sizeof here);
    sw_device_free(dev, p, sizeof here);
    sw_stream_free(s);
    sw_device_close(other);
    close_cpu(&cpu);
}

static void count_up(void *user)
{
    __atomic_add_fetch((int *)user, 1, __ATOMIC_RELAXED);
}

/* More functions than the ring of queued functions can hold. */
static void host_functions_run_and_events_happen(void **state)
{
    int calls = 0;
    struct sw_err err;
    struct sw_stream *second = new_stream(dev);
    struct sw_event *event = new_event(dev), *never = new_event(dev);
    for (int i = 0; i < 3000; i++)
        ASSERT_OK(sw_stream_call(stream, count_up, &calls, &err));
    ASSERT_OK(sw_event_record(stream, event, &err));
    ASSERT_OK(sw_event_wait(second, event, &err));
    ASSERT_OK(sw_event_wait(second, never, &err));
    ASSERT_OK(sw_event_host_wait(dev, never, &err));
    ASSERT_OK(sw_event_host_wait(dev, event, &err));
    ASSERT_OK(sw_stream_wait(second, &err));
    assert_int_equal(__atomic_load_n(&calls, __ATOMIC_RELAXED), 3000);
    sw_event_free(dev, event);
    sw_event_free(dev, never);
    sw_stream_free(second);
}

static void non_finite_values_are_found(void **state)
{
    enum { N = 5000 };
    float x[N];
    bool finite = false;
    struct sw_err err;
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    float *p = to_device(stream, x, sizeof x);
    ASSERT_OK(sw_op_all_finite(stream, p, N, &finite, &err));
    assert_true(finite);
    x[N - 1] = -INFINITY;
    ASSERT_OK(sw_copy(stream, p, x, sizeof x, &err));
    ASSERT_OK(sw_op_all_finite(stream, p, N, &finite, &err));
    assert_false(finite);
    ASSERT_OK(sw_op_all_finite(stream, p, N - 1, &finite, &err));
    assert_true(finite);
    sw_device_free(dev, p, sizeof x);
}

/* Matrices whose sizes are not multiples of any block size, in all four transpositions. */
static void check_products(double limit)
{
    enum { M = 7, N = 5, K = 9 };
    struct rng r = rng_of(3);
    struct fixture cpu = open_cpu(true, 1);
    struct sw_err err;
    for (int way = 0; way < 4; way++) {
        float *a = random_floats(&r, M * K, -1, 1), *b = random_floats(&r, K * N, -1, 1);
        float *c = random_floats(&r, M * N, -1, 1), back[M * N];
        double wanted[M * N];
        struct sw_gemm_args g = {.trans_a = way & 1,
                                 .trans_b = way & 2,
                                 .m = M,
                                 .n = N,
                                 .k = K,
                                 .alpha = 0.5f,
                                 .beta = 2,
                                 .a = to_device(stream, a, M * K * sizeof *a),
                                 .b = to_device(stream, b, K * N * sizeof *b),
                                 .c = to_device(stream, c, M * N * sizeof *c)};
        const struct sw_gemm_args there = g;
        ASSERT_OK(sw_op_run(stream, &sw_op_gemm, &g, &err));
        to_host(stream, back, there.c, sizeof back);
        g.a = a;
        g.b = b;
        g.c = c;
        ASSERT_OK(sw_op_run(cpu.stream, &sw_op_gemm, &g, &err));
        for (int i = 0; i < M * N; i++)
            wanted[i] = (double)c[i];
        assert_near("gemm", back, wanted, M * N, limit);
        sw_device_free(dev, (void *)(uintptr_t)there.a, M * K * sizeof *a);
        sw_device_free(dev, (void *)(uintptr_t)there.b, K * N * sizeof *b);
        sw_device_free(dev, there.c, M * N * sizeof *c);
        free(a);
        free(b);
        free(c);
    }
    close_cpu(&cpu);
}

static void products_match_the_cpu(void **state)
{
    check_products(1e-6);
}

/* Operands have 10 bits of mantissa. */
static void products_with_tf32_are_close_to_the_cpu(void **state)
{
    assert_int_equal(end(NULL), 0);
    dev = open_gpu_as(0, SW_PRECISION_TF32);
    stream = new_stream(dev);
    check_products(4e-3);
}

/* An operand with more bits than tf32 keeps: products with `exact` must not lose them. */
static void exact_products_stay_exact_with_tf32(void **state)
{
    const float a = 1.0f + 0x1p-20f, one = 1;
    float back = 0;
    struct sw_err err;
    assert_int_equal(end(NULL), 0);
    dev = open_gpu_as(0, SW_PRECISION_TF32);
    stream = new_stream(dev);
    const struct sw_gemm_args g = {.m = 1,
                                   .n = 1,
                                   .k = 1,
                                   .alpha = 1,
                                   .a = to_device(stream, &a, sizeof a),
                                   .b = to_device(stream, &one, sizeof one),
                                   .c = device_bytes(dev, sizeof back),
                                   .exact = true};
    ASSERT_OK(sw_op_run(stream, &sw_op_gemm, &g, &err));
    to_host(stream, &back, g.c, sizeof back);
    assert_true(back == a);
}

/* Urgency changes only the order. */
static void urgent_streams_work_like_others(void **state)
{
    float x[2] = {1, 2};
    struct sw_stream *urgent = NULL;
    struct sw_err err;
    ASSERT_OK(sw_stream_new_urgent(dev, 1, &urgent, &err));
    float *p = to_device(urgent, x, sizeof x);
    ASSERT_OK(sw_op_add(urgent, p, p, 2, &err));
    to_host(urgent, x, p, sizeof x);
    assert_true(x[0] == 2 && x[1] == 4);
    sw_device_free(dev, p, sizeof x);
    sw_stream_free(urgent);
}

/* The runtime keeps the error of an unchecked call for the next launch. */
static void earlier_error_is_not_reported_by_the_next_launch(void **state)
{
    float x = 1;
    struct sw_err err;
    float *p = to_device(stream, &x, sizeof x);
    if (!getenv("SINGA_CUDA_MODULE"))
        skip(); /* compute-sanitizer would report it */
    sw_device_free(dev, p + 1, 0);
    ASSERT_OK(sw_op_add(stream, p, p, 1, &err));
    to_host(stream, &x, p, sizeof x);
    assert_true(x == 2);
}

/* ---- Operations without a kernel ---- */

struct halve_args {
    int64_t n;
    const float *x;
    float *y, *sum; /* sum: one float in the middle of y */
};

static void halve_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct halve_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->n));
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
    SW_ARRAY(out, a, sum, sizeof(float));
}

static int halve_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct halve_args *a = args;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] = a->x[i] / 2;
    *a->sum += 100;
    return a->n == 3 ? sw_err_set(l->err, SW_ERR_INVALID, "three is odd") : SW_OK;
}

static const struct sw_op op_halve = {"halve", sizeof(struct halve_args), halve_arrays, halve_cpu};

/* In place, with a second pointer into the same array: the host copies must be aliased in the same
 * way. */
static void operations_without_a_kernel_run_on_the_cpu(void **state)
{
    float x[4] = {2, 4, 6, 8}, y[4];
    struct sw_err err = {0};
    float *p = to_device(stream, x, sizeof x);
    struct halve_args a = {.n = 4, .x = p, .y = p, .sum = p + 2};
    ASSERT_OK(sw_op_run(stream, &op_halve, &a, &err));
    to_host(stream, y, p, sizeof y);
    assert_true(y[0] == 1 && y[1] == 2 && y[2] == 103 && y[3] == 4);
    assert_int_equal(sw_device_bytes_of(dev).bridged, 1);
    a.n = 3;
    assert_int_equal(sw_op_run(stream, &op_halve, &a, &err), SW_ERR_INVALID);
    assert_says(&err, "three is odd");
    sw_device_free(dev, p, sizeof x);
}

/* ---- Bad data: the wait reports it with the CPU's message, and so do all later calls ---- */

enum { ROWS = 3, COLUMNS = 4 };

/* ---- Graphs ---- */

/* Scalars are read at the capture, arrays when the graph runs. */
static void captured_operations_run_at_launch(void **state)
{
    enum { N = 3 };
    const float a[N * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, one[N * N] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float back[N * N];
    struct sw_graph *g = NULL;
    struct sw_err err;
    float *x = to_device(stream, a, sizeof a), *eye = to_device(stream, one, sizeof one);
    float *y = to_device(stream, one, sizeof one);
    const struct sw_gemm_args product = {
        .m = N, .n = N, .k = N, .alpha = 1, .a = x, .b = eye, .c = y};
    for (int i = 0; i < 2;
         i++) { /* first without a capture, which also creates the handles of libraries */
        if (i > 0)
            ASSERT_OK(sw_capture_begin(stream, &err));
        ASSERT_OK(sw_op_add(stream, x, x, N * N, &err));
        ASSERT_OK(sw_op_run(stream, &sw_op_gemm, &product, &err));
        ASSERT_OK(sw_copy(stream, x, y, sizeof a, &err));
    }
    ASSERT_OK(sw_capture_end(stream, &g, &err));
    to_host(stream, back, x, sizeof back);
    assert_true(back[8] == 18);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_graph_launch(stream, g, &err));
    to_host(stream, back, y, sizeof back);
    assert_true(back[0] == 8 && back[8] == 72);
    sw_graph_free(dev, g);
}

/* Libraries allocate memory when they are opened, which is not allowed in a capture. */
static void libraries_are_not_opened_in_a_capture(void **state)
{
    const float one = 1;
    float back;
    struct sw_graph *g = NULL;
    struct sw_err err = {0};
    float *x = to_device(stream, &one, sizeof one), *y = device_bytes(dev, sizeof one);
    const struct sw_gemm_args product = {
        .m = 1, .n = 1, .k = 1, .alpha = 1, .a = x, .b = x, .c = y};
    ASSERT_OK(sw_capture_begin(stream, &err));
    assert_int_equal(sw_op_run(stream, &sw_op_gemm, &product, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(sw_capture_end(stream, &g, &err), SW_ERR_UNSUPPORTED);
    assert_says(&err, "cannot be part of a graph");
    assert_null(g);
    ASSERT_OK(sw_op_run(stream, &sw_op_gemm, &product, &err));
    to_host(stream, &back, y, sizeof back);
    assert_true(back == 1);
}

/* A stream that waits for an event of a capture joins it, and the captured stream must wait for it
 * before the end. */
static void other_streams_join_a_capture(void **state)
{
    float x[1] = {1};
    struct sw_graph *g = NULL;
    struct sw_err err = {0};
    struct sw_stream *second = new_stream(dev);
    struct sw_event *there = new_event(dev), *back = new_event(dev);
    float *p = to_device(stream, x, sizeof x);
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        ASSERT_OK(sw_capture_begin(stream, &err));
        ASSERT_OK(sw_op_add(stream, p, p, 1, &err));
        ASSERT_OK(sw_event_record(stream, there, &err));
        ASSERT_OK(sw_event_wait(second, there, &err));
        ASSERT_OK(sw_op_add(second, p, p, 1, &err));
        ASSERT_OK(sw_event_record(second, back, &err));
        if (comes_back)
            ASSERT_OK(sw_event_wait(stream, back, &err));
        int rc = sw_capture_end(stream, &g, &err);
        assert_true(comes_back ? rc == SW_OK : rc != SW_OK);
    }
    to_host(stream, x, p, sizeof x);
    assert_true(x[0] == 1);
    ASSERT_OK(sw_graph_launch(stream, g, &err));
    to_host(stream, x, p, sizeof x);
    assert_true(x[0] == 4);
    sw_graph_free(dev, g);
    sw_event_free(dev, there);
    sw_event_free(dev, back);
    sw_device_free(dev, p, sizeof x);
    sw_stream_free(second);
}

static void bridged_operations_cannot_be_captured(void **state)
{
    float x[4] = {2, 4, 6, 8};
    struct sw_graph *g = NULL;
    struct sw_err err = {0};
    float *there = to_device(stream, x, sizeof x);
    struct halve_args a = {.n = 4, .x = there, .y = there, .sum = there};
    ASSERT_OK(sw_capture_begin(stream, &err));
    assert_int_equal(sw_op_run(stream, &op_halve, &a, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(sw_capture_end(stream, &g, &err), SW_ERR_UNSUPPORTED);
    assert_says(&err, "halve, which runs on the CPU, cannot be part of a graph");
    assert_null(g);
    ASSERT_OK(sw_op_run(stream, &op_halve, &a, &err));
    to_host(stream, x, there, sizeof x);
    assert_true(x[0] == 101 && x[3] == 4);
}

struct matrix {
    float *x, *y;
    int32_t *label;
    struct sw_step *step;
    struct sw_result *result;
};

static struct matrix matrix_with(const int32_t *label)
{
    static const float zeros[ROWS * COLUMNS];
    const struct sw_step step = {.valid_rows = ROWS, .backward_scale = 1};
    return (struct matrix){.x = to_device(stream, zeros, sizeof zeros),
                           .y = device_bytes(dev, sizeof zeros),
                           .label = to_device(stream, label, ROWS * sizeof *label),
                           .step = to_device(stream, &step, sizeof step),
                           .result = device_bytes(dev, sizeof(struct sw_result))};
}

static void assert_told(int rc, const struct sw_err *queued, const char *words)
{
    struct sw_err err = *queued;
    if (rc == SW_OK)
        rc = sw_stream_wait(stream, &err);
    assert_int_equal(rc, SW_ERR_INVALID);
    assert_says(&err, words);
    assert_says(&err, dev->name);
    /* The error persists. */
    assert_int_equal(sw_fill_zero(stream, NULL, 0, &err), SW_ERR_INVALID);
    assert_says(&err, words);
}

static void label_out_of_range_is_reported_by_the_wait(void **state)
{
    static const int32_t labels[ROWS] = {0, 4, 1};
    struct matrix m = matrix_with(labels);
    struct sw_softmax_loss_args a = {.rows = ROWS,
                                     .classes = COLUMNS,
                                     .weight = 1,
                                     .x = m.x,
                                     .labels = {.label = m.label},
                                     .step = m.step,
                                     .prob = m.y,
                                     .result = m.result};
    struct sw_err err = {0};
    int rc = sw_op_run(stream, &sw_op_softmax_loss, &a, &err);
    assert_told(rc, &err, "softmax_loss: the label of row 1 is 4, but there are 4 classes (0..3)");
}

static void token_out_of_range_is_reported_by_the_wait(void **state)
{
    static const int32_t tokens[ROWS] = {0, 1, -7};
    struct matrix m = matrix_with(tokens);
    const struct sw_token_lists lists = {
        .rows = ROWS, .per_row = 1, .length = 1, .vocabulary = 2, .skip = SW_TOKEN_NO_SKIP};
    struct sw_err err = {0};
    int rc = sw_op_run(
        stream, &sw_op_embedding,
        &(const struct sw_embedding_args){
            .lists = lists, .width = 4, .token = m.label, .weight = m.x, .step = m.step, .y = m.y},
        &err);
    assert_told(rc, &err, "token 0 of row 2 is -7, but the vocabulary has 2 (0..1)");
}

static void invalid_target_is_reported_by_the_wait(void **state)
{
    static const int32_t labels[ROWS] = {0};
    static const float targets[ROWS * COLUMNS] = {[6] = 1.5f};
    struct matrix m = matrix_with(labels);
    struct sw_row_loss_args a = {.kind = SW_LOSS_SIGMOID,
                                 .who = "tested",
                                 .rows = ROWS,
                                 .columns = COLUMNS,
                                 .weight = 1,
                                 .x = m.x,
                                 .target = to_device(stream, targets, sizeof targets),
                                 .step = m.step,
                                 .y = m.y,
                                 .result = m.result};
    struct sw_err err = {0};
    int rc = sw_op_run(stream, &sw_op_row_loss, &a, &err);
    assert_told(rc, &err, "tested: target 2 of row 1 is 1.5, but a target must be 0 to 1");
}

/* Labels of ignored rows may have any value. */
static void ignored_rows_are_not_read(void **state)
{
    static const int32_t labels[ROWS] = {3, 0, 99};
    struct matrix m = matrix_with(labels);
    const struct sw_step two = {.valid_rows = 2};
    struct sw_result result;
    struct sw_err err;
    struct sw_top_k_args a = {.rows = ROWS,
                              .classes = COLUMNS,
                              .top_k = 1,
                              .x = m.x,
                              .labels = {.label = m.label},
                              .step = m.step,
                              .result = m.result};
    ASSERT_OK(sw_copy(stream, m.step, &two, sizeof two, &err));
    ASSERT_OK(sw_op_run(stream, &sw_op_top_k, &a, &err));
    to_host(stream, &result, m.result, sizeof result);
    assert_true(result.sum == 1 && result.weight == 2); /* of equal scores the first is best */
}

static void cancelled_device_refuses_calls(void **state)
{
    struct sw_err err = {0};
    int calls = 0;
    sw_device_cancel(dev);
    assert_int_equal(sw_stream_call(stream, count_up, &calls, &err), SW_ERR_CANCELLED);
    assert_int_equal(sw_stream_wait(stream, &err), SW_ERR_CANCELLED);
    assert_int_equal(calls, 0);
}

/* ---- The driver's list ---- */

static void missing_gpu_is_an_error(void **state)
{
    struct sw_device *other = NULL;
    struct sw_err err = {0};
    const struct sw_device_args args = {.bus = "ffff:fe:1f.7"};
    assert_int_equal(sw_driver_cuda.open(&args, &other, &err), SW_ERR_NOTFOUND);
    assert_says(&err, "no GPU at ffff:fe:1f.7");
    assert_null(other);
}

static void a_gpu_is_found_by_its_address(void **state)
{
    const struct sw_cuda_module *module;
    struct sw_cuda_gpu gpu;
    struct sw_device *other;
    struct sw_err err;
    ASSERT_OK(sw_cuda_load(&module, &err));
    ASSERT_OK(module->describe(0, &gpu, &err));
    assert_true(gpu.memory_bytes > 0 && gpu.name[0]);
    const struct sw_device_args args = {.bus = gpu.bus, .index = 5, .precision = SW_PRECISION_TF32};
    ASSERT_OK(sw_driver_cuda.open(&args, &other, &err));
    assert_string_equal(other->name, "cuda:5");
    assert_false(other->host_memory);
    sw_device_close(other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_zero_and_counted),
        TEST(failed_allocation_names_the_memory),
        TEST(copies_keep_order_and_pitches),
        TEST(devices_copy_to_each_other_and_to_the_host),
        TEST(host_functions_run_and_events_happen),
        TEST(non_finite_values_are_found),
        TEST(products_match_the_cpu),
        TEST(products_with_tf32_are_close_to_the_cpu),
        TEST(exact_products_stay_exact_with_tf32),
        TEST(urgent_streams_work_like_others),
        TEST(earlier_error_is_not_reported_by_the_next_launch),
        TEST(operations_without_a_kernel_run_on_the_cpu),
        TEST(captured_operations_run_at_launch),
        TEST(libraries_are_not_opened_in_a_capture),
        TEST(other_streams_join_a_capture),
        TEST(bridged_operations_cannot_be_captured),
        TEST(label_out_of_range_is_reported_by_the_wait),
        TEST(token_out_of_range_is_reported_by_the_wait),
        TEST(invalid_target_is_reported_by_the_wait),
        TEST(ignored_rows_are_not_read),
        TEST(cancelled_device_refuses_calls),
        TEST(missing_gpu_is_an_error),
        TEST(a_gpu_is_found_by_its_address),
    };
    return has_gpu() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
