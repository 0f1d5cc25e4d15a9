#include "device/op.h"
#include "device_support.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/classes.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/fold.h"
#include "kernels/ops/softmax_loss.h"

#include "base/os.h"
#include <dlfcn.h>
#include <float.h>

enum { MANY = 100003 }; /* enough for several threads, and not a multiple of any block size */

/* ---- Memory and streams ---- */

static void alloc_returns_zeroed_aligned_counted_memory(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 65537, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before = sw_cpu_bytes_in_use();
        unsigned char *p;
        ASSERT_OK(sw_device_alloc(f.dev, sizes[i], "block", (void **)&p, &err));
        assert_int_equal(sw_cpu_bytes_in_use(), before + sizes[i]);
        assert_true(sw_cpu_bytes_peak() >= before + sizes[i]);
        assert_int_equal((uintptr_t)p % 64, 0);
        if (sizes[i] >= 2 << 20)
            assert_int_equal((uintptr_t)p % (2 << 20), 0);
        for (size_t j = 0; j < sizes[i]; j++)
            if (p[j])
                fail_msg("byte %zu of %zu is %d", j, sizes[i], p[j]);
        memset(p, 1, sizes[i]);
        sw_device_free(f.dev, p, sizes[i]);
        assert_int_equal(sw_cpu_bytes_in_use(), before);
    }
    sw_device_free(f.dev, NULL, 10);
    close_cpu(&f);
}

static void *no_memory(size_t bytes)
{
    return NULL;
}

static void alloc_failure_names_the_object_and_counts_nothing(void **state)
{
    static const size_t sizes[] = {1000, 3 << 20, SIZE_MAX};
    struct fixture f = open_cpu(true, 1);
    struct sw_os os = *sw_os();
    size_t before = sw_cpu_bytes_in_use();
    os.alloc = no_memory;
    os.map_pages = no_memory;
    sw_os_set(&os);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sw_err err;
        void *p = &os;
        int rc = sw_device_alloc(f.dev, sizes[i], "the arena", &p, &err);
        assert_int_equal(rc, SW_ERR_NOMEM);
        assert_non_null(strstr(err.text, "the arena"));
        assert_ptr_equal(p, &os);
    }
    struct sw_stream *s;
    struct sw_device *dev;
    struct sw_err err;
    assert_int_equal(sw_stream_new(f.dev, 1, &s, &err), SW_ERR_NOMEM);
    assert_int_equal(sw_cpu_open(false, &dev, &err), SW_ERR_NOMEM);
    sw_os_set(NULL);
    assert_int_equal(sw_cpu_bytes_in_use(), before);
    close_cpu(&f);
}

static void stream_needs_a_thread(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_stream *s;
    struct sw_err err;
    assert_int_equal(sw_stream_new(f.dev, 0, &s, &err), SW_ERR_INVALID);
    close_cpu(&f);
}

static void events_on_a_synchronous_stream_return_at_once(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_event *e;
    struct sw_err err;
    ASSERT_OK(f.dev->ops->event_new(f.dev, &e, &err));
    ASSERT_OK(f.dev->ops->event_record(f.stream, e, &err));
    ASSERT_OK(f.dev->ops->event_wait(f.stream, e, &err));
    ASSERT_OK(sw_stream_wait(f.stream, &err));
    f.dev->ops->event_free(e);
    close_cpu(&f);
}

/* Declared by the OpenMP runtime. */
static int ask_openmp(const char *function)
{
    int (*ask)(void);
    *(void **)&ask = dlsym(RTLD_DEFAULT, function);
    assert_non_null(ask);
    return ask();
}

/* What a lane stores: how many math threads a library would use in it; some lanes fail. */
struct lanes {
    int calls[9], threads[9];
    int fails_from;
};

static int note_lane(void *user, int lane, struct sw_err *err)
{
    struct lanes *l = user;
    l->calls[lane]++;
    l->threads[lane] = ask_openmp("omp_in_parallel") ? 1 : ask_openmp("omp_get_max_threads");
    return lane >= l->fails_from ? sw_err_set(err, SW_ERR_DIVERGED, "lane %d", lane) : SW_OK;
}

