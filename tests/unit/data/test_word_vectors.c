/* Vectors of words: what word2vec, gensim and GloVe write is read, what is written is read again
 * to the same bits, and damaged files are refused with the line and what was expected. */
#include "data/word_vectors.h"
#include "data_support.h"
#include "unit/faulty_os.h"
#include <float.h>
#include <math.h>

static const char *text_file(const char *text)
{
    return support_write("vectors.txt", text, strlen(text));
}

static void words_and_numbers_are_read(void **state)
{
    /* word2vec ends lines with a blank, gensim does not; lines may end as on Windows. */
    const char *path = text_file("3 2\nthe 1 -2.5 \nk\xC3\xB6nig 0.25 1e-3\r\n</s>\t0 3");
    struct sw_word_vectors v;
    struct sw_err err;

    ASSERT_OK(sw_word_vectors_read(&v, path, &err));
    assert_int_equal(v.words.count, 3);
    assert_int_equal(v.dims, 2);
    assert_int_equal(sw_lexicon_find(&v.words, "k\xC3\xB6nig", 6), 1);
    assert_int_equal(sw_lexicon_find(&v.words, "</s>", 4), 2);
    const float want[] = {1, -2.5f, 0.25f, 1e-3f, 0, 3};
    assert_memory_equal(v.values, want, sizeof want);
    sw_word_vectors_fini(&v);
}

/* Only numbers tell text from floats. */
static void words_may_have_control_characters(void **state)
{
    const char *path = text_file("2 2\n \x1b[1m\x01 1 -2.5\n\x7f\x02 .5 3\n");
    struct sw_word_vectors v;
    struct sw_err err;

    ASSERT_OK(sw_word_vectors_read(&v, path, &err));
    assert_int_equal(v.words.count, 2);
    assert_int_equal(sw_lexicon_find(&v.words, "\x1b[1m\x01", 5), 0);
    const float want[] = {1, -2.5f, 0.5f, 3};
    assert_memory_equal(v.values, want, sizeof want);
    sw_word_vectors_fini(&v);
}

static void vectors_of_glove_are_read(void **state)
{
    /* No first line; words may contain blanks; the first line decides how many numbers there are.
     */
    const char *path = text_file("the 1 -2.5\n. . . 0.25 1e-3\n5 0 3 \n");
    struct sw_word_vectors v;
    struct sw_err err;

    ASSERT_OK(sw_word_vectors_read(&v, path, &err));
    assert_int_equal(v.words.count, 3);
    assert_int_equal(v.dims, 2);
    assert_int_equal(sw_lexicon_find(&v.words, ". . .", 5), 1);
    assert_int_equal(sw_lexicon_find(&v.words, "5", 1), 2);
    const float want[] = {1, -2.5f, 0.25f, 1e-3f, 0, 3};
    assert_memory_equal(v.values, want, sizeof want);
    sw_word_vectors_fini(&v);
}

/* The first line, then words with a blank and little-endian floats, each with `end` behind it. */
static const char *binary_file(const char *head, const char *const *words, int count, int dims,
                               const float *values, const char *end)
{
    struct sw_bytes out = {0};
    const char *path;

    sw_bytes_add(&out, head);
    for (int i = 0; i < count; i++) {
        sw_bytes_printf(&out, "%s ", words[i]);
        sw_bytes_append(&out, (const char *)(values + i * dims), (size_t)dims * sizeof *values);
        sw_bytes_add(&out, end);
    }
    path = support_write("vectors.bin", out.text, out.length);
    sw_bytes_fini(&out);
    return path;
}

static void binary_vectors_are_read(void **state)
{
    static const char *const words[] = {"the", "k\xC3\xB6nig", "</s>"};
    /* Bytes of line ends and blanks are no ends: 0x0a20200a. */
    const float values[] = {1, -2.5f, 7.7096e-33f, 1e-3f, 0, FLT_MAX};
    struct sw_word_vectors v;
    struct sw_err err;

    for (int newline = 0; newline < 2; newline++) {
        ASSERT_OK(sw_word_vectors_read(
            &v, binary_file("3 2\n", words, 3, 2, values, newline ? "\n" : ""), &err));
        assert_int_equal(v.words.count, 3);
        assert_int_equal(v.dims, 2);
        assert_int_equal(sw_lexicon_find(&v.words, "k\xC3\xB6nig", 6), 1);
        assert_memory_equal(v.values, values, sizeof values);
        sw_word_vectors_fini(&v);
    }
}

/* Floats whose bytes look like the numbers of text. */
static void binary_vectors_may_look_like_text(void **state)
{
    static const char *const words[] = {"a", "b"};
    float values[] = {0, -2.5f, 0, 1};
    struct sw_word_vectors v;
    struct sw_err err;

    memcpy(&values[0], "1 2 ", 4);
    memcpy(&values[2], "3\n4\n", 4);
    ASSERT_OK(sw_word_vectors_read(&v, binary_file("2 2\n", words, 2, 2, values, "\n"), &err));
    assert_int_equal(v.words.count, 2);
    assert_memory_equal(v.values, values, sizeof values);
    sw_word_vectors_fini(&v);
}

