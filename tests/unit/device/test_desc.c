#include "kernels/desc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Row-major strides for what the inner blocks leave, as OIhw16i16o and its like have. */
static struct sw_desc make_blocked(enum sw_dtype t, int ndim, const int64_t *dim, int nblock,
                                   const int *block, const int *block_dim)
{
    struct sw_desc d = sw_desc_plain(t, ndim, dim);
    int64_t step = 1;
    d.nblock = nblock;
    for (int i = 0; i < nblock; i++) {
        d.block[i] = block[i];
        d.block_dim[i] = block_dim[i];
        step *= block[i];
    }
    for (int i = ndim - 1; i >= 0; i--) {
        int64_t whole = 1;
        for (int j = 0; j < nblock; j++)
            whole *= block_dim[j] == i ? block[j] : 1;
        d.padded[i] = (dim[i] + whole - 1) / whole * whole;
        d.stride[i] = step;
        step *= d.padded[i] / whole;
    }
    return d;
}

/* The logical index of the count-th element in row-major order. */
static void index_of(const struct sw_desc *d, int64_t count, int64_t *index)
{
    for (int i = d->ndim - 1; i >= 0; i--) {
        index[i] = count % d->dim[i];
        count /= d->dim[i];
    }
}

/* Every logical element has a place of its own inside storage, from_plain puts it there and zeroes
 * the rest, to_plain brings it back. */
static void check_layout(const struct sw_desc *d)
{
    int64_t count = sw_desc_count(d), storage = sw_desc_storage(d);
    size_t item = sw_dtype_bytes(d->dtype);
    unsigned char *plain = malloc((size_t)count * item), *back = malloc((size_t)count * item);
    unsigned char *stored = malloc((size_t)storage * item);
    unsigned char *used = calloc((size_t)storage, 1);
    assert_true(plain && back && stored && used);
    assert_true(storage >= count);
    assert_int_equal(sw_desc_bytes(d), (size_t)storage * item);
    for (size_t i = 0; i < (size_t)count * item; i++)
        plain[i] = (unsigned char)(1 + (i * 2654435761u >> 7) % 255);
    memset(stored, 0xAA, (size_t)storage * item);
    sw_desc_from_plain(d, plain, stored);
    for (int64_t i = 0; i < count; i++) {
        int64_t index[SW_MAX_DIMS], at;
        index_of(d, i, index);
        at = sw_desc_offset(d, index);
        assert_in_range(at, 0, storage - 1);
        assert_int_equal(used[at], 0);
        used[at] = 1;
        assert_memory_equal(stored + (size_t)at * item, plain + (size_t)i * item, item);
    }
    for (int64_t i = 0; i < storage; i++)
        for (size_t b = 0; !used[i] && b < item; b++)
            assert_int_equal(stored[(size_t)i * item + b], 0);
    memset(back, 0x55, (size_t)count * item);
    sw_desc_to_plain(d, stored, back);
    assert_memory_equal(back, plain, (size_t)count * item);
    free(plain);
    free(back);
    free(stored);
    free(used);
}

static void plain_is_row_major(void **state)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 4, (int64_t[]){2, 3, 4, 5});
    assert_int_equal(sw_desc_offset(&d, (int64_t[]){1, 2, 3, 4}), 119);
    assert_int_equal(sw_desc_offset(&d, (int64_t[]){1, 0, 2, 1}), 71);
    assert_int_equal(sw_desc_count(&d), 120);
    assert_int_equal(sw_desc_bytes(&d), 480);
    assert_int_equal(sw_desc_features(&d), 60);
    assert_true(sw_desc_is_plain(&d));
    check_layout(&d);
}

static void blocked_channels_are_padded_with_zeros(void **state)
{
    struct sw_desc d = sw_desc_blocked(SW_F32, 4, (int64_t[]){2, 20, 3, 5}, 1, 16);
    assert_int_equal(d.padded[1], 32);
    assert_int_equal(sw_desc_count(&d), 600);
    assert_int_equal(sw_desc_storage(&d), 960);
    /* n1 c17 h2 w3 of nChw16c: ((1*2 + 1)*3 + 2)*5 + 3 blocks of 16, then lane 1. */
    assert_int_equal(sw_desc_offset(&d, (int64_t[]){1, 17, 2, 3}),
                     (((1 * 2 + 1) * 3 + 2) * 5 + 3) * 16 + 1);
    assert_false(sw_desc_is_plain(&d));
    check_layout(&d);
}

static void doubly_blocked_weights_round_trip(void **state)
{
    int64_t dim[] = {40, 24, 3, 2};
    struct sw_desc d = make_blocked(SW_F32, 4, dim, 2, (int[]){16, 16}, (int[]){1, 0});
    /* OIhw16i16o: o and i blocks of 16, i outside o in the tile. */
    assert_int_equal(sw_desc_storage(&d), 48 * 32 * 3 * 2);
    assert_int_equal(sw_desc_offset(&d, (int64_t[]){37, 21, 2, 1}),
                     (((2 * 2 + 1) * 3 + 2) * 2 + 1) * 256 + 5 * 16 + 5);
    check_layout(&d);
}

static void one_dimension_may_be_blocked_twice(void **state)
{
    int64_t dim[] = {20, 33};
    struct sw_desc d = make_blocked(SW_F32, 2, dim, 3, (int[]){4, 16, 2}, (int[]){1, 0, 1});
    /* The innermost block takes i % 2, the outer one (i / 2) % 4, the stride the rest. */
    assert_int_equal(sw_desc_offset(&d, (int64_t[]){18, 29}),
                     1 * d.stride[0] + 3 * d.stride[1] + 2 * 32 + 2 * 2 + 1);
    check_layout(&d);
}

