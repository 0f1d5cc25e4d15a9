/* Caffe's Datum messages: all kinds are read, and nothing that is no Datum. */
#include "data/datum.h"
#include "datum_support.h"

static int parse(const struct message *m, struct sw_datum *d, struct sw_err *err)
{
    /* A copy of just that size, so that a step too far is seen. */
    unsigned char *copy = malloc(m->count ? m->count : 1);
    assert_non_null(copy);
    memcpy(copy, m->bytes, m->count);
    int rc = sw_datum_parse(copy, m->count, d, err);
    if (!rc && d->kind == SW_DATUM_F32) {
        float *values = malloc(d->floats * sizeof *values);
        assert_non_null(values);
        sw_datum_floats(copy, m->count, d->floats, values);
        free(values);
    }
    free(copy);
    d->data = NULL;
    return rc;
}

static void datum_fields_are_read_in_any_order(void **state)
{
    struct message m = {.count = 0};
    struct sw_datum d;
    struct sw_err err = {0};
    message_number(&m, 5, 300);
    message_bytes(&m, 4, "abcdefghijkl", 12);
    message_sides(&m, 3, 2, 2);
    message_number(&m, 99, 1); /* unknown fields of every wire type */
    message_bytes(&m, 98, "zzz", 3);
    message_varint(&m, 97 << 3 | 1);
    m.count += 8;
    message_varint(&m, 96 << 3 | 5);
    m.count += 4;
    ASSERT_OK(sw_datum_parse(m.bytes, m.count, &d, &err));
    assert_int_equal(d.kind, SW_DATUM_U8);
    assert_memory_equal(d.data, "abcdefghijkl", 12);
    assert_int_equal(d.bytes, 12);
    assert_true(d.has_label);
    assert_int_equal(d.label, 300);
    assert_int_equal(d.channels * 100 + d.height * 10 + d.width, 322);
    message_number(&m, 5, (uint64_t)-1);
    message_number(&m, 3, 1);
    message_number(&m, 3, 2);
    ASSERT_OK(sw_datum_parse(m.bytes, m.count, &d, &err));
    assert_int_equal(d.label, -1);
}

static void datum_floats_are_packed_or_unpacked(void **state)
{
    struct message m = {.count = 0};
    const float more[2] = {3.5f, -4};
    float values[4];
    struct sw_datum d;
    struct sw_err err = {0};
    message_sides(&m, 4, 1, 1);
    message_float(&m, 1);
    message_bytes(&m, 6, more, sizeof more);
    message_float(&m, 0.25f);
    ASSERT_OK(sw_datum_parse(m.bytes, m.count, &d, &err));
    assert_int_equal(d.kind, SW_DATUM_F32);
    assert_int_equal(d.floats, 4);
    assert_false(d.has_label);
    sw_datum_floats(m.bytes, m.count, 4, values);
    const float want[4] = {1, 3.5f, -4, 0.25f};
    assert_memory_equal(values, want, sizeof want);
    values[2] = 7;
    sw_datum_floats(m.bytes, m.count, 2, values); /* not a float more than there is room for */
    assert_true(values[1] == 3.5f && values[2] == 7);
}

static void encoded_datum_needs_no_dimensions(void **state)
{
    struct message m = {.count = 0};
    struct sw_datum d;
    struct sw_err err = {0};
    message_bytes(&m, 4, "\xff\xd8 jpeg", 7);
    message_number(&m, 7, 1);
    ASSERT_OK(sw_datum_parse(m.bytes, m.count, &d, &err));
    assert_int_equal(d.kind, SW_DATUM_ENCODED);
    assert_int_equal(d.bytes, 7);
}

static void refused(const struct message *m, const char *says)
{
    struct sw_datum d;
    struct sw_err err = {0};
    assert_int_equal(parse(m, &d, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, says);
}

static void invalid_datum_is_refused(void **state)
{
    struct message m = {.count = 0};
    refused(&m, "1 to 65535 for each");
    message_sides(&m, 1, 2, 2);
    message_bytes(&m, 4, "abc", 3);
    refused(&m, "3 bytes, expected 1x2x2");
    m.count = 0;
    message_sides(&m, 1, 1, 2);
    message_float(&m, 1);
    refused(&m, "1 floats, expected 1x1x2");
    m.count = 0;
    message_sides(&m, 65536, 65536, 65536);
    message_bytes(&m, 4, "abcd", 4);
    refused(&m, "(channels x height x width)");
    m.count = 0;
    message_number(&m, 1, (uint64_t)1 << 63);
    refused(&m, "-1x0x0");
    m.count = 0;
    message_number(&m, 7, 1);
    refused(&m, "has no bytes");
    m.count = 0;
    message_bytes(&m, 1, "a", 1);
    refused(&m, "field 1 has wire type 2");
    m.count = 0;
    message_bytes(&m, 6, "abc", 3);
    refused(&m, "field 6 has wire type 2");
    m.count = 0;
    message_varint(&m, 8 << 3 | 3); /* a group */
    refused(&m, "invalid field at byte 0");
    m.count = 0;
    message_number(&m, 0, 1);
    refused(&m, "invalid field at byte 0");
    memset(m.bytes, 0xff, 16);
    m.count = 16;
    refused(&m, "invalid field at byte 0");
}

static void any_truncation_is_an_error(void **state)
{
    struct message whole = {.count = 0};
    struct sw_datum d;
    struct sw_err err = {0};
    message_number(&whole, 5, 3);
    message_sides(&whole, 1, 300, 1);
    unsigned char pixels[300] = {0};
    message_bytes(&whole, 4, pixels, sizeof pixels);
    ASSERT_OK(parse(&whole, &d, &err));
    struct message m = whole;
    for (m.count = 0; m.count < whole.count; m.count++)
        assert_int_equal(parse(&m, &d, &err), SW_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datum_fields_are_read_in_any_order),
        cmocka_unit_test(datum_floats_are_packed_or_unpacked),
        cmocka_unit_test(encoded_datum_needs_no_dimensions),
        cmocka_unit_test(invalid_datum_is_refused),
        cmocka_unit_test(any_truncation_is_an_error),
    };
    return cmocka_run_group_tests_name("datum", tests, NULL, NULL);
}
