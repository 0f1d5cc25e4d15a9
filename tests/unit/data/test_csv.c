/* The csv format: headers, labels, targets, quotes, shapes, and tables that are damaged. */
#include "data_support.h"

static struct support_conf conf;
static int64_t max_bytes; /* 0: the default */

static void begin(void)
{
    support_init(&conf, "csv");
    max_bytes = 0;
}

static void set_header(bool header)
{
    support_set(&conf, "header", &header, sizeof header);
}

static const char *table(const char *text)
{
    return support_write("t.csv", text, strlen(text));
}

static int open_paths(const char *a, const char *b, struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {
        .conf = conf.bytes, .split = "train", .max_bytes = max_bytes};
    support_strings(&conf, "paths", 0, a, b);
    return sw_records_open(r, conf.format, &args, err);
}

static const void *get(const struct sw_records *r, int64_t record, int f)
{
    static _Alignas(64) unsigned char scratch[4096];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, f, scratch, &out, &err));
    return out;
}

static float number(const struct sw_records *r, int64_t record, int f, int k)
{
    return ((const float *)get(r, record, f))[k];
}

static int32_t label(const struct sw_records *r, int64_t record)
{
    return *(const int32_t *)get(r, record, 1);
}

static void a_table_of_numbers_with_its_label_last(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    ASSERT_OK(open_paths(table("1,-2.5,3e2,4\r\n\n5, 6 ,7,0\n+.5,0,-0,2"), NULL, &r, &err));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.classes, 5);
    assert_int_equal(r.field_count, 2);
    assert_string_equal(r.field[0].name, "image");
    assert_int_equal(r.field[0].dtype, SW_F32);
    assert_int_equal(r.field[0].dim[0], 3);
    assert_int_equal(r.field[0].dim[1] * r.field[0].dim[2], 1);
    assert_true(number(&r, 0, 0, 0) == 1 && number(&r, 0, 0, 1) == -2.5f);
    assert_true(number(&r, 0, 0, 2) == 300 && number(&r, 1, 0, 1) == 6);
    assert_true(number(&r, 2, 0, 0) == 0.5f);
    assert_int_equal(label(&r, 0), 4);
    assert_int_equal(label(&r, 1), 0);
    assert_int_equal(label(&r, 2), 2);
    sw_records_close(&r);
}

