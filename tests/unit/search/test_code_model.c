/* Model files: what is written encodes as before; truncated, changed and contradictory files are
 * refused. */
#include "base/hash.h"
#include "base/os.h"
#include "search/code_model.h"
#include "search/index.h"
#include "search_support.h"
#include <math.h>

enum { ROWS = 60, A = 7, B = 9, BITS = 5, AT_SUM = SW_INDEX_HEADER_BYTES - 8, MOST = 1 << 20 };

static struct sw_err err;
static char path[] = "/tmp/code-model-XXXXXX";

static void fit(struct sw_code_model *m, const struct sw_code_method *method)
{
    const struct sw_vectors a = random_vectors(UNIFORM, 1, ROWS, A);
    const struct sw_vectors b = random_vectors(UNIFORM, 2, ROWS, B);
    struct sw_code_fit f = {.view = {a}, .bits = BITS, .seed = 1, .threads = 1};

    if (method->views == 2)
        f.view[1] = b;
    if (method->takes & SW_CODE_CLUSTERS)
        f.clusters = 6;
    ASSERT_OK(sw_code_model_fit(m, method, &f, &err));
    free((void *)a.at);
    free((void *)b.at);
}

static void files_encode_as_what_was_written(void **state)
{
    for (int i = 0; sw_code_methods[i]; i++) {
        struct sw_code_model m, read;

        fit(&m, sw_code_methods[i]);
        ASSERT_OK(sw_code_model_write(&m, path, &err));
        ASSERT_OK(sw_code_model_open(&read, path, &err));
        assert_ptr_equal(read.method, sw_code_methods[i]);
        assert_int_equal(read.bits, BITS);
        assert_int_equal(read.rows, ROWS);

        for (int v = 0; v < SW_CODE_VIEWS; v++) {
            const struct sw_encoder *e = sw_code_model_view(&m, v);
            const struct sw_vectors q = random_vectors(UNIFORM, 9, 30, e->dims);
            float one[30 * BITS], two[30 * BITS];
            uint64_t code[30];

            ASSERT_OK(sw_encoder_values(e, &q, 1, one, &err));
            ASSERT_OK(sw_encoder_values(sw_code_model_view(&read, v), &q, 2, two, &err));
            assert_memory_equal(one, two, sizeof one);
            /* Codes are the signs. */
            ASSERT_OK(sw_encoder_encode(sw_code_model_view(&read, v), &q, 2, code, &err));
            for (int k = 0; k < 30 * BITS; k++)
                if (fabsf(one[k]) > 1e-6F)
                    assert_int_equal(code[k / BITS] >> (k % BITS) & 1, one[k] > 0);
            free((void *)q.at);
        }

        sw_code_model_close(&m);
        sw_code_model_close(&read);
    }
}

/* The bytes of a model file in aligned memory; free with sw_free. */
static unsigned char *bytes_of(const struct sw_code_method *method, size_t *count)
{
    struct sw_code_model m;
    char *bytes = NULL;

    fit(&m, method);
    ASSERT_OK(sw_code_model_write(&m, path, &err));
    sw_code_model_close(&m);
    ASSERT_OK(sw_os_read_file(path, MOST, &bytes, count, &err));
    return (unsigned char *)bytes;
}

static int parse(const unsigned char *bytes, size_t count)
{
    struct sw_code_model m;
    int rc = sw_code_model_parse(&m, "m", bytes, count, &err);

    sw_code_model_close(&m);
    return rc;
}

static void truncated_and_changed_files_are_refused(void **state)
{
    size_t count;
    unsigned char *b = bytes_of(&sw_code_lcmh, &count);

    ASSERT_OK(parse(b, count));
    for (size_t cut = 0; cut < count; cut += cut < 1100 ? 97 : 13)
        assert_true(parse(b, cut) < 0);
    for (size_t i = 0; i < count; i += i < 1024 ? 3 : 1) {
        b[i] ^= (unsigned char)(1 << i % 8);
        assert_true(parse(b, count) < 0);
        b[i] ^= (unsigned char)(1 << i % 8);
    }
    sw_free(b);
}

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* Corrects the checksums of the header and of every section. */
static void correct(unsigned char *b)
{
    for (unsigned i = 0; i < b[52]; i++) {
        unsigned char *entry = b + 64 + 32 * i;
        uint64_t offset, bytes;
        memcpy(&offset, entry + 8, 8);
        memcpy(&bytes, entry + 16, 8);
        put(entry + 24, sw_hash_bytes64(b + offset, (size_t)bytes), 8);
    }
    put(b + AT_SUM, sw_hash_bytes64(b, AT_SUM), 8);
}

