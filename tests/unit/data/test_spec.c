/* The data spec in a checkpoint: what is written is read, and a damaged one is refused before
 * memory is taken for what it claims. */
#include "checkpoint/checkpoint.h"
#include "data/source.h"
#include "data/spec.h"
#include "data/vocabulary.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_)                                                                                 \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

static struct sw_err err;

/* ---- A source with everything that a spec has ---- */

enum { CHANNELS = 3, SIDE = 2, ROW = CHANNELS * SIDE * SIDE };

static const char *const classes[] = {
    "cat", "two\nlines", "tab\tand \\", "\xC3\xA9t\xC3\xA9", "not \xFF UTF-8", "\x01"};
static const char *const columns[] = {"height", "width"};
static const char *const tokens[] = {" ", "e", "\n", "\r"};
enum { CLASSES = 6, COLUMNS = 2, TOKENS = 4 };

struct sample {
    struct sw_source source;
    struct sw_lexicon classes;
    struct sw_vocabulary vocabulary;
    float mean[ROW], whiten_mean[ROW], whiten[ROW * ROW];
};

static void add_words(struct sw_lexicon *l, const char *const *words, int count)
{
    int32_t id;
    for (int i = 0; i < count; i++)
        ASSERT_OK(sw_lexicon_add(l, words[i], strlen(words[i]), 1, &id, &err));
}

