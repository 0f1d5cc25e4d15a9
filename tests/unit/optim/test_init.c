/* Initial values: the distribution of every rule, and independence of slices and threads. */
#include "base/hash.h"
#include "base/philox.h"
#include "optim/init.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 200000 };

static float value[COUNT], other[COUNT];

static struct sw_init_conf conf_of(enum sw_init init)
{
    struct sw_init_conf c = {
        .init = init, .value = 0.1, .mean = 0.5, .std = 2, .low = -1, .high = 3, .gain = 2};
    return c;
}

static void fill(enum sw_init init, uint64_t seed, const char *name, int64_t fan_in, int64_t from,
                 int64_t to, float *out)
{
    struct sw_init_conf c = conf_of(init);
    struct sw_err err = {0};
    if (sw_init_fill(&c, seed, name, &(struct sw_init_shape){.fan_in = fan_in},
                     &(struct sw_init_range){from, to, out}, &err) != SW_OK)
        fail_msg("%s", err.text);
}

static double moment(int power, double about)
{
    double sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += pow((double)value[i] - about, power);
    return sum / COUNT;
}

static void near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %g, not %g within %g", what, got, want, tolerance);
}

/* Tolerances are about five standard errors of 200 000 samples. */
static void check_gaussian(double mean, double std)
{
    double root = sqrt(COUNT);
    near("mean", moment(1, 0), mean, 5 * std / root);
    near("variance", moment(2, mean), std * std, 5 * std * std * sqrt(2) / root);
    near("skewness", moment(3, mean) / pow(std, 3), 0, 5 * sqrt(15) / root);
    near("kurtosis", moment(4, mean) / pow(std, 4), 3, 5 * sqrt(96) / root);
    int inside = 0;
    for (int i = 0; i < COUNT; i++)
        inside += fabs((double)value[i] - mean) < std;
    near("share within one std", (double)inside / COUNT, 0.6826895, 5 * 0.4655 / root);
}

static void check_uniform(double low, double high)
{
    double span = high - low, root = sqrt(COUNT), middle = (low + high) / 2;
    int tenth[10] = {0};
    for (int i = 0; i < COUNT; i++) {
        assert_true((double)value[i] >= low * 1.0000002 && (double)value[i] <= high * 1.0000002);
        int t = (int)(((double)value[i] - low) / span * 10);
        tenth[t < 10 ? t : 9]++;
    }
    near("mean", moment(1, 0), middle, 5 * span / sqrt(12) / root);
    near("variance", moment(2, middle), span * span / 12, 5 * span * span / sqrt(180) / root);
    for (int t = 0; t < 10; t++)
        near("share of a tenth", (double)tenth[t] / COUNT, 0.1, 5 * 0.3 / root);
}

static void constant_fills_its_value(void **state)
{
    fill(SW_INIT_CONSTANT, 1, "conv1.bias", 0, 0, COUNT, value);
    for (int i = 0; i < COUNT; i++)
        assert_true(value[i] == 0.1f);
}

static void gaussian_has_its_moments(void **state)
{
    fill(SW_INIT_GAUSSIAN, 1, "conv1.weight", 0, 0, COUNT, value);
    check_gaussian(0.5, 2);
}

static void uniform_stays_in_its_range(void **state)
{
    fill(SW_INIT_UNIFORM, 1, "conv1.weight", 0, 0, COUNT, value);
    check_uniform(-1, 3);
}

static void xavier_follows_the_fan_in(void **state)
{
    fill(SW_INIT_XAVIER, 1, "fc6.weight", 75, 0, COUNT, value);
    check_uniform(-0.2, 0.2);
}

static void msra_follows_the_fan_in(void **state)
{
    fill(SW_INIT_MSRA, 1, "fc6.weight", 50, 0, COUNT, value);
    check_gaussian(0, 0.2);
}

/* SINGA's rules, as documented: gaussian and uniform samples times a root. */
static void sqrt_rules_scale_the_samples(void **state)
{
    const struct {
        enum sw_init init, base;
        double factor;
    } rules[] = {
        {SW_INIT_GAUSSIAN_SQRT_FAN_IN, SW_INIT_GAUSSIAN, sqrt(1 / 50.0)},
        {SW_INIT_UNIFORM_SQRT_FAN_IN, SW_INIT_UNIFORM, sqrt(3 / 50.0)},
        {SW_INIT_UNIFORM_SQRT_FAN_IN_OUT, SW_INIT_UNIFORM, sqrt(6 / 80.0)},
    };
    struct sw_init_shape shape = {.fan_in = 50, .fan_out = 30};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        struct sw_init_conf c = conf_of(rules[r].init);
        struct sw_err err = {0};
        assert_int_equal(
            sw_init_fill(&c, 1, "w", &shape, &(struct sw_init_range){0, 1000, value}, &err), SW_OK);
        fill(rules[r].base, 1, "w", 50, 0, 1000, other);
        for (int i = 0; i < 1000; i++)
            near("value", value[i], (double)other[i] * rules[r].factor, 1e-6);
        shape.fan_in = 0;
        assert_int_equal(
            sw_init_fill(&c, 1, "b", &shape, &(struct sw_init_range){0, 9, value}, &err),
            SW_ERR_INVALID);
        assert_non_null(strstr(err.text, "needs a fan-in"));
        shape.fan_in = 50;
    }
}

