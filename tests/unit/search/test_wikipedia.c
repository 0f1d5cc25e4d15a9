/* Wikipedia's images and texts (Rasiwasia et al. 2010): a VA-file answers all 693 test queries as
 * an exhaustive search does, and MAP is what NumPy computes of the same features. */
#include "base/os.h"
#include "data/mat.h"
#include "search/score.h"
#include "search/va_file.h"
#include "search_support.h"
#include <unistd.h>

enum { TRAINING = 2173, TEST = 693, IMAGE = 128, TEXT = 10, MOST_BYTES = 1 << 24, K = 50 };

static struct sw_vectors images, texts, test_images, test_texts;
static int32_t labels[TEST];

static const char *data_path(const char *name)
{
    static char path[4096];
    const char *root = getenv("SINGA_DATA");
    snprintf(path, sizeof path, "%s/wikipedia-xmodal/%s",
             root ? root : SW_SOURCE_DIR "/../shared/data", name);
    return path;
}

/* A variable, which is stored column by column; free with free((void *)set.at). */
static struct sw_vectors variable(const struct sw_mat *m, const char *name, int64_t rows, int dims)
{
    const struct sw_mat_variable *v = sw_mat_find(m, name);
    float *at = malloc((size_t)rows * (size_t)dims * sizeof *at);
    struct sw_mat_values x = {0};
    struct sw_err err;

    assert_true(v && at);
    ASSERT_OK(sw_mat_read(m, v, &x, &err));
    assert_int_equal(x.count, rows * dims);
    for (int64_t row = 0; row < rows; row++)
        for (int d = 0; d < dims; d++)
            at[row * dims + d] = (float)sw_mat_value(&x, d * rows + row);
    sw_mat_values_fini(&x);
    return (struct sw_vectors){at, rows, dims};
}

static void read_labels(void)
{
    FILE *f = fopen(data_path("testset_txt_img_cat.list"), "r");
    char text[64], image[64];

    assert_non_null(f);
    for (int i = 0; i < TEST; i++)
        assert_int_equal(fscanf(f, "%63s %63s %d", text, image, &labels[i]), 3);
    fclose(f);
}

static int setup(void **state)
{
    struct sw_mat m = {0};
    char *bytes = NULL;
    size_t count;
    struct sw_err err;

    if (access(data_path("raw_features.mat"), R_OK) != 0)
        return 0;

    ASSERT_OK(sw_os_read_file(data_path("raw_features.mat"), MOST_BYTES, &bytes, &count, &err));
    ASSERT_OK(sw_mat_open(&m, "raw_features.mat", bytes, count, &err));
    images = variable(&m, "I_tr", TRAINING, IMAGE);
    texts = variable(&m, "T_tr", TRAINING, TEXT);
    test_images = variable(&m, "I_te", TEST, IMAGE);
    test_texts = variable(&m, "T_te", TEST, TEXT);
    sw_mat_close(&m);
    sw_free(bytes);
    read_labels();
    return 0;
}

static int teardown(void **state)
{
    free((void *)images.at);
    free((void *)texts.at);
    free((void *)test_images.at);
    free((void *)test_texts.at);
    return 0;
}

static void need_data(void)
{
    if (images.at)
        return;
    print_message("skipped: %s is not there (set SINGA_DATA)\n", data_path("raw_features.mat"));
    skip();
}

static void compare(const struct sw_vectors *base, const struct sw_vectors *queries,
                    enum sw_metric m, int bits)
{
    float *marks = calloc(sw_va_marks(base->dims, bits), sizeof *marks);
    uint8_t *cells = malloc(sw_va_cells(base->count, base->dims, bits));
    struct sw_neighbor *found = neighbors(TEST, K), *wanted = neighbors(TEST, K);
    int64_t read = 0;
    struct sw_err err;

    assert_true(marks && cells);
    ASSERT_OK(sw_va_build(base, m, bits, 2, marks, cells, &err));
    const struct sw_va_file f = {*base, bits, m, marks, cells};
    ASSERT_OK(sw_exact_search(base, m, queries, K, 2, wanted, &err));
    ASSERT_OK(sw_va_search(&f, queries, K, 2, found, &read, &err));
    assert_same(found, wanted, TEST * K, "VA-file");
    assert_true(read < (int64_t)TEST * base->count / 2);

    free(marks);
    free(cells);
    free(found);
    free(wanted);
}

static void va_file_answers_all_queries_exactly(void **state)
{
    need_data();
    for (int m = SW_METRIC_EUCLIDEAN; m <= SW_METRIC_COSINE; m++) {
        compare(&images, &test_images, m, 4);
        compare(&texts, &test_texts, m, 8);
    }
}

static void map_is_that_of_numpy(void **state)
{
    static const double wanted[2][2] = {{0.131245714, 0.135175238}, {0.525521944, 0.553003542}};
    const struct sw_vectors *sets[] = {&test_images, &test_texts};
    const struct sw_row_labels l = {.count = TEST, .classes = 11, .single = labels};

    need_data();
    for (int i = 0; i < 2; i++)
        for (int m = SW_METRIC_EUCLIDEAN; m <= SW_METRIC_COSINE; m++) {
            const struct sw_score_args a = {.base = sets[i],
                                            .queries = sets[i],
                                            .base_labels = &l,
                                            .query_labels = &l,
                                            .metric = m,
                                            .leave_out_same = true};
            struct sw_score s = {0};
            struct sw_err err;
            ASSERT_OK(sw_score_map(&a, 2, &s, &err));
            assert_float_equal(s.map, wanted[i][m], 1e-7);
            assert_int_equal(s.queries, TEST);
            sw_score_fini(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(va_file_answers_all_queries_exactly),
        cmocka_unit_test(map_is_that_of_numpy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