static void refuse(const unsigned char *b, size_t count, size_t at, uint64_t value, int bytes,
                   const char *why)
{
    unsigned char *copy = sw_os()->alloc(count);
    assert_non_null(copy);
    memcpy(copy, b, count);
    put(copy + at, value, bytes);
    correct(copy);
    assert_true(parse(copy, count) < 0);
    if (!strstr(err.text, why))
        fail_msg("byte %zu = %llu: \"%s\", expected \"%s\"", at, (unsigned long long)value,
                 err.text, why);
    sw_free(copy);
}

static size_t section_at(const unsigned char *b, int section)
{
    for (unsigned i = 0; i < b[52]; i++)
        if (b[64 + 32 * i] == section) {
            uint64_t offset;
            memcpy(&offset, b + 64 + 32 * i + 8, 8);
            return (size_t)offset;
        }
    fail_msg("section %d is missing", section);
    return 0;
}

static void contradictory_files_are_refused(void **state)
{
    size_t count;
    unsigned char *b = bytes_of(&sw_code_lcmh, &count);

    refuse(b, count, 12, 0, 4, "an index, expected a model");
    refuse(b, count, 24, 0, 8, "0 rows");
    refuse(b, count, 36, 0, 4, "codes of 0 bits");
    refuse(b, count, 36, 65537, 4, "codes of 65537 bits");
    refuse(b, count, 36, BITS + 1, 4, "section planes has");
    refuse(b, count, 32, 0, 4, "vectors of 0 floats");
    refuse(b, count, 32, A + 1, 4, "section anchors has");
    refuse(b, count, 32, 65537, 4, "vectors of 65537 floats");
    refuse(b, count, 44, 0, 4, "1 views, expected 2 for method lcmh");
    refuse(b, count, 44, B - 2, 4, "section anchors 2 has");
    refuse(b, count, section_at(b, SW_INDEX_METHOD), 'x', 1, "method \"xcmh\" of codes is unknown");
    refuse(b, count, section_at(b, SW_INDEX_METHOD), '\n', 1, "method \"?cmh\"");
    refuse(b, count, section_at(b, SW_INDEX_PLANES_2), 0x7fc00000, 4, "not finite");
    refuse(b, count, section_at(b, SW_INDEX_CENTER), 0x7f800000, 4, "not finite");
    /* A section that no view has. */
    refuse(b, count, 64 + 32, SW_INDEX_CODES, 4, "section planes is missing");
    sw_free(b);
}

static void models_and_indexes_are_not_mistaken(void **state)
{
    struct sw_code_model m;
    struct sw_index x;
    const struct sw_vectors v = random_vectors(UNIFORM, 3, ROWS, A);
    const struct sw_index_args args = {
        .kind = sw_index_kind_find("exact"), .set = {.vectors = v}, .threads = 1};

    fit(&m, &sw_code_cvh);
    ASSERT_OK(sw_code_model_write(&m, path, &err));
    sw_code_model_close(&m);
    assert_int_equal(sw_index_open(&x, path, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "a model of codes, expected an index"));

    ASSERT_OK(sw_index_write(&args, path, &err));
    assert_int_equal(sw_code_model_open(&m, path, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "an index, expected a model of codes"));
    free((void *)v.at);
}

static int setup(void **state)
{
    const int fd = mkstemp(path);

    if (fd < 0)
        return -1;
    sw_os()->close(fd);
    return 0;
}

static int teardown(void **state)
{
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_encode_as_what_was_written),
        cmocka_unit_test(truncated_and_changed_files_are_refused),
        cmocka_unit_test(contradictory_files_are_refused),
        cmocka_unit_test(models_and_indexes_are_not_mistaken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