static void lanes_run_once_each_on_one_thread(void **state)
{
    for (int threads = 1; threads <= 3; threads++)
        for (int lanes = 1; lanes <= 9; lanes++) {
            struct fixture f = open_cpu(true, threads);
            struct lanes l = {.fails_from = 100};
            struct sw_err err;
            sw_stream_attach(f.stream);
            ASSERT_OK(sw_stream_run_lanes(f.stream, lanes, note_lane, &l, &err));
            for (int i = 0; i < 9; i++)
                assert_int_equal(l.calls[i], i < lanes);
            for (int i = 0; i < lanes; i++)
                assert_int_equal(l.threads[i], 1);
            assert_int_equal(ask_openmp("omp_get_max_threads"), threads); /* as before */
            l.fails_from = lanes / 2;
            assert_int_equal(sw_stream_run_lanes(f.stream, lanes, note_lane, &l, &err),
                             SW_ERR_DIVERGED);
            char first[32];
            snprintf(first, sizeof first, "lane %d", lanes / 2);
            assert_string_equal(err.text, first);
            close_cpu(&f);
        }
}

static float add_tree(float *const *x, int from, int to, int64_t i)
{
    int left = 1;
    if (to - from == 1)
        return x[from][i];
    while (2 * left < to - from)
        left *= 2;
    return add_tree(x, from, from + left, i) + add_tree(x, from + left, to, i);
}

/* The result replaces the first array, for every count and team size. */
static void fold_adds_arrays_in_tree_order(void **state)
{
    float *x[SW_FOLD_INPUTS];
    struct rng r = rng_of(8);
    for (int i = 0; i < SW_FOLD_INPUTS; i++)
        x[i] = random_floats(&r, MANY, -1, 1);
    for (int count = 1; count <= SW_FOLD_INPUTS; count += 3)
        for (int threads = 1; threads <= 3; threads++) {
            struct fixture f = open_cpu(true, threads);
            struct sw_fold_args a = {.count = count, .n = MANY, .y = get_floats(MANY)};
            struct sw_err err;
            memcpy(a.y, x[0], MANY * sizeof *a.y);
            for (int i = 0; i < count; i++) {
                a.x[i] = i == 0 ? a.y : x[i];
                a.ends[i] = i + 1;
            }
            ASSERT_OK(sw_op_run(f.stream, &sw_op_fold, &a, &err));
            for (int64_t i = 0; i < MANY; i++)
                assert_true(a.y[i] == add_tree(x, 0, count, i));
            free(a.y);
            close_cpu(&f);
        }
    for (int i = 0; i < SW_FOLD_INPUTS; i++)
        free(x[i]);
}

/* ---- Copy, zero, add ---- */

static void copy_zero_and_add_touch_exactly_their_elements(void **state)
{
    static const int64_t counts[] = {0, 1, 15, 16, 17, 1000, MANY};
    for (int threads = 1; threads <= 3; threads++) {
        struct fixture f = open_cpu(true, threads);
        struct rng r = rng_of(1);
        struct sw_err err;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int64_t n = counts[i];
            float *x = random_floats(&r, n + 1, -1, 1), *y = random_floats(&r, n + 1, -1, 1);
            float *z = get_floats(n + 1);
            x[n] = y[n] = z[n] = 77;
            ASSERT_OK(sw_copy(f.stream, z, y, (size_t)n * sizeof *z, &err));
            assert_same_bits("copy", z, y, (size_t)n * sizeof *z);
            ASSERT_OK(sw_op_add(f.stream, z, x, n, &err));
            for (int64_t j = 0; j < n; j++)
                assert_true(z[j] == y[j] + x[j]);
            ASSERT_OK(sw_fill_zero(f.stream, z, (size_t)n * sizeof *z, &err));
            for (int64_t j = 0; j < n; j++)
                assert_true(z[j] == 0);
            assert_true(z[n] == 77);
            free(x);
            free(y);
            free(z);
        }
        close_cpu(&f);
    }
}

/* ---- Activations ---- */

static double exact_activation(enum sw_activation f, double alpha, double x)
{
    switch (f) {
    case SW_ACT_RELU:
        return x > 0 ? x : 0;
    case SW_ACT_LEAKY_RELU:
        return x > 0 ? x : alpha * x;
    case SW_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case SW_ACT_TANH:
        return tanh(x);
    case SW_ACT_STANH:
        return 1.7159047 * tanh(0.66666667 * x);
    case SW_ACT_SOFTPLUS:
        return x > 30 ? x + exp(-x) : log1p(exp(x));
    case SW_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case SW_ACT_COUNT:
        break;
    }
    fail_msg("no formula for activation %d", (int)f);
    return 0;
}

/* Points near zero in all magnitudes, over the usual range, and at large values. */
static float *activation_points(struct rng *r, int64_t n)
{
    float *x = get_floats(n);
    for (int64_t i = 0; i < n; i++) {
        double u = (double)rng_real(r, -1, 1);
        x[i] = (float)(i % 3 == 0   ? u * 8
                       : i % 3 == 1 ? (u < 0 ? -1 : 1) * exp(-30 * fabs(u))
                                    : u * 95);
    }
    return x;
}

