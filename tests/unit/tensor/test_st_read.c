#include "tensor/npy.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include "unit/tensor/st_sample.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The sample's bytes, once. */
static unsigned char *sample_file(size_t *bytes)
{
    char *text = NULL;
    assert_int_equal(sample_write(scratch_path("sample"), NULL), SW_OK);
    assert_int_equal(sw_os_read_file(scratch_path("sample"), 1 << 24, &text, bytes, NULL), SW_OK);
    return (unsigned char *)text;
}

/* Overwrites in place: thousands of damaged files need neither fsync nor the flush that some file
 * systems add when a file is cut to nothing and written again. */
static void put(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    assert_int_equal(close(fd), 0);
}

static void written_files_are_read_back(void **state)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    const char *key, *value;
    size_t n;
    sw_free(sample_file(&n));
    assert_int_equal(sw_st_open(scratch_path("sample"), true, &f, &err), SW_OK);
    assert_true(sw_st_verified(f));
    assert_int_equal(strlen(sw_st_checksum_hex(f)), 32);
    assert_int_equal(sw_st_count(f), SAMPLES);
    assert_string_equal(sw_st_entry_at(f, 0)->name, "statistics");
    assert_string_equal(sw_st_entry_at(f, 6)->name, "labels");
    assert_null(sw_st_entry_at(f, 7));
    assert_null(sw_st_find(f, "sw.checksum"));
    assert_null(sw_st_find(f, "conv1"));
    for (size_t t = 0; t < SAMPLES; t++) {
        unsigned char buffer[12000];
        const struct sample *s = &samples[t];
        const struct sw_st_entry *e = sw_st_find(f, s->name);
        assert_non_null(e);
        assert_int_equal(e->dtype, s->dtype);
        assert_int_equal(e->ndim, s->ndim);
        assert_memory_equal(e->shape, s->shape, (size_t)s->ndim * sizeof *s->shape);
        assert_int_equal(e->bytes, s->bytes);
        assert_int_equal(sw_st_read(f, e, 0, e->bytes, buffer, &err), SW_OK);
        for (uint64_t i = 0; i < s->bytes; i++)
            assert_int_equal(buffer[i], sample_byte(t, i));
        if (e->bytes)
            assert_int_equal(sw_st_read(f, e, e->bytes - 1, 1, buffer, &err), SW_OK);
        assert_int_equal(sw_st_read(f, e, e->bytes, 1, buffer, &err), SW_ERR_INVALID);
        assert_int_equal(sw_st_read(f, e, e->bytes + 1, 0, buffer, &err), SW_ERR_INVALID);
        assert_int_equal(sw_st_read(f, e, 1, SIZE_MAX, buffer, &err), SW_ERR_INVALID);
    }
    assert_string_equal(sw_st_metadata(f, "format"), "pt");
    assert_null(sw_st_metadata(f, "none"));
    assert_true(sw_st_metadata_at(f, 1, &key, &value));
    assert_string_equal(key, "recipe");
    assert_string_equal(value, "[job]\n\"x\" = 1\n");
    assert_false(sw_st_metadata_at(f, 2, &key, &value));
    sw_st_close(f);
    sw_st_close(NULL);
}

/* Opens bytes as a file; without need_checksum a file that seems to be another program's may pass,
 * but never as verified. */
static void assert_detected(const char *path, const char *what, size_t where)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    if (sw_st_open(path, true, &f, &err) == SW_OK)
        fail_msg("%s at %zu was not noticed", what, where);
    assert_true(err.code == SW_ERR_FORMAT || err.code == SW_ERR_UNSUPPORTED);
    assert_null(f);
    if (sw_st_open(path, false, &f, NULL) == SW_OK) {
        assert_false(sw_st_verified(f));
        assert_null(sw_st_checksum_hex(f));
        sw_st_close(f);
    }
}