static void many_layouts_round_trip(void **state)
{
    int64_t wide[] = {40, 700}, ones[] = {7, 19, 1, 1}, five[] = {3, 5, 2, 4, 3};
    struct sw_desc d[] = {
        sw_desc_plain(SW_U8, 3, (int64_t[]){5, 6, 7}),
        sw_desc_plain(SW_I32, 1, (int64_t[]){9}),
        sw_desc_plain(SW_BF16, 3, (int64_t[]){5, 6, 7}),
        sw_desc_blocked(SW_F16, 4, (int64_t[]){2, 5, 3, 3}, 1, 8),
        sw_desc_plain(SW_F32, 0, (int64_t[]){1}),
        sw_desc_plain(SW_F32, 6, (int64_t[]){2, 1, 3, 1, 2, 2}),
        sw_desc_blocked(SW_U8, 4, (int64_t[]){2, 5, 3, 3}, 1, 8),
        sw_desc_blocked(SW_F32, 2, wide, 1, 16),
        sw_desc_blocked(SW_F32, 2, wide, 0, 16),
        sw_desc_blocked(SW_F32, 4, ones, 1, 16),
        sw_desc_blocked(SW_F32, 4, (int64_t[]){1, 1, 1, 1}, 1, 16),
        make_blocked(SW_F32, 2, wide, 2, (int[]){16, 64}, (int[]){1, 0}),
        make_blocked(SW_U8, 5, five, 2, (int[]){4, 2}, (int[]){2, 1}),
    };
    for (size_t i = 0; i < sizeof d / sizeof d[0]; i++)
        check_layout(&d[i]);
}

/* Channels-last: the strides alone carry the order. */
static void dimensions_may_be_stored_in_any_order(void **state)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 4, (int64_t[]){2, 3, 4, 5});
    d.stride[0] = 60, d.stride[1] = 1, d.stride[2] = 15, d.stride[3] = 3;
    assert_false(sw_desc_is_plain(&d));
    assert_int_equal(sw_desc_storage(&d), 120);
    check_layout(&d);
}

static void storage_with_gaps_is_counted_and_zeroed(void **state)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (int64_t[]){3, 4});
    d.stride[0] = 10;
    assert_int_equal(sw_desc_storage(&d), 24);
    assert_false(sw_desc_is_plain(&d));
    check_layout(&d);
}

static void equal_means_same_offsets(void **state)
{
    struct sw_desc plain = sw_desc_plain(SW_F32, 4, (int64_t[]){8, 32, 1, 1});
    struct sw_desc blocked = sw_desc_blocked(SW_F32, 4, (int64_t[]){8, 32, 1, 1}, 1, 16);
    struct sw_desc image = sw_desc_blocked(SW_F32, 4, (int64_t[]){8, 32, 2, 1}, 1, 16);
    struct sw_desc plain_image = sw_desc_plain(SW_F32, 4, (int64_t[]){8, 32, 2, 1});
    struct sw_desc padded = sw_desc_blocked(SW_F32, 2, (int64_t[]){8, 30}, 1, 16);
    struct sw_desc tight = sw_desc_plain(SW_F32, 2, (int64_t[]){8, 30});
    struct sw_desc ints = sw_desc_plain(SW_I32, 2, (int64_t[]){8, 30});
    /* Without height and width a block of channels is just a piece of the row. */
    assert_true(sw_desc_equal(&plain, &blocked));
    assert_true(sw_desc_is_plain(&blocked));
    assert_false(sw_desc_equal(&image, &plain_image));
    assert_true(sw_desc_same_shape(&image, &plain_image));
    assert_false(sw_desc_equal(&padded, &tight));
    assert_false(sw_desc_same_shape(&tight, &ints));
    assert_false(sw_desc_same_shape(&plain, &plain_image));
}

static void text_names_shape_type_and_layout(void **state)
{
    char out[128];
    struct sw_desc d = sw_desc_blocked(SW_F32, 4, (int64_t[]){128, 96, 55, 55}, 1, 16);
    assert_string_equal(sw_desc_text(&d, out), "128x96x55x55 f32 blocked(1:16)");
    d = sw_desc_plain(SW_I32, 1, (int64_t[]){128});
    assert_string_equal(sw_desc_text(&d, out), "128 i32");
    d = sw_desc_plain(SW_U8, 3, (int64_t[]){2, 3, 4});
    d.stride[0] = 12, d.stride[1] = 1, d.stride[2] = 3;
    assert_string_equal(sw_desc_text(&d, out), "2x3x4 u8 order(0,2,1)");
    int64_t huge[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    d = sw_desc_blocked(SW_U8, 6, huge, 1, 16);
    assert_int_equal(strlen(sw_desc_text(&d, out)), 127);
}

static void sizes_that_overflow_stick_at_the_maximum(void **state)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 3, (int64_t[]){1 << 30, 1 << 30, 1 << 30});
    assert_true(sw_desc_count(&d) == INT64_MAX);
    assert_true(sw_desc_storage(&d) == INT64_MAX);
    assert_true(sw_desc_bytes(&d) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_is_row_major),
        cmocka_unit_test(blocked_channels_are_padded_with_zeros),
        cmocka_unit_test(doubly_blocked_weights_round_trip),
        cmocka_unit_test(one_dimension_may_be_blocked_twice),
        cmocka_unit_test(many_layouts_round_trip),
        cmocka_unit_test(dimensions_may_be_stored_in_any_order),
        cmocka_unit_test(storage_with_gaps_is_counted_and_zeroed),
        cmocka_unit_test(equal_means_same_offsets),
        cmocka_unit_test(text_names_shape_type_and_layout),
        cmocka_unit_test(sizes_that_overflow_stick_at_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