/* The error relative to the value, with an absolute tolerance for values close to zero. */
static const struct {
    enum sw_activation f;
    double relative, absolute;
} activation_limits[] = {
    {SW_ACT_RELU, 0, 0},         {SW_ACT_LEAKY_RELU, 1e-7, 1e-45}, {SW_ACT_SIGMOID, 4e-7, 1e-37},
    {SW_ACT_TANH, 3e-7, 0},      {SW_ACT_STANH, 4e-7, 0},          {SW_ACT_SOFTPLUS, 4e-7, 1e-37},
    {SW_ACT_GELU, 3e-7, 1.2e-6},
};

static void activation_matches_its_formula(void **state)
{
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(2);
    struct sw_err err;
    float *x = activation_points(&r, MANY), *y = get_floats(MANY);
    assert_int_equal(sizeof activation_limits / sizeof *activation_limits, SW_ACT_COUNT);
    for (int k = 0; k < SW_ACT_COUNT; k++) {
        enum sw_activation a = activation_limits[k].f;
        poison(y, MANY * sizeof *y);
        ASSERT_OK(sw_op_activation(f.stream, a, 0.2f, x, y, MANY, &err));
        for (int64_t i = 0; i < MANY; i++) {
            double want = exact_activation(a, (double)0.2f, (double)x[i]);
            double limit =
                activation_limits[k].relative * fabs(want) + activation_limits[k].absolute;
            if (!(fabs((double)y[i] - want) <= limit))
                fail_msg("activation %d of %.9g is %.9g, should be %.9g", (int)a, (double)x[i],
                         (double)y[i], want);
        }
    }
    free(x);
    free(y);
    close_cpu(&f);
}

static void activation_backward_matches_central_differences(void **state)
{
    enum { COUNT = 2001 };
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(3);
    struct sw_err err;
    float *x = random_floats(&r, COUNT, -6, 6), *y = get_floats(COUNT);
    float *dy = random_floats(&r, COUNT, -1, 1), *dx = get_floats(COUNT);
    const double h = 1e-5;
    for (int k = 0; k < SW_ACT_COUNT; k++) {
        enum sw_activation a = (enum sw_activation)k;
        double want[COUNT];
        poison(dx, COUNT * sizeof *dx);
        ASSERT_OK(sw_op_activation(f.stream, a, 0.2f, x, y, COUNT, &err));
        ASSERT_OK(sw_op_run(
            f.stream, &sw_op_activation_gradient,
            &(const struct sw_activation_gradient_args){
                .function = a, .alpha = 0.2f, .x = x, .y = y, .dy = dy, .dx = dx, .n = COUNT},
            &err));
        for (int i = 0; i < COUNT; i++)
            want[i] = (double)dy[i] *
                      (exact_activation(a, (double)0.2f, (double)x[i] + h) -
                       exact_activation(a, (double)0.2f, (double)x[i] - h)) /
                      (2 * h);
        assert_near("activation_backward", dx, want, COUNT, 2e-6);
    }
    free(x);
    free(y);
    free(dy);
    free(dx);
    close_cpu(&f);
}