static void words_are_classes_in_sorted_or_given_order(void **state)
{
    static const char text[] = "oak,1\nash,2\n\"el\"\"m, red\",3\nash,4\n";
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    support_text(&conf, "label", "first");
    ASSERT_OK(open_paths(table(text), NULL, &r, &err));
    assert_int_equal(r.classes, 3);
    assert_int_equal(label(&r, 0), 2);
    assert_int_equal(label(&r, 1), 0);
    assert_int_equal(label(&r, 2), 1);
    assert_int_equal(label(&r, 3), 0);
    sw_records_close(&r);
    const char *names[] = {"oak", "pine", "ash", "el\"m, red"};
    const struct sw_strings list = {names, 4};
    support_set(&conf, "classes", &list, sizeof list);
    ASSERT_OK(open_paths(table(text), NULL, &r, &err));
    assert_int_equal(r.classes, 4);
    assert_int_equal(label(&r, 0), 0);
    assert_int_equal(label(&r, 1), 2);
    assert_int_equal(label(&r, 2), 3);
    sw_records_close(&r);
    assert_int_equal(open_paths(table("oak,1\nelm,2\n"), NULL, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text,
                    "t.csv: line 2, record 1, column 1: 'elm', expected one of the labels");
}

static void columns_have_names_and_roles(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    set_header(true);
    support_int(&conf, "skip_lines", 2);
    support_text(&conf, "label", "kind");
    support_strings(&conf, "target", 1, "price", "last");
    support_strings(&conf, "ignore", 2, "id", NULL);
    ASSERT_OK(open_paths(table("made on \"Monday\nby hand\nid,width,kind,price,height,mass\n"
                               "x1,1,b,10,2,30\nx2,4,a,11,5,31\n"),
                         NULL, &r, &err));
    assert_int_equal(r.count, 2);
    assert_int_equal(r.field_count, 3);
    assert_int_equal(r.field[0].dim[0], 2);
    assert_true(number(&r, 1, 0, 0) == 4 && number(&r, 1, 0, 1) == 5);
    assert_int_equal(label(&r, 0), 1);
    assert_string_equal(r.field[2].name, "target");
    assert_int_equal(r.field[2].dim[0], 2);
    assert_true(number(&r, 0, 2, 0) == 10 && number(&r, 0, 2, 1) == 30);
    assert_true(number(&r, 1, 2, 0) == 11 && number(&r, 1, 2, 1) == 31);
    sw_records_close(&r);
}

static void targets_alone_need_no_label(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    const int blanks = 4;
    begin();
    support_set(&conf, "separator", &blanks, sizeof blanks);
    support_strings(&conf, "target", 1, "2", NULL);
    ASSERT_OK(open_paths(table("  1 2 \t 3\n4\t5   6  \n"), NULL, &r, &err));
    assert_int_equal(r.classes, 0);
    assert_int_equal(r.field_count, 2);
    assert_string_equal(r.field[1].name, "target");
    assert_true(number(&r, 1, 1, 0) == 5 && number(&r, 1, 0, 1) == 6);
    sw_records_close(&r);
}

static void plain_and_gzip_files_are_concatenated(void **state)
{
    static const char one[] = "a,b,c\n1,2,0\n", two[] = "a,b,c\n3,4,1\n5,6,1\n";
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    set_header(true);
    const char *plain = support_write("one.csv", one, strlen(one)),
               *gzip = support_gzip("two.csv.gz", two, strlen(two));
    ASSERT_OK(open_paths(plain, gzip, &r, &err));
    assert_int_equal(r.count, 3);
    assert_true(number(&r, 2, 0, 1) == 6);
    sw_records_close(&r);
    const char *other = support_write("three.csv", "a,x,c\n1,2,3\n", 12);
    assert_int_equal(open_paths(plain, other, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "three.csv: line 1: column 2 is named x, expected b");
}

static void shapes_are_checked_against_the_columns(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    static const char text[] = "1,2,3,4,5,6,0\n";
    begin();
    support_text(&conf, "shape", "1x2x3");
    ASSERT_OK(open_paths(table(text), NULL, &r, &err));
    assert_int_equal(r.field[0].dim[1], 2);
    assert_int_equal(r.field[0].dim[2], 3);
    sw_records_close(&r);
    support_text(&conf, "shape", "3x2");
    ASSERT_OK(open_paths(table(text), NULL, &r, &err));
    assert_int_equal(r.field[0].dim[0], 1);
    assert_int_equal(r.field[0].dim[1], 3);
    sw_records_close(&r);
    static const char *const bad[] = {"2x2x2", "6", "1x2x3x", "-1x-2x3", "ax2", "0x6x1"};
    for (int i = 0; i < 6; i++) {
        support_text(&conf, "shape", bad[i]);
        assert_int_equal(open_paths(table(text), NULL, &r, &err), SW_ERR_INVALID);
        ASSERT_CONTAINS(err.text, "shape = ");
    }
    /* Without a key: a channel for each of up to 64 columns, one row beyond. */
    begin();
    char wide[256] = "0";
    for (int i = 0; i < 65; i++)
        strcat(wide, ",1");
    ASSERT_OK(open_paths(table(wide), NULL, &r, &err));
    assert_int_equal(r.field[0].dim[0], 1);
    assert_int_equal(r.field[0].dim[2], 65);
    sw_records_close(&r);
}

static void expect(const char *text, const char *part)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_paths(table(text), NULL, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "t.csv: ");
    ASSERT_CONTAINS(err.text, part);
}

static void errors_name_file_line_record_and_expected_value(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    expect("", "has no record");
    expect("\n\n", "has no record");
    expect("1,2,0\n1,2\n", "line 2, record 1: 2 columns, expected 3");
    expect("1,2,0\n\n1,2,3,0\n", "line 3, record 1: 4 columns, expected 3");
    expect("1,2,0\n1,x,0\n", "line 2, record 1, column 2: 'x', expected a number");
    expect("1,,0\n", "line 1, record 0, column 2: '', expected a number");
    expect("1,nan,0\n", "'nan', expected a number");
    expect("1,0x10,0\n", "'0x10', expected a number");
    expect("1,1e39,0\n", "'1e39', expected a number in the range");
    expect("1,2,\n", "column 3: '', expected a label");
    expect("1,\"2,0\n", "line 1, column 2: unterminated quote");
    expect("1,\"2\"x,0\n", "line 1, column 2: text after the closing quote");
    expect("1,2\"x,0\n", "line 1, column 2: quote inside an unquoted field");
    expect("\"1\n\",0\n2\n", "line 1, record 0, column 1");
    expect("1,\"a\nb\"\nc\n", "line 3, record 1: 1 columns");
    assert_int_equal(open_paths(support_write("t.csv", "1,\0,0\n", 6), NULL, &r, &err),
                     SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "zero byte");
    set_header(true);
    expect("a,b\n", "has no record");
    support_int(&conf, "skip_lines", 3);
    expect("a,b\nc\n", "has only 2 lines, but skip_lines = 3");
    assert_int_equal(open_paths(support_path("missing.csv"), NULL, &r, &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "missing.csv");
}

static void expect_key(const char *part)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_paths(table("width,height,kind\n1,2,0\n"), NULL, &r, &err),
                     SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, part);
}

