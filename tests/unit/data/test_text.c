/* The text format: windows and what comes next, vocabularies of sections, streams, and texts that
 * are damaged. */
#include "data_support.h"

#include "data/vocabulary.h"

static struct support_conf conf;
static int64_t max_bytes; /* 0: the default */

static void begin(int unit, int64_t length)
{
    support_init(&conf, "text");
    support_set(&conf, "unit", &unit, sizeof unit);
    max_bytes = 0;
    support_int(&conf, "length", length);
}

enum { BYTES, CHARACTERS, WORDS };

static const char *text(const char *name, const char *content)
{
    return support_write(name, content, strlen(content));
}

static int open_it(struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {
        .conf = conf.bytes, .split = "train", .max_bytes = max_bytes};
    return sw_records_open(r, conf.format, &args, err);
}

static const int32_t *get(const struct sw_records *r, int64_t record, int f)
{
    static _Alignas(64) int32_t scratch[3][64];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, f, scratch[f], &out, &err));
    return out;
}

static void windows_and_next_tokens(void **state)
{
    /* l comes three times, o twice, the others once: l o " " d e h r w */
    static const int32_t code[] = {5, 4, 0, 0, 1, 2, 7, 1, 6, 0, 3};
    struct sw_records r;
    struct sw_err err = {0};
    for (int64_t stride = 0; stride < 4; stride++) {
        const int64_t step = stride ? stride : 3;
        begin(CHARACTERS, 3);
        support_int(&conf, "stride", stride);
        support_strings(&conf, "paths", 0, text("a", "hello wo"), text("b", "rld"));
        ASSERT_OK(open_it(&r, &err));
        assert_int_equal(r.classes, 8);
        assert_int_equal(r.field_count, 3);
        assert_int_equal(r.count, (11 - 4) / step + 1);
        for (int64_t i = 0; i < r.count; i++) {
            assert_memory_equal(get(&r, i, 0), code + i * step, 3 * sizeof *code);
            assert_memory_equal(get(&r, i, 1), code + i * step + 1, 3 * sizeof *code);
            assert_int_equal(*get(&r, i, 2), code[i * step + 3]);
        }
        sw_records_close(&r);
    }
}

static void large_vocabularies_keep_all_ids(void **state)
{
    struct sw_err err = {0};
    for (int words = 200; words <= 80000; words *= 20) {
        struct sw_bytes b = {0};
        struct sw_records r;
        for (int i = 0; i < words; i++)
            sw_bytes_printf(&b, "%06d ", i);
        begin(WORDS, 10);
        support_strings(&conf, "paths", 0, support_gzip("g.gz", b.text, b.length), NULL);
        ASSERT_OK(open_it(&r, &err));
        assert_int_equal(r.classes, words);
        for (int64_t i = 0; i < r.count; i += 7)
            for (int k = 0; k < 10; k++)
                assert_int_equal(get(&r, i, 1)[k], i * 10 + k + 1);
        sw_records_close(&r);
        sw_bytes_fini(&b);
    }
}

static void sections_share_a_vocabulary(void **state)
{
    struct sw_records a, b, c;
    struct sw_err err = {0};
    const char *train = text("train", "aaabbc"), *test = text("test", "ccab");
    begin(CHARACTERS, 2);
    support_strings(&conf, "paths", 0, train, NULL);
    ASSERT_OK(open_it(&a, &err));
    support_strings(&conf, "paths", 0, test, NULL);
    ASSERT_OK(open_it(&b, &err));
    support_strings(&conf, "vocabulary_from", 1, train, NULL);
    ASSERT_OK(open_it(&c, &err));
    assert_true(a.naming && a.naming == c.naming && a.naming != b.naming);
    assert_int_equal(get(&c, 0, 0)[0], 2);
    assert_int_equal(get(&b, 0, 0)[0], 0);
    sw_records_close(&a);
    sw_records_close(&b);
    sw_records_close(&c);
    begin(CHARACTERS, 2);
    support_strings(&conf, "paths", 0, test, NULL);
    support_text(&conf, "vocabulary", text("v", "a\nb\nc\n"));
    ASSERT_OK(open_it(&c, &err));
    assert_true(c.naming == a.naming || c.classes == 3);
    assert_int_equal(get(&c, 0, 0)[0], 2);
    sw_records_close(&c);
}

