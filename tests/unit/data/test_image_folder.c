/* ctest-labels: threads */
/* Folders of images: classes and order, images of every kind, mistakes, and what happens to the
 * ones that are damaged. */
#include "folder_support.h"
#include "unit/faulty_os.h"

#include "data/prefetch.h"
#include <math.h>

enum { SIDE = 16, PLANE = SIDE * SIDE };

static struct sw_data_conf cropped(void)
{
    struct sw_data_conf conf = support_plain();
    conf.crop = SIDE;
    return conf;
}

static int open_folder(const char *a, const char *b, const char *names,
                       const struct sw_data_conf *conf, bool training, bool skip,
                       void (*report)(void *, const char *), void *user, struct sw_source **out,
                       struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "image_folder");
    support_strings(&c, "paths", 0, a, b);
    struct sw_data_conf named = *conf;
    named.class_names = names;
    const struct sw_source_args args = {.name = "train",
                                        .conf = &named,
                                        .format = c.format,
                                        .format_conf = c.bytes,
                                        .seed = 7,
                                        .training = training,
                                        .skip_bad = skip,
                                        .report_bad = report,
                                        .report_user = user};
    return sw_source_open(&args, out, err);
}

/* Levels (mean of the first channel) and labels of `count` samples. */
static void read_levels(const struct sw_source *s, int64_t count, int *level, int *label)
{
    struct sw_reader r;
    struct sw_err err = {0};
    const int64_t n = sw_field_count(&s->field[0]);
    float *image = malloc((size_t)n * sizeof *image);
    int32_t number;
    assert_non_null(image);
    void *out[SW_MAX_FIELDS] = {image, &number};
    ASSERT_OK(sw_reader_init(&r, s, &err));
    for (int64_t i = 0; i < count; i++) {
        ASSERT_OK(sw_source_fetch(&r, i, 1, out, &err));
        level[i] = (int)lrintf(image[0]);
        label[i] = number;
        for (int64_t k = 0; k < n; k++)
            assert_true(fabsf(image[k] - image[0]) < 2);
    }
    sw_reader_fini(&r);
    free(image);
}

static void assert_levels(const struct sw_source *s, int count, const int *level, const int *label)
{
    int has_level[32], has_label[32];
    assert_int_equal(s->records, count);
    read_levels(s, count, has_level, has_label);
    for (int i = 0; i < count; i++) {
        assert_in_range(has_level[i] + 1, level[i], level[i] + 2);
        assert_int_equal(has_label[i], label[i]);
    }
}

/* Two folders with the classes b, a, C (in bytes: C, a, b), images of many sides and suffixes,
 * and things that are none. */
static void make_folders(void)
{
    support_mkdir("one");
    support_mkdir("one/b");
    support_mkdir("one/a");
    support_mkdir("one/C");
    support_mkdir("one/C/deeper");
    support_mkdir("one/.hidden");
    support_mkdir("two");
    support_mkdir("two/a");
    support_level("one/b/x.jpg", 16, 16, 50);
    support_level("one/b/X.JPEG", 40, 20, 60);
    support_level("one/a/2.png", 16, 31, 20);
    support_level("one/a/10.JPG", 17, 50, 10);
    support_level("one/C/deeper/z.jpe", 5, 9, 90);
    support_level("one/C/a.PNG", 100, 100, 80);
    support_level("one/.hidden/h.jpg", 16, 16, 1);
    support_level("one/b/.h.jpg", 16, 16, 1);
    support_level("two/a/t.jpg", 16, 16, 30);
    support_level("one/outside.jpg", 16, 16, 1);
    support_write("one/a/notes.txt", "no image", 8);
}

