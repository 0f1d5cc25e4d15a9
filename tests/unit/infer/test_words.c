/* Texts as numbers of words: those of the vocabulary of the net, others are said and dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "infer/words.h"
#include "unit/faulty_os.h"
#include <string.h>

static struct sw_data_spec spec = {.tags = (char[]){"sea\nsky\nboat\n"}};

static void note(void *user, const char *text)
{
    sw_bytes_printf(user, "%s\n", text);
}

static void words_have_the_numbers_of_the_net(void **state)
{
    static const char *const texts[] = {"boat", " sky  sea\tsky wave", "wave sea"};
    const int32_t want[] = {2, -1, -1, 1, 0, 1, 0, -1, -1};
    struct sw_bytes notes = {0};
    struct sw_word_ids w;
    struct sw_err err;

    assert_int_equal(sw_word_ids_read(&w, &spec, texts, 3, note, &notes, &err), SW_OK);
    assert_int_equal(w.count, 3);
    assert_int_equal(w.width, 3);
    assert_memory_equal(w.ids, want, sizeof want);
    assert_string_equal(sw_bytes_text(&notes),
                        "'wave' is not among the 3 words of the net and is ignored\n");
    sw_bytes_fini(&notes);
    sw_word_ids_fini(&w);
}

static void texts_without_known_words_are_refused(void **state)
{
    static const char *const unknown[] = {"sea", "Sea"}, *const empty[] = {""};
    struct sw_data_spec damaged = {.tags = (char[]){"sea\n\\q\n"}}, none = {0};
    struct sw_word_ids w;
    struct sw_err err;

    assert_int_equal(sw_word_ids_read(&w, &spec, unknown, 2, NULL, NULL, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "'Sea': the net knows none of these words");
    sw_word_ids_fini(&w);
    assert_int_equal(sw_word_ids_read(&w, &spec, empty, 1, NULL, NULL, &err), SW_ERR_INVALID);
    sw_word_ids_fini(&w);
    assert_int_equal(sw_word_ids_read(&w, &none, unknown, 1, NULL, NULL, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "--input FIELD=FILE.npy"));
    sw_word_ids_fini(&w);
    assert_int_equal(sw_word_ids_read(&w, NULL, unknown, 1, NULL, NULL, &err), SW_ERR_INVALID);
    sw_word_ids_fini(&w);
    assert_int_equal(sw_word_ids_read(&w, &damaged, unknown, 1, NULL, NULL, &err), SW_ERR_FORMAT);
    sw_word_ids_fini(&w);
}

static void exhausted_memory_is_said(void **state)
{
    static const char *const texts[] = {"boat sea", "sky wave"};
    struct sw_err err;
    int rc, at = 0;

    do {
        struct sw_word_ids w;

        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = sw_word_ids_read(&w, &spec, texts, 2, NULL, NULL, &err);
        sw_word_ids_fini(&w);
        faulty_end();
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
        assert_int_equal(faulty.live_allocations, 0);
    } while (rc != SW_OK);
    assert_true(at > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_the_numbers_of_the_net),
        cmocka_unit_test(texts_without_known_words_are_refused),
        cmocka_unit_test(exhausted_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
