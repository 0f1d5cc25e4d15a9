/* Measuring throughput with a fake clock: the median pass is reported, the first is not counted; a
 * budget ends it; and memory is written before it is measured. */
#include "device_support.h"
#include "kernels/ops/elementwise.h"

#include "base/os.h"
#include "device/throughput.h"

static struct sw_os os;
static int64_t now_ns;

static int64_t told_time(void)
{
    return now_ns;
}

static int set_clock(void **state)
{
    os = sw_os_posix;
    os.monotonic_ns = told_time;
    now_ns = 1;
    sw_os_set(&os);
    return 0;
}

static int restore_clock(void **state)
{
    sw_os_set(NULL);
    return 0;
}

static struct sw_stream *new_cpu_stream(void)
{
    struct sw_device *dev;
    struct sw_stream *s;
    struct sw_err err;
    ASSERT_OK(sw_cpu_open(false, &dev, &err));
    ASSERT_OK(sw_stream_new(dev, 1, &s, &err));
    return s;
}

static void free_cpu_stream(struct sw_stream *s)
{
    struct sw_device *dev = s->dev;
    sw_stream_free(s);
    sw_device_close(dev);
}

/* ---- Passes ---- */

struct passes {
    const int64_t *ns; /* time of each pass; the last one repeats */
    int count, done;
};

static int pass(struct sw_stream *s, void *args, struct sw_err *err)
{
    struct passes *p = args;
    now_ns += p->ns[p->done < p->count ? p->done : p->count - 1];
    p->done++;
    return SW_OK;
}

static void check(const int64_t *ns, int count, int budget_ms, int passes, double median,
                  double fastest)
{
    struct sw_stream *s = new_cpu_stream();
    struct passes p = {.ns = ns, .count = count};
    struct sw_throughput t;
    struct sw_err err;
    ASSERT_OK(sw_throughput_of(s, 1000, pass, &p, budget_ms, &t, &err));
    assert_int_equal(p.done, passes);
    assert_true(t.median == median && t.fastest == fastest);
    free_cpu_stream(s);
}

static void median_pass_is_reported(void **state)
{
    static const int64_t one_is_late[] = {1, 10, 500, 20}; /* the first one is not counted */
    static const int64_t one_is_lucky[] = {900, 50, 1, 50};
    check(one_is_late, 4, 0, 4, 50, 100);
    check(one_is_lucky, 4, 0, 4, 20, 1000);
}

static void measuring_stops_at_the_budget(void **state)
{
    static const int64_t slow[] = {1000000}, quick[] = {1000}, instant[] = {0};
    check(slow, 1, 5, 1 + 5, 1e-3, 1e-3);
    check(slow, 1, 0, 1 + 3, 1e-3, 1e-3);
    check(quick, 1, 1000, 1 + 15, 1, 1);
    check(instant, 1, 1000, 1 + 15, 1000, 1000); /* with a clock that does not advance */
}

static int fail_at_once(struct sw_stream *s, void *args, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_LIBRARY, "no such luck");
}

static void nccl_errors_are_returned(void **state)
{
    struct sw_stream *s = new_cpu_stream();
    struct sw_throughput t;
    struct sw_err err;
    assert_int_equal(sw_throughput_of(s, 1, fail_at_once, NULL, 0, &t, &err), SW_ERR_LIBRARY);
    free_cpu_stream(s);
}

/* ---- Memory ---- */

enum { FLOATS = (1 << 24) + 12345 };

static const struct sw_device_ops *real_ops;
static struct sw_device_ops watched;
static int passes_seen;
static int64_t seen_floats;

static bool is_written(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] == 0 || !(x[i] > -100 && x[i] < 100))
            return false;
    return true;
}

/* The first pass finds data everywhere. */
static int watched_run(struct sw_stream *s, const struct sw_op *op, const void *args,
                       struct sw_err *err)
{
    const struct sw_combine_args *a = args;
    assert_ptr_equal(op, &sw_op_combine);
    if (passes_seen++ == 0) {
        assert_true(is_written(a->x, a->n));
        assert_true(is_written(a->y, a->n));
    }
    seen_floats = a->n;
    return real_ops->run(s, op, args, err);
}

static int slow_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes,
                     struct sw_err *err)
{
    now_ns += 1000000;
    return real_ops->copy(s, dst, src, bytes, err);
}

static int64_t measure(int budget_ms)
{
    struct sw_stream *s = new_cpu_stream();
    float *x = calloc(FLOATS, sizeof *x), *y = calloc(FLOATS, sizeof *y);
    struct sw_throughput t;
    struct sw_err err;
    int64_t n = FLOATS;
    assert_true(x && y);
    real_ops = s->dev->ops;
    watched = *real_ops;
    watched.run = watched_run;
    watched.copy = slow_copy;
    s->dev->ops = &watched;
    passes_seen = 0;
    ASSERT_OK(sw_throughput_memory(s, x, y, &n, budget_ms, &t, &err));
    s->dev->ops = real_ops;
    assert_int_equal(seen_floats, n);
    assert_true(passes_seen >= 4);
    free(x);
    free(y);
    free_cpu_stream(s);
    return n;
}

static void memory_is_written_before_it_is_read(void **state)
{
    assert_int_equal(measure(1000), FLOATS);
}

/* Copies take a millisecond here, so the budget is spent when the first 64 MiB are written. */
static void slow_memory_reduces_the_array_size(void **state)
{
    assert_int_equal(measure(5), 1 << 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_pass_is_reported),
        cmocka_unit_test(measuring_stops_at_the_budget),
        cmocka_unit_test(nccl_errors_are_returned),
        cmocka_unit_test(memory_is_written_before_it_is_read),
        cmocka_unit_test(slow_memory_reduces_the_array_size),
    };
    return cmocka_run_group_tests_name("throughput", tests, set_clock, restore_clock);
}