static void activation_works_in_place(void **state)
{
    enum { COUNT = 1003 };
    struct fixture f = open_cpu(true, 1);
    struct rng r = rng_of(4);
    struct sw_err err;
    float *x = random_floats(&r, COUNT, -3, 3), *dy = random_floats(&r, COUNT, -1, 1);
    float *y = get_floats(COUNT), *dx = get_floats(COUNT), *z = get_floats(COUNT);
    for (int k = 0; k < SW_ACT_COUNT; k++) {
        enum sw_activation a = (enum sw_activation)k;
        ASSERT_OK(sw_op_activation(f.stream, a, 0.1f, x, y, COUNT, &err));
        memcpy(z, x, COUNT * sizeof *z);
        ASSERT_OK(sw_op_activation(f.stream, a, 0.1f, z, z, COUNT, &err));
        assert_same_bits("forward", z, y, COUNT * sizeof *z);
        ASSERT_OK(sw_op_run(
            f.stream, &sw_op_activation_gradient,
            &(const struct sw_activation_gradient_args){
                .function = a, .alpha = 0.1f, .x = x, .y = y, .dy = dy, .dx = dx, .n = COUNT},
            &err));
        memcpy(z, dy, COUNT * sizeof *z);
        ASSERT_OK(sw_op_run(
            f.stream, &sw_op_activation_gradient,
            &(const struct sw_activation_gradient_args){
                .function = a, .alpha = 0.1f, .x = x, .y = y, .dy = z, .dx = z, .n = COUNT},
            &err));
        assert_same_bits("backward", z, dx, COUNT * sizeof *z);
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(z);
    close_cpu(&f);
}

static void activation_propagates_nan_and_handles_infinities(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    float x[3] = {NAN, INFINITY, -INFINITY}, y[3];
    static const float at_infinity[SW_ACT_COUNT][2] = {
        {INFINITY, 0}, {INFINITY, -INFINITY}, {1, 0}, {1, -1}, {1.7159047f, -1.7159047f},
        {INFINITY, 0}, {INFINITY, NAN}, /* -inf * 0 */
    };
    for (int k = 0; k < SW_ACT_COUNT; k++) {
        ASSERT_OK(sw_op_activation(f.stream, (enum sw_activation)k, 0.1f, x, y, 3, &err));
        assert_true(isnan(y[0]));
        for (int i = 0; i < 2; i++)
            if (!isnan(at_infinity[k][i]) && y[i + 1] != at_infinity[k][i])
                fail_msg("activation %d of %g is %g", k, (double)x[i + 1], (double)y[i + 1]);
    }
    assert_int_equal(sw_op_activation(f.stream, SW_ACT_COUNT, 0, x, y, 3, &err),
                     SW_ERR_UNSUPPORTED);
    close_cpu(&f);
}

/* ---- Dropout ---- */

static struct sw_desc channels_last(int64_t n, int64_t c, int64_t h, int64_t w)
{
    const int64_t dim[] = {n, c, h, w};
    struct sw_desc d = sw_desc_plain(SW_F32, 4, dim);
    d.stride[0] = h * w * c;
    d.stride[1] = 1;
    d.stride[2] = w * c;
    d.stride[3] = c;
    return d;
}

/* Dropout of a whole output. */
static int drop(struct sw_stream *s, const struct sw_desc *d, struct sw_philox key,
                const struct sw_step *step, uint32_t threshold, float scale, const float *x,
                float *y, struct sw_err *err)
{
    struct sw_dropout dropout = {.key = key, .threshold = threshold, .scale = scale};
    return sw_op_run(s, &sw_op_dropout,
                     &(const struct sw_dropout_args){
                         .desc = *d, .dropout = dropout, .step = step, .x = x, .y = y},
                     err);
}

/* Compares an operation's stored result with the definition, word by word in channels-last order.
 */
static void check_dropout(struct fixture *f, const struct sw_desc *d, bool in_place)
{
    const struct sw_step step = {.step = (5ull << 32) + 7, .first_row = 1000};
    const struct sw_philox key = sw_philox_stream(9, SW_PURPOSE_DROPOUT, 3);
    const uint32_t threshold = 0x60000000u;
    int64_t rows = d->dim[0], features = sw_desc_features(d), channels = d->dim[1];
    int64_t pixels = features / channels;
    struct rng r = rng_of(5);
    struct sw_err err;
    float *plain = random_floats(&r, rows * features, 1, 2);
    float *x = get_bytes(sw_desc_bytes(d)), *y = get_bytes(sw_desc_bytes(d));
    float *want = get_floats(rows * features);
    sw_desc_from_plain(d, plain, x);
    memcpy(y, x, sw_desc_bytes(d));
    if (!in_place)
        poison(y, sw_desc_bytes(d));
    ASSERT_OK(drop(f->stream, d, key, &step, threshold, 1.5f, in_place ? y : x, y, &err));
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < pixels; p++) {
                int64_t i = (n * channels + c) * pixels + p;
                uint32_t word = sw_philox_word(key, step.step, (uint32_t)(1000 + n),
                                               (uint32_t)(p * channels + c));
                want[i] = word >= threshold ? plain[i] * 1.5f : 0;
            }
    sw_desc_from_plain(d, want, x); /* padding is zero there, and must be here */
    assert_same_bits(sw_desc_text(d, (char[128]){0}), y, x, sw_desc_bytes(d));
    free(plain);
    free(x);
    free(y);
    free(want);
}

