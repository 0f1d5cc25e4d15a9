/* ctest-labels: gpu
 * Long rows and many tokens on a GPU compared with the CPU: gradients of word vectors, named
 * classes, positions of the largest values, word counts. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/ops/argsort.h"
#include "kernels/ops/classes.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/pixels.h"
#include "kernels/ops/units.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

/* Numbers with many ties, and some NaN and infinities. */
static float *odd_floats(struct rng *r, int64_t n)
{
    float *x = random_floats(r, n, -20, 20);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 97 == 5 ? NAN : i % 89 == 7 ? -INFINITY : i % 101 == 9 ? INFINITY : floorf(x[i]);
    return x;
}

/* Frequent and rare words; some are skipped, and rows at the end are ignored. */
static void check_gradient(int64_t rows, int64_t length, int64_t vocabulary, int64_t width)
{
    struct rng r = rng_of(3);
    const struct sw_token_lists lists = {
        .rows = rows, .per_row = 2, .length = length, .vocabulary = vocabulary, .skip = 0};
    const struct sw_step step = {.valid_rows = rows - 1, .batch_valid_rows = rows - 1};
    int64_t count = rows * 2 * length, table = vocabulary * width;
    float *draw = random_floats(&r, count, 0, 1), *dy = random_floats(&r, rows * 2 * width, -1, 1);
    float *here = get_floats(table), *back = get_floats(table);
    int32_t *token = malloc((size_t)count * sizeof *token);
    struct sw_err err;
    assert_non_null(token);
    for (int64_t i = 0; i < count; i++)
        token[i] = (int32_t)((float)(vocabulary - 1) * draw[i] * draw[i]);
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_embedding_gradient,
                        &(const struct sw_embedding_gradient_args){.lists = lists,
                                                                   .width = width,
                                                                   .token = token,
                                                                   .dy = dy,
                                                                   .step = &step,
                                                                   .dweight = here},
                        &err));
    int32_t *token_there = to_device(gpu, token, (size_t)count * sizeof *token);
    float *dy_there = to_device(gpu, dy, (size_t)(rows * 2 * width) * sizeof *dy);
    float *table_there = device_bytes(dev, (size_t)table * sizeof *back);
    struct sw_step *step_there = to_device(gpu, &step, sizeof step);
    for (int again = 0; again < 2; again++) { /* no state of the first run remains */
        ASSERT_OK(sw_op_run(gpu, &sw_op_embedding_gradient,
                            &(const struct sw_embedding_gradient_args){.lists = lists,
                                                                       .width = width,
                                                                       .token = token_there,
                                                                       .dy = dy_there,
                                                                       .step = step_there,
                                                                       .dweight = table_there},
                            &err));
        to_host(gpu, back, table_there, (size_t)table * sizeof *back);
        for (int64_t i = 0; i < table; i++)
            assert_true(fabsf(back[i] - here[i]) <= 1e-5f * (1 + fabsf(here[i])));
    }
    free(draw);
    free(dy);
    free(here);
    free(back);
    free(token);
}

static void word_vector_gradients_match_the_cpu(void **state)
{
    check_gradient(9, 11, 20, 24);
    check_gradient(3, 70, 150, 3);
    check_gradient(2, 1, 7, 300);
    check_gradient(61, 20, 50, 5); /* more tokens than a block compares at a time */
}

static void check_counts(int64_t rows, int64_t classes, int64_t top_k)
{
    struct rng r = rng_of(5);
    float *x = odd_floats(&r, rows * classes), *draw = random_floats(&r, rows, 0, 1);
    int32_t *label = malloc((size_t)rows * sizeof *label);
    size_t bytes = 2 * (size_t)classes * sizeof(struct sw_result);
    struct sw_result *here = calloc(1, bytes), *back = malloc(bytes);
    const struct sw_step step = {.valid_rows = rows - 1, .batch_valid_rows = rows - 1};
    struct sw_err err;
    assert_true(label && here && back);
    for (int64_t i = 0; i < rows; i++)
        label[i] = (int32_t)((float)(classes - 1) * draw[i]);
    struct sw_class_count_args a = {.rows = rows,
                                    .classes = classes,
                                    .top_k = top_k,
                                    .threshold = 1,
                                    .x = x,
                                    .labels = {.label = label},
                                    .step = &step,
                                    .count = here};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_class_count, &a, &err));
    a.x = to_device(gpu, x, (size_t)(rows * classes) * sizeof *x);
    a.labels.label = to_device(gpu, label, (size_t)rows * sizeof *label);
    a.step = to_device(gpu, &step, sizeof step);
    a.count = device_bytes(dev, bytes);
    ASSERT_OK(sw_op_run(gpu, &sw_op_class_count, &a, &err));
    to_host(gpu, back, a.count, bytes);
    assert_same_bits("counts", back, here, bytes);
    free(x);
    free(draw);
    free(label);
    free(here);
    free(back);
}