static void every_flipped_bit_of_the_header_is_detected(void **state)
{
    size_t n;
    unsigned char *file = sample_file(&n);
    uint64_t length;
    memcpy(&length, file, 8);
    for (size_t bit = 0; bit < 8 * (8 + length); bit++) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        put(scratch_path("flip"), file, n);
        assert_detected(scratch_path("flip"), "a flipped bit", bit);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    sw_free(file);
}

static void damaged_data_is_detected(void **state)
{
    size_t n;
    unsigned char *file = sample_file(&n);
    /* A bit per 512 bytes, and every byte of the checksum. */
    for (size_t at = 0; at < n; at += at < n - 16 ? 512 : 1) {
        if (at >= n - 16 - 511 && at < n - 16)
            at = n - 16;
        file[at] ^= (unsigned char)(1 << at % 7);
        put(scratch_path("flip"), file, n);
        assert_detected(scratch_path("flip"), "a flipped bit at byte", at);
        file[at] ^= (unsigned char)(1 << at % 7);
    }
    sw_free(file);
}

static void truncated_and_extended_files_are_rejected(void **state)
{
    size_t n;
    unsigned char *file = sample_file(&n);
    for (size_t cut = 0; cut < n; cut += cut < 1200 || cut > n - 100 ? 1 : 61) {
        put(scratch_path("cut"), file, cut);
        struct sw_st_file *f = NULL;
        assert_detected(scratch_path("cut"), "a truncation", cut);
        assert_int_equal(sw_st_open(scratch_path("cut"), false, &f, NULL), SW_ERR_FORMAT);
    }
    unsigned char *longer = malloc(n + 1);
    memcpy(longer, file, n);
    longer[n] = 0;
    put(scratch_path("cut"), longer, n + 1);
    assert_detected(scratch_path("cut"), "a tail", n);
    free(longer);
    sw_free(file);
}

/* A file with this header and so many zero bytes of values. */
static void put_header(const char *path, const char *header, size_t data_bytes)
{
    static unsigned char file[4096];
    uint64_t length = strlen(header);
    memset(file, 0, sizeof file);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    put(path, file, 8 + length + data_bytes);
}

static void inconsistent_headers_are_rejected(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        int rc;
        const char *says;
    } lies[] = {
        {"[]", 0, SW_ERR_FORMAT, "begin with '{'"},
        {" {}", 0, SW_ERR_FORMAT, "begin with '{'"},
        {"{", 0, SW_ERR_FORMAT, "too short"},
        {"{}", 1, SW_ERR_FORMAT, "1 bytes after the last tensor"},
        {"{\"a\":3}", 0, SW_ERR_FORMAT, "tensor a is not an object"},
        {"{\"a\":{}}", 0, SW_ERR_FORMAT, "tensor a has no dtype"},
        {"{\"a\":{\"dtype\":4}}", 0, SW_ERR_FORMAT, "no dtype"},
        {"{\"a\":{\"dtype\":\"BF16\"}}", 0, SW_ERR_UNSUPPORTED, "BF16"},
        {"{\"a\":{\"dtype\":\"U8\"}}", 0, SW_ERR_FORMAT, "no shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, SW_ERR_FORMAT,
         "dimension 0 is not a non-negative integer"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1.5],\"data_offsets\":[0,0]}}", 0, SW_ERR_FORMAT,
         "dimension 1 is not a non-negative integer"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         SW_ERR_UNSUPPORTED, "more than 8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, SW_ERR_FORMAT, "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4, SW_ERR_FORMAT,
         "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}", 4, SW_ERR_FORMAT,
         "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, SW_ERR_FORMAT,
         "claims bytes 4 to 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3, SW_ERR_FORMAT,
         "claims bytes 0 to 4 of 3"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, SW_ERR_FORMAT,
         "does not match"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         SW_ERR_FORMAT, "does not match"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9007199254740993],\"data_offsets\":[0,0]}}", 0,
         SW_ERR_FORMAT, "does not match"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1e300],\"data_offsets\":[0,0]}}", 0, SW_ERR_FORMAT,
         "not a non-negative integer"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, SW_ERR_FORMAT,
         "follows a gap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, SW_ERR_FORMAT, "tensor b overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, SW_ERR_FORMAT, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, SW_ERR_FORMAT, "duplicate key"},
        {"{\"__metadata__\":[]}", 0, SW_ERR_FORMAT, "not an object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, SW_ERR_FORMAT, "metadata k is not a string"},
        {"{\"sw.checksum\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]}}", 16,
         SW_ERR_FORMAT, "checksum mismatch"},
        {"{\"sw.checksum\":{\"dtype\":\"U8\",\"shape\":[15],\"data_offsets\":[0,15]}}", 15,
         SW_ERR_FORMAT, "not 16 bytes at the end"},
        {"{\"sw.checksum\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16,
         SW_ERR_FORMAT, "not 16 bytes at the end"},
        {"{\"sw.checksum\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[16,17]}}",
         17, SW_ERR_FORMAT, "not 16 bytes at the end"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct sw_st_file *f = NULL;
        struct sw_err err = {0};
        put_header(scratch_path("lie"), lies[i].header, lies[i].data);
        int rc = sw_st_open(scratch_path("lie"), false, &f, &err);
        if (rc != lies[i].rc || !strstr(err.text, lies[i].says))
            fail_msg("%s: %d, \"%s\", expected %d, \"%s\"", lies[i].header, rc, err.text,
                     lies[i].rc, lies[i].says);
        assert_non_null(strstr(err.text, scratch_path("lie")));
    }
}