static void keys_with_unknown_columns_are_refused(void **state)
{
    begin();
    set_header(true);
    support_text(&conf, "label", "knd");
    expect_key("label = knd: no such column; did you mean kind?");
    support_text(&conf, "label", "colour");
    expect_key("label = colour: no such column; the file has width, height, kind");
    support_text(&conf, "label", "4");
    expect_key("label = 4: the table has only columns 1 to 3");
    support_text(&conf, "label", "kind");
    support_strings(&conf, "target", 1, "3", NULL);
    expect_key("label = kind: column 3 is already used by another key");
    support_strings(&conf, "target", 1, "1", "2");
    expect_key("no column is left");
    set_header(false);
    support_text(&conf, "label", "kind");
    expect_key("label = kind: expected a column number from 1 to 3");
    begin();
    set_header(true);
    support_strings(&conf, "classes", 1, "a", "a");
    expect_key("classes: a is listed twice");
}

static void gzip_files_inflate_up_to_a_limit(void **state)
{
    const size_t bytes = 100000;
    char *text = malloc(bytes), *file = NULL;
    size_t file_bytes = 0;
    struct sw_records r;
    struct sw_err err = {0};
    begin();
    for (size_t i = 0; i < bytes; i += 4)
        memcpy(text + i, "7,0\n", 4);
    const char *path = support_gzip("big.gz", text, bytes);
    ASSERT_OK(open_paths(path, NULL, &r, &err));
    assert_int_equal(r.count, 25000);
    assert_true(number(&r, 24999, 0, 0) == 7);
    sw_records_close(&r);
    for (max_bytes = (int64_t)bytes; max_bytes >= (int64_t)bytes - 1; max_bytes--) {
        const int rc = open_paths(path, NULL, &r, &err);
        assert_int_equal(rc, max_bytes < (int64_t)bytes ? SW_ERR_FORMAT : SW_OK);
        if (rc)
            ASSERT_CONTAINS(err.text, "big.gz: has more than max_bytes = 99999 bytes");
        sw_records_close(&r);
    }
    begin();
    /* Sizes at its end that lie, and bytes that are missing or too many. */
    ASSERT_OK(sw_os_read_file(path, 1 << 20, &file, &file_bytes, &err));
    static const uint32_t claims[] = {0, 99999, 100001, 900000};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++)
            file[file_bytes - 4 + (size_t)k] = (char)(claims[i] >> (8 * k));
        path = support_write("lies.gz", file, file_bytes);
        assert_int_equal(open_paths(path, NULL, &r, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "lies.gz: ");
    }
    assert_int_equal(open_paths(support_write("cut.gz", file, file_bytes / 2), NULL, &r, &err),
                     SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "cut.gz: ");
    for (int k = 0; k < 4; k++)
        file[file_bytes - 4 + (size_t)k] = (char)(bytes >> (8 * k));
    path = support_write("more.gz", file, file_bytes + 1);
    assert_int_equal(open_paths(path, NULL, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "more.gz: ");
    sw_free(file);
    free(text);
}

