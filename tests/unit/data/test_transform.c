/* Crop, mirror, mean, std and scale of one picture against the formula, and their randomness. */
#include "data/transform.h"
#include "data_support.h"

enum { C = 3, H = 9, W = 37 };

static struct sw_transform make(enum sw_dtype dtype, int64_t out_height, int64_t out_width)
{
    struct sw_transform t = {.dtype = dtype,
                             .channels = C,
                             .height = H,
                             .width = W,
                             .out_height = out_height,
                             .out_width = out_width};
    for (int c = 0; c < C; c++) {
        t.mean[c] = (float)(10 * c) + 0.5f;
        t.gain[c] = 0.25f / (float)(c + 1);
    }
    return t;
}

static float pixel(int c, int64_t y, int64_t x)
{
    return (float)((c * 101 + y * W + x) % 256);
}

static void check(enum sw_dtype dtype, int64_t out_height, int64_t out_width,
                  struct sw_crop_place place)
{
    const struct sw_transform t = make(dtype, out_height, out_width);
    unsigned char bytes[C * H * W];
    float reals[C * H * W], out[C * H * W + 1];
    for (int i = 0; i < C * H * W; i++) {
        reals[i] = pixel(i / (H * W), i / W % H, i % W);
        bytes[i] = (unsigned char)reals[i];
    }
    out[C * out_height * out_width] = 12345;
    sw_transform_row(&t, place, dtype == SW_U8 ? (const void *)bytes : (const void *)reals, out);
    const float *o = out;
    for (int c = 0; c < C; c++) {
        for (int64_t y = 0; y < out_height; y++) {
            for (int64_t x = 0; x < out_width; x++, o++) {
                const int64_t from = place.mirrored ? out_width - 1 - x : x;
                const float raw = pixel(c, place.top + y, place.left + from);
                assert_true(*o == (raw - t.mean[c]) * t.gain[c]);
            }
        }
    }
    assert_true(*o == 12345);
}

static void transform_matches_the_formula(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        const enum sw_dtype t = dtype ? SW_U8 : SW_F32;
        check(t, H, W, (struct sw_crop_place){0, 0, false});
        check(t, H, W, (struct sw_crop_place){0, 0, true});
        check(t, 5, 5, (struct sw_crop_place){4, 32, false});
        check(t, 5, 33, (struct sw_crop_place){1, 2, true});
        check(t, 1, 1, (struct sw_crop_place){8, 36, true});
    }
}

static void transform_without_randomness_cuts_the_centre(void **state)
{
    const struct sw_transform t = make(SW_U8, 4, 7);
    (void)state;
    for (int64_t s = 0; s < 50; s++) {
        struct sw_crop_place p = sw_transform_place(&t, sw_philox_stream(1, 2, 3), s);
        assert_int_equal(p.top, 2);
        assert_int_equal(p.left, 15);
        assert_false(p.mirrored);
    }
}

static void transform_places_are_uniform(void **state)
{
    enum { N = 36000 };
    struct sw_transform t = make(SW_U8, 7, 26); /* 3 x 12 places */
    int64_t hits[3][12] = {{0}}, mirrored = 0;
    (void)state;
    t.random_crop = t.random_mirror = true;
    for (int64_t s = 0; s < N; s++) {
        struct sw_crop_place p = sw_transform_place(&t, sw_philox_stream(4, 5, 6), s);
        assert_in_range(p.top, 0, 2);
        assert_in_range(p.left, 0, 11);
        hits[p.top][p.left]++;
        mirrored += p.mirrored;
    }
    /* 1000 each with deviation 31, and half of all with deviation 95. */
    for (int i = 0; i < 36; i++)
        assert_in_range(hits[i / 12][i % 12], 1000 - 190, 1000 + 190);
    assert_in_range(mirrored, N / 2 - 570, N / 2 + 570);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transform_matches_the_formula),
        cmocka_unit_test(transform_without_randomness_cuts_the_centre),
        cmocka_unit_test(transform_places_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