static void classes_and_records_are_in_name_order(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    struct sw_bytes line = {0};
    make_folders();
    ASSERT_OK(open_folder(support_path("one"), support_path("two"), NULL, &conf, false, false, NULL,
                          NULL, &s, &err));
    assert_int_equal(s->classes, 3);
    assert_levels(s, 7, (const int[]){80, 90, 10, 20, 60, 50, 30},
                  (const int[]){0, 0, 1, 1, 2, 2, 1});
    sw_data_describe(s, &line);
    ASSERT_CONTAINS(sw_bytes_text(&line),
                    "image_folder, 7 records of 3x any size cropped to 16x16, 3 "
                    "classes, ");
    sw_bytes_fini(&line);
    sw_source_close(s);

    /* Numbers by a file of names, which may hold more. */
    const char *names = support_write("names", "b\r\nother\nC\n\na", 13);
    ASSERT_OK(
        open_folder(support_path("one"), NULL, names, &conf, false, false, NULL, NULL, &s, &err));
    assert_int_equal(s->classes, 4);
    assert_levels(s, 6, (const int[]){80, 90, 10, 20, 60, 50}, (const int[]){2, 2, 3, 3, 0, 0});
    sw_source_close(s);
    names = support_write("names", "b\nC\n", 4);
    assert_int_equal(
        open_folder(support_path("one"), NULL, names, &conf, false, false, NULL, NULL, &s, &err),
        SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "one/a: not listed in class_names");
    names = support_write("names", "b\nb\n", 4);
    assert_int_equal(
        open_folder(support_path("one"), NULL, names, &conf, false, false, NULL, NULL, &s, &err),
        SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "duplicate class b");
    support_remove_all(state);
    support_setup(state);
}

