/* ctest-timeout: 120
 * Index files: every kind answers from its file as from memory; every changed bit, every truncation
 * and every contradiction is refused with what was expected; a file is whole or absent, whichever
 * call fails and wherever its writer dies. */
#include "base/hash.h"
#include "base/os.h"
#include "search/index.h"
#include "search_support.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <fcntl.h>
#include <sys/wait.h>

enum {
    ROWS = 60,
    DIMS = 5,
    QUERIES = 4,
    K = 6,
    BITS = 40,
    CLASSES = 70,
    KINDS = 4,
    MOST = 1 << 16
};

static struct sw_vectors rows, queries;
static int32_t single[ROWS];
static uint64_t sets[ROWS][2];
static const struct sw_row_labels one_each = {.count = ROWS, .classes = 3, .single = single};
static const struct sw_row_labels several = {.count = ROWS, .classes = CLASSES, .sets = sets[0]};

static int setup(void **state)
{
    rows = random_vectors(CLUSTERED, 1, ROWS, DIMS);
    queries = random_vectors(CLUSTERED, 2, QUERIES, DIMS);
    for (int i = 0; i < ROWS; i++) {
        single[i] = i % 3;
        sets[i][0] = (uint64_t)1 << (i % 64);
        sets[i][1] = (uint64_t)(i % 2) << 5; /* class 69 */
    }
    return scratch_begin(state);
}

static int teardown(void **state)
{
    free((void *)rows.at);
    free((void *)queries.at);
    return scratch_end(state);
}

static struct sw_index_args args_of(int kind)
{
    return (struct sw_index_args){.kind = sw_index_kinds[kind],
                                  .metric = kind == 1 ? SW_METRIC_COSINE : SW_METRIC_EUCLIDEAN,
                                  .bits = sw_index_kinds[kind]->holds_codes ? BITS : 0,
                                  .seed = 3,
                                  .set = {.vectors = rows},
                                  .labels = kind % 2 ? &several : &one_each,
                                  .threads = 1};
}

/* The bytes of a file, aligned; malloc's. */
static unsigned char *load(const char *path, size_t *bytes)
{
    char *text = NULL;
    struct sw_err err;
    ASSERT_OK(sw_os_read_file(path, MOST, &text, bytes, &err));
    unsigned char *copy = malloc(*bytes);
    assert_non_null(copy);
    memcpy(copy, text, *bytes);
    sw_free(text);
    return copy;
}

static unsigned char *written(int kind, size_t *bytes)
{
    const struct sw_index_args a = args_of(kind);
    const char *path = scratch_path("written");
    struct sw_err err;

    ASSERT_OK(sw_index_write(&a, path, &err));
    return load(path, bytes);
}

static void every_kind_answers_from_its_file(void **state)
{
    const struct sw_search_set q = {.vectors = queries};

    for (int kind = 0; kind < KINDS; kind++) {
        const struct sw_index_args a = args_of(kind);
        const char *path = scratch_path("index");
        struct sw_neighbor found[QUERIES * K], truth[QUERIES * K], all[QUERIES * ROWS],
            reordered[QUERIES * K];
        struct sw_index x;
        int64_t read = 0;
        struct sw_err err;

        ASSERT_OK(sw_index_write(&a, path, &err));
        ASSERT_OK(sw_index_open(&x, path, &err));
        assert_ptr_equal(x.kind, a.kind);
        assert_int_equal(x.metric, a.metric);
        assert_int_equal(x.count, ROWS);
        assert_memory_equal(x.vectors.at, rows.at, sizeof(float) * ROWS * DIMS);
        assert_true(x.has_labels);
        for (int i = 0; i < ROWS; i++)
            for (int c = 0; c < a.labels->classes; c++)
                assert_true(sw_row_has_label(&x.labels, i, c) == sw_row_has_label(a.labels, i, c));

        ASSERT_OK(sw_index_search(&x, &q, K, 2, found, &read, &err));
        ASSERT_OK(sw_index_truth(&x, &q, K, 2, truth, &err));
        rank_all(&rows, a.metric, &queries, K, reordered);
        assert_same(truth, reordered, QUERIES * K, "truth");
        if (!a.kind->holds_codes)
            assert_same(found, truth, QUERIES * K, a.kind->name);
        assert_in_range(read, QUERIES * K, 2 * QUERIES * ROWS);

        /* All rows as candidates, ordered by their vectors, are the truth. */
        ASSERT_OK(sw_index_search(&x, &q, ROWS, 2, all, &read, &err));
        ASSERT_OK(sw_index_reorder(&x, &queries, (struct sw_candidates){all, ROWS}, K, 2, reordered,
                                   &err));
        assert_same(reordered, truth, QUERIES * K, "reordered");
        sw_index_close(&x);
    }
}