static void sample_init(struct sample *s)
{
    *s = (struct sample){0};
    for (int i = 0; i < ROW; i++) {
        s->mean[i] = (float)i + 0.5f;
        s->whiten_mean[i] = -(float)i;
    }
    for (int i = 0; i < ROW * ROW; i++)
        s->whiten[i] = 1.0f / (float)(i + 1);
    add_words(&s->classes, classes, CLASSES);
    add_words(&s->vocabulary.tokens, tokens, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        sw_lexicon_set_times(&s->vocabulary.tokens, i, 1000000000000 >> i);

    struct sw_source *to = &s->source;
    strcpy(to->name, "test");
    to->raw.format = sw_format_find("csv");
    add_words(&to->raw.columns, columns, COLUMNS);
    to->class_names = &s->classes;
    to->vocabulary = &s->vocabulary;
    to->unit = SW_TEXT_CHARACTERS;
    to->raw.tags = &s->vocabulary;
    to->field_count = 3;
    to->field[0] = (struct sw_field){"image", SW_F32, 3, {CHANNELS, SIDE, SIDE}};
    to->field[1] = (struct sw_field){"label", SW_I32, 0, {0}};
    to->field[2] = (struct sw_field){"text", SW_I32, 1, {50}};
    to->raw_width = 7; /* and the height varies */
    to->transform = (struct sw_transform){.channels = CHANNELS,
                                          .out_height = SIDE,
                                          .out_width = SIDE,
                                          .mean_image = s->mean,
                                          .mean_height = SIDE,
                                          .mean_width = SIDE,
                                          .whiten_mean = s->whiten_mean,
                                          .whiten = s->whiten};
}

static void sample_fini(struct sample *s)
{
    sw_lexicon_fini(&s->classes);
    sw_lexicon_fini(&s->source.raw.columns);
    sw_vocabulary_fini(&s->vocabulary);
}

static const char *write_sample(void)
{
    const char *path = scratch_path("sample");
    struct sample s;
    struct sw_st_writer *w = sw_st_writer_new();

    sample_init(&s);
    ASSERT_OK(sw_st_writer_metadata(w, "singa_ws.format", "1", &err));
    ASSERT_OK(sw_data_spec_write(&s.source, w, &err));
    ASSERT_OK(sw_st_writer_write(w, path, 0600, NULL, NULL, &err));
    sw_st_writer_free(w);
    sample_fini(&s);
    return path;
}

/* ---- Reading ---- */

static int read_path(const char *path, struct sw_data_spec *spec)
{
    struct sw_st_file *f = NULL;
    int rc = sw_checkpoint_open(path, &f, &err);

    *spec = (struct sw_data_spec){0};
    if (rc == SW_OK)
        rc = sw_data_spec_read(spec, f, &err);
    sw_st_close(f);
    return rc;
}

/* Reads and frees. */
static int outcome(const char *path)
{
    struct sw_data_spec spec;
    int rc = read_path(path, &spec);
    sw_data_spec_fini(&spec);
    return rc;
}

static void assert_words(const struct sw_lexicon *l, const char *const *words, int count)
{
    assert_int_equal(l->count, count);
    for (int i = 0; i < count; i++) {
        size_t n;
        assert_string_equal(sw_lexicon_word(l, i, &n), words[i]);
        assert_int_equal(n, strlen(words[i]));
    }
}

static void what_is_written_is_read(void **state)
{
    struct sw_data_spec spec;
    struct sample s;
    struct sw_vocabulary v;

    sample_init(&s);
    ASSERT_OK(read_path(write_sample(), &spec));
    assert_string_equal(spec.section, "test");
    assert_string_equal(spec.format, "csv");
    assert_int_equal(spec.field_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(spec.field[i].name, s.source.field[i].name);
        assert_true(sw_field_same(&spec.field[i], &s.source.field[i]));
    }
    assert_ptr_equal(sw_data_spec_field(&spec, "text"), &spec.field[2]);
    assert_null(sw_data_spec_field(&spec, "tags"));
    assert_int_equal(spec.raw[0], CHANNELS);
    assert_int_equal(spec.raw[1], 0);
    assert_int_equal(spec.raw[2], 7);
    assert_words(&spec.classes, classes, CLASSES);
    assert_words(&spec.columns, columns, COLUMNS);
    ASSERT_OK(sw_vocabulary_parse(&v, "tokens", spec.tokens, strlen(spec.tokens), NULL, &err));
    assert_words(&v.tokens, tokens, TOKENS);
    ASSERT_OK(sw_vocabulary_read_counts(&v, "counts", spec.token_counts, &err));
    for (int i = 0; i < TOKENS; i++)
        assert_int_equal(sw_lexicon_times(&v.tokens, i), 1000000000000 >> i);
    assert_int_equal(sw_vocabulary_read_counts(&v, "counts", "5\n4\nx\n", &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "line 3"));
    assert_int_equal(sw_vocabulary_read_counts(&v, "counts", "5\n4\n", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_vocabulary_read_counts(&v, "counts", "5\n-4\n1\n1\n", &err), SW_ERR_FORMAT);
    /* A sum of counts that does not fit. */
    assert_int_equal(
        sw_vocabulary_read_counts(&v, "counts", "9223372036854775807\n1\n1\n1\n1\n1\n", &err),
        SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "line 2"));
    sw_vocabulary_fini(&v);

    /* The count of `unknown`, which was added, may be missing, but no other one. */
    ASSERT_OK(sw_vocabulary_parse(&v, "tokens", "a\nb\n", 4, "<unk>", &err));
    ASSERT_OK(sw_vocabulary_read_counts(&v, "counts", "5\n4\n", &err));
    assert_int_equal(sw_lexicon_times(&v.tokens, 1), 4);
    assert_int_equal(sw_lexicon_times(&v.tokens, 2), 0);
    assert_int_equal(sw_vocabulary_read_counts(&v, "counts", "5\n", &err), SW_ERR_FORMAT);
    sw_vocabulary_fini(&v);
    assert_string_equal(spec.tags, spec.tokens);
    assert_int_equal(spec.unit, SW_TEXT_CHARACTERS);
    assert_int_equal(spec.mean_height, SIDE);
    assert_int_equal(spec.mean_width, SIDE);
    assert_int_equal(spec.whitened, ROW);
    assert_memory_equal(spec.mean_image, s.mean, sizeof s.mean);
    assert_memory_equal(spec.whiten_mean, s.whiten_mean, sizeof s.whiten_mean);
    assert_memory_equal(spec.whiten, s.whiten, sizeof s.whiten);
    assert_true(sw_data_spec_owns("data.mean_image") && sw_data_spec_owns("data.whiten.matrix"));
    assert_false(sw_data_spec_owns("data.weight"));
    sw_data_spec_fini(&spec);
    sample_fini(&s);
}

static void exhausted_memory_is_said(void **state)
{
    const char *path = write_sample();
    int rc, at = 0;

    do {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = outcome(path);
        faulty_end();
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
        assert_int_equal(faulty.live_allocations, 0);
    } while (rc != SW_OK);
    assert_true(at > 20);
}

/* Without the syncs of sw_os_replace_file, since there are thousands. */
static void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void a_shortened_or_changed_file_is_refused(void **state)
{
    char *bytes = NULL;
    size_t n = 0;
    ASSERT_OK(sw_os_read_file(write_sample(), 1 << 20, &bytes, &n, &err));

    for (size_t length = 0; length < n; length++) {
        put_file(scratch_path("cut"), bytes, length);
        if (outcome(scratch_path("cut")) == SW_OK)
            fail_msg("the first %zu of %zu bytes were read", length, n);
    }

    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 4;
        put_file(scratch_path("changed"), bytes, n);
        if (outcome(scratch_path("changed")) == SW_OK)
            fail_msg("byte %zu was changed", i);
        bytes[i] ^= 4;
    }
    sw_free(bytes);
}

