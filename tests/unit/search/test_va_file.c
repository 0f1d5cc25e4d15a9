/* ctest-labels: threads
 * The VA-file: its answer is that of an exhaustive search for every shape of data, and its cells
 * hold what they stand for. */
#include "search/va_file.h"
#include "search/va_filter.h"
#include "search_support.h"

struct built {
    struct sw_va_file file;
    float *marks;
    uint8_t *cells;
};

static struct built build(const struct sw_vectors *v, enum sw_metric m, int bits)
{
    struct built b = {.marks = calloc(sw_va_marks(v->dims, bits), sizeof(float)),
                      .cells = malloc(sw_va_cells(v->count, v->dims, bits))};
    struct sw_err err;

    assert_non_null(b.marks);
    assert_non_null(b.cells);
    ASSERT_OK(sw_va_build(v, m, bits, 2, b.marks, b.cells, &err));
    b.file = (struct sw_va_file){*v, bits, m, b.marks, b.cells};
    ASSERT_OK(sw_va_check_marks(&b.file, "marks", &err));
    return b;
}

static void release(struct built *b)
{
    free(b->marks);
    free(b->cells);
}

static void cells_hold_their_elements_and_about_as_many_each(void **state)
{
    enum { ROWS = 4000, DIMS = 3, BITS = 4, INTERVALS = 1 << BITS };
    struct sw_vectors v = random_vectors(UNIFORM, 3, ROWS, DIMS);
    struct built b = build(&v, SW_METRIC_EUCLIDEAN, BITS);
    int held[DIMS][INTERVALS] = {0};

    for (int64_t row = 0; row < ROWS; row++)
        for (int d = 0; d < DIMS; d++) {
            const uint8_t byte = b.cells[row / 32 * 64 + d * BITS / 8 * 32 + row % 32];
            const int cell = byte >> (d * BITS % 8) & (INTERVALS - 1);
            const float x = sw_vector(&v, row)[d], *marks = b.marks + d * (INTERVALS + 1);
            assert_true(marks[cell] <= x && x <= marks[cell + 1]);
            held[d][cell]++;
        }
    for (int d = 0; d < DIMS; d++)
        for (int c = 0; c < INTERVALS; c++)
            assert_in_range(held[d][c], ROWS / INTERVALS - 2, ROWS / INTERVALS + 2);

    release(&b);
    free((void *)v.at);
}

/* Returns the share of vectors that were read. */
static double compare(enum shape shape, enum sw_metric m, int bits, int64_t count, int dims,
                      int64_t k, int threads)
{
    enum { QUERIES = 20 };
    struct sw_vectors base = random_vectors(shape, 1, count, dims);
    struct sw_vectors q = random_vectors(shape, 2, QUERIES, dims);
    struct built b = build(&base, m, bits);
    struct sw_neighbor *found = neighbors(QUERIES, k), *wanted = neighbors(QUERIES, k);
    int64_t read = -1;
    struct sw_err err;
    char what[96];

    memcpy((float *)(uintptr_t)q.at, base.at, (size_t)dims * sizeof *q.at);
    snprintf(what, sizeof what, "shape %d, %s, %d bits, %d dimensions, k = %d", shape,
             sw_metric_name(m), bits, dims, (int)k);
    rank_all(&base, m, &q, k, wanted);
    ASSERT_OK(sw_va_search(&b.file, &q, k, threads, found, &read, &err));
    assert_same(found, wanted, QUERIES * k, what);
    assert_in_range(read, QUERIES * k, QUERIES * count);

    release(&b);
    free(found);
    free(wanted);
    free((void *)base.at);
    free((void *)q.at);
    return (double)read / (double)(QUERIES * count);
}

static void answer_is_that_of_an_exhaustive_search(void **state)
{
    static const int all_bits[] = {1, 2, 4, 8};

    for (int shape = 0; shape < SHAPES; shape++)
        for (int i = 0; i < 4; i++)
            for (int m = SW_METRIC_EUCLIDEAN; m <= SW_METRIC_COSINE; m++) {
                compare(shape, m, all_bits[i], 900, 13, 9, 2);
                compare(shape, m, all_bits[i], 30, 1, 30, 1);
            }
}

/* Rows with the same elements in other orders are equally far from a query whose elements are
 * equal, but for the last bit. Below all of them, lower bounds are the distances but for rounding
 * in float, above, upper bounds are; neither may decide. */
static void bounds_allow_for_rounding(void **state)
{
    enum { COUNT = 312, DIMS = 13, K = 100 };
    float rows[COUNT][DIMS], query[2][DIMS];
    const struct sw_vectors base = {rows[0], COUNT, DIMS}, q = {query[0], 2, DIMS};
    struct sw_neighbor found[2 * K], wanted[2 * K];

    for (int row = 0; row < COUNT; row++)
        for (int d = 0; d < DIMS; d++)
            rows[row][d] = 1.1f + 0.37f * (float)((d * (1 + row % 12) + row / 12) % DIMS);
    for (int d = 0; d < DIMS; d++) {
        query[0][d] = 0.03f;
        query[1][d] = 33.3f;
    }

    for (int bits = 1; bits <= 8; bits *= 2) {
        struct built b = build(&base, SW_METRIC_EUCLIDEAN, bits);
        int64_t read;
        struct sw_err err;

        rank_all(&base, SW_METRIC_EUCLIDEAN, &q, K, wanted);
        ASSERT_OK(sw_va_search(&b.file, &q, K, 1, found, &read, &err));
        assert_same(found, wanted, 2 * K, "permuted elements");
        release(&b);
    }
}

