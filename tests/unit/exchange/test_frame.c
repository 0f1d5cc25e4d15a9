/* Heads of frames, and what hosts say to each other first. */
#include "exchange/hosts/frame.h"
#include "exchange/hosts/hello.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_fabric_frame example = {
    .tag = {.kind = 0x0201, .urgency = 0x0403, .item = 0x08070605, .version = 0x100f0e0d0c0b0a09},
    .total = SW_FABRIC_CHUNK + 0x1a,
    .offset = SW_FABRIC_CHUNK,
    .bytes = 0x1a};

static void a_head_has_forty_bytes_in_little_endian_order(void **state)
{
    const unsigned char bytes[SW_FRAME_HEAD] = {
        'S', 'W', 'F', '1', 0x1a, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        13,  14,  15,  16,  0x1a, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0,  0,  0};
    unsigned char head[SW_FRAME_HEAD];
    struct sw_fabric_frame back;
    sw_frame_write(&example, head);
    assert_memory_equal(head, bytes, sizeof head);
    assert_int_equal(sw_frame_parse(head, &back, NULL), SW_OK);
    assert_memory_equal(&back.tag, &example.tag, sizeof back.tag);
    assert_int_equal(back.total, example.total);
    assert_int_equal(back.offset, example.offset);
    assert_int_equal(back.bytes, example.bytes);
}

static void a_head_that_no_sender_writes_is_an_error(void **state)
{
    const struct sw_fabric_frame bad[] = {
        {.total = SW_FABRIC_MOST_BYTES + 1, .bytes = SW_FABRIC_CHUNK},
        {.total = UINT64_MAX, .bytes = SW_FABRIC_CHUNK},
        {.total = 10, .bytes = 9},
        {.total = 10, .bytes = 11},
        {.total = 10, .offset = 10},
        {.total = 10, .offset = 1, .bytes = 9},
        {.total = 10, .offset = SW_FABRIC_CHUNK, .bytes = 0},
        {.total = SW_FABRIC_CHUNK, .offset = SW_FABRIC_CHUNK},
        {.total = 2 * SW_FABRIC_CHUNK, .bytes = 2 * SW_FABRIC_CHUNK},
        {.total = 2 * SW_FABRIC_CHUNK, .offset = 0 - (uint64_t)SW_FABRIC_CHUNK, .bytes = 1},
        {.total = 0, .bytes = 1}};
    unsigned char head[SW_FRAME_HEAD];
    struct sw_fabric_frame out = example;
    struct sw_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sw_frame_write(&bad[i], head);
        assert_int_equal(sw_frame_parse(head, &out, &err), SW_ERR_FORMAT);
        assert_true(strlen(err.text) > 10);
    }
    sw_frame_write(&example, head);
    for (int i = 0; i < 4; i++) {
        head[i] ^= 1;
        assert_int_equal(sw_frame_parse(head, &out, &err), SW_ERR_FORMAT);
        head[i] ^= 1;
    }
    assert_int_equal(out.tag.item, example.tag.item);
}

static void chunks_cover_a_message(void **state)
{
    assert_int_equal(sw_frame_chunk(0, 0), 0);
    assert_int_equal(sw_frame_chunk(1, 0), 1);
    assert_int_equal(sw_frame_chunk(SW_FABRIC_CHUNK, 0), SW_FABRIC_CHUNK);
    assert_int_equal(sw_frame_chunk(SW_FABRIC_CHUNK + 1, 0), SW_FABRIC_CHUNK);
    assert_int_equal(sw_frame_chunk(SW_FABRIC_CHUNK + 1, SW_FABRIC_CHUNK), 1);
}

static int compare(const char *own, const char *other, struct sw_err *err)
{
    const struct sw_hello a = {"ada", own, strlen(own)}, b = {"bob", other, strlen(other)};
    return sw_hello_compare(&a, &b, err);
}

static void a_difference_names_hosts_field_and_values(void **state)
{
    struct sw_err err;
    assert_int_equal(compare("a=1\nb=2\n", "a=1\nb=2\n", &err), SW_OK);
    assert_int_equal(compare("a=1\nb=2\n", "b=2\na=1\n", &err), SW_OK);
    assert_int_equal(compare("a=1\nb=2\n", "a=1\nb=3\n", &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "hosts ada and bob differ in b: \"2\" on ada, \"3\" on bob");
    assert_int_equal(compare("a=1\n", "a=1\nb=3\n", &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "hosts bob and ada differ in b: \"3\" on bob, missing on ada");
    assert_int_equal(compare("a=1\na=2\n", "a=1\na=1\n", &err), SW_ERR_INVALID);
    assert_int_equal(compare("a=1\na=1\n", "a=1\na=2\n", &err), SW_ERR_INVALID);
    assert_int_equal(compare("a=1\n", "a=\x1b[2J\n", &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "hosts ada and bob differ in a: \"1\" on ada, \"?[2J\" on bob");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_has_forty_bytes_in_little_endian_order),
        cmocka_unit_test(a_head_that_no_sender_writes_is_an_error),
        cmocka_unit_test(chunks_cover_a_message),
        cmocka_unit_test(a_difference_names_hosts_field_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
