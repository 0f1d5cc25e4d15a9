/* Noise: the noise of an element is a pure function of (seed, layer, step, global row, element in
 * channels-last order), computed here word by word in double. */
#include "layer_support.h"

enum { ROWS = 4, CHANNELS = 21, PIXELS = 12 };

static const uint64_t step = 5000000007; /* more than 32 bits */
static const int64_t first_row = 70;

typedef double corrupt_fn(double x, const uint32_t *words, uint32_t number);

static double masked(double x, const uint32_t *words, uint32_t number)
{
    return words[number % 4] < 1u << 30 ? 0 : x;
}

static double salted(double x, const uint32_t *words, uint32_t number)
{
    uint32_t w = words[number % 4];
    return w < 1u << 29 ? -1 : w < 1u << 30 ? 3 : x;
}

static double disturbed(double x, const uint32_t *words, uint32_t number)
{
    const uint32_t *pair = &words[number % 4 / 2 * 2];
    double radius = sqrt(-2 * log(((double)(pair[0] >> 8) + 1) / 16777216));
    double angle = 2 * acos(-1) * (double)(pair[1] >> 8) / 16777216;
    return x + 0.5 * radius * (number % 2 ? cos(angle) : sin(angle));
}

static void check(const char *recipe, corrupt_fn *corrupt, double slope)
{
    const struct sw_layer_example ex = {.recipe = recipe, .src = {{4, {ROWS, CHANNELS, 3, 4}, 0}}};
    struct sw_philox stream = sw_philox_stream(42, SW_PURPOSE_NOISE, sw_hash_name("noise1"));
    for (int block = 0; block <= 16; block += 8) {
        struct fixture f = open_cpu(false, 1);
        struct rig g;
        rig_setup(&g, sw_layer_type_find("noise"), &ex,
                  &(struct how){.stream = f.stream, .name = "noise1", .seed = 42, .block = block});
        struct values v = values_new(&g, &ex, 1);
        g.step.step = step;
        g.step.first_row = first_row;
        rig_pass(&g, &v);
        for (int64_t i = 0; i < v.dst_n; i++) {
            int64_t p = i % PIXELS, c = i / PIXELS % CHANNELS, row = i / PIXELS / CHANNELS;
            uint32_t number = (uint32_t)(p * CHANNELS + c);
            struct sw_philox4 words =
                sw_philox_at(stream, step, (uint32_t)(first_row + row), number / 4);
            double x = (double)v.src[0][i], y = corrupt(x, words.v, number);
            double dy = (double)v.dst_grad[i], dx = y == x || slope == 1 ? dy : 0;
            if (fabs((double)v.dst[i] - y) > 2e-6 || (double)v.src_grad[0][i] != dx)
                fail_msg("%sblock %d, element %lld: %.8g and %g, should be %.8g and %g", recipe,
                         block, (long long)i, (double)v.dst[i], (double)v.src_grad[0][i], y, dx);
        }
        values_free(&v);
        rig_close(&g);
        close_cpu(&f);
    }
}

static void noise_matches_philox_words(void **state)
{
    check("method = masking\nratio = 0.25\n", masked, 0);
    check("method = salt_pepper\nratio = 0.25\nlow = -1\nhigh = 3\n", salted, 0);
    check("method = gaussian\nstd = 0.5\n", disturbed, 1);
}

static void gaussian_noise_has_its_moments(void **state)
{
    const struct sw_layer_example ex = {.recipe = "method = gaussian\nstd = 2\n",
                                        .src = {{2, {16, 12500}, 0}}};
    double moment[4] = {0};
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    rig_setup(&g, sw_layer_type_find("noise"), &ex, &(struct how){.stream = f.stream, .seed = 3});
    struct values v = values_new(&g, &ex, 1);
    rig_forward(&g, &v);
    for (int64_t i = 0; i < v.dst_n; i++)
        for (int k = 0; k < 4; k++)
            moment[k] += pow(((double)v.dst[i] - (double)v.src[0][i]) / 2, k + 1);
    double n = (double)v.dst_n;
    /* Five standard errors of each moment of n normal samples: 1, 2, 15 and 96 over n. */
    assert_true(fabs(moment[0] / n) < 5 * sqrt(1 / n));
    assert_true(fabs(moment[1] / n - 1) < 5 * sqrt(2 / n));
    assert_true(fabs(moment[2] / n) < 5 * sqrt(15 / n));
    assert_true(fabs(moment[3] / n - 3) < 5 * sqrt(96 / n));
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* Returns how many elements an evaluation changes. */
static int64_t changed_in_evaluation(const char *recipe, bool in_place)
{
    const struct sw_layer_example ex = {.recipe = recipe, .src = {{4, {2, 20, 3, 4}, 0}}};
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    int64_t changed = 0;
    rig_setup(
        &g, sw_layer_type_find("noise"), &ex,
        &(struct how){.stream = f.stream, .block = 16, .evaluation = true, .in_place = in_place});
    struct values v = values_new(&g, &ex, 1);
    rig_forward(&g, &v);
    for (int64_t i = 0; i < v.dst_n; i++)
        changed += v.dst[i] != v.src[0][i];
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
    return changed;
}

static void evaluation_has_noise_only_with_always(void **state)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_int_equal(changed_in_evaluation("method = gaussian\n", in_place), 0);
        assert_int_equal(changed_in_evaluation("method = masking\n", in_place), 0);
        assert_true(changed_in_evaluation("method = gaussian\nalways = yes\n", in_place) > 400);
        assert_true(changed_in_evaluation("method = masking\nalways = yes\n", in_place) > 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_matches_philox_words),
        cmocka_unit_test(gaussian_noise_has_its_moments),
        cmocka_unit_test(evaluation_has_noise_only_with_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
