/* The transform from an image to a row, against formulas and values worked out by hand. */
#include "data/transform.h"
#include "data_support.h"
#include "kernels/ops/pixels.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"
#include <math.h>

enum { C = 3, H = 9, W = 37, MOST = 4 * 64 * 64 };

static const double means[C] = {0.5, 10.5, 20.5}, deviations[C] = {4, 8, 12};

static const struct sw_philox key = {{11, 22}};

static struct sw_data_conf plain(void)
{
    return (struct sw_data_conf){.scale = 1, .elastic_sigma = 4};
}

static struct sw_transform make(const struct sw_data_conf *conf, int64_t channels, int64_t height,
                                int64_t width, bool differ, bool training)
{
    const struct sw_transform_input in = {.channels = channels,
                                          .height = differ ? 0 : height,
                                          .width = differ ? 0 : width,
                                          .first_height = height,
                                          .first_width = width,
                                          .training = training};
    struct sw_transform t;
    struct sw_err err = {0};
    ASSERT_OK(sw_transform_init(&t, conf, &in, &err));
    return t;
}

/* An image of floats through a whole transform. */
static struct sw_view run(const struct sw_transform *t, const float *x, int64_t height,
                          int64_t width, int64_t sample, float *out)
{
    struct sw_transform_work w = {0};
    struct sw_view v;
    struct sw_picture_part part;
    struct sw_err err = {0};
    ASSERT_OK(sw_transform_view(t, key, sample, height, width, &v, &err));
    ASSERT_OK(sw_transform_need(&v, &w, height, width, &part, &err));
    const struct sw_pixels p = {SW_F32,      x + part.top * width + part.left,
                                t->channels, part.height,
                                part.width,  height * width,
                                width,       1};
    ASSERT_OK(sw_transform_run(t, &w, &v, &p, out, &err));
    sw_transform_work_fini(&w);
    return v;
}

static void assert_near(const float *x, const double *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        if (!(fabs(x[i] - want[i]) <= tolerance))
            fail_msg("element %d is %.7g, expected %.7g", i, x[i], want[i]);
    }
}

/* ---- Cutting ---- */

static float pixel(int64_t c, int64_t y, int64_t x)
{
    return (float)((c * 101 + y * W + x) % 256);
}

enum form { REALS, BYTES, PACKED, GREY };

static struct sw_pixels pixels_of(enum form form, void *memory)
{
    unsigned char *b = memory;
    float *r = memory;
    const int64_t plane = H * W;
    for (int64_t i = 0; i < C * plane; i++) {
        const int64_t c = form == GREY ? 0 : i / plane, at = i % plane;
        const float v = pixel(c, at / W, at % W);
        if (form == REALS)
            r[i] = v;
        else if (form == PACKED)
            b[4 * at + c] = (unsigned char)v;
        else
            b[form == GREY ? at : i] = (unsigned char)v;
    }
    switch (form) {
    case REALS:
        return (struct sw_pixels){SW_F32, memory, C, H, W, plane, W, 1};
    case PACKED:
        return (struct sw_pixels){SW_U8, memory, C, H, W, 1, 4 * W, 4};
    default:
        return (struct sw_pixels){SW_U8, memory, C, H, W, form == GREY ? 0 : plane, W, 1};
    }
}