static void damaged_binary_files_are_refused_with_what_was_expected(void **state)
{
    static const char *const words[] = {"a", "b", "a"}, *const empty[] = {"a", ""};
    static const char *const lines[] = {"a", "b\nc"};
    const float values[] = {1, 2, 3, 4, 5, 6}, nan[] = {1, 2, 3, NAN};
    const struct {
        const char *head, *const *words;
        int count;
        const float *values;
        const char *end, *says;
    } bad[] = {
        {"4 2\n", words, 2, values, "\n",
         ": ends in word 3, expected 4 words of 2 floats as line 1 says: the file is truncated"},
        {"2147483647 65536\n", words, 2, values, "\n", ": ends in word 1, expected"},
        {"2 3\n", words, 2, values, "", ": ends in word 2, expected 2 words of 3"},
        {"4 2\n", words, 3, values, "\n", ": ends in word 4, expected 4 words of 2 floats"},
        {"2 2\n", empty, 2, values, "\n", ": word 2 is empty or has a zero byte"},
        {"2 2\n", lines, 2, values, "\n", ": word 2 is empty or has a zero byte"},
        {"2 2\n", words, 2, nan, "\n", ": number 2 of word 2 is not finite"},
        {"1 2\n", words, 2, values, "\n", ": 11 bytes after its 1 words, expected its end"},
    };
    struct sw_word_vectors v;
    struct sw_err err;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path =
            binary_file(bad[i].head, bad[i].words, bad[i].count, 2, bad[i].values, bad[i].end);

        assert_int_equal(sw_word_vectors_read(&v, path, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, bad[i].says);
    }
}

static void written_vectors_are_read_to_the_same_bits(void **state)
{
    enum { WORDS = 70, DIMS = 3 };

    struct sw_word_vectors v = {.dims = DIMS}, again;
    struct sw_err err;
    const char *path = support_path("written.txt");

    v.values = sw_calloc(WORDS * DIMS, sizeof *v.values);
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        int32_t id;
        const int n = snprintf(word, sizeof word, "w%d", i);

        ASSERT_OK(sw_lexicon_add(&v.words, word, (size_t)n, 1, &id, &err));
        v.values[i * DIMS] = 1.0f / (float)(i + 3);
        v.values[i * DIMS + 1] = -FLT_MAX / (float)(i + 1);
        v.values[i * DIMS + 2] = i ? FLT_MIN * (float)i : -0.0f;
    }

    ASSERT_OK(sw_word_vectors_write(&v, path, &err));
    ASSERT_OK(sw_word_vectors_read(&again, path, &err));
    assert_int_equal(again.words.count, WORDS);
    assert_int_equal(sw_lexicon_identity(&again.words, NULL), sw_lexicon_identity(&v.words, NULL));
    assert_memory_equal(again.values, v.values, WORDS * DIMS * sizeof *v.values);
    sw_word_vectors_fini(&again);
    sw_word_vectors_fini(&v);
}

static void a_word_that_the_format_cannot_hold_is_refused(void **state)
{
    struct sw_word_vectors v = {.dims = 1};
    struct sw_err err;
    int32_t id;
    const char *path = support_path("blank.txt");

    v.values = sw_calloc(2, sizeof *v.values);
    ASSERT_OK(sw_lexicon_add(&v.words, "a", 1, 1, &id, &err));
    ASSERT_OK(sw_lexicon_add(&v.words, "b c", 3, 1, &id, &err));
    assert_int_equal(sw_word_vectors_write(&v, path, &err), SW_ERR_UNSUPPORTED);
    ASSERT_CONTAINS(err.text, "word 2 contains blanks or line ends");
    assert_int_equal(access(path, F_OK), -1);
    sw_word_vectors_fini(&v);
}

static void the_first_row_of_a_word_counts(void **state)
{
    static const char *const texts[] = {"a 1 2\nb 3 4\na 5 6\nc 7 8\n",
                                        "4 2\na 1 2\nb 3 4\na 5 6\nc 7 8\n"};
    static const char *const words[] = {"a", "b", "a"};
    static const float values[] = {1, 2, 3, 4, 7, 8};
    struct sw_word_vectors v;
    struct sw_err err;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ASSERT_OK(sw_word_vectors_read(&v, text_file(texts[i]), &err));
        assert_int_equal(v.repeated, 1);
        assert_int_equal(v.words.count, 3);
        assert_int_equal(sw_lexicon_find(&v.words, "c", 1), 2);
        assert_memory_equal(v.values, values, sizeof values);
        sw_word_vectors_fini(&v);
    }

    ASSERT_OK(sw_word_vectors_read(&v, binary_file("3 2\n", words, 3, 2, values, "\n"), &err));
    assert_int_equal(v.repeated, 1);
    assert_int_equal(v.words.count, 2);
    assert_memory_equal(v.values, values, 4 * sizeof *values);
    sw_word_vectors_fini(&v);
}