static void named_classes_match_the_cpu(void **state)
{
    check_counts(50, 10, 1);
    check_counts(13, 100, 5);
    check_counts(7, 12, 12); /* all, but NaN */
    check_counts(20, 40, 0);
}

static void check_places(int64_t rows, int64_t columns, int64_t top_k)
{
    struct rng r = rng_of(8);
    float *x = odd_floats(&r, rows * columns);
    size_t bytes = (size_t)(rows * top_k) * sizeof(int32_t);
    int32_t *here = malloc(bytes), *back = malloc(bytes);
    struct sw_err err;
    assert_true(here && back);
    struct sw_argsort_args a = {
        .rows = rows, .columns = columns, .top_k = top_k, .x = x, .place = here};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_argsort, &a, &err));
    a.x = to_device(gpu, x, (size_t)(rows * columns) * sizeof *x);
    a.place = device_bytes(dev, bytes);
    ASSERT_OK(sw_op_run(gpu, &sw_op_argsort, &a, &err));
    to_host(gpu, back, a.place, bytes);
    assert_same_bits("places", back, here, bytes);
    free(x);
    free(here);
    free(back);
}

static void top_k_positions_match_the_cpu(void **state)
{
    check_places(5, 1, 1);
    check_places(7, 100, 100);
    check_places(3, 128, 9);
    check_places(1, 600, 600);
    check_places(1, 2500, 3); /* longer than a block that is sorted at once */
}

/* Counts of words that share one choice: means, samples and what chains carry on, with separate
 * arrays, and with the shares in place of the means or of the input. */