static void fill_orthogonal(uint64_t seed, const char *name, int64_t rows, int64_t columns,
                            float *out)
{
    struct sw_init_conf c = conf_of(SW_INIT_ORTHOGONAL);
    struct sw_init_shape shape = {.rows = rows, .columns = columns};
    struct sw_err err = {0};
    if (sw_init_fill(&c, seed, name, &shape, &(struct sw_init_range){0, rows * columns, out},
                     &err) != SW_OK)
        fail_msg("%s", err.text);
}

/* Rows, or columns if there are more rows, are orthogonal and have length gain = 2. */
static void orthogonal_rows_or_columns_are_orthonormal_times_gain(void **state)
{
    static const int64_t shapes[][2] = {{1, 1},   {1, 9},   {9, 1},     {17, 17},
                                        {20, 75}, {75, 20}, {200, 200}, {30, 3000}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0], columns = shapes[s][1];
        bool wide = rows <= columns;
        int64_t count = wide ? rows : columns, n = wide ? columns : rows;
        fill_orthogonal(5, "w", rows, columns, value);
        for (int64_t a = 0; a < count; a++)
            for (int64_t b = 0; b <= a; b++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++)
                    sum += (double)value[wide ? a * n + i : i * count + a] *
                           (double)value[wide ? b * n + i : i * count + b];
                near("product of two vectors", sum, a == b ? 4 : 0, 2e-6);
            }
    }
}

static void orthogonal_depends_on_seed_and_name_only(void **state)
{
    enum { N = 130, BYTES = N * N * sizeof(float) };
    void (*set)(int);
    fill_orthogonal(1, "a", N, N, value);
    fill_orthogonal(2, "a", N, N, other);
    assert_memory_not_equal(value, other, BYTES);
    fill_orthogonal(1, "b", N, N, other);
    assert_memory_not_equal(value, other, BYTES);
#ifndef __SANITIZE_THREAD__ /* libgomp's synchronisation is invisible to it */
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    assert_non_null(set);
    set(3);
    fill_orthogonal(1, "a", N, N, other);
    set(1);
    assert_memory_equal(value, other, BYTES);
#else
    (void)set;
#endif
}

static void orthogonal_refuses_ranges(void **state)
{
    struct sw_init_conf c = conf_of(SW_INIT_ORTHOGONAL);
    struct sw_init_shape shape = {.rows = 4, .columns = 4};
    struct sw_err err = {0};
    assert_int_equal(sw_init_fill(&c, 1, "w", &shape, &(struct sw_init_range){8, 16, value}, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "whole parameters"));
    assert_true(sw_init_is_whole(&c));
    c.init = SW_INIT_GAUSSIAN;
    assert_false(sw_init_is_whole(&c));
}

static void auto_is_xavier_for_weights_and_zero_for_biases(void **state)
{
    fill(SW_INIT_AUTO, 1, "fc6.weight", 75, 0, COUNT, value);
    fill(SW_INIT_XAVIER, 1, "fc6.weight", 75, 0, COUNT, other);
    assert_memory_equal(value, other, sizeof value);
    fill(SW_INIT_AUTO, 1, "fc6.bias", 0, 0, COUNT, value);
    for (int i = 0; i < COUNT; i++)
        assert_true(value[i] == 0);
}

static void values_depend_on_seed_and_name(void **state)
{
    fill(SW_INIT_GAUSSIAN, 1, "a.weight", 0, 0, 1000, value);
    fill(SW_INIT_GAUSSIAN, 1, "a.weight", 0, 0, 1000, other);
    assert_memory_equal(value, other, 1000 * sizeof(float));
    fill(SW_INIT_GAUSSIAN, 2, "a.weight", 0, 0, 1000, other);
    assert_memory_not_equal(value, other, 1000 * sizeof(float));
    fill(SW_INIT_GAUSSIAN, 1, "b.weight", 0, 0, 1000, other);
    assert_memory_not_equal(value, other, 1000 * sizeof(float));
}

static void slices_equal_the_whole(void **state)
{
    static const int64_t cut[] = {0, 1, 255, 256, 257, 300, 4099, 100000, COUNT};
    static const enum sw_init laws[] = {SW_INIT_CONSTANT, SW_INIT_GAUSSIAN, SW_INIT_UNIFORM};
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        fill(laws[l], 3, "w", 9, 0, COUNT, value);
        for (int i = 7; i >= 0; i--)
            fill(laws[l], 3, "w", 9, cut[i], cut[i + 1], other + cut[i]);
        assert_memory_equal(value, other, sizeof value);
    }
}