static void damaged_files_are_refused_with_what_was_expected(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", ": empty, expected vectors of words"},
        {"3\n", ":1: expected two numbers, of words and of dimensions"},
        {"\n", ":1: expected two numbers, of words and of dimensions"},
        {"the word\n", ":1: number 1 is 'word', expected a finite number"},
        {"the 1 2\na 1 2\nb 1\n", ":3: 1 numbers, expected 2 as line 1 has"},
        {"the 1 2\na 1 2 \n\n", ":3: empty line, expected a word and 2 numbers"},
        {"the 1 2\na 1 x\n", ":2: number 2 is 'x', expected a finite number"},
        {"the 1 2\nthe 3 x\n", ":2: number 2 is 'x', expected a finite number"},
        {"0 2\n", ":1: 0 words, expected 1 to"},
        {"3000000000 2\n", ":1: 3000000000 words, expected 1 to 2147483647"},
        {"3 -2\n", ":1: -2 dimensions, expected 1 to 65536"},
        {"3 65537\n", ":1: 65537 dimensions, expected 1 to 65536"},
        {"2 2\na 1 2\nb 1\n", ":3: 1 numbers, expected 2 as line 1 says"},
        {"2 2\na 1 2\nb 1 2 3\n", ":3: more than 2 numbers, expected 2 as line 1 says"},
        {"2 2\na 1 2\n", ": ends after 1 words, expected 2 as line 1 says: the file is truncated"},
        {"2000000000 60000\n", ": ends after 0 words, expected 2000000000"},
        {"1 2\na 1 2\nb 1 2\n", ":3: more lines, expected 1 words as line 1 says"},
        {"2 2\na 1 2\n\nb 1 2\n", ":3: empty line, expected a word and 2 numbers"},
        {"2 2\na 1 nan\nb 1 2\n", ":2: number 2 is 'nan', expected a finite number"},
        {"2 2\na inf 2\nb 1 2\n", ":2: number 1 is 'inf', expected a finite number"},
        {"2 2\na 1e39 2\nb 1 2\n", ":2: number 1 is '1e39', expected a finite number"},
        {"2 2\na 1 0x1\nb 1 2\n", ":2: number 2 is '0x1', expected a finite number"},
        {"2 1\na 1\na 1\nb 2\n", ":4: more lines, expected 2 words as line 1 says"},
        {"4 1\na 1\nb 1\na 2\n", ": ends after 3 words, expected 4 as line 1 says"},
    };
    struct sw_word_vectors v;
    struct sw_err err;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (sw_word_vectors_read(&v, text_file(bad[i].text), &err) != SW_ERR_FORMAT)
            fail_msg("not refused: %s", bad[i].text);
        ASSERT_CONTAINS(err.text, bad[i].says);
    }

    static const char zero[] = "a 2\nb \0\1\2\3";
    assert_int_equal(sw_word_vectors_read(&v, support_write("zero", zero, sizeof zero - 1), &err),
                     SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "zero:2: contains a zero byte; expected text");
    assert_int_equal(sw_word_vectors_read(&v, support_path("none"), &err), SW_ERR_NOTFOUND);
}

/* Every system call fails in turn: an error, and nothing leaks; the file is whole or missing. */
static void every_system_failure_is_reported(void **state)
{
    const char *path = text_file("2 1\na 1\nb 2\n"), *out = support_path("copy");
    bool failed = true;

    for (int at = 1; failed; at++) {
        struct sw_word_vectors v;
        struct sw_err err = {0};

        unlink(out);
        faulty_begin(
            (struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at, .error = EIO});
        int rc = sw_word_vectors_read(&v, path, &err);
        if (rc == SW_OK)
            rc = sw_word_vectors_write(&v, out, &err);
        sw_word_vectors_fini(&v);
        failed = faulty.calls >= at;
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();

        if (failed)
            assert_true(rc != SW_OK && err.text[0]);
        else
            assert_int_equal(rc, SW_OK);
        if (access(out, F_OK) == 0) {
            ASSERT_OK(sw_word_vectors_read(&v, out, &err));
            assert_int_equal(v.words.count, 2);
            sw_word_vectors_fini(&v);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_numbers_are_read),
        cmocka_unit_test(words_may_have_control_characters),
        cmocka_unit_test(vectors_of_glove_are_read),
        cmocka_unit_test(binary_vectors_are_read),
        cmocka_unit_test(binary_vectors_may_look_like_text),
        cmocka_unit_test(damaged_binary_files_are_refused_with_what_was_expected),
        cmocka_unit_test(written_vectors_are_read_to_the_same_bits),
        cmocka_unit_test(a_word_that_the_format_cannot_hold_is_refused),
        cmocka_unit_test(the_first_row_of_a_word_counts),
        cmocka_unit_test(damaged_files_are_refused_with_what_was_expected),
        cmocka_unit_test(every_system_failure_is_reported),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
