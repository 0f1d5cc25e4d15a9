/* Lists of images: paths and labels, and lists that are damaged or reach out of their root. */
#include "folder_support.h"

static int open_list(const char *text, size_t bytes, const char *root, int64_t classes,
                     struct sw_records *r, struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "image_list");
    support_strings(&c, "paths", 0, support_write("list", text, bytes), NULL);
    support_string(&c, "root", root);
    support_int(&c, "classes", classes);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    return sw_records_open(r, c.format, &args, err);
}

static void refuse(const char *text, const char *part)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_list(text, strlen(text), NULL, 3, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "list");
    ASSERT_CONTAINS(err.text, part);
}

static int32_t label_of(const struct sw_records *r, int64_t record)
{
    int32_t scratch;
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, 1, &scratch, &out, &err));
    return *(const int32_t *)out;
}

static void assert_image(const struct sw_records *r, int64_t record, int64_t height, int64_t width)
{
    struct sw_room room = {0}, pixels = {0};
    struct sw_decoder *d = NULL;
    struct sw_picture p, out;
    struct sw_err err = {0};
    ASSERT_OK(sw_decoder_new(&d, &err));
    ASSERT_OK(r->format->fetch_picture(r, record, &room, &p, &err));
    ASSERT_OK(sw_picture_decode(d, &p, 3, &pixels, &out, &err));
    assert_int_equal(out.height, height);
    assert_int_equal(out.width, width);
    sw_decoder_free(d);
    sw_room_fini(&room);
    sw_room_fini(&pixels);
}

static void lines_are_paths_and_labels(void **state)
{
    static const char text[] = "a.jpg 2\r\n"
                               "\n"
                               "  deep er/b 1.png\t 0  \n"
                               "deep er/../b.jpg.. 1"; /* no: see below */
    struct sw_records r;
    struct sw_err err = {0};
    struct sw_bytes where = {0};
    support_mkdir("deep er");
    support_level("a.jpg", 8, 9, 1);
    support_level("deep er/b 1.png", 3, 4, 2);
    ASSERT_OK(open_list(text, (size_t)(strstr(text, "deep er/..") - text), NULL, 0, &r, &err));
    assert_int_equal(r.count, 2);
    assert_int_equal(r.classes, 3);
    assert_int_equal(label_of(&r, 0), 2);
    assert_int_equal(label_of(&r, 1), 0);
    assert_image(&r, 0, 8, 9);
    assert_image(&r, 1, 3, 4);
    sw_records_locate(&r, 1, &where);
    ASSERT_CONTAINS(sw_bytes_text(&where), "record 1 (");
    ASSERT_CONTAINS(sw_bytes_text(&where), "/deep er/b 1.png)");
    sw_bytes_fini(&where);
    sw_records_close(&r);
    /* Another root, and more classes than labels. */
    ASSERT_OK(open_list("b 1.png 0", 9, support_path("deep er"), 10, &r, &err));
    assert_int_equal(r.classes, 10);
    assert_image(&r, 0, 3, 4);
    sw_records_close(&r);
    support_remove_all(state);
    support_setup(state);
}

static void compressed_lists_are_read_too(void **state)
{
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&c, "image_list");
    support_strings(&c, "paths", 0, support_gzip("one.gz", "x.jpg 4\n", 8),
                    support_write("two", "y.jpg 1", 7));
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&r, c.format, &args, &err));
    assert_int_equal(r.count, 2);
    assert_int_equal(label_of(&r, 0), 4);
    assert_int_equal(label_of(&r, 1), 1);
    sw_records_close(&r);
}

static void a_list_cannot_reach_outside_its_root(void **state)
{
    refuse("x.jpg 0\n/etc/passwd 1\n", ":2: path \"/etc/passwd\" is outside of `root`");
    refuse("../x.jpg 0\n", ":1: path \"../x.jpg\" is outside of `root`");
    refuse("a/../../x.jpg 0\n", "is outside of `root`");
    refuse("a/.. 0\n", "is outside of `root`");
    refuse(".. 0\n", "is outside of `root`");
    refuse("a//../x 0\n", "is outside of `root`");
}

static void names_that_only_resemble_dot_dot_are_accepted(void **state)
{
    static const char text[] = "..a/b.jpg 0\na../b..c/...jpg 1\n./x.jpg 2\n";
    struct sw_records r;
    struct sw_err err = {0};
    ASSERT_OK(open_list(text, sizeof text - 1, NULL, 0, &r, &err));
    assert_int_equal(r.count, 3);
    sw_records_close(&r);
}

static void list_errors_name_the_line(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    char *longest = malloc(6000);
    refuse("x.jpg 0\nx.jpg\n", ":2: expected a path and a label, found \"x.jpg\"");
    refuse("x.jpg 3\n", ":1: label \"3\", expected 0 to 2");
    refuse("x.jpg -1\n", ":1: label \"-1\"");
    refuse("x.jpg 1.5\n", ":1: label \"1.5\"");
    refuse("x.jpg 99999999999999999999\n", "label");
    refuse("", "is empty");
    refuse(" \n\n", "is empty");
    assert_int_equal(open_list("a 0\nb\0 1\n", 9, NULL, 0, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, ":2: contains a zero byte");
    assert_non_null(longest);
    memset(longest, 'a', 6000);
    memcpy(longest + 5990, " 0\n", 4);
    refuse(longest, ":1: aaaaa");
    free(longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_paths_and_labels),
        cmocka_unit_test(compressed_lists_are_read_too),
        cmocka_unit_test(a_list_cannot_reach_outside_its_root),
        cmocka_unit_test(names_that_only_resemble_dot_dot_are_accepted),
        cmocka_unit_test(list_errors_name_the_line),
    };
    return cmocka_run_group_tests(tests, support_setup, support_remove_all);
}