static void nothing_is_written_outside_the_slice(void **state)
{
    float out[12] = {0};
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, 250, 260, out + 1);
    assert_true(out[0] == 0 && out[11] == 0 && out[1] != 0 && out[10] != 0);
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, 250, 250, out);
    assert_true(out[0] == 0);
}

static void elements_beyond_32_bits_have_their_own_values(void **state)
{
    int64_t far = (int64_t)4 << 32;
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, far, far + 1000, value);
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, 0, 1000, other);
    assert_memory_not_equal(value, other, 1000 * sizeof(float));
}

static void thread_counts_give_equal_bits(void **state)
{
#ifdef __SANITIZE_THREAD__
    puts("skipped: libgomp's synchronisation is invisible to the thread sanitizer");
    skip();
#endif
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    assert_non_null(set);
    set(1);
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, 0, COUNT, value);
    set(3);
    fill(SW_INIT_GAUSSIAN, 3, "w", 9, 0, COUNT, other);
    set(1);
    assert_memory_equal(value, other, sizeof value);
}

/* A change of these values changes every published run, so they must not change by accident. They
 * are the same on every machine and instruction set. */
static void values_match_published_hashes(void **state)
{
    static const struct {
        enum sw_init init;
        const char *hash;
    } known[] = {
        {SW_INIT_GAUSSIAN, "60682dc81965c486196205fc76890ad4"},
        {SW_INIT_UNIFORM, "5d4da9c617d32093a3e7a299bed3a94f"},
        {SW_INIT_XAVIER, "fa6460f9b0ccda93d1b4ef87b26bc528"},
        {SW_INIT_MSRA, "b0e2b69a7d356c31245719f991dce20a"},
    };
    char hex[33];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        fill(known[i].init, 7, "conv1.weight", 75, 0, 10000, value);
        sw_hash_hex(sw_hash_bytes(value, 10000 * sizeof(float)), hex);
        assert_string_equal(hex, known[i].hash);
    }
}

/* Computes the first values from the definition, with the C library's logarithm and cosine. */
static void gaussian_is_box_muller_of_philox_words(void **state)
{
    struct sw_philox key = sw_philox_stream(7, SW_PURPOSE_INIT, sw_hash_name("conv1.weight"));
    fill(SW_INIT_GAUSSIAN, 7, "conv1.weight", 75, 0, 1000, value);
    for (uint32_t i = 0; i < 1000; i += 2) {
        uint32_t radius = sw_philox_word(key, 0, 0, i), turn = sw_philox_word(key, 0, 0, i + 1);
        double r = sqrt(-2 * log(((double)radius + 0.5) / 4294967296.0));
        double a = (double)(turn >> 30) * M_PI / 2 +
                   (((double)(turn & 0x3fffffff) + 0.5) / 1073741824.0 - 0.5) * M_PI / 2;
        near("even value", value[i], 0.5 + 2 * r * cos(a), 1e-6);
        near("odd value", value[i + 1], 0.5 + 2 * r * sin(a), 1e-6);
    }
}

static void invalid_rules_are_refused(void **state)
{
    struct sw_init_conf c = conf_of(SW_INIT_UNIFORM);
    struct sw_err err = {0};
    c.low = 4;
    assert_int_equal(sw_init_fill(&c, 1, "w", &(struct sw_init_shape){.fan_in = 1},
                                  &(struct sw_init_range){0, 1, value}, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "low = 4"));
    c.init = SW_INIT_XAVIER;
    assert_int_equal(sw_init_fill(&c, 1, "fc.bias", &(struct sw_init_shape){.fan_in = 0},
                                  &(struct sw_init_range){0, 1, value}, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "fc.bias: init = xavier"));
    c.init = SW_INIT_MSRA;
    assert_int_equal(sw_init_fill(&c, 1, "fc.bias", &(struct sw_init_shape){.fan_in = 0},
                                  &(struct sw_init_range){0, 1, value}, &err),
                     SW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_fills_its_value),
        cmocka_unit_test(gaussian_has_its_moments),
        cmocka_unit_test(uniform_stays_in_its_range),
        cmocka_unit_test(xavier_follows_the_fan_in),
        cmocka_unit_test(msra_follows_the_fan_in),
        cmocka_unit_test(sqrt_rules_scale_the_samples),
        cmocka_unit_test(orthogonal_rows_or_columns_are_orthonormal_times_gain),
        cmocka_unit_test(orthogonal_depends_on_seed_and_name_only),
        cmocka_unit_test(orthogonal_refuses_ranges),
        cmocka_unit_test(auto_is_xavier_for_weights_and_zero_for_biases),
        cmocka_unit_test(values_depend_on_seed_and_name),
        cmocka_unit_test(slices_equal_the_whole),
        cmocka_unit_test(nothing_is_written_outside_the_slice),
        cmocka_unit_test(elements_beyond_32_bits_have_their_own_values),
        cmocka_unit_test(thread_counts_give_equal_bits),
        cmocka_unit_test(values_match_published_hashes),
        cmocka_unit_test(gaussian_is_box_muller_of_philox_words),
        cmocka_unit_test(invalid_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