static void check_cut(enum form form, int64_t crop, int64_t sample)
{
    struct sw_data_conf conf = plain();
    conf.mean = (struct sw_reals){means, C};
    conf.std = (struct sw_reals){deviations, C};
    conf.crop = crop;
    conf.mirror = true;
    struct sw_transform t = make(&conf, C, H, W, false, true);
    float memory[C * H * W + 4 * H * W], out[C * H * W + 1];
    struct sw_pixels p = pixels_of(form, memory);
    struct sw_transform_work w = {0};
    struct sw_picture_part part;
    struct sw_view v;
    struct sw_err err = {0};
    ASSERT_OK(sw_transform_view(&t, key, sample, H, W, &v, &err));
    ASSERT_OK(sw_transform_need(&v, &w, H, W, &part, &err));
    p.data = (const char *)p.data +
             (part.top * p.row_step + part.left * p.pixel_step) * (int64_t)sw_dtype_bytes(p.dtype);
    p.height = part.height;
    p.width = part.width;
    out[C * t.out_height * t.out_width] = 12345;
    ASSERT_OK(sw_transform_run(&t, &w, &v, &p, out, &err));
    const float *o = out;
    for (int c = 0; c < C; c++) {
        for (int64_t y = 0; y < t.out_height; y++) {
            for (int64_t x = 0; x < t.out_width; x++, o++) {
                const int64_t from = v.mirrored ? t.out_width - 1 - x : x;
                const float raw = pixel(form == GREY ? 0 : c, v.top + y, v.left + from);
                assert_true(*o == (raw - t.mean[c]) * t.gain[c]);
            }
        }
    }
    assert_true(*o == 12345);
    sw_transform_work_fini(&w);
    sw_transform_fini(&t);
}

static void cropping_matches_the_formula(void **state)
{
    for (int form = REALS; form <= GREY; form++) {
        for (int64_t crop = 0; crop <= 9; crop += 3) {
            for (int64_t sample = 0; sample < 12; sample++)
                check_cut((enum form)form, crop, sample);
        }
    }
}

static struct sw_view view_of(const struct sw_transform *t, int64_t sample, int64_t height,
                              int64_t width)
{
    struct sw_view v;
    struct sw_err err = {0};
    ASSERT_OK(sw_transform_view(t, key, sample, height, width, &v, &err));
    return v;
}

static void without_randomness_the_center_is_cropped(void **state)
{
    struct sw_data_conf conf = plain();
    conf.crop = 4;
    conf.mirror = true;
    const struct sw_transform t = make(&conf, C, H, W, false, false);
    for (int64_t s = 0; s < 50; s++) {
        const struct sw_view v = view_of(&t, s, H, W);
        assert_int_equal(v.top, 2);
        assert_int_equal(v.left, 16);
        assert_false(v.mirrored);
    }
}

static void random_crops_are_uniform(void **state)
{
    enum { N = 30000 };
    struct sw_data_conf conf = plain();
    int64_t hits[3][10] = {{0}}, mirrored = 0;
    conf.crop = 7;
    conf.mirror = true;
    const struct sw_transform t = make(&conf, C, 9, 16, false, true); /* 3 x 10 places */
    for (int64_t s = 0; s < N; s++) {
        const struct sw_view v = view_of(&t, s, 9, 16);
        assert_in_range(v.top, 0, 2);
        assert_in_range(v.left, 0, 9);
        hits[v.top][v.left]++;
        mirrored += v.mirrored;
    }
    /* 1000 each with deviation 31, and half of all with deviation 87. */
    for (int i = 0; i < 30; i++)
        assert_in_range(hits[i / 10][i % 10], 1000 - 190, 1000 + 190);
    assert_in_range(mirrored, N / 2 - 520, N / 2 + 520);
}

/* ---- Images of any size ---- */

static void the_shorter_side_is_resized_in_proportion(void **state)
{
    const double shorter[] = {256}, both[] = {50, 70};
    struct sw_data_conf conf = plain();
    conf.resize = (struct sw_reals){shorter, 1};
    conf.crop = 227;
    const struct sw_transform t = make(&conf, 3, 375, 500, true, false);
    struct sw_view v = view_of(&t, 0, 375, 500);
    assert_int_equal(v.height, 256);
    assert_int_equal(v.width, 341); /* 500 * 256 / 375 = 341.3 */
    assert_int_equal(v.top, 14);
    assert_int_equal(v.left, 57);
    v = view_of(&t, 0, 90, 30);
    assert_int_equal(v.height, 768);
    assert_int_equal(v.width, 256);
    v = view_of(&t, 0, 1, 60000); /* a line */
    assert_int_equal(v.height, 256);
    assert_int_equal(v.width, 256 * 60000);

    conf.crop = 0;
    conf.resize = (struct sw_reals){both, 2};
    const struct sw_transform fixed = make(&conf, 3, 375, 500, true, false);
    assert_int_equal(fixed.out_height, 50);
    assert_int_equal(fixed.out_width, 70);
    v = view_of(&fixed, 0, 3, 900);
    assert_int_equal(v.height, 50);
    assert_int_equal(v.width, 70);
}