static void hashing_answers_as_codes_do(void **state)
{
    const struct sw_codes codes = random_codes(3, 200, 50, 20);
    const struct sw_search_set q = {.codes = {codes.at, QUERIES, 50, 1}};
    struct sw_neighbor found[2][QUERIES * K];

    for (int i = 0; i < 2; i++) {
        const struct sw_index_args a = {
            .kind = sw_index_kind_find(i ? "mih" : "codes"), .set = {.codes = codes}, .threads = 1};
        struct sw_neighbor truth[QUERIES * K];
        struct sw_index x;
        int64_t read;
        struct sw_err err;

        ASSERT_OK(sw_index_write(&a, scratch_path("codes"), &err));
        ASSERT_OK(sw_index_open(&x, scratch_path("codes"), &err));
        assert_false(x.has_vectors);
        ASSERT_OK(sw_index_search(&x, &q, K, 1, found[i], &read, &err));
        ASSERT_OK(sw_index_truth(&x, &q, K, 1, truth, &err));
        assert_same(found[i], truth, QUERIES * K, a.kind->name);

        /* Vectors have no meaning there. */
        const struct sw_search_set v = {.vectors = queries};
        assert_int_equal(sw_index_search(&x, &v, K, 1, truth, &read, &err), SW_ERR_INVALID);
        assert_string_equal(err.text,
                            "the queries are vectors of 5 floats, expected codes of 50 bits");
        assert_int_equal(sw_index_truth(&x, &v, K, 1, truth, &err), SW_ERR_INVALID);
        assert_int_equal(
            sw_index_reorder(&x, &queries, (struct sw_candidates){truth, K}, K, 1, truth, &err),
            SW_ERR_INVALID);
        sw_index_close(&x);
    }
    assert_same(found[1], found[0], QUERIES * K, "hashing");
    free((void *)codes.at);
}

