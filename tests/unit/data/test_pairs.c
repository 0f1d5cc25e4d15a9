/* The pairs format: arrays and lists of two modalities, tags, label sets, and files that do not fit
 * each other. */
#include "data/room.h"
#include "data/vocabulary.h"
#include "npy_support.h"

static struct support_conf conf;

static void begin(bool sets)
{
    support_init(&conf, "pairs");
    support_set(&conf, "label_sets", &sets, sizeof sets);
}

static const char *text(const char *name, const char *content)
{
    return support_write(name, content, strlen(content));
}

static int open_it(struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
    return sw_records_open(r, conf.format, &args, err);
}

static const void *get(const struct sw_records *r, int64_t record, const char *field)
{
    static _Alignas(64) unsigned char scratch[SW_MAX_FIELDS][4096];
    const void *out = NULL;
    struct sw_err err = {0};
    for (int f = 0; f < r->field_count; f++) {
        if (!strcmp(r->field[f].name, field)) {
            ASSERT_OK(r->format->fetch(r, record, f, scratch[f], &out, &err));
            return out;
        }
    }
    fail_msg("no field %s", field);
    return NULL;
}

static const float features[3][2] = {{1, 2}, {3, 4}, {5, 6}};
static const float words[3][4] = {{0, 1, 0, 2}, {3, 0, 0, 0}, {0, 0, 1, 1}};
static const unsigned char sets[3][3] = {{1, 0, 0}, {0, 1, 1}, {0, 0, 0}};
static const int32_t tags[3][2] = {{4, 0}, {2, -1}, {-1, -1}};

static const char *images(void)
{
    return npy_write("x", "<f4", "(3, 2)", features, sizeof features);
}

static void every_side_can_be_an_array(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin(true);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "text", 1, npy_gzip("t.gz", "<f4", "(3, 4)", words, sizeof words), NULL);
    support_strings(&conf, "tags", 2, npy_write("g", "<i4", "(3, 2)", tags, sizeof tags), NULL);
    support_strings(&conf, "labels", 3, npy_write("l", "|b1", "(3, 3)", sets, sizeof sets), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.field_count, 4);
    assert_true(((const float *)get(&r, 2, "image"))[1] == 6);
    assert_memory_equal(get(&r, 0, "text"), words[0], sizeof words[0]);
    assert_memory_equal(get(&r, 1, "tags"), tags[1], sizeof tags[1]);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_true(((const float *)get(&r, i, "label"))[k] == sets[i][k]);
    sw_records_close(&r);
}

static void lists_name_images_tags_and_labels(void **state)
{
    struct sw_records r;
    struct sw_room room = {0};
    struct sw_picture picture;
    struct sw_bytes where = {0};
    struct sw_err err = {0};
    begin(true);
    text("one.jpg", "first bytes");
    support_strings(&conf, "paths", 0,
                    text("list", "one.jpg\tsky sea sky\twater nature\r\n"
                                 "two.jpg\tsea  boat \twater\n"
                                 "three.jpg\t\t\n"),
                    NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.field_count, 3);
    assert_true(r.has_pictures && r.picture_field == 0);
    assert_int_equal(r.classes, 2);
    assert_true(r.naming != 0);
    assert_int_equal(r.field[1].dim[0], 3);
    /* Twice each: sea, sky; then boat. */
    assert_memory_equal(get(&r, 0, "tags"), ((int32_t[]){1, 0, 1}), 12);
    assert_memory_equal(get(&r, 1, "tags"), ((int32_t[]){0, 2, -1}), 12);
    assert_memory_equal(get(&r, 2, "tags"), ((int32_t[]){-1, -1, -1}), 12);
    assert_memory_equal(get(&r, 0, "label"), ((float[]){1, 1}), 8);
    assert_memory_equal(get(&r, 1, "label"), ((float[]){0, 1}), 8);
    assert_memory_equal(get(&r, 2, "label"), ((float[]){0, 0}), 8);
    ASSERT_CONTAINS(r.where, "3 distinct tags, ");
    assert_int_equal(sw_vocabulary_find(r.tags, "sky", 3), 1);
    assert_int_equal(sw_vocabulary_find(r.tags, "wave", 4), -1);
    ASSERT_OK(r.format->fetch_picture(&r, 0, &room, &picture, &err));
    assert_int_equal(picture.bytes, 11);
    assert_memory_equal(picture.data, "first bytes", 11);
    assert_int_equal(r.format->fetch_picture(&r, 1, &room, &picture, &err), SW_ERR_NOTFOUND);
    sw_records_locate(&r, 1, &where);
    ASSERT_CONTAINS(sw_bytes_text(&where), "two.jpg");
    sw_bytes_fini(&where);
    sw_room_fini(&room);
    sw_records_close(&r);
}