/* ---- Files of other programs, or with another content behind a valid checksum ---- */

static int no_sync(int fd)
{
    return 0;
}

static int with_metadata(const char *key, const char *value)
{
    const char *path = scratch_path("metadata");
    struct sw_os quick = sw_os_posix;
    struct sw_st_writer *w = sw_st_writer_new();

    ASSERT_OK(sw_st_writer_metadata(w, key, value, &err));
    quick.fsync = no_sync;
    sw_os_set(&quick);
    int rc = sw_st_writer_write(w, path, 0600, NULL, NULL, &err);
    sw_os_set(NULL);
    ASSERT_OK(rc);
    sw_st_writer_free(w);
    return outcome(path);
}

static void assert_refused(const char *key, const char *value)
{
    if (with_metadata(key, value) != SW_ERR_FORMAT)
        fail_msg("%s = '%s' was not refused", key, value);
    if (!strstr(err.text, key))
        fail_msg("'%s' does not name %s", err.text, key);
}

static void newer_versions_are_refused(void **state)
{
    const char *path = scratch_path("newer");
    struct sw_st_writer *w = sw_st_writer_new();

    ASSERT_OK(sw_st_writer_metadata(w, "singa_ws.format", "1000", &err));
    ASSERT_OK(sw_st_writer_write(w, path, 0600, NULL, NULL, &err));
    sw_st_writer_free(w);
    assert_int_equal(outcome(path), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "written by a newer version (format 1000"));
    assert_int_equal(with_metadata("singa_ws.format", "two"), SW_ERR_FORMAT);
}

static void bad_values_are_refused(void **state)
{
    static const char *const fields[] = {
        "image f16 3x2x2\n", /* unknown types */
        "image F32 3\n",
        "image i322 3\n",
        "image f32\n",
        "image f32 3x2x2", /* the line does not end */
        "image f32 3x2x2x2x2\n",
        "image f32 3x\n",
        "image f32 x3\n",
        "image f32 0\n",
        "image f32 -3\n",
        "image f32 +3\n",
        "image f32  3\n",
        "image f32 3 \n",
        "image f32 \n3\n",
        "image\nf32 3\n",
        " f32 3\n",
        "image f32 1000000000\n", /* of more digits than any size */
        "image f32 999999999x999999999x999999999x999999999\n",
        "image f32 3\nimage f32 3\n",
        "image f32 scalars\n",
        "\n",
        "a i32 1\nb i32 1\nc i32 1\nd i32 1\ne i32 1\nf i32 1\ng i32 1\nh i32 1\ni i32 1\n",
        "0123456789012345678901234567890123456789012345678901234567890123 f32 3\n",
    };
    static const char *const raw[] = {"",
                                      "3",
                                      "3x2",
                                      "3x2x2x2",
                                      "3x2x2 ",
                                      "-3x2x2",
                                      "3x2x",
                                      "ax2x2",
                                      "3x2x0x",
                                      "3 x2x2",
                                      "999999999x999999999x999999999"};
    static const char *const lists[] = {"",           "cat",     "cat\ndog", "cat\n\ndog\n",
                                        "cat\ncat\n", "c\\at\n", "cat\\\n",  "\\x0\n",
                                        "\\xZZ\n"};
    static const char *const units[] = {"", "byte", "bytes ", "Words"};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_refused("data.fields", fields[i]);
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        assert_refused("data.raw_image", raw[i]);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_refused("data.classes", lists[i]);
        assert_refused("data.columns", lists[i]);
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        assert_refused("data.unit", units[i]);
}

