/* ctest-labels: threads
 * Data races between streams of sim are detected every time, however fast the copies are, and
 * reported with the name of the memory: a missing wait before a kernel, after a copy, across
 * streams and devices, and memory that is freed while in use. Ordered accesses pass. */
#include "device/ops/elementwise.h"
#include "sim_support.h"

enum { FLOATS = 64, BYTES = FLOATS * sizeof(float) };

/* A device with a compute stream, a copy stream, and an arena of two blobs. */
struct pair {
    struct sw_device *dev;
    struct sw_stream *compute, *copy;
    struct sw_event *event;
    float *arena, *weight, *feature;
    float host[FLOATS];
};

static struct pair open_pair(void)
{
    struct pair p = {.dev = open_sim(0)};
    struct sw_err err;
    void *arena;
    p.compute = new_stream(p.dev);
    p.copy = new_stream(p.dev);
    sw_stream_name(p.compute, "compute");
    sw_stream_name(p.copy, "copy");
    p.event = new_event(p.dev);
    ASSERT_OK(sw_device_alloc(p.dev, 2 * BYTES, "arena", &arena, &err));
    p.arena = p.weight = arena;
    p.feature = p.weight + FLOATS;
    sw_device_name(p.dev, p.weight, BYTES, "fc1.weight (value)");
    sw_device_name(p.dev, p.feature, BYTES, "fc1 (activation)");
    return p;
}

static void close_pair(struct pair *p)
{
    sw_stream_free(p->compute);
    sw_stream_free(p->copy);
    sw_event_free(p->dev, p->event);
    sw_device_close(p->dev);
}

/* All queued operations are done, so that luck cannot hide a race. */
static void let_it_run(struct sw_device *dev, int64_t operations)
{
    while (sw_sim_operations(dev) < operations)
        sleep_ms(1);
    sleep_ms(5);
}

static void missing_wait_before_a_kernel_is_reported(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    ASSERT_OK(sw_copy(p.copy, p.weight, p.host, BYTES, &err));
    let_it_run(p.dev, 1);
    assert_int_equal(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err), SW_ERR_INVALID);
    assert_string_equal(err.text,
                        "sim:0: add of stream compute reads fc1.weight (value) while copy of "
                        "stream copy may still write it: no event between them");
    /* The same with the wait; no error remains. */
    ASSERT_OK(sw_event_record(p.copy, p.event, &err));
    ASSERT_OK(sw_event_wait(p.compute, p.event, &err));
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    close_pair(&p);
}

static void missing_wait_before_a_copy_is_reported(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    let_it_run(p.dev, 1);
    assert_int_equal(sw_copy(p.copy, p.host, p.feature, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "copy of stream copy reads fc1 (activation) while add of stream compute may "
                      "still write it");
    /* A write must wait for earlier readers, too. */
    assert_int_equal(sw_copy(p.copy, p.weight, p.host, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "writes fc1.weight (value) while add of stream compute may still read it");
    /* Readers do not conflict. */
    ASSERT_OK(sw_copy(p.copy, p.host, p.weight, BYTES, &err));
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    close_pair(&p);
}

/* An event recorded before the operation does not order it. */
static void event_before_the_operation_does_not_order_it(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    ASSERT_OK(sw_event_record(p.copy, p.event, &err));
    ASSERT_OK(sw_copy(p.copy, p.weight, p.host, BYTES, &err));
    ASSERT_OK(sw_event_wait(p.compute, p.event, &err));
    assert_int_equal(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err), SW_ERR_INVALID);
    assert_says(&err, "reads fc1.weight (value)");
    ASSERT_OK(sw_event_record(p.copy, p.event, &err));
    ASSERT_OK(sw_event_host_wait(p.dev, p.event, &err)); /* a wait of the host orders all streams */
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    close_pair(&p);
}

/* Ordered through a third stream; and only the part that was written conflicts. */
static void order_is_transitive_across_streams(void **state)
{
    struct pair p = open_pair();
    struct sw_stream *third = new_stream(p.dev);
    struct sw_event *second = new_event(p.dev);
    struct sw_err err;
    ASSERT_OK(sw_copy(p.copy, p.weight, p.host, BYTES / 2, &err));
    ASSERT_OK(sw_event_record(p.copy, p.event, &err));
    ASSERT_OK(sw_event_wait(third, p.event, &err));
    ASSERT_OK(sw_event_record(third, second, &err));
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight + FLOATS / 2, FLOATS / 2, &err));
    assert_int_equal(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err), SW_ERR_INVALID);
    ASSERT_OK(sw_event_wait(p.compute, second, &err));
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    ASSERT_OK(sw_stream_wait(p.compute,
                             &err)); /* also ordered after what the other stream has waited for */
    ASSERT_OK(sw_copy(third, p.weight, p.host, BYTES, &err));
    ASSERT_OK(sw_stream_wait(third, &err));
    sw_event_free(p.dev, second);
    sw_stream_free(third);
    close_pair(&p);
}

