/* The order of the indices of argsort: descending values, ties by index, NaN last. */
#include "device/op.h"
#include "layer_support.h"

#include "kernels/ops/argsort.h"

static void assert_places(const float *x, int64_t columns, int64_t top_k, const int32_t *want)
{
    struct fixture f = open_cpu(false, 2);
    int32_t place[16];
    struct sw_err err;
    const struct sw_argsort_args a = {
        .rows = 2, .columns = columns, .top_k = top_k, .x = x, .place = place};
    ASSERT_OK(sw_op_run(f.stream, &sw_op_argsort, &a, &err));
    for (int64_t i = 0; i < 2 * top_k; i++)
        assert_int_equal(place[i], want[i]);
    close_cpu(&f);
}

static void indices_are_by_descending_value_and_ties_by_index(void **state)
{
    const float x[] = {1, 3, 2, 3, -1, 0, 0, 0, 0, 0};
    assert_places(x, 5, 5, (const int32_t[]){1, 3, 2, 0, 4, 0, 1, 2, 3, 4});
    assert_places(x, 5, 2, (const int32_t[]){1, 3, 0, 1});
    assert_places(x, 5, 1, (const int32_t[]){1, 0});
}

static void nan_comes_last(void **state)
{
    const float x[] = {NAN, 1, NAN, -INFINITY, 2, NAN, NAN, NAN};
    assert_places(x, 4, 4, (const int32_t[]){1, 3, 0, 2, 0, 1, 2, 3});
    assert_places(x, 4, 1, (const int32_t[]){1, 0});
}

/* Compares with the number of values that rank before, on rows with many ties. */
static void random_rows_are_sorted(void **state)
{
    enum { COLUMNS = 37 };
    struct fixture f = open_cpu(false, 1);
    struct rng r = rng_of(4);
    struct sw_err err;
    for (int row = 0; row < 50; row++) {
        float x[COLUMNS];
        int32_t place[COLUMNS];
        for (int i = 0; i < COLUMNS; i++)
            x[i] = (float)rng_int(&r, 0, 9);
        const struct sw_argsort_args a = {
            .rows = 1, .columns = COLUMNS, .top_k = COLUMNS, .x = x, .place = place};
        ASSERT_OK(sw_op_run(f.stream, &sw_op_argsort, &a, &err));
        for (int i = 0; i < COLUMNS; i++) {
            int before = 0;
            for (int j = 0; j < COLUMNS; j++)
                before += x[j] > x[place[i]] || (x[j] == x[place[i]] && j < place[i]);
            assert_int_equal(before, i);
        }
    }
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_are_by_descending_value_and_ties_by_index),
        cmocka_unit_test(nan_comes_last),
        cmocka_unit_test(random_rows_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
