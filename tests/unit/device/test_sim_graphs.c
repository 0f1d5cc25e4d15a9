/* ctest-labels: threads
 * Graphs of sim: captured operations run at every launch with the memory contents of that time,
 * joined streams stay ordered, and operations that cannot be part of a graph are refused and leave
 * the streams usable. */
#include "device/ops/elementwise.h"
#include "kernels/ops/dropout.h"
#include "sim_support.h"
#include "unit/faulty_os.h"

enum { N = 64 };

static struct sw_device *dev;
static struct sw_stream *s, *other;
static struct sw_event *made, *back;
static float *x, *y;

static int set_up(void **state)
{
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    dev = open_sim(0);
    s = new_stream(dev);
    other = new_stream(dev);
    made = new_event(dev);
    back = new_event(dev);
    x = to_device(s, ones, sizeof ones);
    y = to_device(s, ones, sizeof ones);
    return 0;
}

static int tear_down(void **state)
{
    sw_stream_free(s);
    sw_stream_free(other);
    sw_event_free(dev, made);
    sw_event_free(dev, back);
    sw_device_close(dev);
    return 0;
}

static float first_of(const float *there)
{
    float host[N];
    to_host(s, host, there, sizeof host);
    assert_true(host[0] == host[N - 1]);
    return host[0];
}

static void nothing(void *user)
{
}

static void captured_operations_run_at_launch(void **state)
{
    struct sw_graph *g;
    struct sw_err err;
    float sevens[N];
    for (int i = 0; i < N; i++)
        sevens[i] = 7;
    assert_true(sw_device_has_graphs(dev));
    ASSERT_OK(sw_capture_begin(s, &err));
    ASSERT_OK(sw_op_add(s, x, x, N, &err)); /* x = 2 x, y = y + x */
    ASSERT_OK(sw_op_add(s, y, x, N, &err));
    ASSERT_OK(sw_capture_end(s, &g, &err));
    assert_true(first_of(x) == 1 && first_of(y) == 1);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(sw_graph_launch(s, g, &err));
    assert_true(first_of(x) == 8 && first_of(y) == 15);
    ASSERT_OK(sw_copy(s, x, sevens, sizeof sevens, &err)); /* between two launches */
    ASSERT_OK(sw_graph_launch(s, g, &err));
    assert_true(first_of(x) == 14 && first_of(y) == 29);
    sw_graph_free(dev, g);
}

/* Kernels read the step from memory: the same graph produces another mask. */
static void each_launch_reads_the_current_step(void **state)
{
    struct sw_step step = {.step = 1, .valid_rows = 8, .batch_valid_rows = 8};
    struct sw_graph *g;
    struct sw_err err;
    float of[3][N], direct[N];
    const int64_t dim[] = {8, N / 8};
    struct sw_desc d = sw_desc_plain(SW_F32, 2, dim);
    struct sw_step *there = to_device(s, &step, sizeof step);
    const struct sw_dropout drop = {.threshold = UINT32_MAX / 2, .scale = 2};
    ASSERT_OK(sw_capture_begin(s, &err));
    ASSERT_OK(sw_op_run(
        s, &sw_op_dropout,
        &(const struct sw_dropout_args){.desc = d, .dropout = drop, .step = there, .x = x, .y = y},
        &err));
    ASSERT_OK(sw_capture_end(s, &g, &err));
    for (int i = 0; i < 3; i++) {
        step.step = (uint64_t)i;
        ASSERT_OK(sw_copy(s, there, &step, sizeof step, &err));
        ASSERT_OK(sw_graph_launch(s, g, &err));
        to_host(s, of[i], y, sizeof of[i]);
        ASSERT_OK(sw_op_run(s, &sw_op_dropout,
                            &(const struct sw_dropout_args){
                                .desc = d, .dropout = drop, .step = there, .x = x, .y = y},
                            &err));
        to_host(s, direct, y, sizeof direct);
        assert_same_bits("dropout", of[i], direct, sizeof direct);
    }
    assert_true(memcmp(of[0], of[1], sizeof of[0]) != 0);
    assert_true(memcmp(of[1], of[2], sizeof of[0]) != 0);
    sw_graph_free(dev, g);
}

/* A copy in parallel with computation, as for offloaded activations. */
static void follow(struct sw_stream *behind, struct sw_stream *ahead, struct sw_event *e)
{
    struct sw_err err;
    ASSERT_OK(sw_event_record(ahead, e, &err));
    ASSERT_OK(sw_event_wait(behind, e, &err));
}

static void second_stream_joins_a_capture_and_returns(void **state)
{
    static float host[N];
    struct sw_graph *g;
    struct sw_err err;
    ASSERT_OK(sw_capture_begin(s, &err));
    ASSERT_OK(sw_op_add(s, x, x, N, &err));
    follow(other, s, made);
    ASSERT_OK(sw_copy(other, host, x, sizeof host, &err));
    follow(s, other, back);
    ASSERT_OK(sw_op_add(s, x, x, N, &err));
    ASSERT_OK(sw_capture_end(s, &g, &err));
    for (int i = 0; i < 20; i++) {
        ASSERT_OK(sw_graph_launch(s, g, &err));
        if (i % 8 == 7) {
            float half = host[0];
            half = first_of(x) / 2;
            assert_true(host[N - 1] == half);
            ASSERT_OK(sw_copy(s, x, y, sizeof host, &err));
        }
    }
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_stream_wait(other, &err));
    sw_graph_free(dev, g);
    follow(other, s, made); /* events of a capture can be used again when they are recorded */
    ASSERT_OK(sw_stream_wait(other, &err));
}

