/* Computing with tensors, on the CPU with one thread and three and on a simulated device, against
 * loops in double. */
#include "unit/device/sim_support.h"

#include "base/str.h"
#include "tensor/math.h"

struct place {
    struct sw_device *device;
    struct sw_stream *stream;
};

enum { PLACES = 3 };

static void open_places(struct place *p)
{
    struct sw_err err;
    static const int threads[] = {1, 3};
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(sw_cpu_open(false, &p[i].device, &err));
        ASSERT_OK(sw_stream_new(p[i].device, threads[i], &p[i].stream, &err));
    }
    p[2].device = open_sim(0);
    p[2].stream = new_stream(p[2].device);
}

static void close_places(struct place *p)
{
    for (int i = 0; i < PLACES; i++) {
        sw_stream_free(p[i].stream);
        sw_device_close(p[i].device);
    }
}

static struct sw_tensor *matrix(const struct place *p, int64_t rows, int64_t columns,
                                const char *name)
{
    struct sw_err err;
    struct sw_tensor *t;
    ASSERT_OK(sw_tensor_zeros(p->device, 2, (const int64_t[]){rows, columns}, name, &t, &err));
    ASSERT_OK(sw_tensor_uniform(p->stream, t, 7, name, -1, 1, &err));
    return t;
}

static struct sw_tensor *vector(const struct place *p, int64_t n, const char *name)
{
    struct sw_err err;
    struct sw_tensor *t;
    ASSERT_OK(sw_tensor_zeros(p->device, 1, &n, name, &t, &err));
    ASSERT_OK(sw_tensor_gaussian(p->stream, t, 7, name, 0.5, 2, &err));
    return t;
}

static float *values(const struct place *p, const struct sw_tensor *t)
{
    struct sw_err err;
    float *out = get_floats(sw_desc_count(&t->desc));
    ASSERT_OK(sw_tensor_read(t, p->stream, out, &err));
    return out;
}

static void assert_close(double got, double expected, double scale)
{
    if (!(fabs(got - expected) <= 1e-5 * scale))
        fail_msg("%.9g, expected %.9g", got, expected);
}

/* c [m, n] against sums in double; `before` is c as it was. */
static void check_product(const float *a, bool ta, const float *b, bool tb, const float *before,
                          const float *c, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < k; q++)
                sum +=
                    (double)a[ta ? q * m + i : i * k + q] * (double)b[tb ? j * k + q : q * n + j];
            assert_close((double)c[i * n + j], 2 * sum + 0.5 * (double)before[i * n + j], 8);
        }
}

static void check_gemm(const struct place *p, int64_t m, int64_t n, int64_t k)
{
    struct sw_err err;
    for (int way = 0; way < 4; way++) {
        bool ta = way & 1, tb = way & 2;
        struct sw_tensor *a = matrix(p, ta ? k : m, ta ? m : k, "a");
        struct sw_tensor *b = matrix(p, tb ? n : k, tb ? k : n, "b");
        struct sw_tensor *c = matrix(p, m, n, "c");
        float *va = values(p, a), *vb = values(p, b), *before = values(p, c);
        ASSERT_OK(sw_tensor_gemm(p->stream, (struct sw_gemm_form){2, 0.5f, ta, tb}, a, b, c, &err));
        float *after = values(p, c);
        check_product(va, ta, vb, tb, before, after, m, n, k);
        free(va), free(vb), free(before), free(after);
        sw_tensor_free(a), sw_tensor_free(b), sw_tensor_free(c);
    }
}

static void gemm_multiplies_matrices_in_every_orientation(void **state)
{
    struct place place[PLACES];
    open_places(place);
    for (int i = 0; i < PLACES; i++) {
        check_gemm(&place[i], 1, 1, 1);
        check_gemm(&place[i], 3, 5, 7);
        check_gemm(&place[i], 150, 270, 9); /* several tiles, the last ones cut */
    }
    close_places(place);
}

static void elements_are_combined_multiplied_and_activated(void **state)
{
    struct place place[PLACES];
    struct sw_err err;
    open_places(place);
    for (int i = 0; i < PLACES; i++) {
        const struct place *p = &place[i];
        struct sw_tensor *x = matrix(p, 23, 31, "x"), *y = matrix(p, 23, 31, "y");
        float *vx = values(p, x), *vy = values(p, y);
        ASSERT_OK(sw_tensor_combine(p->stream, 3, x, -1, y, &err));
        ASSERT_OK(sw_tensor_multiply(p->stream, x, y, y, &err));
        ASSERT_OK(sw_tensor_activation(p->stream, SW_ACT_SIGMOID, 0, y, y, &err));
        float *got = values(p, y);
        for (int64_t e = 0; e < 23 * 31; e++) {
            double z = (double)vx[e] * (3 * (double)vx[e] - (double)vy[e]);
            assert_close((double)got[e], 1 / (1 + exp(-z)), 1);
        }
        free(vx), free(vy), free(got);
        sw_tensor_free(x), sw_tensor_free(y);
    }
    close_places(place);
}

