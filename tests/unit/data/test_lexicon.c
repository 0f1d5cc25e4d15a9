/* Word lists, vocabularies, and splitting of texts into tokens. */
#include "data/vocabulary.h"
#include "data_support.h"

static void add(struct sw_lexicon *l, const char *word, int64_t times)
{
    struct sw_err err = {0};
    int32_t id;
    ASSERT_OK(sw_lexicon_add(l, word, strlen(word), times, &id, &err));
    assert_int_equal(sw_lexicon_find(l, word, strlen(word)), id);
}

static void word_ids_stay_stable_as_the_table_grows(void **state)
{
    struct sw_lexicon l = {0};
    struct sw_err err = {0};
    assert_int_equal(sw_lexicon_find(&l, "x", 1), -1);
    for (int round = 0; round < 3; round++) {
        for (int32_t i = 0; i < 20000; i++) {
            char word[16];
            int32_t id = -1;
            const int n = snprintf(word, sizeof word, "%d", i * 7);
            ASSERT_OK(sw_lexicon_add(&l, word, (size_t)n, 1, &id, &err));
            assert_int_equal(id, i);
        }
    }
    size_t n = 0;
    assert_int_equal(l.count, 20000);
    assert_string_equal(sw_lexicon_word(&l, 9999, &n), "69993");
    assert_int_equal(n, 5);
    assert_int_equal(sw_lexicon_times(&l, 9999), 3);
    assert_int_equal(sw_lexicon_find(&l, "5", 1), -1);
    sw_lexicon_fini(&l);
}

static void ranks_do_not_depend_on_the_order_of_arrival(void **state)
{
    static const char *const words[] = {"b", "a", "ab", "", "\xC3\xA9", "z"};
    static const int64_t times[] = {5, 2, 5, 9, 2, 2};
    static const int by_bytes[] = {3, 1, 2, 0, 5, 4}, by_times[] = {3, 2, 0, 1, 5, 4};
    uint64_t identity[2];
    for (int backwards = 0; backwards < 2; backwards++) {
        struct sw_lexicon l = {0};
        int32_t order[6];
        for (int i = 0; i < 6; i++)
            add(&l, words[backwards ? 5 - i : i], times[backwards ? 5 - i : i]);
        sw_lexicon_rank(&l, SW_LEXICON_BY_BYTES, order);
        for (int k = 0; k < 6; k++)
            assert_string_equal(sw_lexicon_word(&l, order[k], NULL), words[by_bytes[k]]);
        identity[backwards] = sw_lexicon_identity(&l, order);
        sw_lexicon_rank(&l, SW_LEXICON_BY_TIMES, order);
        for (int k = 0; k < 6; k++)
            assert_string_equal(sw_lexicon_word(&l, order[k], NULL), words[by_times[k]]);
        assert_true(sw_lexicon_identity(&l, order) != identity[backwards]);
        sw_lexicon_fini(&l);
    }
    assert_true(identity[0] == identity[1] && identity[0] != 0);
}

static void expect_tokens(enum sw_text_unit unit, const char *line_end, const char *text,
                          const char *joined)
{
    struct sw_text t = {.what = "t",
                        .begin = text,
                        .at = text,
                        .end = text + strlen(text),
                        .unit = unit,
                        .line_end = line_end};
    struct sw_bytes all = {0};
    struct sw_err err = {0};
    for (size_t n = 1; n;) {
        const char *token = NULL;
        ASSERT_OK(sw_text_next(&t, &token, &n, &err));
        sw_bytes_append(&all, token, n);
        sw_bytes_add(&all, "|");
    }
    assert_string_equal(sw_bytes_text(&all), joined);
    sw_bytes_fini(&all);
}