static void an_image_smaller_than_the_crop_is_enlarged(void **state)
{
    struct sw_data_conf conf = plain();
    conf.crop = 40;
    const struct sw_transform t = make(&conf, 3, 100, 100, true, false);
    struct sw_view v = view_of(&t, 0, 20, 30);
    assert_int_equal(v.height, 40);
    assert_int_equal(v.width, 60);
    v = view_of(&t, 0, 40, 41);
    assert_int_equal(v.height, 40);
    assert_int_equal(v.width, 41);
}

static void without_crop_and_resize_all_have_the_size_of_the_first(void **state)
{
    struct sw_data_conf conf = plain();
    struct sw_view v;
    struct sw_err err = {0};
    const struct sw_transform t = make(&conf, 3, 30, 40, true, false);
    assert_int_equal(t.out_height, 30);
    assert_int_equal(t.out_width, 40);
    assert_int_equal(sw_transform_view(&t, key, 0, 40, 30, &v, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "image of 40x30 (height x width), expected 30x40 like the first");
}

/* ---- Padding ---- */

static void padding_is_the_mean(void **state)
{
    const double mean[] = {3};
    const float x[4] = {4, 5, 6, 7};
    float out[16];
    struct sw_data_conf conf = plain();
    conf.pad = 1;
    conf.mean = (struct sw_reals){mean, 1};
    conf.scale = 2;
    struct sw_transform t = make(&conf, 1, 2, 2, false, false);
    run(&t, x, 2, 2, 0, out);
    const double want[16] = {0, 0, 0, 0, 0, 2, 4, 0, 0, 6, 8, 0};
    assert_near(out, want, 16, 0);
    /* Through the values' way: log(mean + 1) is subtracted by nobody, so it shows. */
    conf.log1p = true;
    t = make(&conf, 1, 2, 2, false, false);
    run(&t, x, 2, 2, 0, out);
    assert_true(fabsf(out[0] - 2 * (log1pf(3) - 3)) < 1e-6f);
    assert_true(fabsf(out[5] - 2 * (log1pf(4) - 3)) < 1e-6f);
}

static void padded_crops_reach_every_position(void **state)
{
    struct sw_data_conf conf = plain();
    float x[16], out[16];
    int seen[5][5] = {{0}};
    for (int i = 0; i < 16; i++)
        x[i] = (float)(i + 1);
    conf.pad = 2;
    conf.crop = 4;
    conf.mirror = true;
    const struct sw_transform t = make(&conf, 1, 4, 4, false, true);
    for (int64_t s = 0; s < 400; s++) {
        const struct sw_view v = run(&t, x, 4, 4, s, out);
        const int64_t top = v.top - v.out_top, left = v.left - v.out_left; /* -2 .. 2 */
        assert_in_range(top + 2, 0, 4);
        assert_in_range(left + 2, 0, 4);
        seen[top + 2][left + 2]++;
        for (int64_t i = 0; i < 16; i++) {
            const int64_t column = v.mirrored ? 3 - i % 4 : i % 4;
            const int64_t from_y = i / 4 + top, from_x = column + left;
            const bool inside = from_y >= 0 && from_y < 4 && from_x >= 0 && from_x < 4;
            assert_true(out[i] == (inside ? x[from_y * 4 + from_x] : 0));
        }
    }
    for (int i = 0; i < 25; i++)
        assert_true(seen[i / 5][i % 5] > 0);
}

/* ---- Resampling ---- */

static void resampling_matches_values_worked_by_hand(void **state)
{
    const double to[] = {1, 2};
    const float x[8] = {0, 8, 16, 24, 32, 40, 48, 56};
    float out[8];
    struct sw_data_conf conf = plain();
    /* One row of 8 to 1 x 2: the filter reaches 4 to both sides of 2 and 6. Of sample 0 the centres
     * 0.5 .. 5.5 are 1.5, 0.5, 0.5, 1.5, 2.5, 3.5 from 2: weights (2.5, 3.5, 3.5, 2.5, 1.5, 0.5) /
     * 14, so 8 (3.5 + 7 + 7.5 + 6 + 2.5) / 14. Sample 1 is its mirror image, 56 less that. */
    conf.resize = (struct sw_reals){to, 2};
    struct sw_transform t = make(&conf, 1, 1, 8, false, false);
    run(&t, x, 1, 8, 0, out);
    const double first = 8 * (3.5 + 7 + 7.5 + 6 + 2.5) / 14;
    assert_near(out, (const double[]){first, 56 - first}, 2, 1e-5);

    /* 2 to 4: centres 0.25, 0.75, 1.25, 1.75; linear between 0.5 and 1.5, level outside. */
    const double grown[] = {1, 4};
    const float two[2] = {0, 100};
    conf.resize = (struct sw_reals){grown, 2};
    t = make(&conf, 1, 1, 2, false, false);
    run(&t, two, 1, 2, 0, out);
    assert_near(out, (const double[]){0, 25, 75, 100}, 4, 1e-5);

    /* The same downwards. */
    const double tall[] = {4, 1};
    conf.resize = (struct sw_reals){tall, 2};
    t = make(&conf, 1, 2, 1, false, false);
    run(&t, two, 2, 1, 0, out);
    assert_near(out, (const double[]){0, 25, 75, 100}, 4, 1e-5);
}

/* Cropping a resized image gives the same pixels as resizing the whole image and cropping it, for
 * every form of pixels. */
static void a_resized_crop_equals_the_crop_of_the_resized_image(void **state)
{
    const double sides[] = {14, 23};
    for (int form = REALS; form <= GREY; form++) {
        float memory[C * H * W + 4 * H * W], whole[C * 14 * 23], out[C * 10 * 10];
        struct sw_data_conf conf = plain();
        struct sw_transform_work w = {0};
        struct sw_view v;
        struct sw_picture_part part;
        struct sw_err err = {0};
        const struct sw_pixels all = pixels_of((enum form)form, memory);
        conf.resize = (struct sw_reals){sides, 2};
        struct sw_transform t = make(&conf, C, H, W, false, true);
        ASSERT_OK(sw_transform_view(&t, key, 0, H, W, &v, &err));
        ASSERT_OK(sw_transform_need(&v, &w, H, W, &part, &err));
        assert_int_equal(part.height, H);
        assert_int_equal(part.width, W);
        ASSERT_OK(sw_transform_run(&t, &w, &v, &all, whole, &err));
        conf.crop = 10;
        conf.mirror = true;
        t = make(&conf, C, H, W, false, true);
        for (int64_t s = 0; s < 20; s++) {
            struct sw_pixels p = all;
            ASSERT_OK(sw_transform_view(&t, key, s, H, W, &v, &err));
            ASSERT_OK(sw_transform_need(&v, &w, H, W, &part, &err));
            p.data = (const char *)p.data + (part.top * p.row_step + part.left * p.pixel_step) *
                                                (int64_t)sw_dtype_bytes(p.dtype);
            p.height = part.height;
            p.width = part.width;
            ASSERT_OK(sw_transform_run(&t, &w, &v, &p, out, &err));
            for (int64_t i = 0; i < C * 100; i++) {
                const int64_t x = v.mirrored ? 9 - i % 10 : i % 10;
                const float want =
                    whole[i / 100 * 14 * 23 + (v.top + i / 10 % 10) * 23 + v.left + x];
                assert_true(fabsf(out[i] - want) < 1e-3f);
            }
        }
        sw_transform_work_fini(&w);
    }
}

/* ---- Values ---- */

static void a_mean_image_is_cropped_and_mirrored_with_the_image(void **state)
{
    float x[2 * 36], mean[2 * 36], out[2 * 16];
    const int64_t shape[] = {2, 6, 6};
    struct sw_err err = {0};
    struct sw_data_conf conf = plain();
    for (int i = 0; i < 72; i++) {
        mean[i] = (float)(i * i % 50);
        x[i] = mean[i] + (float)i;
    }
    conf.mean_image = support_path("mean.npy");
    ASSERT_OK(sw_npy_write(conf.mean_image, SW_F32, 3, shape, mean, &err));
    conf.crop = 4;
    conf.mirror = true;
    conf.scale = 0.5;
    struct sw_transform t = make(&conf, 2, 6, 6, false, true);
    for (int64_t s = 0; s < 20; s++) {
        const struct sw_view v = run(&t, x, 6, 6, s, out);
        for (int64_t i = 0; i < 32; i++) {
            const int64_t column = v.mirrored ? 3 - i % 4 : i % 4;
            assert_true(out[i] ==
                        0.5f * (float)(i / 16 * 36 + (v.top + i / 4 % 4) * 6 + v.left + column));
        }
    }
    sw_transform_fini(&t);
    /* One of the row's size is turned only. */
    const int64_t small[] = {2, 4, 4};
    ASSERT_OK(sw_npy_write(conf.mean_image, SW_F32, 3, small, mean, &err));
    t = make(&conf, 2, 6, 6, false, true);
    for (int64_t s = 0; s < 20; s++) {
        const struct sw_view v = run(&t, x, 6, 6, s, out);
        for (int64_t i = 0; i < 32; i++) {
            const int64_t column = v.mirrored ? 3 - i % 4 : i % 4;
            const float raw = x[i / 16 * 36 + (v.top + i / 4 % 4) * 6 + v.left + column];
            assert_true(out[i] == 0.5f * (raw - mean[i / 4 * 4 + column]));
        }
    }
    sw_transform_fini(&t);
    const struct sw_transform_input in = {.channels = 2, .height = 9, .width = 9};
    conf.crop = 0;
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "mean_image: ");
    ASSERT_CONTAINS(err.text, "is 4x4 (height x width), expected 9x9");
    sw_transform_fini(&t);
}

