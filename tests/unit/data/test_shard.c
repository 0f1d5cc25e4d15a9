/* ctest-timeout: 120
 * Shard files: every value round-trips, and damage, truncation and contradictions are detected
 * wherever they are. Files of the format, and round trips of other formats, are in
 * test_shard_format.c. */
#include "base/hash.h"
#include "data/shard.h"
#include "data_support.h"
#include "unit/faulty_os.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORDS = 5 };

static const struct sw_shard_field fields[] = {
    {.name = "image", .kind = SW_SHARD_PICTURE, .dtype = SW_U8, .ndim = 3, .dim = {3, 0, 0}},
    {.name = "label", .dtype = SW_I32},
    {.name = "text", .dtype = SW_F32, .ndim = 2, .dim = {2, 3}},
};

struct record {
    unsigned char picture[64];
    int32_t label;
    float text[6];
    struct sw_shard_value value[3];
};

/* Record i: odd ones have an encoded image of 7 + i bytes, even ones pixels of 3 x (1 + i) x 2.
 */
static void make(struct record *r, int i)
{
    for (int k = 0; k < 64; k++)
        r->picture[k] = (unsigned char)(i * 50 + k);
    r->label = i % 3;
    for (int k = 0; k < 6; k++)
        r->text[k] = (float)i - (float)k / 4;
    if (i % 2)
        r->value[0] = (struct sw_shard_value){r->picture, 7 + (size_t)i, true, 0, 0, 0};
    else
        r->value[0] = (struct sw_shard_value){r->picture, 6 * (size_t)(i + 1), false, 3, i + 1, 2};
    r->value[1] = (struct sw_shard_value){.data = &r->label, .bytes = 4};
    r->value[2] = (struct sw_shard_value){.data = r->text, .bytes = sizeof r->text};
}

static int write_records(const char *path, int64_t classes, struct sw_err *err)
{
    struct sw_shard_writer w = {.file.fd = -1};
    int rc = sw_shard_begin(&w, path, fields, 3, "five of our own", err);
    for (int i = 0; !rc && i < RECORDS; i++) {
        struct record r;
        make(&r, i);
        rc = sw_shard_append(&w, r.value, err);
    }
    if (!rc)
        rc = sw_shard_commit(&w, classes, err);
    sw_shard_abandon(&w);
    return rc;
}

/* The file's bytes, aligned as memory is; malloc's. */
static unsigned char *load(const char *path, size_t *bytes)
{
    char *text = NULL;
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, bytes, NULL), SW_OK);
    unsigned char *copy = malloc(*bytes);
    assert_non_null(copy);
    memcpy(copy, text, *bytes);
    sw_free(text);
    return copy;
}

static unsigned char *fresh(size_t *bytes)
{
    struct sw_err err = {0};
    const char *path = support_path("fresh.shard");
    ASSERT_OK(write_records(path, 3, &err));
    return load(path, bytes);
}

static void assert_records(const struct sw_shard *s)
{
    struct sw_err err = {0};
    for (int k = 0; k < 2 * RECORDS; k++) {
        const int i = (k * 3) % RECORDS;
        struct record r;
        make(&r, i);
        for (int f = 2; f >= 0; f--) {
            struct sw_shard_value v;
            ASSERT_OK(sw_shard_read(s, i, f, &v, &err));
            assert_int_equal(v.bytes, r.value[f].bytes);
            assert_memory_equal(v.data, r.value[f].data, v.bytes);
            assert_int_equal((uintptr_t)v.data % 8, 0);
            assert_int_equal(v.encoded, r.value[f].encoded);
            assert_int_equal(v.channels, r.value[f].channels);
            assert_int_equal(v.height, r.value[f].height);
            assert_int_equal(v.width, r.value[f].width);
        }
    }
}

static void shard_round_trips_every_value(void **state)
{
    struct sw_err err = {0};
    struct sw_shard s;
    const char *path = support_path("a.shard");
    ASSERT_OK(write_records(path, 3, &err));
    ASSERT_OK(sw_shard_open(&s, path, 0, &err));
    assert_int_equal(s.records, RECORDS);
    assert_int_equal(s.classes, 3);
    assert_int_equal(s.field_count, 3);
    assert_string_equal(s.origin, "five of our own");
    for (int f = 0; f < 3; f++)
        assert_memory_equal(&s.field[f], &fields[f], sizeof fields[f]);
    assert_records(&s);
    sw_shard_close(&s);

    size_t bytes;
    unsigned char *b = load(path, &bytes);
    ASSERT_OK(sw_shard_open(&s, support_gzip("a.shard.gz", b, bytes), 0, &err));
    assert_records(&s);
    sw_shard_close(&s);
    free(b);
}