static void rows_are_added_and_summed(void **state)
{
    struct place place[PLACES];
    struct sw_err err;
    open_places(place);
    for (int i = 0; i < PLACES; i++) {
        const struct place *p = &place[i];
        struct sw_tensor *x = matrix(p, 40, 9, "x"), *row = vector(p, 9, "row");
        struct sw_tensor *sums = vector(p, 9, "sums");
        float *vx = values(p, x), *vr = values(p, row);
        double total, expected = 0;
        ASSERT_OK(sw_tensor_add_row(p->stream, row, x, &err));
        ASSERT_OK(sw_tensor_sum_rows(p->stream, x, sums, &err));
        ASSERT_OK(sw_tensor_sum(p->stream, x, &total, &err));
        float *got = values(p, sums);
        for (int64_t c = 0; c < 9; c++) {
            double sum = 40 * (double)vr[c];
            for (int64_t r = 0; r < 40; r++)
                sum += (double)vx[r * 9 + c];
            assert_close((double)got[c], sum, 200);
            expected += sum;
        }
        assert_close(total, expected, 1000);
        free(vx), free(vr), free(got);
        sw_tensor_free(x), sw_tensor_free(row), sw_tensor_free(sums);
    }
    close_places(place);
}

/* y is not read where beta is 0: an uninitialised result must not spread its NaN. */
static void beta_zero_overwrites_nan(void **state)
{
    struct place place[PLACES];
    struct sw_err err;
    open_places(place);
    for (int i = 0; i < PLACES; i++) {
        const struct place *p = &place[i];
        struct sw_tensor *x = matrix(p, 4, 4, "x"), *y = matrix(p, 4, 4, "y");
        float nan[16];
        poison(nan, sizeof nan);
        for (int way = 0; way < 2; way++) {
            ASSERT_OK(sw_tensor_write(y, p->stream, nan, &err));
            if (way)
                ASSERT_OK(
                    sw_tensor_gemm(p->stream, (struct sw_gemm_form){.alpha = 1}, x, x, y, &err));
            else
                ASSERT_OK(sw_tensor_combine(p->stream, 1, x, 0, y, &err));
            float *got = values(p, y);
            for (int e = 0; e < 16; e++)
                assert_true(isfinite(got[e]));
            free(got);
        }
        sw_tensor_free(x), sw_tensor_free(y);
    }
    close_places(place);
}

static void random_numbers_are_the_same_on_every_device(void **state)
{
    struct place place[PLACES];
    struct sw_tensor *t[PLACES];
    float *v[PLACES];
    open_places(place);
    for (int i = 0; i < PLACES; i++) {
        t[i] = vector(&place[i], 1000, "z");
        v[i] = values(&place[i], t[i]);
        assert_memory_equal(v[i], v[0], 1000 * sizeof(float));
    }
    for (int i = 0; i < PLACES; i++) {
        free(v[i]);
        sw_tensor_free(t[i]);
    }
    close_places(place);
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    struct place place[PLACES];
    struct sw_err err;
    open_places(place);
    const struct place *p = &place[0];
    struct sw_tensor *a = matrix(p, 3, 4, "a"), *b = matrix(p, 5, 6, "b"), *row = vector(p, 5, "r");
    assert_int_equal(
        sw_tensor_gemm(p->stream, (struct sw_gemm_form){1, 0, false, true}, a, b, b, &err),
        SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "3x4"));
    assert_non_null(strstr(err.text, "5x6 f32 transposed"));
    assert_int_equal(sw_tensor_combine(p->stream, 1, a, 0, b, &err), SW_ERR_INVALID);
    assert_int_equal(sw_tensor_multiply(p->stream, a, b, b, &err), SW_ERR_INVALID);
    assert_int_equal(sw_tensor_add_row(p->stream, row, a, &err), SW_ERR_INVALID);
    assert_int_equal(sw_tensor_sum_rows(p->stream, b, row, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "5x6"));
    sw_tensor_free(a), sw_tensor_free(b), sw_tensor_free(row);
    close_places(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_multiplies_matrices_in_every_orientation),
        cmocka_unit_test(elements_are_combined_multiplied_and_activated),
        cmocka_unit_test(rows_are_added_and_summed),
        cmocka_unit_test(beta_zero_overwrites_nan),
        cmocka_unit_test(random_numbers_are_the_same_on_every_device),
        cmocka_unit_test(shapes_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