static void dropout_mask_is_the_same_in_every_layout(void **state)
{
    static const int64_t shapes[][4] = {{3, 8, 5, 7},   {2, 32, 4, 4}, {2, 20, 3, 11},
                                        {1, 5, 6, 6},   {4, 16, 1, 1}, {2, 1, 9, 9},
                                        {5, 100, 2, 3}, {2, 64, 9, 17}};
    for (int threads = 1; threads <= 2; threads++) {
        struct fixture f = open_cpu(true, threads);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const int64_t *s = shapes[i];
                struct sw_desc d[] = {
                    sw_desc_plain(SW_F32, 4, s),          sw_desc_blocked(SW_F32, 4, s, 1, 8),
                    sw_desc_blocked(SW_F32, 4, s, 1, 16), sw_desc_blocked(SW_F32, 4, s, 1, 4),
                    sw_desc_blocked(SW_F32, 4, s, 0, 2),  channels_last(s[0], s[1], s[2], s[3]),
                    sw_desc_plain(SW_F32, 3, s),          sw_desc_plain(SW_F32, 2, s)};
                for (size_t j = 0; j < sizeof d / sizeof *d; j++)
                    check_dropout(&f, &d[j], in_place);
            }
        static const int64_t wide[] = {7, 4099};
        struct sw_desc d = sw_desc_plain(SW_F32, 2, wide);
        check_dropout(&f, &d, false);
        close_cpu(&f);
    }
}

static void dropout_does_not_depend_on_how_rows_are_divided(void **state)
{
    enum { ROWS = 6, FEATURES = 333 };
    const int64_t all[] = {ROWS, FEATURES}, part[] = {ROWS / 2, FEATURES};
    struct sw_desc whole = sw_desc_plain(SW_F32, 2, all), half = sw_desc_plain(SW_F32, 2, part);
    const struct sw_philox key = sw_philox_stream(1, SW_PURPOSE_DROPOUT, 1);
    struct fixture f = open_cpu(true, 1);
    struct rng r = rng_of(6);
    struct sw_err err;
    float *x = random_floats(&r, ROWS * FEATURES, 1, 2);
    float *y = get_floats(ROWS * FEATURES), *z = get_floats(ROWS * FEATURES);
    struct sw_step step = {.step = 4};
    ASSERT_OK(drop(f.stream, &whole, key, &step, 1u << 31, 2, x, y, &err));
    for (int i = 0; i < 2; i++) {
        int64_t at = i * (ROWS / 2) * FEATURES;
        step.first_row = i * (ROWS / 2);
        ASSERT_OK(drop(f.stream, &half, key, &step, 1u << 31, 2, x + at, z + at, &err));
    }
    assert_same_bits("halves", z, y, ROWS * FEATURES * sizeof *z);
    step = (struct sw_step){.step = 5};
    ASSERT_OK(drop(f.stream, &whole, key, &step, 1u << 31, 2, x, z, &err));
    assert_memory_not_equal(z, y, ROWS * FEATURES * sizeof *z);
    free(x);
    free(y);
    free(z);
    close_cpu(&f);
}

static void dropout_drops_its_share(void **state)
{
    enum { ROWS = 64, FEATURES = 4096 };
    const int64_t dim[] = {ROWS, FEATURES};
    struct sw_desc d = sw_desc_plain(SW_F32, 2, dim);
    const struct sw_philox key = sw_philox_stream(1, SW_PURPOSE_DROPOUT, 2);
    const struct sw_step step = {.step = 0};
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(7);
    struct sw_err err;
    float *x = random_floats(&r, ROWS * FEATURES, 1, 2), *y = get_floats(ROWS * FEATURES);
    for (int percent = 0; percent <= 90; percent += 30) {
        double share = percent / 100.0, dropped = 0, count = ROWS * FEATURES;
        uint32_t threshold = (uint32_t)(share * 0x1p32);
        ASSERT_OK(drop(f.stream, &d, key, &step, threshold, 1, x, y, &err));
        for (int64_t i = 0; i < ROWS * FEATURES; i++)
            dropped += y[i] == 0;
        /* Five standard deviations of a binomial. */
        assert_true(fabs(dropped - share * count) <= 5 * sqrt(share * (1 - share) * count));
    }
    free(x);
    free(y);
    close_cpu(&f);
}

/* ---- Softmax loss ---- */

static int32_t *random_labels(struct rng *r, int64_t rows, int64_t classes)
{
    int32_t *label = get_bytes((size_t)rows * sizeof *label);
    for (int64_t i = 0; i < rows; i++)
        label[i] = (int32_t)rng_int(r, 0, classes - 1);
    return label;
}

/* Softmax of one row in double; returns its loss. */
static double exact_softmax(const float *x, int64_t classes, int32_t label, double *prob)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < classes; j++)
        largest = fmax(largest, (double)x[j]);
    for (int64_t j = 0; j < classes; j++)
        sum += prob[j] = exp((double)x[j] - largest);
    for (int64_t j = 0; j < classes; j++)
        prob[j] /= sum;
    return log(sum) + largest - (double)x[label];
}