static void filter_keeps_the_rows_below_the_limit(void **state)
{
    enum { BYTES = 300 };
    static uint8_t block[BYTES * SW_VA_BLOCK], table[BYTES * 2 * SW_VA_HALF];
    sw_va_filter *filter = sw_va_filter_best();

    if (!filter) {
        print_message("skipped: this processor has no filter\n");
        skip();
    }
    for (int i = 0; i < BYTES * SW_VA_BLOCK; i++) {
        block[i] = (uint8_t)random_bits(1, (uint64_t)i);
        table[i] = (uint8_t)(random_bits(2, (uint64_t)i) % (SW_VA_MOST_ENTRY + 1));
    }

    for (size_t bytes = 1; bytes <= BYTES; bytes = bytes * 7 / 4 + 1)
        for (int row = 0; row < SW_VA_BLOCK; row++) {
            unsigned sums[SW_VA_BLOCK] = {0};
            uint32_t wanted = 0;

            for (int r = 0; r < SW_VA_BLOCK; r++)
                for (size_t i = 0; i < bytes; i++)
                    sums[r] += table[i * 32 + (block[i * 32 + (size_t)r] & 15)] +
                               table[i * 32 + 16 + (block[i * 32 + (size_t)r] >> 4)];
            for (int r = 0; r < SW_VA_BLOCK; r++)
                wanted |= (uint32_t)(sums[r] <= sums[row]) << r;
            assert_int_equal(filter(block, table, bytes, sums[row]), wanted);
        }

    /* Sums stop at 65535 instead of beginning again. */
    for (int i = 0; i < BYTES * 2 * SW_VA_HALF; i++)
        table[i] = SW_VA_MOST_ENTRY;
    assert_int_equal(filter(block, table, BYTES, 60000), 0);
}

static void few_vectors_are_read(void **state)
{
    assert_true(compare(UNIFORM, SW_METRIC_EUCLIDEAN, 8, 5000, 8, 10, 1) < 0.01);
    assert_true(compare(CLUSTERED, SW_METRIC_EUCLIDEAN, 8, 5000, 16, 10, 1) < 0.05);
    /* Reading depends on the data alone. */
    assert_true(compare(UNIFORM, SW_METRIC_COSINE, 4, 5000, 8, 10, 1) ==
                compare(UNIFORM, SW_METRIC_COSINE, 4, 5000, 8, 10, 3));
}

/* Many vectors, and many queries, against blocked products; bench/search has 10^5 of each. */
static void answers_of_large_sets_are_exact(void **state)
{
    enum { COUNT = 100000, DIMS = 8, K = 10 };
    const struct sw_vectors all = random_vectors(UNIFORM, 21, COUNT, DIMS);
    const struct sw_vectors few = {all.at, 1000, DIMS};

    for (int many = 0; many < 2; many++) { /* many vectors and few queries, and the reverse */
        const struct sw_vectors base = many ? all : few;
        const struct sw_vectors q = {all.at + 5, many ? 100 : 10000, DIMS};
        struct sw_neighbor *found = neighbors(q.count, K), *wanted = neighbors(q.count, K);
        struct built b = build(&base, SW_METRIC_EUCLIDEAN, many ? 4 : 8);
        int64_t read = 0;
        struct sw_err err;

        ASSERT_OK(sw_exact_search(&base, SW_METRIC_EUCLIDEAN, &q, K, 2, wanted, &err));
        ASSERT_OK(sw_va_search(&b.file, &q, K, 2, found, &read, &err));
        assert_same(found, wanted, q.count * K, "large sets");
        assert_true(read < q.count * base.count / 20);
        release(&b);
        free(found);
        free(wanted);
    }
    free((void *)all.at);
}

static void what_cannot_be_bounded_is_refused(void **state)
{
    float marks[] = {0, 1, 0.5f};
    const uint8_t cells[32] = {0};
    struct sw_va_file f = {{marks, 1, 1}, 1, SW_METRIC_EUCLIDEAN, marks, cells};
    struct sw_err err;

    assert_int_equal(sw_va_check(3, SW_METRIC_EUCLIDEAN, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "3 bits per dimension: a VA-file has 1, 2, 4 or 8");
    assert_int_equal(sw_va_check(4, SW_METRIC_DOT, &err), SW_ERR_INVALID);
    assert_int_equal(sw_va_check_marks(&f, "f", &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "f: mark 2 of dimension 0 is 0.5"));
    marks[2] = INFINITY;
    assert_int_equal(sw_va_check_marks(&f, "f", &err), SW_ERR_FORMAT);
    marks[2] = 1;
    ASSERT_OK(sw_va_check_marks(&f, "f", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_hold_their_elements_and_about_as_many_each),
        cmocka_unit_test(answer_is_that_of_an_exhaustive_search),
        cmocka_unit_test(bounds_allow_for_rounding),
        cmocka_unit_test(filter_keeps_the_rows_below_the_limit),
        cmocka_unit_test(few_vectors_are_read),
        cmocka_unit_test(answers_of_large_sets_are_exact),
        cmocka_unit_test(what_cannot_be_bounded_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