/* A capture does not detect a missing wait, so each launch is checked. */
static void launch_detects_a_missing_wait(void **state)
{
    static float host[N];
    struct sw_graph *g;
    struct sw_err err;
    ASSERT_OK(sw_capture_begin(s, &err));
    follow(other, s, made);
    ASSERT_OK(sw_op_add(s, x, x, N, &err));
    ASSERT_OK(sw_copy(other, host, x, sizeof host, &err));
    follow(s, other, back);
    ASSERT_OK(sw_capture_end(s, &g, &err));
    assert_int_equal(sw_graph_launch(s, g, &err), SW_ERR_INVALID);
    sw_device_cancel(dev);
    assert_int_equal(sw_stream_wait(s, NULL), SW_ERR_CANCELLED);
    sw_graph_free(dev, g);
}

/* Captures the call, checks that the capture fails for that reason, and that the streams still
 * work. */
static void refuses(int (*what)(struct sw_err *err), const char *says)
{
    struct sw_graph *g = NULL;
    struct sw_err err;
    ASSERT_OK(sw_capture_begin(s, &err));
    ASSERT_OK(sw_op_add(s, x, x, N, &err));
    assert_int_equal(what(&err), SW_ERR_UNSUPPORTED);
    assert_says(&err, says);
    assert_int_equal(sw_capture_end(s, &g, &err), SW_ERR_UNSUPPORTED);
    assert_says(&err, says);
    assert_null(g);
    ASSERT_OK(sw_op_add(s, x, x, N, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_stream_wait(other, &err));
}

static int wait_for_it(struct sw_err *err)
{
    return sw_stream_wait(s, err);
}

static int call_the_host(struct sw_err *err)
{
    return sw_stream_call(s, nothing, NULL, err);
}

static int ask_for_an_answer(struct sw_err *err)
{
    bool finite;
    return sw_op_all_finite(s, x, N, &finite, err);
}

static int wait_for_what_was_before(struct sw_err *err)
{
    int rc = sw_event_record(other, back, err);
    return rc == SW_OK ? sw_event_wait(s, back, err) : rc;
}

static int capture_again(struct sw_err *err)
{
    struct sw_graph *g;
    int rc = sw_capture_begin(other, err);
    return rc == SW_OK ? sw_capture_end(other, &g, err) : sw_stream_wait(s, err);
}

static void host_calls_in_a_capture_are_refused(void **state)
{
    refuses(wait_for_it, "waiting for the stream cannot be part of a graph");
    refuses(call_the_host, "call cannot be part of a graph");
    refuses(ask_for_an_answer, "cannot be part of a graph");
    refuses(wait_for_what_was_before, "an event that was recorded outside the capture");
    refuses(capture_again, "waiting for the stream");
}

static void joined_stream_without_a_final_wait_is_refused(void **state)
{
    struct sw_graph *g;
    struct sw_err err;
    ASSERT_OK(sw_capture_begin(s, &err));
    follow(other, s, made);
    ASSERT_OK(sw_op_add(other, y, y, N, &err));
    assert_int_equal(sw_capture_end(s, &g, &err), SW_ERR_UNSUPPORTED);
    assert_says(&err, "does not wait for all work of a second stream");
    assert_int_equal(sw_event_host_wait(dev, made, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(sw_event_wait(s, made, &err), SW_ERR_INVALID);
    assert_true(first_of(y) == 1);
}

/* A launch checks that the memory of the graph still exists. */
static void launch_detects_freed_memory(void **state)
{
    struct sw_graph *g;
    struct sw_err err;
    float *z = device_bytes(dev, N * sizeof *z);
    ASSERT_OK(sw_capture_begin(s, &err));
    ASSERT_OK(sw_op_add(s, z, x, N, &err));
    ASSERT_OK(sw_capture_end(s, &g, &err));
    ASSERT_OK(sw_graph_launch(s, g, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_device_free(dev, z, N * sizeof *z);
    float *in_its_place = device_bytes(dev, N * sizeof *z);
    assert_ptr_equal(in_its_place, z);
    assert_int_equal(sw_graph_launch(s, g, &err), SW_ERR_INVALID);
    sw_graph_free(dev, g);
}

static void every_allocation_may_fail(void **state)
{
    for (int n = 1;; n++) {
        struct sw_graph *g = NULL;
        struct sw_err err;
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = n});
        int rc = sw_capture_begin(s, &err);
        if (rc == SW_OK) {
            for (int i = 0; i < 70 && rc == SW_OK; i++) /* more than the initial array holds */
                rc = sw_op_add(s, x, y, N, &err);
            assert_int_equal(sw_capture_end(s, &g, &err), rc);
        }
        bool failed = faulty.calls >= n;
        faulty_end();
        sw_graph_free(dev, g);
        ASSERT_OK(sw_stream_wait(s, &err));
        assert_int_equal(rc, failed ? SW_ERR_NOMEM : SW_OK);
        if (!failed)
            return;
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(captured_operations_run_at_launch),
        TEST(each_launch_reads_the_current_step),
        TEST(second_stream_joins_a_capture_and_returns),
        TEST(launch_detects_a_missing_wait),
        TEST(host_calls_in_a_capture_are_refused),
        TEST(joined_stream_without_a_final_wait_is_refused),
        TEST(launch_detects_freed_memory),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