static void tags_follow_a_vocabulary(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin(true);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "tags", 1, text("g", "a b c\nb c\nc d\n"), NULL);
    support_int(&conf, "max_tokens", 2);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.field[1].dim[0], 2);
    assert_memory_equal(get(&r, 0, "tags"), ((int32_t[]){1, 0}), 8);
    assert_memory_equal(get(&r, 2, "tags"), ((int32_t[]){0, -1}), 8);
    sw_records_close(&r);
    support_int(&conf, "max_tokens", 0);
    support_int(&conf, "max_tags", 1);
    support_text(&conf, "vocabulary", text("v", "d\nb\n"));
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.field[1].dim[0], 1);
    assert_int_equal(*(const int32_t *)get(&r, 0, "tags"), 1);
    assert_int_equal(*(const int32_t *)get(&r, 2, "tags"), 0);
    sw_records_close(&r);
    support_text(&conf, "vocabulary", NULL);
    support_int(&conf, "max_tags", 0);
    support_strings(&conf, "vocabulary_from", 2, text("others", "d d d\na\n"), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_memory_equal(get(&r, 0, "tags"), ((int32_t[]){1}), 4);
    assert_memory_equal(get(&r, 2, "tags"), ((int32_t[]){0}), 4);
    assert_int_equal(r.field[1].dim[0], 1);
    sw_records_close(&r);
}

static void a_single_label_is_a_class(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin(false);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "labels", 1, text("l", "war\nart\nwar\n"), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.classes, 2);
    assert_int_equal(*(const int32_t *)get(&r, 0, "label"), 1);
    assert_int_equal(*(const int32_t *)get(&r, 1, "label"), 0);
    sw_records_close(&r);
    support_strings(&conf, "classes", 2, "war", "art");
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(*(const int32_t *)get(&r, 0, "label"), 0);
    sw_records_close(&r);
}

static void expect(int code, const char *part, const char *more)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_it(&r, &err), code);
    ASSERT_CONTAINS(err.text, part);
    ASSERT_CONTAINS(err.text, more);
}

static void errors_name_files_that_do_not_match(void **state)
{
    begin(false);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "labels", 1, text("l", "a\nb\n"), NULL);
    expect(SW_ERR_FORMAT, "/l: has 2 lines, expected 3", "");
    support_strings(&conf, "labels", 1, text("l", "a\nb c\nd\n"), NULL);
    expect(SW_ERR_FORMAT, "/l: record 1: 2 labels, expected one", "label_sets = yes");
    support_strings(&conf, "labels", 1, text("l", "a\n\nd\n"), NULL);
    expect(SW_ERR_FORMAT, "/l: record 1: 0 labels", "");
    support_strings(&conf, "classes", 2, "a", "b");
    expect(SW_ERR_FORMAT, "/l: record 2: label 'd' is not listed in classes", "");
    begin(true);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "text", 1, npy_write("t", "<f4", "(2, 4)", words, 32), NULL);
    expect(SW_ERR_FORMAT, "/t: field text has 2 records, expected 3", "");
    begin(true);
    support_strings(&conf, "paths", 0, images(), NULL);
    support_strings(&conf, "tags", 1, npy_write("t", "<f4", "(3, 4)", words, 48), NULL);
    expect(SW_ERR_FORMAT, "/t: expected a row of integers", "-1");
    support_strings(&conf, "tags", 1, support_path("none"), NULL);
    expect(SW_ERR_NOTFOUND, "/none", "");
    support_strings(&conf, "tags", 1, support_write("z", "a\nb\0\nc\n", 7), NULL);
    expect(SW_ERR_FORMAT, "/z:2: contains a zero byte", "");
    begin(true);
    support_strings(&conf, "paths", 0, text("list", "a.jpg\tx\nb.jpg\n"), NULL);
    expect(SW_ERR_FORMAT, "/list:2: 1 tab-separated columns, expected 2", "");
    support_strings(&conf, "paths", 0, text("list", "a.jpg\n\n"), NULL);
    expect(SW_ERR_FORMAT, "/list:2: 0 tab-separated columns", "");
    support_strings(&conf, "paths", 0, text("list", "a\tb\tc\td\n"), NULL);
    expect(SW_ERR_FORMAT, "/list:1: 4 tab-separated columns, expected 3", "");
    support_strings(&conf, "paths", 0, text("list", "../a.jpg\tx\n"), NULL);
    expect(SW_ERR_FORMAT, "/list:1: path \"../a.jpg\" is outside of `root`", "");
    support_strings(&conf, "paths", 0, text("list", ""), NULL);
    expect(SW_ERR_FORMAT, "/list: is empty", "");
    support_strings(&conf, "paths", 0, text("list", "a\t\t\n"), NULL);
    expect(SW_ERR_FORMAT, "/list: no record has a label", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_side_can_be_an_array),
        cmocka_unit_test(lists_name_images_tags_and_labels),
        cmocka_unit_test(tags_follow_a_vocabulary),
        cmocka_unit_test(a_single_label_is_a_class),
        cmocka_unit_test(errors_name_files_that_do_not_match),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