static void rare_words_are_left_out_or_replaced(void **state)
{
    /* Without c and d: a b a a b b a. */
    static const int32_t left[] = {0, 1, 0, 0, 1, 1, 0}, replaced[] = {0, 1, 2, 0, 0, 2, 1, 1, 0};
    struct sw_records r;
    struct sw_err err = {0};
    const char *path = text("rare", "a b c a a d b b a");
    begin(WORDS, 3);
    support_int(&conf, "stride", 1);
    support_int(&conf, "min_count", 3);
    support_strings(&conf, "paths", 0, path, NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, 2);
    assert_int_equal(r.count, 4);
    for (int64_t i = 0; i < r.count; i++)
        assert_memory_equal(get(&r, i, 0), left + i, 3 * sizeof *left);
    sw_records_close(&r);

    support_text(&conf, "unknown", "?");
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, 3);
    assert_int_equal(sw_lexicon_times(&r.vocabulary->tokens, 2), 2);
    assert_int_equal(r.count, 6);
    for (int64_t i = 0; i < r.count; i++)
        assert_memory_equal(get(&r, i, 0), replaced + i, 3 * sizeof *replaced);
    sw_records_close(&r);

    /* The words of a list are counted in the text. */
    begin(WORDS, 3);
    support_strings(&conf, "paths", 0, path, NULL);
    support_text(&conf, "vocabulary", text("list", "d\nb\na\nc\nz\n"));
    ASSERT_OK(open_it(&r, &err));
    static const int64_t times[] = {1, 3, 4, 1, 0};
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(sw_lexicon_times(&r.vocabulary->tokens, i), times[i]);
    sw_records_close(&r);
}

static void text_streams_continue_from_batch_to_batch(void **state)
{
    enum { S = 3, T = 4 };
    struct sw_data_conf common = support_plain();
    struct sw_source *s = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    char letters[63];
    for (int i = 0; i < 62; i++)
        letters[i] = (char)(i < 26 ? 'a' + i : i < 52 ? 'A' + i - 26 : '0' + i - 52);
    letters[62] = '\0';
    begin(CHARACTERS, T);
    support_strings(&conf, "paths", 0, text("l", letters), NULL);
    common.streams = S;
    ASSERT_OK(support_open(&conf, &common, true, 1, &s, &err));
    assert_int_equal(s->records, 15); /* 15 windows of 4 in 61 tokens, 5 for each stream */
    assert_int_equal(s->streams, S);
    ASSERT_OK(sw_reader_init(&r, s, &err));
    int32_t last[S] = {0};
    for (int64_t batch = 0; batch < 10; batch++) {
        int32_t tokens[S][T], target[S][T];
        void *out[SW_MAX_FIELDS] = {tokens, target};
        ASSERT_OK(sw_source_fetch(&r, batch * S, S, out, &err));
        for (int row = 0; row < S; row++) {
            /* Within an epoch the first token is what was to be found last. */
            assert_true(batch % 5 == 0 || tokens[row][0] == last[row]);
            assert_memory_equal(tokens[row] + 1, target[row], (T - 1) * sizeof(int32_t));
            last[row] = target[row][T - 1];
        }
    }
    sw_reader_fini(&r);
    sw_source_close(s);
}

static void expect(int code, const char *part)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_it(&r, &err), code);
    ASSERT_CONTAINS(err.text, part);
}