static void what_does_not_suit_a_kind_is_refused(void **state)
{
    const struct sw_codes codes = random_codes(3, ROWS, 16, 0);
    struct sw_index_args a = args_of(0);
    const char *path = scratch_path("refused");
    struct sw_err err;

    a.set = (struct sw_search_set){.codes = codes};
    assert_int_equal(sw_index_write(&a, path, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "exact holds vectors, and codes were given"));
    a = args_of(0);
    a.bits = 4;
    assert_int_equal(sw_index_write(&a, path, &err), SW_ERR_INVALID);
    a = args_of(1);
    a.bits = 3;
    assert_int_equal(sw_index_write(&a, path, &err), SW_ERR_INVALID);
    a = args_of(2);
    a.set = (struct sw_search_set){.codes = codes};
    assert_int_equal(sw_index_write(&a, path, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "40 bits, but the codes that were given have 16");
    a = args_of(0);
    a.set.vectors.count--;
    assert_int_equal(sw_index_write(&a, path, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "60 labels for 59 rows: each row needs one");
    assert_int_not_equal(access(path, F_OK), 0);
    free((void *)codes.at);
}

/* ---- Damage -----------------------------------------------------------------------------------
 */

static void assert_refused(const void *bytes, size_t count, const char *what, size_t at)
{
    struct sw_index x;
    struct sw_err err = {0};

    if (sw_index_parse(&x, "damaged", bytes, count, &err) == SW_OK)
        fail_msg("%s %zu is not noticed", what, at);
    assert_true(err.code < 0 && strncmp(err.text, "damaged: ", 9) == 0);
}

static void any_changed_bit_is_an_error(void **state)
{
    for (int kind = 0; kind < KINDS; kind++) {
        size_t bytes;
        unsigned char *file = written(kind, &bytes);

        for (size_t at = 0; at < bytes; at++) {
            file[at] ^= (unsigned char)(1 << (at % 8));
            assert_refused(file, bytes, "a changed bit of byte", at);
            file[at] ^= (unsigned char)(1 << (at % 8));
        }
        free(file);
    }
}

static void any_truncation_is_an_error(void **state)
{
    for (int kind = 0; kind < KINDS; kind++) {
        size_t bytes;
        unsigned char *file = written(kind, &bytes);

        for (size_t count = 0; count < bytes; count++)
            assert_refused(file, count, "a truncation to", count);
        free(file);
    }
}

/* Writes a number to the header and corrects its checksum. */
static void put32(unsigned char *file, size_t at, uint32_t value)
{
    const size_t sum = SW_INDEX_HEADER_BYTES - 8;
    memcpy(file + at, &value, sizeof value);
    const uint64_t hash = sw_hash_bytes64(file, sum);
    memcpy(file + sum, &hash, sizeof hash);
}

static void hostile_headers_are_refused_with_what_was_expected(void **state)
{
    static const struct {
        int kind;
        size_t at;
        uint32_t value;
        const char *says;
    } cases[] = {
        {0, 8, 2, "index version 2 is not supported; this program reads version 1"},
        {0, 12, 4, "kind 4 is unknown, expected 0 to 3"},
        {0, 12, 1, "0 bits per dimension: a VA-file has 1, 2, 4 or 8"},
        {1, 12, 2, "section codes is missing, expected 60 codes of 4 bits"},
        {2, 12, 1, "40 bits per dimension"},
        {2, 12, 3, "0 substrings of 40 bits"},
        {0, 24, 0, "0 rows, expected 1 to 2^31 - 1"},
        {0, 24, 59, "section vectors has 1200 bytes, expected 1180: 59 vectors of 5 floats"},
        {0, 28, 1, "4294967356 rows, expected 1 to 2^31 - 1"},
        {0, 32, 6, "section vectors has 1200 bytes, expected 1440: 60 vectors of 6 floats"},
        {0, 32, 0, "vectors of 0 floats, expected 1 to 65536"},
        {0, 32, 1u << 31, "vectors of 2147483648 floats, expected 1 to 65536"},
        {0, 40, 3, "metric 3 is unknown, expected 0 to 2"},
        {0, 48, 2, "row 2 has label 2, expected 0 to 1"},
        {0, 48, 0, "labels of 0 classes, expected 1 to 65536"},
        {0, 52, 0, "has 0 sections, expected 1 to 16"},
        {0, 52, 17, "has 17 sections, expected 1 to 16"},
        {0, 52, 3, "section 2 of its table has number 0, expected a new one from 1 to 19"},
        {0, 52, 1, "but its sections end at"},
        {0, 64, 9, "section vectors is missing"},
        {0, 64, 2, "section 1 of its table has number 2, expected a new one from 1 to 19"},
        {0, 72, 1025, "section vectors has 1200 bytes at byte 1025, expected them from byte 1024"},
        {0, 76, 1, "expected them from byte 1024"},
        {0, 80, 1u << 30, "section vectors has 1073741824 bytes at byte 1024"},
        {0, 84, 1u << 31, "bytes at byte 1024"},
        {0, 80, 0, "section vectors has 0 bytes"},
        {0, 88, 7, "section vectors is damaged: checksum "},
        {1, 36, 5, "5 bits per dimension: a VA-file has 1, 2, 4 or 8"},
        {1, 36, 8, "section marks has 340 bytes, expected 5140: marks of 5 dimensions with 8 bits"},
        {1, 40, 2, "a VA-file bounds the distances euclidean and cosine, not dot"},
        {1, 48, 64, "section label sets has 960 bytes, expected 480: 60 rows of labels of 64"},
        {1, 48, 69, "row 1 has a label beyond its 69 classes"},
        {2, 36, 0, "codes of 0 bits, expected 1 to 65536"},
        {2, 36, 65, "section codes has 480 bytes, expected 960: 60 codes of 65 bits"},
        {2, 36, 8, "has bits beyond its 8"},
        {2, 36, 41, "section planes has 800 bytes, expected 820: 41 hyperplanes of 5 floats"},
        {3, 44, 0, "0 substrings of 40 bits, expected 1 to 20 bits in each"},
        {3, 44, 1, "1 substrings of 40 bits, expected 1 to 20 bits in each"},
        {3, 44, 41, "41 substrings of 40 bits"},
        {3, 44, 1u << 31, "2147483648 substrings of 40 bits"},
        {3, 44, 8, "section begins has 1564 bytes, expected 1056: tables of 8 substrings"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes;
        unsigned char *file = written(cases[i].kind, &bytes);
        struct sw_index x;
        struct sw_err err = {0};

        put32(file, cases[i].at, cases[i].value);
        if (sw_index_parse(&x, "hostile", file, bytes, &err) == SW_OK)
            fail_msg("%u at byte %zu of kind %d is accepted", cases[i].value, cases[i].at,
                     cases[i].kind);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%u at byte %zu of kind %d: \"%s\" does not say \"%s\"", cases[i].value,
                     cases[i].at, cases[i].kind, err.text, cases[i].says);
        free(file);
    }
}

static void truncating_an_open_index_is_an_error(void **state)
{
    const struct sw_search_set q = {.vectors = queries};

    for (int kind = 0; kind < KINDS; kind++) {
        struct sw_index_args a = args_of(kind);
        const char *path = scratch_path("cut");
        struct sw_neighbor found[QUERIES * K];
        struct sw_vectors many = random_vectors(UNIFORM, 5, 3000, DIMS);
        struct sw_index x;
        int64_t read;
        struct sw_err err;

        a.labels = NULL;
        a.set.vectors = many;
        ASSERT_OK(sw_index_write(&a, path, &err));
        ASSERT_OK(sw_index_open(&x, path, &err));
        assert_int_equal(truncate(path, 4096), 0);
        assert_int_equal(sw_index_search(&x, &q, K, 1, found, &read, &err), SW_ERR_FORMAT);
        assert_int_equal(sw_index_truth(&x, &q, K, 1, found, &err), SW_ERR_FORMAT);
        sw_index_close(&x);
        free((void *)many.at);
    }
}

static void what_is_no_index_is_refused(void **state)
{
    struct sw_index x;
    struct sw_err err;

    assert_int_equal(sw_index_open(&x, scratch_path("nothing"), &err), SW_ERR_NOTFOUND);
    ASSERT_OK(sw_os_replace_file(scratch_path("short"), "hello", 5, 0666, &err));
    assert_int_equal(sw_index_open(&x, scratch_path("short"), &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "not an index file: has 5 bytes"));
    assert_int_equal(sw_index_open(&x, "/dev/null", &err), SW_ERR_FORMAT);
}

/* ---- Faults -----------------------------------------------------------------------------------
 */

/* The index at PATH is one of two kinds, and whole. */
static bool is_kind(const char *path, int kind)
{
    struct sw_index x;
    struct sw_err err;

    ASSERT_OK(sw_index_open(&x, path, &err));
    const bool same = x.kind == sw_index_kinds[kind];
    sw_index_close(&x);
    return same;
}

static void writer_leaves_old_or_new_when_any_call_fails(void **state)
{
    const struct sw_index_args old = args_of(0), new = args_of(3);
    const char *path = scratch_path("failed");
    struct sw_err err;

    ASSERT_OK(sw_index_write(&old, path, &err));
    const int files = scratch_count();

    for (int at = 1, rc = -1; rc; at++) {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
        rc = sw_index_write(&new, path, &err);
        assert_int_equal(faulty.live_allocations, 0);
        assert_int_equal(rc != 0, faulty_end() >= at);
        assert_true(!rc || (err.code == rc && err.text[0]));
        assert_int_equal(scratch_count(), files);
        if (is_kind(path, 3))
            ASSERT_OK(sw_index_write(&old, path, &err));
        else
            assert_true(rc && is_kind(path, 0));
    }
}

static void writer_that_dies_leaves_no_half_index(void **state)
{
    const struct sw_index_args old = args_of(0), new = args_of(1);
    const char *path = scratch_path("died");
    struct sw_err err;

    for (int at = 1, died = 1; died; at++) {
        const bool had_one = at % 2;
        int status;

        unlink(path);
        if (had_one)
            ASSERT_OK(sw_index_write(&old, path, &err));

        const pid_t child = fork();
        if (child == 0) {
            faulty_begin((struct faulty_plan){.kinds = FAULTY_FILES, .at = at, .dies = true});
            _exit(sw_index_write(&new, path, &err) ? 1 : 0);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        died = WEXITSTATUS(status) == 9;
        assert_true(died || WEXITSTATUS(status) == 0);
        if (access(path, F_OK) != 0)
            assert_true(died && !had_one);
        else
            assert_true(is_kind(path, 1) || (died && had_one && is_kind(path, 0)));
    }
}

static void opening_and_searching_report_every_failed_call(void **state)
{
    const struct sw_search_set q = {.vectors = queries};

    for (int kind = 0; kind < KINDS; kind++) {
        const struct sw_index_args a = args_of(kind);
        const char *path = scratch_path("open");
        struct sw_err err;

        ASSERT_OK(sw_index_write(&a, path, &err));
        for (int at = 1, rc = -1; rc; at++) {
            struct sw_neighbor found[QUERIES * K];
            struct sw_index x;
            int64_t read;

            faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
            rc = sw_index_open(&x, path, &err);
            if (!rc)
                rc = sw_index_search(&x, &q, K, 1, found, &read, &err);
            sw_index_close(&x);
            const int live = faulty.live_allocations;
            assert_int_equal(rc != 0, faulty_end() >= at);
            assert_int_equal(live, 0);
            assert_true(!rc || (err.code == rc && err.text[0]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_answers_from_its_file),
        cmocka_unit_test(hashing_answers_as_codes_do),
        cmocka_unit_test(what_does_not_suit_a_kind_is_refused),
        cmocka_unit_test(any_changed_bit_is_an_error),
        cmocka_unit_test(any_truncation_is_an_error),
        cmocka_unit_test(hostile_headers_are_refused_with_what_was_expected),
        cmocka_unit_test(truncating_an_open_index_is_an_error),
        cmocka_unit_test(what_is_no_index_is_refused),
        cmocka_unit_test(writer_leaves_old_or_new_when_any_call_fails),
        cmocka_unit_test(writer_that_dies_leaves_no_half_index),
        cmocka_unit_test(opening_and_searching_report_every_failed_call),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