static const struct {
    int64_t rows, classes;
    double range;
} softmax_shapes[] = {{1, 1, 1},     {3, 2, 5},     {64, 10, 5},    {7, 33, 80},
                      {5, 1000, 10}, {2000, 10, 3}, {130, 1000, 30}};

/* The sum of the losses with all rows valid. */
static int loss(struct sw_stream *s, int64_t rows, int64_t n, const float *x, const int32_t *label,
                float *prob, double *sum, struct sw_err *err)
{
    struct sw_step step = {.valid_rows = rows};
    struct sw_result result = {0};
    int rc = sw_op_run(s, &sw_op_softmax_loss,
                       &(struct sw_softmax_loss_args){.rows = rows,
                                                      .classes = n,
                                                      .weight = 1,
                                                      .x = x,
                                                      .labels = {.label = label},
                                                      .step = &step,
                                                      .prob = prob,
                                                      .result = &result},
                       err);
    *sum += result.sum;
    if (rc == SW_OK)
        assert_float_equal(result.weight, (double)rows, 0);
    return rc;
}

static int loss_backward(struct sw_stream *s, int64_t valid, int64_t rows, int64_t n,
                         const float *prob, const int32_t *label, float scale, float *dx,
                         struct sw_err *err)
{
    struct sw_step step = {.valid_rows = valid, .backward_scale = 1};
    return sw_op_run(s, &sw_op_softmax_loss_gradient,
                     &(struct sw_softmax_gradient_args){.rows = rows,
                                                        .classes = n,
                                                        .weight = scale,
                                                        .prob = prob,
                                                        .labels = {.label = label},
                                                        .step = &step,
                                                        .dx = dx},
                     err);
}

static int accuracy(struct sw_stream *s, int64_t rows, int64_t n, int64_t top_k, const float *x,
                    const int32_t *label, double *hits, struct sw_err *err)
{
    struct sw_step step = {.valid_rows = rows};
    struct sw_result result = {0};
    int rc = sw_op_run(s, &sw_op_top_k,
                       &(struct sw_top_k_args){.rows = rows,
                                               .classes = n,
                                               .top_k = top_k,
                                               .x = x,
                                               .labels = {.label = label},
                                               .step = &step,
                                               .result = &result},
                       err);
    *hits += result.sum;
    return rc;
}

static void softmax_loss_matches_its_formula(void **state)
{
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(8);
    struct sw_err err;
    for (size_t i = 0; i < sizeof softmax_shapes / sizeof *softmax_shapes; i++) {
        int64_t rows = softmax_shapes[i].rows, n = softmax_shapes[i].classes;
        double range = softmax_shapes[i].range, want_sum = 2.5, sum = 2.5;
        float *x = random_floats(&r, rows * n, -range, range), *prob = get_floats(rows * n);
        float *dx = get_floats((rows + 2) * n);
        double *want = get_doubles((rows + 2) * n);
        int32_t *label = random_labels(&r, rows, n);
        ASSERT_OK(loss(f.stream, rows, n, x, label, prob, &sum, &err));
        for (int64_t row = 0; row < rows; row++)
            want_sum += exact_softmax(x + row * n, n, label[row], want + row * n);
        assert_near("prob", prob, want, rows * n, 1e-6);
        assert_true(fabs(sum - want_sum) <= 1e-6 * fabs(want_sum));

        poison(dx, (size_t)((rows + 2) * n) * sizeof *dx);
        ASSERT_OK(loss_backward(f.stream, rows, rows + 2, n, prob, label, 0.25f, dx, &err));
        for (int64_t row = 0; row < rows + 2; row++)
            for (int64_t j = 0; j < n; j++)
                want[row * n + j] = row < rows ? 0.25 * (want[row * n + j] - (label[row] == j)) : 0;
        assert_near("dx", dx, want, (rows + 2) * n, 1e-6);
        for (int64_t j = rows * n; j < (rows + 2) * n; j++)
            assert_true(dx[j] == 0);

        ASSERT_OK(loss(f.stream, rows, n, x, label, x, &sum, &err));
        assert_same_bits("in place", x, prob, (size_t)(rows * n) * sizeof *x);
        free(x);
        free(prob);
        free(dx);
        free(want);
        free(label);
    }
    close_cpu(&f);
}

static void softmax_loss_is_stable_for_large_inputs(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    const float x[] = {1e30f, -1e30f, 0, -200, 200, 0};
    const int32_t label[] = {0, 0};
    float prob[6];
    double sum = 0;
    ASSERT_OK(loss(f.stream, 2, 3, x, label, prob, &sum, &err));
    assert_true(prob[0] == 1 && prob[1] == 0 && prob[2] == 0 && prob[4] == 1 && prob[3] == 0);
    assert_true(fabs(sum - 400) < 1e-6);
    close_cpu(&f);
}