static void texts_are_split_into_bytes_characters_and_words(void **state)
{
    expect_tokens(SW_TEXT_BYTES, NULL, "a\xC3\xA9\n", "a|\xC3|\xA9|\n||");
    expect_tokens(SW_TEXT_CHARACTERS, NULL, "a\xC3\xA9\n", "a|\xC3\xA9|\n||");
    expect_tokens(SW_TEXT_WORDS, NULL, "  to be,\tor\r\nnot \n", "to|be,|or|not||");
    expect_tokens(SW_TEXT_WORDS, "<eos>", "to be\n\nor \r\nnot",
                  "to|be|<eos>|<eos>|or|<eos>|not||");
    expect_tokens(SW_TEXT_WORDS, "", "to\nbe\n", "to|be||");
    expect_tokens(SW_TEXT_WORDS, "<eos>", "", "|");
    struct sw_err err = {0};
    const char bad[] = "ab\xC3";
    struct sw_text t = {"x.txt", bad, bad + 2, bad + 3, SW_TEXT_CHARACTERS, NULL};
    const char *token = NULL;
    size_t n = 0;
    assert_int_equal(sw_text_next(&t, &token, &n, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "x.txt: byte 2 (0xc3) is not valid UTF-8");
}

static void expect_vocabulary(const struct sw_vocabulary *v, const char *joined)
{
    struct sw_bytes all = {0};
    for (int32_t i = 0; i < sw_vocabulary_count(v); i++) {
        size_t n = 0;
        const char *token = sw_vocabulary_token(v, i, &n);
        assert_int_equal(sw_vocabulary_find(v, token, n), i);
        sw_bytes_append(&all, token, n);
        sw_bytes_add(&all, "|");
    }
    assert_string_equal(sw_bytes_text(&all), joined);
    sw_bytes_fini(&all);
}

static void vocabularies_are_ranked_by_frequency_and_truncated(void **state)
{
    struct sw_lexicon met = {0};
    struct sw_vocabulary v;
    struct sw_err err = {0};
    add(&met, "be", 2);
    add(&met, "to", 5);
    add(&met, "or", 2);
    add(&met, "not", 1);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 0, NULL, &err));
    expect_vocabulary(&v, "to|be|or|not|");
    assert_int_equal(sw_vocabulary_find(&v, "x", 1), -1);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 0, "<unk>", &err));
    expect_vocabulary(&v, "to|be|or|not|<unk>|");
    assert_int_equal(sw_vocabulary_find(&v, "x", 1), 4);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 3, "<unk>", &err));
    expect_vocabulary(&v, "to|be|<unk>|");
    assert_int_equal(sw_vocabulary_find(&v, "or", 2), 2);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 2, "to", &err));
    expect_vocabulary(&v, "to|be|");
    assert_int_equal(sw_vocabulary_find(&v, "not", 3), 0);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 2, "not", &err));
    expect_vocabulary(&v, "to|not|");
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 1, 3, NULL, &err));
    expect_vocabulary(&v, "to|be|or|");
    assert_int_equal(sw_vocabulary_find(&v, "not", 3), -1);
    sw_vocabulary_fini(&v);

    /* Rare tokens; the others' counts go to the token that replaces them. */
    ASSERT_OK(sw_vocabulary_make(&v, &met, 2, 0, NULL, &err));
    expect_vocabulary(&v, "to|be|or|");
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 2, 0, "<unk>", &err));
    expect_vocabulary(&v, "to|be|or|<unk>|");
    assert_int_equal(sw_lexicon_times(&v.tokens, 0), 5);
    assert_int_equal(sw_lexicon_times(&v.tokens, 3), 1);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 2, 3, "<unk>", &err));
    expect_vocabulary(&v, "to|be|<unk>|");
    assert_int_equal(sw_lexicon_times(&v.tokens, 2), 3);
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 2, 4, "<unk>", &err));
    expect_vocabulary(&v, "to|be|or|<unk>|");
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_make(&v, &met, 2, 0, "not", &err));
    expect_vocabulary(&v, "to|be|or|not|");
    sw_vocabulary_fini(&v);
    assert_int_equal(sw_vocabulary_make(&v, &met, 6, 0, NULL, &err), SW_ERR_INVALID);
    sw_lexicon_fini(&met);
}

static void refuse_list(const char *list, const char *part)
{
    struct sw_vocabulary v;
    struct sw_err err = {0};
    assert_int_equal(sw_vocabulary_parse(&v, "v.txt", list, strlen(list), NULL, &err),
                     SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "v.txt: ");
    ASSERT_CONTAINS(err.text, part);
}

static void vocabularies_are_read_from_lists(void **state)
{
    static const char list[] = "a\n \n\\n\r\n\\t\n\\\\\n\\x41\\x0a\nend";
    struct sw_vocabulary v;
    struct sw_err err = {0};
    ASSERT_OK(sw_vocabulary_parse(&v, "v.txt", list, strlen(list), "?", &err));
    expect_vocabulary(&v, "a| |\n|\t|\\|A\n|end|?|");
    sw_vocabulary_fini(&v);
    ASSERT_OK(sw_vocabulary_parse(&v, "v.txt", list, strlen(list), "a", &err));
    assert_int_equal(sw_vocabulary_find(&v, "zzz", 3), 0);
    sw_vocabulary_fini(&v);
    refuse_list("", "has no token");
    refuse_list("a\n\nb\n", "line 2: empty line");
    refuse_list("a\nb\na\n", "line 3: duplicate of the token in line 1");
    refuse_list("a\nb\\q\n", "line 2: invalid escape, expected \\n, \\t");
    refuse_list("\\x4", "line 1: invalid escape");
    refuse_list("\\", "line 1: invalid escape");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(word_ids_stay_stable_as_the_table_grows),
        cmocka_unit_test(ranks_do_not_depend_on_the_order_of_arrival),
        cmocka_unit_test(texts_are_split_into_bytes_characters_and_words),
        cmocka_unit_test(vocabularies_are_ranked_by_frequency_and_truncated),
        cmocka_unit_test(vocabularies_are_read_from_lists),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