static void check_softmax_units(int64_t rows, int64_t columns, int in_place, bool goes_on)
{
    struct rng r = rng_of(21 + (uint64_t)in_place);
    const struct sw_step step = {
        .step = 7, .first_row = 5, .valid_rows = rows, .chains_begin = !goes_on};
    int64_t n = rows * columns;
    size_t bytes = (size_t)n * sizeof(float);
    float *x = random_floats(&r, n, -3, 3), *bias = random_floats(&r, columns, -1, 1);
    float *total = random_floats(&r, rows, 0, 300), *carried = random_floats(&r, n, 0, 9);
    float *mean = get_floats(n), *sample = get_floats(n), *share = get_floats(n);
    float *back = get_floats(n);
    struct sw_err err;
    for (int64_t i = 0; i < rows; i++)
        total[i] = floorf(total[i]);
    struct sw_units_args a = {.units = SW_UNITS_SOFTMAX,
                              .rows = rows,
                              .columns = columns,
                              .x = x,
                              .bias = bias,
                              .total = total,
                              .carried = carried,
                              .mean = mean,
                              .sample = sample,
                              .share = share,
                              .key = sw_philox_stream(3, 1, 2),
                              .step = &step};
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_units, &a, &err));
    const uint64_t bridged = sw_device_bytes_of(dev).bridged;
    float *x_there = to_device(gpu, x, bytes);
    a.x = x_there;
    a.bias = to_device(gpu, bias, (size_t)columns * sizeof *bias);
    a.total = to_device(gpu, total, (size_t)rows * sizeof *total);
    a.carried = to_device(gpu, carried, bytes);
    a.step = to_device(gpu, &step, sizeof step);
    a.mean = in_place == 2 ? x_there : device_bytes(dev, bytes);
    a.share = in_place == 2 ? x_there : in_place == 1 ? a.mean : device_bytes(dev, bytes);
    a.sample = device_bytes(dev, bytes);
    ASSERT_OK(sw_op_run(gpu, &sw_op_units, &a, &err));
    to_host(gpu, back, a.sample, bytes);
    assert_same_bits("samples", back, sample, bytes);
    to_host(gpu, back, a.mean, bytes);
    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(back[i] - mean[i]) <= 1e-5f * (1 + fabsf(mean[i])));
    assert_true(sw_device_bytes_of(dev).bridged == bridged);
    float *all[] = {x, bias, total, carried, mean, sample, share, back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void word_counts_match_the_cpu(void **state)
{
    for (int in_place = 0; in_place < 3; in_place++) {
        check_softmax_units(3, 1, in_place, false);
        check_softmax_units(4, 37, in_place, false);
        check_softmax_units(2, 1000, in_place, false);
        check_softmax_units(3, 50, in_place, true);
    }
}

/* Images of odd sizes, of which every other one is mirrored: windows with padding, and a larger
 * mean image. */
static void check_pixels(int64_t rows, int64_t channels, int64_t height, int64_t width, bool mean)
{
    enum { LARGER = 3 };
    struct rng r = rng_of(4);
    struct sw_err err;
    const int64_t count = channels * height * width;
    const int64_t mean_count = channels * (height + LARGER) * (width + LARGER);
    struct sw_pixels_args a = {.rows = rows,
                               .channels = channels,
                               .height = height,
                               .width = width,
                               .row_bytes = (int64_t)sw_pixels_row_bytes(count),
                               .mean_height = height + LARGER,
                               .mean_width = width + LARGER};
    unsigned char *x = get_bytes((size_t)(rows * a.row_bytes));
    float *mean_image = random_floats(&r, mean_count, 0, 255);
    float *here = get_floats(rows * count), *back = get_floats(rows * count);

    for (int64_t i = 0; i < rows * a.row_bytes; i++)
        x[i] = (unsigned char)rng_int(&r, 0, 255);
    for (int64_t c = 0; c < channels; c++) {
        a.mean[c] = rng_real(&r, 0, 255);
        a.gain[c] = rng_real(&r, -1, 1);
    }
    for (int64_t n = 0; n < rows; n++)
        *(struct sw_pixels_head *)(void *)(x + n * a.row_bytes) =
            (struct sw_pixels_head){.mirrored = n % 2,
                                    .top = (int32_t)(n % (LARGER + 1)),
                                    .left = (int32_t)(n / 2 % (LARGER + 1)),
                                    .first_line = (int32_t)(n % 3),
                                    .end_line = (int32_t)height - (int32_t)(n % 2),
                                    .first_column = (int32_t)(n % 2),
                                    .end_column = (int32_t)width - (int32_t)(n / 2 % 2)};

    a.x = x;
    a.mean_image = mean ? mean_image : NULL;
    a.y = here;
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_pixels, &a, &err));

    const size_t x_bytes = (size_t)(rows * a.row_bytes);
    const size_t y_bytes = (size_t)(rows * count) * sizeof *back;
    const size_t mean_bytes = (size_t)mean_count * sizeof *mean_image;
    void *x_there = to_device(gpu, x, x_bytes),
         *mean_there = to_device(gpu, mean_image, mean_bytes);
    float *y_there = device_bytes(dev, y_bytes);
    a.x = x_there;
    a.mean_image = mean ? mean_there : NULL;
    a.y = y_there;
    ASSERT_OK(sw_op_run(gpu, &sw_op_pixels, &a, &err));
    ASSERT_OK(sw_copy(gpu, back, y_there, y_bytes, &err));
    ASSERT_OK(sw_stream_wait(gpu, &err));
    assert_memory_equal(here, back, y_bytes);

    sw_device_free(dev, x_there, x_bytes);
    sw_device_free(dev, mean_there, mean_bytes);
    sw_device_free(dev, y_there, y_bytes);
    free(x);
    free(mean_image);
    free(here);
    free(back);
}

static void pixels_become_the_same_floats_as_on_the_cpu(void **state)
{
    static const int64_t shapes[][3] = {{1, 5, 3}, {3, 32, 32}, {3, 7, 9}, {4, 5, 16}, {3, 57, 57}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int mean = 0; mean < 2; mean++)
            check_pixels(9, shapes[i][0], shapes[i][1], shapes[i][2], mean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_become_the_same_floats_as_on_the_cpu),
        cmocka_unit_test(word_vector_gradients_match_the_cpu),
        cmocka_unit_test(named_classes_match_the_cpu),
        cmocka_unit_test(top_k_positions_match_the_cpu),
        cmocka_unit_test(word_counts_match_the_cpu),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;
    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