static void softmax_loss_of_nan_is_nan(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    float x[20] = {0}, prob[20];
    const int32_t label[] = {3};
    for (int i = 0; i < 20; i++) {
        double sum = 0;
        x[i] = NAN;
        ASSERT_OK(loss(f.stream, 1, 20, x, label, prob, &sum, &err));
        assert_true(isnan(sum));
        x[i] = 0;
    }
    close_cpu(&f);
}

static void label_out_of_range_names_row_and_value(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    const float x[6] = {0};
    float prob[6] = {9};
    double sum = 1;
    for (int i = 0; i < 2; i++) {
        const int32_t label[] = {0, i ? -1 : 3};
        assert_int_equal(loss(f.stream, 2, 3, x, label, prob, &sum, &err), SW_ERR_INVALID);
        assert_non_null(strstr(err.text, "row 1"));
        assert_non_null(strstr(err.text, i ? "-1" : "is 3"));
        assert_int_equal(loss_backward(f.stream, 2, 2, 3, x, label, 1, prob, &err), SW_ERR_INVALID);
        assert_int_equal(accuracy(f.stream, 2, 3, 1, x, label, &sum, &err), SW_ERR_INVALID);
    }
    assert_true(prob[0] == 9 && sum == 1);
    close_cpu(&f);
}

/* ---- Accuracy ---- */

static void accuracy_counts_labels_among_the_top_k(void **state)
{
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(10);
    struct sw_err err;
    for (int64_t n = 1; n < 2000; n = n * 3 + 1) {
        enum { ROWS = 50 };
        float *x = random_floats(&r, ROWS * n, 0, 1);
        int32_t *label = random_labels(&r, ROWS, n);
        for (int64_t i = 0; i < ROWS * n; i++)
            x[i] = floorf(x[i] * 4); /* many ties */
        for (int64_t k = 1; k <= 5; k += 2) {
            double hits = 10, want = 10;
            for (int64_t row = 0; row < ROWS; row++) {
                int64_t before = 0, mine = label[row];
                for (int64_t j = 0; j < n; j++)
                    before += x[row * n + j] > x[row * n + mine] ||
                              (x[row * n + j] == x[row * n + mine] && j < mine);
                want += before < k;
            }
            ASSERT_OK(accuracy(f.stream, ROWS, n, k, x, label, &hits, &err));
            assert_true(hits == want);
        }
        free(x);
        free(label);
    }
    close_cpu(&f);
}

static void accuracy_counts_no_nan_as_a_hit(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    const float x[] = {0, NAN, 1, /**/ NAN, 5, 1};
    const int32_t label[] = {1, 1};
    double hits = 0;
    ASSERT_OK(accuracy(f.stream, 2, 3, 1, x, label, &hits, &err));
    assert_true(hits == 0);
    close_cpu(&f);
}

/* ---- Padding and finite values ---- */

static void zero_padding_clears_padding_and_nothing_else(void **state)
{
    static const int64_t dim[] = {3, 20, 5, 6};
    struct sw_desc twice = sw_desc_blocked(SW_F32, 4, dim, 0, 16);
    struct fixture f = open_cpu(true, 2);
    struct rng r = rng_of(11);
    struct sw_err err;
    twice.nblock = 2; /* OIhw16i16o: rows and channels padded to 16 */
    twice.block[0] = twice.block[1] = 16;
    twice.block_dim[0] = 1;
    twice.block_dim[1] = 0;
    twice.padded[0] = 16;
    twice.padded[1] = 32;
    twice.stride[3] = 256;
    twice.stride[2] = 6 * 256;
    twice.stride[1] = 30 * 256;
    twice.stride[0] = 60 * 256;
    const struct sw_desc d[] = {
        sw_desc_blocked(SW_F32, 4, dim, 1, 16), sw_desc_blocked(SW_F32, 4, dim, 1, 8),
        sw_desc_blocked(SW_F32, 4, dim, 3, 4), sw_desc_plain(SW_F32, 4, dim), twice};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        int64_t count = sw_desc_count(&d[i]);
        float *plain = get_floats(count), *want = get_bytes(sw_desc_bytes(&d[i]));
        float *x = random_floats(&r, sw_desc_storage(&d[i]), 1, 2);
        sw_desc_to_plain(&d[i], x, plain);
        sw_desc_from_plain(&d[i], plain, want);
        ASSERT_OK(sw_op_zero_padding(f.stream, &d[i], x, &err));
        assert_same_bits(sw_desc_text(&d[i], (char[128]){0}), x, want, sw_desc_bytes(&d[i]));
        free(plain);
        free(want);
        free(x);
    }
    close_cpu(&f);
}