/* The claim is compared with the file before memory is taken for it. */
static void a_false_header_length_allocates_no_memory(void **state)
{
    const uint64_t claims[] = {3, 100000000, 100000001, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        unsigned char file[10] = {0};
        struct sw_st_file *f = NULL;
        struct sw_err err = {0};
        memcpy(file, &claims[i], 8);
        memcpy(file + 8, "{}", 2);
        put(scratch_path("long"), file, sizeof file);
        /* Two allocations: the object and its path. The third would be the header. */
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 3, .forever = true});
        assert_int_equal(sw_st_open(scratch_path("long"), false, &f, &err), SW_ERR_FORMAT);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
        assert_non_null(strstr(err.text, "the header claims"));
    }
}

static void files_of_other_programs_are_read_unverified(void **state)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    unsigned char byte = 1;
    /* Keys in any order, fields unknown to us, blanks, tensors not in the order of their data. */
    put_header(
        scratch_path("other"),
        "{\"b\": {\"data_offsets\": [3, 4], \"shape\": [], \"dtype\": \"U8\", \"note\": 1},\n"
        " \"a\": {\"dtype\": \"U8\", \"shape\": [1, 3], \"data_offsets\": [0, 3]}}   ",
        4);
    assert_int_equal(sw_st_open(scratch_path("other"), true, &f, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "sw.checksum is missing"));
    assert_int_equal(sw_st_open(scratch_path("other"), false, &f, &err), SW_OK);
    assert_false(sw_st_verified(f));
    assert_string_equal(sw_st_entry_at(f, 0)->name, "a");
    assert_string_equal(sw_st_entry_at(f, 1)->name, "b");
    assert_int_equal(sw_st_read(f, sw_st_find(f, "b"), 0, 1, &byte, &err), SW_OK);
    assert_int_equal(byte, 0);
    assert_null(sw_st_metadata(f, "x"));
    sw_st_close(f);
}

static void errors_name_a_path_that_is_not_a_file(void **state)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_st_open(scratch_path("none"), true, &f, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "none"));
    assert_int_equal(sw_st_open(scratch_dir, true, &f, &err), SW_ERR_INVALID);
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_int_equal(sw_st_open(scratch_path("pipe"), true, &f, &err), SW_ERR_INVALID);
}