static void log1p_of_counts(void **state)
{
    const float x[4] = {0, 1, 2, 1023};
    float out[4];
    struct sw_data_conf conf = plain();
    conf.log1p = true;
    const struct sw_transform t = make(&conf, 1, 1, 4, false, false);
    run(&t, x, 1, 4, 0, out);
    assert_near(out, (const double[]){0, 0.6931472, 1.0986123, 6.9314718}, 4, 1e-6);
}

/* The three factors are found again from what they did. */
static void color_follows_the_formula(void **state)
{
    const float x[6] = {100, 60, 40, 120, 10, 30}; /* red, green, blue of two pixels */
    const double luma[2] = {0.299 * 100 + 0.587 * 40 + 0.114 * 10,
                            0.299 * 60 + 0.587 * 120 + 0.114 * 30};
    float out[6];
    double lowest = 2, highest = 0;
    for (int64_t s = 0; s < 300; s++) {
        struct sw_data_conf conf = plain();
        conf.brightness = 0.5;
        struct sw_transform t = make(&conf, 3, 1, 2, false, true);
        run(&t, x, 1, 2, s, out);
        const double b = out[0] / 100.0;
        assert_true(b >= 0.5 && b <= 1.5);
        lowest = b < lowest ? b : lowest;
        highest = b > highest ? b : highest;
        for (int i = 0; i < 6; i++)
            assert_true(fabs(out[i] - b * x[i]) < 1e-3);
        conf.contrast = 0.25;
        t = make(&conf, 3, 1, 2, false, true);
        run(&t, x, 1, 2, s, out);
        const double centre = b * (luma[0] + luma[1]) / 2;
        const double c = (out[0] - centre) / (100 * b - centre);
        assert_true(c >= 0.7499 && c <= 1.2501);
        double after[6];
        for (int i = 0; i < 6; i++) {
            after[i] = centre + c * (b * x[i] - centre);
            assert_true(fabs(out[i] - after[i]) < 1e-2);
        }
        conf.saturation = 1;
        t = make(&conf, 3, 1, 2, false, true);
        run(&t, x, 1, 2, s, out);
        for (int p = 0; p < 2; p++) {
            const double grey = 0.299 * after[p] + 0.587 * after[2 + p] + 0.114 * after[4 + p];
            const double f = (out[2 + p] - grey) / (after[2 + p] - grey);
            assert_true(f >= -0.01 && f <= 2.01);
            for (int k = 0; k < 3; k++)
                assert_true(fabs(out[2 * k + p] - (grey + f * (after[2 * k + p] - grey))) < 0.05);
        }
    }
    assert_true(lowest < 0.55 && highest > 1.45);
}