static void all_finite_finds_one_bad_value_anywhere(void **state)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    struct rng r = rng_of(12);
    struct sw_err err;
    float *x = random_floats(&r, MANY, -1, 1);
    x[5] = FLT_MAX;
    x[6] = -FLT_MAX;
    x[7] = FLT_TRUE_MIN;
    x[8] = -0.0f;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct fixture f = open_cpu(true, threads);
        bool finite = false;
        ASSERT_OK(sw_op_all_finite(f.stream, x, MANY, &finite, &err));
        assert_true(finite);
        for (int i = 0; i < 60; i++) {
            int64_t at = i == 0 ? 0 : i == 1 ? MANY - 1 : rng_int(&r, 0, MANY - 1);
            float kept = x[at];
            x[at] = bad[i % 4];
            ASSERT_OK(sw_op_all_finite(f.stream, x, MANY, &finite, &err));
            assert_false(finite);
            x[at] = kept;
        }
        ASSERT_OK(sw_op_all_finite(f.stream, x, 0, &finite, &err));
        assert_true(finite);
        close_cpu(&f);
    }
    free(x);
}

/* ---- Threads ---- */

/* Runs all operations with a sum or a remainder on one stream. */
struct outputs {
    float activated[SW_ACT_COUNT][MANY], prob[300 * 1000], dx[300 * 1000];
    double loss, hits;
};

static struct outputs *run_everything(int threads)
{
    struct outputs *o = get_bytes(sizeof *o);
    struct fixture f = open_cpu(true, threads);
    struct rng r = rng_of(13);
    struct sw_err err;
    float *x = random_floats(&r, 300 * 1000, -9, 9);
    int32_t *label = random_labels(&r, 300, 1000);
    memset(o, 0, sizeof *o);
    for (int k = 0; k < SW_ACT_COUNT; k++)
        ASSERT_OK(sw_op_activation(f.stream, (enum sw_activation)k, 0.1f, x, o->activated[k], MANY,
                                   &err));
    ASSERT_OK(loss(f.stream, 300, 1000, x, label, o->prob, &o->loss, &err));
    ASSERT_OK(loss_backward(f.stream, 299, 300, 1000, o->prob, label, 0.3f, o->dx, &err));
    ASSERT_OK(accuracy(f.stream, 300, 1000, 300, x, label, &o->hits, &err));
    assert_true(o->hits > 0);
    free(x);
    free(label);
    close_cpu(&f);
    return o;
}

static void results_do_not_depend_on_the_thread_count(void **state)
{
    struct outputs *one = run_everything(1);
    for (int threads = 2; threads <= 3; threads++) {
        struct outputs *more = run_everything(threads);
        assert_same_bits("outputs", more, one, sizeof *one);
        free(more);
    }
    free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_returns_zeroed_aligned_counted_memory),
        cmocka_unit_test(alloc_failure_names_the_object_and_counts_nothing),
        cmocka_unit_test(stream_needs_a_thread),
        cmocka_unit_test(events_on_a_synchronous_stream_return_at_once),
        cmocka_unit_test(lanes_run_once_each_on_one_thread),
        cmocka_unit_test(fold_adds_arrays_in_tree_order),
        cmocka_unit_test(copy_zero_and_add_touch_exactly_their_elements),
        cmocka_unit_test(activation_matches_its_formula),
        cmocka_unit_test(activation_backward_matches_central_differences),
        cmocka_unit_test(activation_works_in_place),
        cmocka_unit_test(activation_propagates_nan_and_handles_infinities),
        cmocka_unit_test(dropout_mask_is_the_same_in_every_layout),
        cmocka_unit_test(dropout_does_not_depend_on_how_rows_are_divided),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(softmax_loss_matches_its_formula),
        cmocka_unit_test(softmax_loss_is_stable_for_large_inputs),
        cmocka_unit_test(softmax_loss_of_nan_is_nan),
        cmocka_unit_test(label_out_of_range_names_row_and_value),
        cmocka_unit_test(accuracy_counts_labels_among_the_top_k),
        cmocka_unit_test(accuracy_counts_no_nan_as_a_hit),
        cmocka_unit_test(zero_padding_clears_padding_and_nothing_else),
        cmocka_unit_test(all_finite_finds_one_bad_value_anywhere),
        cmocka_unit_test(results_do_not_depend_on_the_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