static void copies_between_devices_are_ordered_too(void **state)
{
    struct pair p = open_pair();
    struct sw_device *other = open_sim(1);
    struct sw_stream *s = new_stream(other);
    float *there = device_bytes(other, BYTES);
    struct sw_err err;
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    assert_int_equal(sw_copy_peer(s, other, there, p.dev, p.feature, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err,
                "sim:1: copy_peer of stream sim:1/0 reads fc1 (activation) while add of stream "
                "compute of sim:0 may still write it");
    ASSERT_OK(sw_event_record(p.compute, p.event, &err));
    ASSERT_OK(sw_event_wait(s, p.event, &err));
    ASSERT_OK(sw_copy_peer(s, other, there, p.dev, p.feature, BYTES, &err));
    /* The peer still reads it. */
    assert_int_equal(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err), SW_ERR_INVALID);
    assert_says(&err, "writes fc1 (activation) while copy_peer of stream sim:1/0 of sim:1 may "
                      "still read it");
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    sw_stream_free(s);
    sw_device_close(other);
    close_pair(&p);
}

/* Through host memory, which joined devices track together. */
static void copies_through_host_memory_are_ordered(void **state)
{
    struct pair p = open_pair();
    struct sw_device *other = open_sim(1);
    sw_sim_join(other, p.dev);
    struct sw_stream *s = new_stream(other);
    float *there = device_bytes(other, BYTES);
    struct sw_err err;
    sw_device_name(p.dev, p.host, BYTES, "staging");
    ASSERT_OK(sw_copy(p.copy, p.host, p.weight, BYTES, &err));
    let_it_run(p.dev, 1);
    assert_int_equal(sw_copy(s, there, p.host + 1, 4, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:1: copy of stream sim:1/0 reads staging while copy of stream copy of "
                      "sim:0 may still write it");
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    ASSERT_OK(sw_copy(s, there, p.host, BYTES, &err));
    assert_int_equal(sw_copy(p.copy, p.host, p.weight, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "writes staging while copy of stream sim:1/0 of sim:1 may still read it");
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_copy(p.copy, p.host, p.weight, BYTES, &err));
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    sw_stream_free(s);
    sw_device_close(other);
    close_pair(&p);
}

/* Two streams fill different columns of one matrix. */
static void interleaved_columns_do_not_conflict(void **state)
{
    enum { PITCH = 32, WIDTH = 16, ROWS = 8 };
    struct pair p = open_pair();
    char *matrix = (char *)p.weight;
    struct sw_err err;
    ASSERT_OK(
        sw_copy_2d(p.copy, &(struct sw_copy_2d){matrix, PITCH, p.host, WIDTH, WIDTH, ROWS}, &err));
    ASSERT_OK(sw_copy_2d(
        p.compute, &(struct sw_copy_2d){matrix + WIDTH, PITCH, p.host, WIDTH, WIDTH, ROWS}, &err));
    assert_int_equal(
        sw_copy_2d(p.copy,
                   &(struct sw_copy_2d){matrix + WIDTH - 4, PITCH, p.host, WIDTH, WIDTH, ROWS},
                   &err),
        SW_ERR_INVALID);
    assert_says(&err, "writes fc1.weight (value) while copy_2d of stream compute");
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    close_pair(&p);
}

static void freeing_memory_in_use_is_reported(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    ASSERT_OK(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err));
    let_it_run(p.dev, 1);
    sw_device_free(p.dev, p.arena, 2 * BYTES);
    assert_int_equal(sw_stream_wait(p.compute, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: arena was freed while add of stream compute might still use it");
    /* Freed memory must not be used; the error has its old name, even if the memory was allocated
     * again. */
    assert_int_equal(sw_copy(p.copy, p.weight, p.host, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "was fc1.weight (value) of sim:0, which has been freed");
    close_pair(&p);
}

/* The memory has another owner when the operation runs. */
static void an_operation_does_not_touch_its_successor(void **state)
{
    struct pair p = open_pair();
    struct gate g;
    struct sw_err err;
    void *next;
    hold(p.copy, &g);
    ASSERT_OK(sw_copy(p.copy, p.weight, p.host, BYTES, &err));
    sw_device_free(p.dev, p.arena, 2 * BYTES);
    ASSERT_OK(sw_device_alloc(p.dev, 2 * BYTES, "successor", &next, &err));
    assert_ptr_equal(next, p.arena);
    gate_open(&g);
    assert_int_equal(sw_stream_wait(p.copy, &err), SW_ERR_INVALID);
    assert_says(&err, "arena was freed while copy of stream copy");
    sw_stream_free(p.copy);
    p.copy = new_stream(p.dev);
    to_host(p.copy, p.host, next, BYTES);
    for (int i = 0; i < FLOATS; i++)
        assert_true(p.host[i] == 0);
    gate_fini(&g);
    close_pair(&p);
}

/* Blobs that share memory in turn are both named. */
static void memory_with_two_names_reports_both(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    sw_device_name(p.dev, p.feature, BYTES, "fc2 (gradient)");
    sw_device_name(p.dev, p.feature, BYTES, "fc2 (gradient)");
    ASSERT_OK(sw_copy(p.copy, p.feature, p.host, BYTES, &err));
    assert_int_equal(sw_op_add(p.compute, p.feature, p.weight, FLOATS, &err), SW_ERR_INVALID);
    assert_says(&err, "writes fc1 (activation) or fc2 (gradient) while");
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    close_pair(&p);
}

/* Many small accesses, then a large one: parts are tracked separately and dropped together. */
static void parts_of_a_range_are_tracked_separately(void **state)
{
    struct pair p = open_pair();
    struct rng r = rng_of(11);
    bool written[FLOATS] = {false};
    struct sw_err err;
    for (int n = 0; n < 500; n++) {
        int64_t from = rng_int(&r, 0, FLOATS - 1), count = rng_int(&r, 1, FLOATS - from);
        bool hit = false;
        for (int64_t i = from; i < from + count; i++)
            hit = hit || written[i];
        if (n % 20 == 19) {
            ASSERT_OK(sw_stream_wait(p.copy, &err));
            memset(written, 0, sizeof written);
        } else if (rng_int(&r, 0, 2) == 0) {
            size_t bytes = (size_t)count * sizeof(float);
            ASSERT_OK(sw_copy(p.copy, p.weight + from, p.host, bytes, &err));
            memset(written + from, 1, (size_t)count);
        } else {
            int rc = sw_op_add(p.compute, p.feature, p.weight + from, count, &err);
            assert_int_equal(rc, hit ? SW_ERR_INVALID : SW_OK);
            ASSERT_OK(sw_stream_wait(p.compute, &err));
        }
    }
    ASSERT_OK(sw_stream_wait(p.copy, &err));
    close_pair(&p);
}

/* An operation that does not declare a pointer that is set. */
struct careless_args {
    const float *x;
    float *y;
};

static void careless_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct careless_args *a = args;
    SW_ARRAY(out, a, x, BYTES);
    SW_ARRAY(out, a, y, 0);
}

static int careless_cpu(const struct sw_host_launch *l, const void *args)
{
    return SW_OK;
}

static const struct sw_op careless = {"careless", sizeof(struct careless_args), careless_arrays,
                                      careless_cpu};

static void unused_pointer_must_be_null(void **state)
{
    struct pair p = open_pair();
    struct sw_err err;
    struct careless_args args = {.x = p.weight};
    ASSERT_OK(sw_op_run(p.compute, &careless, &args, &err));
    args.y = p.feature;
    assert_int_equal(sw_op_run(p.compute, &careless, &args, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: careless: y (");
    assert_says(&err, "is set, but the operation declares that it does not use it");
    ASSERT_OK(sw_stream_wait(p.compute, &err));
    struct sw_op_arrays list;
    sw_op_list(&careless, &args, &list);
    assert_true(list.count == 2 && !list.array[0].written && list.array[1].written);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_wait_before_a_kernel_is_reported),
        cmocka_unit_test(missing_wait_before_a_copy_is_reported),
        cmocka_unit_test(event_before_the_operation_does_not_order_it),
        cmocka_unit_test(order_is_transitive_across_streams),
        cmocka_unit_test(copies_between_devices_are_ordered_too),
        cmocka_unit_test(copies_through_host_memory_are_ordered),
        cmocka_unit_test(interleaved_columns_do_not_conflict),
        cmocka_unit_test(freeing_memory_in_use_is_reported),
        cmocka_unit_test(an_operation_does_not_touch_its_successor),
        cmocka_unit_test(memory_with_two_names_reports_both),
        cmocka_unit_test(parts_of_a_range_are_tracked_separately),
        cmocka_unit_test(unused_pointer_must_be_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