static void color_changes_in_training_only(void **state)
{
    const float x[3] = {10, 20, 30};
    float out[3];
    struct sw_data_conf conf = plain();
    conf.brightness = conf.contrast = conf.saturation = 1;
    conf.elastic_alpha = 100;
    const struct sw_transform t = make(&conf, 3, 1, 1, false, false);
    run(&t, x, 1, 1, 5, out);
    assert_memory_equal(out, x, sizeof x);
}

/* A ramp in x shows the displacement in x of every pixel that stays inside, which must be the
 * random numbers smoothed by the Gaussian, times alpha. */
static void elastic_distortion_is_smoothed_noise(void **state)
{
    enum { N = 24, REACH = 6 };
    const double sigma = 2, alpha = 9;
    float ramp[N * N], level[N * N], out[N * N];
    double sum = 0, weight[2 * REACH + 1], squares = 0;
    struct sw_data_conf conf = plain();
    conf.elastic_alpha = alpha;
    conf.elastic_sigma = sigma;
    const struct sw_transform t = make(&conf, 1, N, N, false, true);
    for (int i = 0; i < N * N; i++) {
        ramp[i] = (float)(i % N);
        level[i] = 7;
    }
    run(&t, level, N, N, 3, out);
    for (int i = 0; i < N * N; i++)
        assert_true(fabsf(out[i] - 7) < 1e-5f);
    run(&t, ramp, N, N, 3, out);
    for (int k = -REACH; k <= REACH; k++)
        sum += weight[k + REACH] = exp(-k * k / (2 * sigma * sigma));
    for (int y = 0; y < N; y++) {
        for (int x = 0; x < N; x++) {
            double d = 0;
            for (int j = 0; j < N * N; j++) {
                const int dy = j / N - y, dx = j % N - x;
                if (abs(dy) > REACH || abs(dx) > REACH)
                    continue;
                const uint32_t word = sw_philox_word(key, 3, 1, (uint32_t)(2 * j));
                d += weight[dy + REACH] * weight[dx + REACH] / (sum * sum) *
                     (2.0 * sw_philox_uniform(word) - 1);
            }
            double want = x + alpha * d;
            want = want < 0 ? 0 : want > N - 1 ? N - 1 : want;
            assert_true(fabs(out[y * N + x] - want) < 1e-3);
            squares += alpha * d * alpha * d;
        }
    }
    assert_true(squares / (N * N) > 0.1); /* something moved */
}