static void images_become_gray_for_one_channel(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    make_folders();
    conf.channels = 1;
    ASSERT_OK(
        open_folder(support_path("one"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err));
    assert_int_equal(s->field[0].dim[0], 1);
    assert_levels(s, 6, (const int[]){80, 90, 10, 20, 60, 50}, (const int[]){0, 0, 1, 1, 2, 2});
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

static void skipped_files_are_counted_and_reported(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    struct sw_bytes text = {0};
    support_mkdir("mixed");
    support_mkdir("mixed/a");
    support_mkdir("mixed/a/deeper");
    support_level("mixed/a/1.jpg", 16, 16, 1);
    support_write("mixed/a/2.GIF", "GIF89a", 6);
    support_write("mixed/a/deeper/3.gif", "GIF89a", 6);
    support_write("mixed/a/4.webp", "RIFF", 4);
    support_write("mixed/a/README", "text", 4);
    ASSERT_OK(
        open_folder(support_path("mixed"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err));
    sw_data_describe(s, &text);
    ASSERT_CONTAINS(sw_bytes_text(&text),
                    "mixed, 4 files skipped (not JPEG or PNG): 2 .gif, 1 .webp, "
                    "1 no suffix");
    sw_bytes_fini(&text);
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

static void a_class_without_images_is_refused_unless_listed(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_mkdir("some");
    support_mkdir("some/a");
    support_mkdir("some/blank");
    support_level("some/a/1.jpg", 16, 16, 1);
    assert_int_equal(
        open_folder(support_path("some"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err),
        SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "some: no image (.jpg, .jpeg, .jpe, .png) in the folder of class "
                              "blank; remove the folder, or list the classes in class_names");
    const char *names = support_write("names", "blank\na\nlater\n", 14);
    ASSERT_OK(
        open_folder(support_path("some"), NULL, names, &conf, false, false, NULL, NULL, &s, &err));
    assert_int_equal(s->classes, 3);
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

static void invalid_class_folders_are_refused(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_mkdir("flat");
    support_mkdir("flat/empty");
    support_level("flat/a.jpg", 16, 16, 1);
    assert_int_equal(
        open_folder(support_path("flat"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err),
        SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "data train: ");
    ASSERT_CONTAINS(err.text, "no image (.jpg, .jpeg, .jpe, .png) in its 1 sub-folders");
    assert_int_equal(
        open_folder(support_path("nothing"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err),
        SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "nothing: cannot read the folder");
    assert_int_equal(open_folder(support_path("flat/a.jpg"), NULL, NULL, &conf, false, false, NULL,
                                 NULL, &s, &err),
                     SW_ERR_IO);
    support_remove_all(state);
    support_setup(state);
}

static void without_resize_or_crop_all_images_must_have_one_size(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_source *s = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    float image[3 * 20 * 10];
    void *out[SW_MAX_FIELDS] = {image};
    support_mkdir("alike");
    support_mkdir("alike/k");
    support_level("alike/k/1.jpg", 20, 10, 70);
    support_level("alike/k/2.jpg", 20, 10, 71);
    support_level("alike/k/3.jpg", 10, 20, 72);
    ASSERT_OK(
        open_folder(support_path("alike"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err));
    assert_int_equal(s->field[0].dim[1], 20);
    assert_int_equal(s->field[0].dim[2], 10);
    ASSERT_OK(sw_reader_init(&r, s, &err));
    ASSERT_OK(sw_source_fetch(&r, 0, 1, out, &err));
    ASSERT_OK(sw_source_fetch(&r, 1, 1, out, &err));
    assert_int_equal(sw_source_fetch(&r, 2, 1, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "data train: record 2 (");
    ASSERT_CONTAINS(err.text, "alike/k/3.jpg): image of 10x20 (height x width), expected 20x10");
    sw_reader_fini(&r);
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

/* ---- Damaged ones ---- */

struct told {
    struct sw_mutex lock; /* guards all below */
    int count;
    char text[8][400];
};

static void tell(void *user, const char *text)
{
    struct told *t = user;
    sw_mutex_lock(&t->lock);
    if (t->count < 8)
        snprintf(t->text[t->count], sizeof t->text[0], "%s", text);
    t->count++;
    sw_mutex_unlock(&t->lock);
}

/* Nine images of levels 10, 20 .. 90, of which 2 (no image), 5 and 6 (cut short) are damaged.
 */
static void make_damaged(void)
{
    support_mkdir("bad");
    support_mkdir("bad/k");
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof name, "bad/k/%d.jpg", i);
        support_level(name, SIDE + i, SIDE + 2 * i, (unsigned char)(10 * i + 10));
        struct stat st;
        assert_int_equal(stat(support_path(name), &st), 0);
        if (i == 5 || i == 6)
            assert_int_equal(truncate(support_path(name), st.st_size - 6), 0);
    }
    support_write("bad/k/2.jpg", "plain text", 10);
}

static void a_damaged_image_stops_with_file_and_reason(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    float image[3 * PLANE];
    int32_t label;
    void *out[SW_MAX_FIELDS] = {image, &label};
    make_damaged();
    ASSERT_OK(
        open_folder(support_path("bad"), NULL, NULL, &conf, false, false, NULL, NULL, &s, &err));
    ASSERT_OK(sw_reader_init(&r, s, &err));
    assert_int_equal(sw_source_fetch(&r, 2, 1, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "data train: record 2 (");
    ASSERT_CONTAINS(err.text, "bad/k/2.jpg): begins with 70 6c 61 69, expected a JPEG (ff d8 ff)");
    assert_int_equal(sw_source_fetch(&r, 5, 1, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "bad/k/5.jpg): damaged JPEG of ");
    /* A file that is too large is not read; its bytes take no room on the disk. */
    assert_int_equal(truncate(support_path("bad/k/8.jpg"), ((off_t)512 << 20) + 1), 0);
    assert_int_equal(sw_source_fetch(&r, 8, 1, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "bad/k/8.jpg): a file of 512 MiB; the limit for an image is 512 MiB");
    unlink(support_path("bad/k/7.jpg"));
    assert_int_equal(mkfifo(support_path("bad/k/7.jpg"), 0600), 0); /* nobody waits for a writer */
    assert_int_equal(sw_source_fetch(&r, 7, 1, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "bad/k/7.jpg): not a regular file");
    unlink(support_path("bad/k/7.jpg"));
    assert_int_equal(sw_source_fetch(&r, 7, 1, out, &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "bad/k/7.jpg): cannot be opened: No such file");
    sw_reader_fini(&r);
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

static void a_skipped_image_is_replaced_by_the_next_good_one(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    struct told told = {0};
    sw_mutex_init(&told.lock);
    make_damaged();
    ASSERT_OK(
        open_folder(support_path("bad"), NULL, NULL, &conf, false, true, tell, &told, &s, &err));
    for (int again = 0; again < 2; again++) {
        assert_levels(s, 9, (const int[]){10, 20, 40, 40, 50, 80, 80, 80, 90}, (const int[9]){0});
        assert_int_equal(sw_source_skipped(s), 3);
        assert_int_equal(told.count, 3); /* each once */
    }
    ASSERT_CONTAINS(told.text[0], "data train: record 2 (");
    ASSERT_CONTAINS(told.text[1], "bad/k/5.jpg): damaged JPEG");
    ASSERT_CONTAINS(told.text[2], "bad/k/6.jpg): damaged JPEG");
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
    sw_mutex_fini(&told.lock);
}

static void a_bad_last_image_is_replaced_by_the_first_of_its_part(void **state)
{
    const double part[] = {3, 7}; /* records 3 4 5 6, of which 5 and 6 are damaged */
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    make_damaged();
    conf.part = (struct sw_reals){part, 2};
    ASSERT_OK(
        open_folder(support_path("bad"), NULL, NULL, &conf, false, true, NULL, NULL, &s, &err));
    assert_levels(s, 4, (const int[]){40, 50, 40, 40}, (const int[9]){0});
    sw_source_close(s);
    support_remove_all(state);
    support_setup(state);
}

static void a_folder_of_only_damaged_images_is_an_error(void **state)
{
    struct sw_data_conf conf = cropped();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_mkdir("worst");
    support_mkdir("worst/k");
    support_write("worst/k/1.jpg", "1", 1);
    support_write("worst/k/2.png", "2", 1);
    assert_int_equal(
        open_folder(support_path("worst"), NULL, NULL, &conf, false, true, NULL, NULL, &s, &err),
        SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "none of the 2 records can be read");
    support_remove_all(state);
    support_setup(state);
}

/* Memory that is short is no damage of an image, and leaves nothing behind. */
static void every_failed_allocation_or_file_is_reported(void **state)
{
    static const int kinds[] = {FAULTY_ALLOC, FAULTY_OPEN | FAULTY_READ | FAULTY_DIR};
    struct sw_data_conf conf = cropped();
    float image[3 * PLANE];
    int32_t label;
    void *out[SW_MAX_FIELDS] = {image, &label};
    make_folders();
    const char *one = support_path("one"), *two = support_path("two");
    for (int k = 0; k < 2; k++) {
        int rc = SW_ERR_NOMEM;
        for (int at = 1; rc != SW_OK; at++) {
            struct sw_source *s = NULL;
            struct sw_reader r = {0};
            struct sw_err err = {0};
            faulty_begin((struct faulty_plan){.kinds = kinds[k], .at = at, .error = EIO});
            rc = open_folder(one, two, NULL, &conf, true, true, NULL, NULL, &s, &err);
            if (!rc)
                rc = sw_reader_init(&r, s, &err);
            for (int64_t i = 0; !rc && i < s->records; i++)
                rc = sw_source_fetch(&r, i, 1, out, &err);
            assert_true(!s || sw_source_skipped(s) == 0);
            sw_reader_fini(&r);
            sw_source_close(s);
            faulty_end();
            assert_int_equal(faulty.live_allocations, 0);
            assert_true(rc == SW_OK || rc == (k ? SW_ERR_IO : SW_ERR_NOMEM));
            assert_true(rc == SW_OK || err.text[0]);
            assert_true(at < 1000);
        }
    }
    support_remove_all(state);
    support_setup(state);
}

/* ---- Threads ---- */

/* Rows [first, first + count) of the batches that so many threads fill, to their places in `all`.
 */
static void fill(const struct sw_source *s, int threads, int64_t rows, int64_t first, int64_t count,
                 int64_t batches, float *all)
{
    struct sw_prefetch *p = NULL;
    struct sw_batch b;
    struct sw_err err = {0};
    const struct sw_prefetch_args args = {.source = s,
                                          .batch_rows = rows,
                                          .first_row = first,
                                          .row_count = count,
                                          .batch_stride = 1,
                                          .batch_limit = -1,
                                          .slots = 3,
                                          .threads = threads,
                                          .fields = 3};
    ASSERT_OK(sw_prefetch_start(&args, &p, &err));
    for (int64_t i = 0; i < batches; i++) {
        ASSERT_OK(sw_prefetch_next(p, &b, &err));
        memcpy(all + (i * rows + first) * 3 * PLANE, b.field[0],
               (size_t)(count * 3 * PLANE) * sizeof *all);
        sw_prefetch_release(p, &b);
    }
    sw_prefetch_free(p);
}

static void rows_do_not_depend_on_threads_and_workers(void **state)
{
    enum { ROWS = 11, BATCHES = 8 };
    const double resize[] = {20};
    struct sw_data_conf conf = cropped();
    struct sw_err err = {0};
    float *all[3];
    const size_t bytes = (size_t)BATCHES * ROWS * 3 * PLANE * sizeof(float);
    make_damaged();
    conf.resize = (struct sw_reals){resize, 1};
    conf.shuffle = conf.mirror = true;
    conf.brightness = conf.saturation = 0.3;
    conf.elastic_alpha = 5;
    conf.elastic_sigma = 2;
    conf.pad = 2;
    for (int i = 0; i < 3; i++) {
        struct sw_source *s = NULL;
        struct told told = {0};
        sw_mutex_init(&told.lock);
        all[i] = calloc(1, bytes);
        assert_non_null(all[i]);
        ASSERT_OK(
            open_folder(support_path("bad"), NULL, NULL, &conf, true, true, tell, &told, &s, &err));
        fill(s, 1 + 2 * i, ROWS, 0, i == 2 ? 4 : ROWS, BATCHES, all[i]);
        if (i == 2) /* another worker has the other rows */
            fill(s, 2, ROWS, 4, ROWS - 4, BATCHES, all[i]);
        assert_int_equal(sw_source_skipped(s), 3);
        assert_int_equal(told.count, 3);
        sw_source_close(s);
        sw_mutex_fini(&told.lock);
    }
    assert_memory_equal(all[0], all[1], bytes);
    assert_memory_equal(all[0], all[2], bytes);
    for (int i = 0; i < 3; i++)
        free(all[i]);
    support_remove_all(state);
    support_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_and_records_are_in_name_order),
        cmocka_unit_test(images_become_gray_for_one_channel),
        cmocka_unit_test(skipped_files_are_counted_and_reported),
        cmocka_unit_test(a_class_without_images_is_refused_unless_listed),
        cmocka_unit_test(invalid_class_folders_are_refused),
        cmocka_unit_test(without_resize_or_crop_all_images_must_have_one_size),
        cmocka_unit_test(a_damaged_image_stops_with_file_and_reason),
        cmocka_unit_test(a_skipped_image_is_replaced_by_the_next_good_one),
        cmocka_unit_test(a_bad_last_image_is_replaced_by_the_first_of_its_part),
        cmocka_unit_test(a_folder_of_only_damaged_images_is_an_error),
        cmocka_unit_test(every_failed_allocation_or_file_is_reported),
        cmocka_unit_test(rows_do_not_depend_on_threads_and_workers),
    };
    return cmocka_run_group_tests(tests, support_setup, support_remove_all);
}
