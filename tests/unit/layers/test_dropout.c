/* Dropout: the mask is a pure function of (seed, layer, step, global row, element in channels-last
 * order), so neither layouts nor workers change it. */
#include "layer_support.h"

static const struct sw_layer_example image = {.recipe = "ratio = 0.25\n",
                                              .src = {{4, {8, 21, 3, 4}, 0}}};
static const struct sw_layer_example flat = {.recipe = "ratio = 0.5\n", .src = {{2, {8, 333}, 0}}};

static struct values values_of_ones(const struct rig *g, const struct sw_layer_example *ex)
{
    struct values v = values_new(g, ex, 1);
    for (int64_t i = 0; i < v.src_n[0]; i++)
        v.src[0][i] = v.dst_grad[i] = 1;
    return v;
}

/* Returns the output for a source of ones, which the caller frees. */
static float *mask_of(const struct sw_layer_example *ex, const struct how *how, uint64_t step,
                      int64_t first_row, int64_t *n)
{
    struct fixture f = open_cpu(false, 1);
    struct how here = *how;
    struct rig g;
    here.stream = f.stream;
    rig_setup(&g, sw_layer_type_find("dropout"), ex, &here);
    struct values v = values_of_ones(&g, ex);
    g.step.step = step;
    g.step.first_row = first_row;
    rig_pass(&g, &v);
    assert_same_bits("the gradient's mask", v.src_grad[0], v.dst, (size_t)v.dst_n * sizeof(float));
    float *mask = get_floats(v.dst_n);
    memcpy(mask, v.dst, (size_t)v.dst_n * sizeof *mask);
    *n = v.dst_n;
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
    return mask;
}

static double share_dropped(const float *mask, int64_t n)
{
    int64_t dropped = 0;
    for (int64_t i = 0; i < n; i++)
        dropped += mask[i] == 0;
    return (double)dropped / (double)n;
}

static double share_equal(const float *a, const float *b, int64_t n)
{
    int64_t equal = 0;
    for (int64_t i = 0; i < n; i++)
        equal += a[i] == b[i];
    return (double)equal / (double)n;
}

/* Compares with the words of the generator, one by one. */
static void mask_matches_philox_words(void **state)
{
    const uint64_t step = 5000000007; /* more than 32 bits */
    const int64_t first_row = 70, channels = 21, pixels = 12;
    struct how how = {.seed = 42, .name = "drop6"};
    struct sw_philox stream = sw_philox_stream(42, SW_PURPOSE_DROPOUT, sw_hash_name("drop6"));
    for (how.block = 0; how.block <= 16; how.block += 8) {
        int64_t n;
        float *mask = mask_of(&image, &how, step, first_row, &n);
        for (int64_t i = 0; i < n; i++) {
            int64_t p = i % pixels, c = i / pixels % channels, row = i / pixels / channels;
            uint32_t word = sw_philox_word(stream, step, (uint32_t)(first_row + row),
                                           (uint32_t)(p * channels + c));
            float want = word < 1u << 30 ? 0 : 4.0f / 3;
            if (fabsf(mask[i] - want) > 1e-6f)
                fail_msg("block %d, element %lld: %g, should be %g", how.block, (long long)i,
                         (double)mask[i], (double)want);
        }
        free(mask);
    }
}

static void two_workers_have_the_mask_of_one(void **state)
{
    int64_t n, half_n;
    struct how how = {.seed = 1}, half = {.seed = 1, .rows = 4, .block = 16};
    float *whole = mask_of(&image, &how, 9, 0, &n);
    for (int worker = 0; worker < 2; worker++) {
        float *part = mask_of(&image, &half, 9, 4 * worker, &half_n);
        assert_int_equal(half_n, n / 2);
        assert_same_bits("half a batch", part, whole + worker * half_n,
                         (size_t)half_n * sizeof *part);
        free(part);
    }
    free(whole);
}

static void masks_of_other_steps_seeds_and_layers_are_independent(void **state)
{
    struct how how = {.seed = 1}, seed = {.seed = 2}, name = {.seed = 1, .name = "other"};
    int64_t n;
    float *mask = mask_of(&flat, &how, 9, 0, &n);
    float *others[] = {mask_of(&flat, &how, 10, 0, &n), mask_of(&flat, &seed, 9, 0, &n),
                       mask_of(&flat, &name, 9, 0, &n), mask_of(&flat, &how, 9, 8, &n),
                       mask_of(&flat, &how, 9 + (1ull << 32), 0, &n)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        /* Half of 2664 elements agree by chance, 26 of them being one sigma. */
        assert_true(fabs(share_equal(mask, others[i], n) - 0.5) < 0.05);
        free(others[i]);
    }
    assert_true(share_equal(mask, mask + n / 2, n / 2) < 0.55); /* other rows */
    float *again = mask_of(&flat, &how, 9, 0, &n);
    assert_same_bits("the same mask", again, mask, (size_t)n * sizeof *mask);
    free(again);
    free(mask);
}

static void the_share_dropped_is_the_ratio(void **state)
{
    const double ratios[] = {0, 0.1, 0.5, 0.75, 0.999};
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        char text[64];
        int64_t n;
        snprintf(text, sizeof text, "ratio = %g\n", ratios[i]);
        struct sw_layer_example ex = {.recipe = text, .src = {{2, {16, 12500}, 0}}};
        float *mask = mask_of(&ex, &(struct how){.seed = 3}, 0, 0, &n);
        double sigma = sqrt(ratios[i] * (1 - ratios[i]) / (double)n);
        assert_true(fabs(share_dropped(mask, n) - ratios[i]) <= 5 * sigma);
        for (int64_t k = 0; k < n; k++)
            if (mask[k] != 0)
                assert_true(fabs((double)mask[k] * (1 - ratios[i]) - 1) < 1e-6);
        free(mask);
    }
}

static void evaluation_drops_nothing(void **state)
{
    struct fixture f = open_cpu(false, 1);
    for (int in_place = 0; in_place < 2; in_place++) {
        struct rig g;
        rig_setup(&g, sw_layer_type_find("dropout"), &image,
                  &(struct how){
                      .stream = f.stream, .block = 16, .evaluation = true, .in_place = in_place});
        struct values v = values_new(&g, &image, 1);
        rig_forward(&g, &v);
        assert_same_bits("evaluation", v.dst, v.src[0], (size_t)v.dst_n * sizeof(float));
        values_free(&v);
        rig_close(&g);
    }
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_matches_philox_words),
        cmocka_unit_test(two_workers_have_the_mask_of_one),
        cmocka_unit_test(masks_of_other_steps_seeds_and_layers_are_independent),
        cmocka_unit_test(the_share_dropped_is_the_ratio),
        cmocka_unit_test(evaluation_drops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