/* A value that ends early is refused, except between two lines. */
static void shortened_values_are_refused(void **state)
{
    static const struct {
        const char *key, *value;
    } whole[] = {{"data.fields", "image f32 3x64x64\nlabel i32 scalar\n"},
                 {"data.classes", "cat\ntwo\\nlines\n\\xff\n"},
                 {"data.columns", "height\nwidth\n"},
                 {"data.unit", "characters"}};

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char text[64];
        strcpy(text, whole[i].value);
        assert_int_equal(with_metadata(whole[i].key, text), SW_OK);
        for (size_t n = strlen(text) - 1; n > 0; n--) {
            text[n] = '\0';
            if (text[n - 1] != '\n')
                assert_refused(whole[i].key, text);
        }
    }
}

static size_t largest_allocation;

static void *note_alloc(size_t bytes)
{
    largest_allocation = bytes > largest_allocation ? bytes : largest_allocation;
    return sw_os_posix.alloc(bytes);
}

/* What reading a file of this header and 64 bytes of values answers. */
static int with_header(const char *metadata, const char *tensors)
{
    const char *path = scratch_path("header");
    struct sw_os noting = sw_os_posix;
    char text[1024] = {0}, header[900];
    int n = snprintf(header, sizeof header, "{\"__metadata__\":{%s},%s}", metadata, tensors);

    text[0] = (char)(n & 255);
    text[1] = (char)(n >> 8);
    memcpy(text + 8, header, (size_t)n);
    put_file(path, text, 8 + (size_t)n + 64);

    noting.alloc = note_alloc;
    largest_allocation = 0;
    sw_os_set(&noting);
    int rc = outcome(path);
    sw_os_set(NULL);
    assert_true(largest_allocation < 64 << 10);
    return rc;
}

#define TENSOR(name, type, shape, at, end)                                                         \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" at "," end "]" \
    "}"
#define RAW "\"data.raw_image\":\"1x4x4\""

static void tensors_that_do_not_fit_are_refused(void **state)
{
    static const char *const bad[] = {
        TENSOR("data.mean_image", "F32", "1,4,8", "0", "64"),  /* more than its bytes */
        TENSOR("data.mean_image", "F32", "1,4,4", "0", "128"), /* more than the file */
        TENSOR("data.mean_image", "F32", "1000000000,1000000000,1", "0", "64"),
        TENSOR("data.mean_image", "F32", "4611686018427387904,4,1", "0", "64"), /* wraps to 0 */
        TENSOR("data.mean_image", "F32", "1,4,-4", "0", "64"),
        TENSOR("data.mean_image", "F32", "16", "0", "64"),
        TENSOR("data.mean_image", "I32", "1,4,4", "0", "64"),
        TENSOR("data.mean_image", "F32", "2,2,4", "0", "64"),  /* images have one channel */
        TENSOR("data.whiten.matrix", "F32", "4,4", "0", "64"), /* without a mean */
        TENSOR("data.whiten.matrix", "F32", "2,4", "0", "32") "," TENSOR("data.whiten.mean", "F32",
                                                                         "1,2,4", "32", "64"),
        TENSOR("data.whiten.matrix", "F32", "3,3", "0", "36") "," TENSOR("data.whiten.mean", "F32",
                                                                         "1,1,7", "36", "64"),
    };

    assert_int_equal(with_header(RAW, TENSOR("data.mean_image", "F32", "1,4,4", "0", "64")), SW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (with_header(RAW, bad[i]) != SW_ERR_FORMAT)
            fail_msg("%s was not refused", bad[i]);
    assert_int_equal(with_header(RAW, TENSOR("data.mean_image", "F16", "2,4,4", "0", "64")),
                     SW_ERR_UNSUPPORTED);
    /* Without the size of images nothing says how many channels there are. */
    assert_int_equal(with_header("", TENSOR("data.mean_image", "F32", "1,4,4", "0", "64")),
                     SW_ERR_FORMAT);
}

static void files_without_a_spec_have_an_empty_one(void **state)
{
    struct sw_data_spec spec;

    assert_int_equal(with_metadata("step", "7"), SW_OK);
    ASSERT_OK(read_path(scratch_path("metadata"), &spec));
    assert_null(spec.section);
    assert_null(spec.tokens);
    assert_null(spec.mean_image);
    assert_int_equal(spec.field_count, 0);
    assert_int_equal(spec.classes.count, 0);
    sw_data_spec_fini(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(exhausted_memory_is_said),
        cmocka_unit_test(a_shortened_or_changed_file_is_refused),
        cmocka_unit_test(newer_versions_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(shortened_values_are_refused),
        cmocka_unit_test(tensors_that_do_not_fit_are_refused),
        cmocka_unit_test(files_without_a_spec_have_an_empty_one),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