static int emit(void *values, struct sw_st_sink *sink, struct sw_err *err)
{
    const float *x = values;
    return sw_st_emit(sink, x + 1, (size_t)x[0] * sizeof *x, err);
}

static void whitening_multiplies_by_the_matrix(void **state)
{
    float mean[] = {4, 1, 2, 3, 4}, matrix[17] = {16}, row[] = {4, 0.5f, 0, 0, 0};
    const int64_t shape[] = {1, 2, 2}, square[] = {4, 4};
    const float x[4] = {11, 22, 33, 44};
    float out[4];
    struct sw_data_conf conf = plain();
    struct sw_err err = {0};
    for (int i = 0; i < 16; i++)
        matrix[1 + i] = (float)(i % 5 - 2);
    conf.whiten = support_path("whiten.safetensors");
    struct sw_st_writer *w = sw_st_writer_new();
    ASSERT_OK(sw_st_writer_add(w, "whiten.mean", (struct sw_st_shape){SW_ST_F32, 3, shape}, emit,
                               mean, &err));
    ASSERT_OK(sw_st_writer_add(w, "whiten.matrix", (struct sw_st_shape){SW_ST_F32, 2, square}, emit,
                               matrix, &err));
    ASSERT_OK(
        sw_st_writer_add(w, "mean", (struct sw_st_shape){SW_ST_F32, 3, shape}, emit, row, &err));
    ASSERT_OK(sw_st_writer_write(w, conf.whiten, 0600, NULL, NULL, &err));
    sw_st_writer_free(w);
    struct sw_transform t = make(&conf, 1, 2, 2, false, true);
    run(&t, x, 2, 2, 0, out);
    double want[4] = {0};
    for (int i = 0; i < 16; i++)
        want[i / 4] += matrix[1 + i] * (x[i % 4] - mean[1 + i % 4]);
    assert_near(out, want, 4, 1e-4);
    sw_transform_fini(&t);
    /* The same file has a mean image. */
    conf.mean_image = conf.whiten;
    conf.whiten = NULL;
    t = make(&conf, 1, 2, 2, false, true);
    run(&t, x, 2, 2, 0, out);
    assert_near(out, (const double[]){10.5, 22, 33, 44}, 4, 0);
    sw_transform_fini(&t);
    conf.whiten = conf.mean_image;
    conf.mean_image = NULL;
    const struct sw_transform_input in = {.channels = 1, .height = 3, .width = 2};
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "`whiten.mean` has 4 values, expected 6");
    sw_transform_fini(&t);
}