static void any_failing_call_is_an_error(void **state)
{
    size_t n;
    sw_free(sample_file(&n));
    const char *path = scratch_path("sample");
    int calls = 0;
    for (int at = 0; at <= 2 * calls; at++) {
        struct sw_st_file *f = NULL;
        struct sw_err err = {0};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL - FAULTY_CLOSE,
                                          .at = (at + 1) / 2,
                                          .forever = at % 2,
                                          .io_bytes = 1000,
                                          .interrupts = true});
        int rc = sw_st_open(path, true, &f, &err);
        if (at == 0) {
            assert_int_equal(rc, SW_OK);
            sw_st_close(f);
        } else {
            assert_true(rc == SW_ERR_IO || rc == SW_ERR_NOMEM);
            assert_int_equal(err.code, rc);
            assert_null(f);
        }
        assert_int_equal(faulty.live_allocations, 0);
        calls = faulty_end() > calls ? faulty.calls : calls;
    }
    assert_true(calls > 50);
}

static void a_file_that_shrinks_while_open_is_damage(void **state)
{
    size_t n;
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    unsigned char buffer[12000];
    sw_free(sample_file(&n));
    assert_int_equal(sw_st_open(scratch_path("sample"), true, &f, NULL), SW_OK);
    assert_int_equal(truncate(scratch_path("sample"), (off_t)n - 1000), 0);
    assert_int_equal(sw_st_read(f, sw_st_find(f, samples[2].name), 0, 12000, buffer, &err),
                     SW_ERR_FORMAT);
    sw_st_close(f);
}

static void an_array_is_a_file_with_one_tensor(void **state)
{
    const float values[6] = {1, -2, 3, 4, 5, 6.5f};
    const int32_t numbers[2] = {1, 2};
    const int64_t shape[2] = {2, 3};
    const char *path = scratch_path("words.weight.npy");
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    float read[6];
    assert_int_equal(sw_npy_write(path, SW_F32, 2, shape, values, &err), SW_OK);
    assert_int_equal(sw_st_open(path, false, &f, &err), SW_OK);
    assert_int_equal(sw_st_count(f), 1);
    assert_false(sw_st_verified(f));
    assert_null(sw_st_metadata(f, "step"));
    const struct sw_st_entry *e = sw_st_find(f, "words.weight");
    assert_non_null(e);
    assert_true(e == sw_st_entry_at(f, 0) && e->dtype == SW_ST_F32 && e->ndim == 2);
    assert_memory_equal(e->shape, shape, sizeof shape);
    assert_int_equal(sw_st_read(f, e, 0, e->bytes, read, &err), SW_OK);
    assert_memory_equal(read, values, sizeof values);
    sw_st_close(f);
    assert_int_equal(sw_st_open(path, true, &f, &err), SW_ERR_FORMAT); /* it has no checksum */
    assert_int_equal(truncate(path, 130), 0);
    assert_int_equal(sw_st_open(path, false, &f, &err), SW_ERR_FORMAT);
    path = scratch_path("numbers.npy");
    assert_int_equal(sw_npy_write(path, SW_I32, 1, shape, numbers, &err), SW_OK);
    assert_int_equal(sw_st_open(path, false, &f, &err), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "numbers.npy: values of type i4, expected float32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_files_are_read_back),
        cmocka_unit_test(every_flipped_bit_of_the_header_is_detected),
        cmocka_unit_test(damaged_data_is_detected),
        cmocka_unit_test(truncated_and_extended_files_are_rejected),
        cmocka_unit_test(inconsistent_headers_are_rejected),
        cmocka_unit_test(a_false_header_length_allocates_no_memory),
        cmocka_unit_test(files_of_other_programs_are_read_unverified),
        cmocka_unit_test(errors_name_a_path_that_is_not_a_file),
        cmocka_unit_test(an_array_is_a_file_with_one_tensor),
        cmocka_unit_test(any_failing_call_is_an_error),
        cmocka_unit_test(a_file_that_shrinks_while_open_is_damage),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