static void errors_name_file_and_expected_value(void **state)
{
    begin(CHARACTERS, 4);
    support_strings(&conf, "paths", 0, text("t", "abcd"), NULL);
    expect(SW_ERR_FORMAT, "/t: all files together have 4 tokens; length = 4 requires at least 5");
    support_strings(&conf, "paths", 0, text("t", ""), NULL);
    expect(SW_ERR_FORMAT, "/t: all files together have 0 tokens");
    support_strings(&conf, "paths", 0,
                    text("t", "ab\xFF"
                              "cdefg"),
                    NULL);
    expect(SW_ERR_FORMAT, "/t: byte 2 (0xff) is not valid UTF-8");
    support_strings(&conf, "paths", 0, text("t", "abcxyz"), NULL);
    support_text(&conf, "vocabulary", text("v", "a\nb\nc\n"));
    expect(SW_ERR_FORMAT, "/t: 'x' before byte 4 is not in the vocabulary");
    support_text(&conf, "vocabulary", NULL);
    support_int(&conf, "max_tokens", 5);
    expect(SW_ERR_INVALID, "max_tokens = 5, but the texts have 6 distinct tokens");
    support_int(&conf, "max_tokens", 0);
    support_text(&conf, "vocabulary", support_path("v"));
    support_text(&conf, "unknown", "?");
    struct sw_records r;
    struct sw_err err = {0};
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, 4);
    assert_int_equal(get(&r, 0, 0)[3], 3);
    sw_records_close(&r);
    support_int(&conf, "max_tokens", 3);
    expect(SW_ERR_INVALID, "max_tokens = 3 applies only to a vocabulary built from texts");
    support_int(&conf, "max_tokens", 0);
    support_strings(&conf, "vocabulary_from", 1, support_path("t"), NULL);
    expect(SW_ERR_INVALID, "vocabulary and vocabulary_from are both set");
    begin(CHARACTERS, 4);
    support_strings(&conf, "paths", 0, support_path("t"), NULL);
    support_text(&conf, "vocabulary", support_path("none"));
    expect(SW_ERR_NOTFOUND, "/none");
    begin(CHARACTERS, 4);
    support_strings(&conf, "paths", 0, support_path("none"), NULL);
    expect(SW_ERR_NOTFOUND, "/none");
    max_bytes = 5;
    support_strings(&conf, "paths", 0, text("t", "abcdef"), NULL);
    expect(SW_ERR_FORMAT, "/t: has more than max_bytes = 5 bytes; raise max_bytes");
}

/* A .gz of a few kilobytes that inflates to megabytes: refused before the memory is taken. */
static void a_decompression_bomb_is_refused(void **state)
{
    const size_t bytes = 8 << 20;
    char *many = malloc(bytes);
    assert_non_null(many);
    memset(many, 'a', bytes);
    begin(BYTES, 4);
    support_strings(&conf, "paths", 0, support_gzip("bomb.gz", many, bytes), NULL);
    max_bytes = (int64_t)bytes - 1;
    expect(SW_ERR_FORMAT, "bomb.gz: has more than max_bytes = 8388607 bytes, inflated; raise");
    free(many);
}

/* The text fits, the list of its different words does not. */
static void distinct_words_beyond_max_bytes_are_refused(void **state)
{
    enum { COUNT = 20000 };
    char *many = malloc(COUNT * 8), *at = many;
    assert_non_null(many);
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "w%05d ", i);
    begin(WORDS, 4);
    support_strings(&conf, "paths", 0, support_write("words", many, (size_t)(at - many)), NULL);
    max_bytes = 200000;
    expect(SW_ERR_FORMAT, "distinct words take more than max_bytes = 200000 bytes");
    max_bytes = 0;
    struct sw_records r;
    struct sw_err err = {0};
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, COUNT);
    sw_records_close(&r);
    free(many);
}

static void the_real_corpus_has_its_vocabulary(void **state)
{
    char path[512];
    struct sw_records r;
    struct sw_err err = {0};
    if (!support_shared("text/tinyshakespeare.txt", path))
        skip();
    begin(CHARACTERS, 50);
    support_strings(&conf, "paths", 0, path, NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, 65);
    assert_int_equal(r.count, (1115394 - 51) / 50 + 1);
    /* "First Citizen:"; a blank is the most frequent of all, then e. */
    assert_int_equal(get(&r, 0, 0)[5], 0);
    assert_int_equal(get(&r, 0, 0)[11], 1);
    sw_records_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decompression_bomb_is_refused),
        cmocka_unit_test(distinct_words_beyond_max_bytes_are_refused),
        cmocka_unit_test(windows_and_next_tokens),
        cmocka_unit_test(large_vocabularies_keep_all_ids),
        cmocka_unit_test(sections_share_a_vocabulary),
        cmocka_unit_test(rare_words_are_left_out_or_replaced),
        cmocka_unit_test(text_streams_continue_from_batch_to_batch),
        cmocka_unit_test(errors_name_file_and_expected_value),
        cmocka_unit_test(the_real_corpus_has_its_vocabulary),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