static void random_tables_are_read_as_they_were_written(void **state)
{
    struct sw_err err = {0};
    uint64_t word = 1;
    for (int round = 0; round < 200; round++) {
        struct sw_bytes text = {0};
        struct sw_records r;
        const int rows = 1 + round % 7, columns = 2 + round % 5;
        static const char *const ends[] = {"\n", "\r\n", "\n\n"};
        for (int i = 0; i < rows; i++) {
            for (int k = 0; k < columns; k++) {
                word = word * 6364136223846793005u + 1442695040888963407u;
                const bool quoted = word >> 62 == 0;
                sw_bytes_printf(&text, "%s%s%d%s", k ? "," : "", quoted ? "\"" : "",
                                i * 31 + k * 7 - (k < columns - 1 ? 20 : 0), quoted ? "\"" : "");
            }
            sw_bytes_add(&text, i + 1 < rows || round % 2 ? ends[word % 3] : "");
        }
        begin();
        ASSERT_OK(open_paths(table(sw_bytes_text(&text)), NULL, &r, &err));
        assert_int_equal(r.count, rows);
        for (int i = 0; i < rows; i++) {
            for (int k = 0; k < columns - 1; k++)
                assert_true(number(&r, i, 0, k) == (float)(i * 31 + k * 7 - 20));
            assert_int_equal(label(&r, i), i * 31 + (columns - 1) * 7);
        }
        sw_records_close(&r);
        sw_bytes_fini(&text);
    }
}

static void the_real_tables_are_read(void **state)
{
    static const struct {
        const char *file;
        int skip;
        int64_t records, columns, classes;
        float first;
    } real[] = {{"uci/iris.csv", 1, 150, 4, 3, 5.1f},
                {"uci/wine_data.csv", 1, 178, 13, 3, 14.23f},
                {"uci/breast_cancer.csv", 1, 569, 30, 2, 17.99f},
                {"uci/digits.csv.gz", 0, 1797, 64, 10, 0}};
    for (int i = 0; i < 4; i++) {
        char path[512];
        struct sw_records r;
        struct sw_err err = {0};
        if (!support_shared(real[i].file, path))
            skip();
        begin();
        support_int(&conf, "skip_lines", real[i].skip);
        ASSERT_OK(open_paths(path, NULL, &r, &err));
        assert_int_equal(r.count, real[i].records);
        assert_int_equal(r.field[0].dim[0], real[i].columns);
        assert_int_equal(r.classes, real[i].classes);
        assert_true(number(&r, 0, 0, 0) == real[i].first);
        int64_t of_class[10] = {0};
        for (int64_t k = 0; k < r.count; k++)
            of_class[label(&r, k)]++;
        for (int64_t k = 0; k < r.classes; k++)
            assert_true(of_class[k] >= r.count / r.classes / 2);
        sw_records_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_of_numbers_with_its_label_last),
        cmocka_unit_test(words_are_classes_in_sorted_or_given_order),
        cmocka_unit_test(columns_have_names_and_roles),
        cmocka_unit_test(targets_alone_need_no_label),
        cmocka_unit_test(plain_and_gzip_files_are_concatenated),
        cmocka_unit_test(shapes_are_checked_against_the_columns),
        cmocka_unit_test(errors_name_file_line_record_and_expected_value),
        cmocka_unit_test(keys_with_unknown_columns_are_refused),
        cmocka_unit_test(gzip_files_inflate_up_to_a_limit),
        cmocka_unit_test(random_tables_are_read_as_they_were_written),
        cmocka_unit_test(the_real_tables_are_read),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