/* The numbers that data/shard.h promises to other programs, read here without it. */
static void shard_has_the_documented_layout(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    uint64_t word[8], entry[2], sum;
    assert_memory_equal(b, "\x89SWSHD\r\n\x01\0\0\0\x03\0\0\0", 16);
    memcpy(word, b + 16, sizeof word);
    assert_int_equal(word[0], 384); /* 80 + 3 * 80 + 15 + 8, in 64s */
    assert_int_equal(word[1], bytes);
    assert_int_equal(word[2], RECORDS);
    assert_int_equal(word[3], 3);
    assert_int_equal(word[4], bytes - RECORDS * 16);
    assert_int_equal(word[5], sw_hash_bytes64(b + word[4], RECORDS * 16));
    assert_int_equal(word[6], 15);
    assert_int_equal(word[7], 0);
    memcpy(&sum, b + 376, 8);
    assert_int_equal(sum, sw_hash_bytes64(b, 376));
    assert_memory_equal(b + 320, "five of our own\0", 16);
    assert_memory_equal(b + 80, "image\0", 6);
    assert_memory_equal(b + 80 + 32, "\1\0\0\0\3\0\0\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 24);
    memcpy(entry, b + word[4], sizeof entry);
    assert_int_equal(entry[0], 384);
    /* Record 0: pixels 3x1x2, then the label, then the text: 24 + 8, 8, 24. */
    assert_memory_equal(b + 384, "\6\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0\2\0\0\0", 24);
    assert_int_equal(entry[1], sw_hash_bytes64(b + 384, 64));
    memcpy(entry, b + word[4] + 16, sizeof entry);
    assert_int_equal(entry[0], 384 + 64);
    free(b);
}

/* Opens and reads everything; the first error, or SW_OK. */
static int read_all(const char *name, const void *bytes, size_t size, struct sw_err *err)
{
    struct sw_shard s;
    int rc = sw_shard_parse(&s, name, bytes, size, err);
    for (int64_t i = 0; !rc && i < s.records; i++) {
        for (int f = 0; !rc && f < s.field_count; f++) {
            struct sw_shard_value v;
            rc = sw_shard_read(&s, i, f, &v, err);
        }
    }
    sw_shard_close(&s);
    return rc;
}

static void any_changed_bit_is_an_error(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    struct sw_err err = {0};
    ASSERT_OK(read_all("x", b, bytes, &err));
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (read_all("x.shard", b, bytes, &err) != SW_ERR_FORMAT)
            fail_msg("bit %zu of byte %zu may change", bit % 8, bit / 8);
        ASSERT_CONTAINS(err.text, "x.shard: ");
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(b);
}

static void any_truncation_is_an_error(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    struct sw_err err = {0};
    for (size_t n = 0; n < bytes; n++) {
        unsigned char *part = malloc(n ? n : 1); /* so that a step too far is seen */
        assert_non_null(part);
        memcpy(part, b, n);
        assert_int_equal(read_all("x", part, n, &err), SW_ERR_FORMAT);
        free(part);
    }
    b = realloc(b, bytes + 16);
    assert_non_null(b);
    memset(b + bytes, 0, 16);
    assert_int_equal(read_all("x", b, bytes + 16, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "expected");
    free(b);
}

static void any_two_swapped_bytes_are_an_error(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    struct sw_err err = {0};
    for (size_t i = 0; i < bytes; i++) {
        for (size_t step = 1; step < 64 && i + step < bytes; step += step) {
            const unsigned char x = b[i], y = b[i + step];
            if (x == y)
                continue;
            b[i] = y;
            b[i + step] = x;
            assert_int_equal(read_all("x", b, bytes, &err), SW_ERR_FORMAT);
            b[i] = x;
            b[i + step] = y;
        }
    }
    free(b);
}

/* ---- Files that lie, with checksums that are right ---- */

static void put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static uint64_t get64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Makes the checksums of records, index and header right again. */
static void mend(unsigned char *b, size_t bytes)
{
    const uint64_t header = get64(b + 16), records = get64(b + 32), index = get64(b + 48);
    for (uint64_t i = 0; i < records && index + 16 * records == bytes; i++) {
        const uint64_t begin = get64(b + index + 16 * i);
        const uint64_t end = i + 1 < records ? get64(b + index + 16 * i + 16) : index;
        if (begin <= end && end <= index)
            put64(b + index + 16 * i + 8, sw_hash_bytes64(b + begin, end - begin));
    }
    if (index <= bytes)
        put64(b + 56, sw_hash_bytes64(b + index, bytes - index));
    if (header >= 8 && header <= bytes)
        put64(b + header - 8, sw_hash_bytes64(b, header - 8));
}

static void assert_lie(size_t at, uint64_t value, const char *says)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    struct sw_err err = {0};
    put64(b + at, value);
    mend(b, bytes);
    if (read_all("x.shard", b, bytes, &err) != SW_ERR_FORMAT)
        fail_msg("byte %zu may be %llu (%s)", at, (unsigned long long)value, says);
    ASSERT_CONTAINS(err.text, says);
    free(b);
}

static void inconsistent_files_name_the_contradiction(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    const uint64_t index = get64(b + 48), second = get64(b + index + 16);
    free(b);
    assert_lie(24, bytes + 8, "expected");
    assert_lie(32, 0, "does not match the file");
    assert_lie(32, 4, "does not match the file");
    assert_lie(32, UINT64_MAX, "does not match the file");
    assert_lie(32, (uint64_t)1 << 60, "does not match the file");
    assert_lie(40, (uint64_t)1 << 31, "the limit is 2^31");
    assert_lie(40, 2, "record 2: label 2, expected 0 to 1");
    assert_lie(48, index - 8, "does not match the file");
    assert_lie(64, 400, "cannot hold");
    assert_lie(64, UINT64_MAX, "cannot hold");
    assert_lie(80, 0, "field 0 of its header: its name");
    assert_lie(80, get64((const unsigned char *)"label\0\0"), "duplicate name");
    assert_lie(80 + 32, 7 | (uint64_t)3 << 32, "unknown");
    assert_lie(80 + 32, 1 | (uint64_t)9 << 32, "unknown");
    assert_lie(80 + 40, 5, "unknown");
    assert_lie(80 + 48, UINT64_MAX, "out of range");
    assert_lie(80 + 56, 2, "dimensions of the image do not match its field");
    assert_lie(240 + 48, (uint64_t)1 << 40, "out of range");
    assert_lie(240 + 48, 30, "expected at least");
    assert_lie(240 + 48, 1, "its fields fill");
    assert_lie(index, 392, "record 0 begins at byte 392, expected 384");
    assert_lie(index + 16, second + 4, "record 0");
    assert_lie(index + 16, UINT64_MAX - 7, "record 0");
    assert_lie(index + 16, 384, "record 0");
    assert_lie(384, 7, "size of the image does not match its dimensions");
    assert_lie(384, UINT64_MAX, "size of the image does not match its dimensions");
    assert_lie(392, 2 | (uint64_t)3 << 32, "neither pixels nor an encoded image");
    assert_lie(392, 0, "width or channels of the image are out of range");
    assert_lie(second, 60, "ends inside");
    assert_lie(second, UINT64_MAX, "ends inside");
    assert_lie(second, 0, "the image is empty");
    assert_lie(second, 17, "ends inside");
    assert_lie(second + 8, 1 | (uint64_t)3 << 32, "must be 0");
}

static void other_versions_are_refused(void **state)
{
    size_t bytes;
    unsigned char *b = fresh(&bytes);
    struct sw_err err = {0};
    b[8] = 2;
    mend(b, bytes);
    assert_int_equal(read_all("x.shard", b, bytes, &err), SW_ERR_UNSUPPORTED);
    ASSERT_CONTAINS(err.text, "shard version 2 is not supported");
    free(b);
}

/* ---- Writing ---- */

static void writer_refuses_mismatching_values(void **state)
{
    struct sw_shard_writer w = {.file.fd = -1};
    struct sw_shard_field f[2] = {fields[0], fields[1]};
    struct sw_err err = {0};
    struct record r;
    const char *path = support_path("never.shard");
    assert_int_equal(sw_shard_begin(&w, path, f, 0, "", &err), SW_ERR_INVALID);
    f[1] = f[0];
    assert_int_equal(sw_shard_begin(&w, path, f, 2, "", &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "duplicate field image");
    strcpy(f[1].name, "Label");
    assert_int_equal(sw_shard_begin(&w, path, f, 2, "", &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "its name must be");

    ASSERT_OK(sw_shard_begin(&w, path, fields, 3, "", &err));
    make(&r, 0);
    r.value[0].width = 3;
    assert_int_equal(sw_shard_append(&w, r.value, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "never.shard: record 0: field image");
    make(&r, 0);
    r.value[2].bytes = 20;
    assert_int_equal(sw_shard_append(&w, r.value, &err), SW_ERR_INVALID);
    assert_int_equal(sw_shard_commit(&w, 1, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "without a record");
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Every cut of the file leads to an error that says so, whether the record was read before or not,
 * and never to a signal. */
static void truncating_a_shard_while_reading_is_an_error(void **state)
{
    struct sw_err err = {0};
    struct sw_shard s;
    struct sw_shard_value v;
    struct stat st;
    int failed = 0;
    const char *path = support_path("mapped.shard");
    ASSERT_OK(write_records(path, 3, &err));
    assert_int_equal(stat(path, &st), 0);
    for (off_t left = st.st_size - 1; left >= 0; left = left ? left / 2 : -1) {
        ASSERT_OK(write_records(path, 3, &err)); /* another file of that name */
        ASSERT_OK(sw_shard_open(&s, path, 0, &err));
        ASSERT_OK(sw_shard_read(&s, 1, 0, &v, &err));
        ASSERT_OK(sw_shard_whole(&s, &err));
        assert_int_equal(truncate(path, left), 0);
        for (size_t i = 0; i < v.bytes; i++)
            (void)((const volatile unsigned char *)v.data)[i];
        assert_int_equal(sw_shard_whole(&s, &err), SW_ERR_FORMAT);
        for (int i = 0; i < RECORDS; i++) {
            if (sw_shard_read(&s, i, 2, &v, &err) == SW_OK)
                continue; /* it lies before the cut */
            assert_int_equal(err.code, SW_ERR_FORMAT);
            ASSERT_CONTAINS(err.text, "mapped.shard: was truncated from ");
            failed++;
        }
        sw_shard_close(&s);
    }
    assert_true(failed > RECORDS);
}

static int files_in(const char *dir)
{
    DIR *d = opendir(dir);
    int count = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void writer_leaves_old_or_new_when_any_call_fails(void **state)
{
    struct sw_err err = {0};
    struct sw_shard s;
    const char *path = support_path("kept.shard");
    ASSERT_OK(write_records(path, 7, &err));
    const int files = files_in(support_dir);
    for (int at = 1, rc = -1; rc; at++) {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
        rc = write_records(path, 3, &err);
        const int live = faulty.live_allocations;
        const bool reached = faulty_end() >= at;
        assert_int_equal(live, 0);
        assert_int_equal(rc != 0, reached);
        assert_int_equal(files_in(support_dir), files);
        ASSERT_OK(sw_shard_open(&s, path, 0, &err));
        assert_true(s.classes == 7 || s.classes == 3);
        assert_true(s.classes == 3 || rc);
        assert_records(&s);
        sw_shard_close(&s);
        if (rc)
            ASSERT_OK(write_records(path, 7, &err));
    }
}

static void writer_leaves_old_or_new_when_it_dies(void **state)
{
    struct sw_err err = {0};
    struct sw_shard s;
    const char *path = support_path("died.shard");
    for (int at = 1, died = 1; died; at++) {
        int status;
        ASSERT_OK(write_records(path, 7, &err));
        const pid_t child = fork();
        if (child == 0) {
            faulty_begin((struct faulty_plan){.kinds = FAULTY_FILES, .at = at, .dies = true});
            _exit(write_records(path, 3, &err) ? 1 : 0);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        died = WEXITSTATUS(status) == 9;
        assert_true(died || WEXITSTATUS(status) == 0);
        ASSERT_OK(sw_shard_open(&s, path, 0, &err));
        assert_true(s.classes == 3 || (died && s.classes == 7));
        assert_records(&s);
        sw_shard_close(&s);
    }
}

static void opening_reports_every_failed_call(void **state)
{
    struct sw_err err = {0};
    const char *path = support_path("open.shard");
    ASSERT_OK(write_records(path, 3, &err));
    for (int at = 1, rc = -1; rc; at++) {
        struct sw_shard s;
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
        rc = sw_shard_open(&s, path, 0, &err);
        sw_shard_close(&s);
        const int live = faulty.live_allocations;
        assert_int_equal(rc != 0, faulty_end() >= at);
        assert_int_equal(live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_round_trips_every_value),
        cmocka_unit_test(shard_has_the_documented_layout),
        cmocka_unit_test(any_changed_bit_is_an_error),
        cmocka_unit_test(any_truncation_is_an_error),
        cmocka_unit_test(any_two_swapped_bytes_are_an_error),
        cmocka_unit_test(inconsistent_files_name_the_contradiction),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(truncating_a_shard_while_reading_is_an_error),
        cmocka_unit_test(writer_refuses_mismatching_values),
        cmocka_unit_test(writer_leaves_old_or_new_when_any_call_fails),
        cmocka_unit_test(writer_leaves_old_or_new_when_it_dies),
        cmocka_unit_test(opening_reports_every_failed_call),
    };
    return cmocka_run_group_tests_name("shard", tests, support_setup, support_teardown);
}