static void errors_name_wrong_keys(void **state)
{
    const double half[] = {10.5}, three[] = {1, 2, 3};
    const struct sw_transform_input in = {.channels = 3, .height = 20, .width = 30};
    struct sw_transform t;
    struct sw_err err = {0};
    struct sw_data_conf conf = plain();
    conf.resize = (struct sw_reals){half, 1};
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "resize: 10.5 is not an integer number");
    conf.resize = (struct sw_reals){three, 3};
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "resize: 3 values");
    conf = plain();
    conf.pad = conf.crop = 6;
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "pad = 6: a crop of 6");
    conf = plain();
    conf.mean_image = "nothing-here.npy";
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "mean_image: cannot open nothing-here.npy");
    conf.mean = (struct sw_reals){three, 3};
    assert_int_equal(sw_transform_init(&t, &conf, &in, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "mean and mean_image");
}

/* A device finishes packed rows to the bits that the host computes, for planar and packed pixels.
 */
static void packed_rows_are_finished_to_the_same_bits(void **state)
{
    enum { PACKED_BYTES = 4 * H * W };
    unsigned char x[PACKED_BYTES];
    float want[C * H * W], got[C * H * W], mean[C * H * W];
    for (int i = 0; i < PACKED_BYTES; i++)
        x[i] = (unsigned char)(i * 37 + i / 5);
    for (int i = 0; i < C * H * W; i++)
        mean[i] = (float)(i % 251) * 0.37f;
    for (int kind = 0; kind < 32; kind++) {
        struct sw_data_conf conf = plain();
        const bool with_mean = kind & 1, padded = kind & 2 && !with_mean, packed = kind & 16;
        conf.scale = 0.017;
        conf.mirror = kind & 4;
        conf.crop = kind & 8 ? 7 : 0;
        conf.pad = padded ? 3 : 0;
        struct sw_transform t = make(&conf, C, H, W, false, true);
        for (int c = 0; c < C && !with_mean; c++)
            t.mean[c] = (float)means[c];
        t.mean_image = with_mean ? mean : NULL;
        t.mean_height = H;
        t.mean_width = W;
        assert_true(sw_transform_keeps_pixels(&t));
        const int64_t count = C * t.out_height * t.out_width;
        const size_t bytes = sw_pixels_row_bytes(count);
        unsigned char *row = malloc(bytes);
        float *big_want = padded ? malloc((size_t)count * sizeof(float)) : want;
        float *big_got = padded ? malloc((size_t)count * sizeof(float)) : got;
        for (int64_t sample = 0; sample < 20; sample++) {
            struct sw_transform_work w = {0};
            struct sw_view v;
            struct sw_picture_part part;
            struct sw_err err = {0};
            ASSERT_OK(sw_transform_view(&t, key, sample, H, W, &v, &err));
            ASSERT_OK(sw_transform_need(&v, &w, H, W, &part, &err));
            const int64_t at = part.top * W + part.left;
            const struct sw_pixels p =
                packed
                    ? (struct sw_pixels){SW_U8, x + 4 * at, C, part.height, part.width, 1, 4 * W, 4}
                    : (struct sw_pixels){SW_U8, x + at, C, part.height, part.width, H * W, W, 1};
            ASSERT_OK(sw_transform_run(&t, &w, &v, &p, big_want, &err));
            sw_transform_pack(&t, &v, &p, row);
            struct sw_pixels_args a = {.rows = 1,
                                       .channels = C,
                                       .height = t.out_height,
                                       .width = t.out_width,
                                       .row_bytes = (int64_t)bytes,
                                       .x = row,
                                       .mean_image = t.mean_image,
                                       .mean_height = H,
                                       .mean_width = W,
                                       .y = big_got};
            memcpy(a.mean, t.mean, sizeof a.mean);
            memcpy(a.gain, t.gain, sizeof a.gain);
            const struct sw_host_launch l = {.threads = 1, .err = &err};
            ASSERT_OK(sw_op_pixels.cpu(&l, &a));
            assert_memory_equal(big_want, big_got, (size_t)count * sizeof(float));
            sw_transform_work_fini(&w);
        }
        if (padded) {
            free(big_want);
            free(big_got);
        }
        free(row);
        t.mean_image = NULL;
        sw_transform_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_rows_are_finished_to_the_same_bits),
        cmocka_unit_test(cropping_matches_the_formula),
        cmocka_unit_test(without_randomness_the_center_is_cropped),
        cmocka_unit_test(random_crops_are_uniform),
        cmocka_unit_test(the_shorter_side_is_resized_in_proportion),
        cmocka_unit_test(an_image_smaller_than_the_crop_is_enlarged),
        cmocka_unit_test(without_crop_and_resize_all_have_the_size_of_the_first),
        cmocka_unit_test(padding_is_the_mean),
        cmocka_unit_test(padded_crops_reach_every_position),
        cmocka_unit_test(resampling_matches_values_worked_by_hand),
        cmocka_unit_test(a_resized_crop_equals_the_crop_of_the_resized_image),
        cmocka_unit_test(a_mean_image_is_cropped_and_mirrored_with_the_image),
        cmocka_unit_test(log1p_of_counts),
        cmocka_unit_test(color_follows_the_formula),
        cmocka_unit_test(color_changes_in_training_only),
        cmocka_unit_test(elastic_distortion_is_smoothed_noise),
        cmocka_unit_test(whitening_multiplies_by_the_matrix),
        cmocka_unit_test(errors_name_wrong_keys),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
