/* ctest-timeout: 120
 * The shard format and the import: records of every format round-trip bit for bit, several files
 * form one data set, and an import that fails leaves complete files only. */
#include "base/hash.h"
#include "data/import.h"
#include "data/shard.h"
#include "datum_support.h"
#include "tensor/npy.h"
#include "unit/faulty_os.h"

static int open_shards(const char *a, const char *b, struct sw_records *r, struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "shard");
    support_strings(&c, "paths", 0, a, b);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    return sw_records_open(r, c.format, &args, err);
}

static void assert_same_images(const struct sw_records *a, const struct sw_records *b, int64_t i,
                               int64_t j)
{
    struct sw_room room[2] = {{0}, {0}};
    struct sw_picture p[2];
    struct sw_err err = {0};
    ASSERT_OK(a->format->fetch_picture(a, i, &room[0], &p[0], &err));
    ASSERT_OK(b->format->fetch_picture(b, j, &room[1], &p[1], &err));
    assert_int_equal(p[0].bytes, p[1].bytes);
    assert_memory_equal(p[0].data, p[1].data, p[0].bytes);
    assert_int_equal(p[0].encoded, p[1].encoded);
    assert_int_equal(p[0].channels, p[1].channels);
    assert_int_equal(p[0].height, p[1].height);
    assert_int_equal(p[0].width, p[1].width);
    sw_room_fini(&room[0]);
    sw_room_fini(&room[1]);
}

/* Record i of a is record j of b. */
static void assert_same_record(const struct sw_records *a, const struct sw_records *b, int64_t i,
                               int64_t j)
{
    struct sw_room room[2] = {{0}, {0}};
    struct sw_err err = {0};
    for (int f = 0; f < a->field_count; f++) {
        const void *out[2];
        if (a->has_pictures && f == a->picture_field) {
            assert_same_images(a, b, i, j);
            continue;
        }
        const size_t bytes = sw_field_bytes(&a->field[f]);
        ASSERT_OK(sw_room_need(&room[0], bytes, "a", &err));
        ASSERT_OK(sw_room_need(&room[1], bytes, "b", &err));
        ASSERT_OK(a->format->fetch(a, i, f, room[0].memory, &out[0], &err));
        ASSERT_OK(b->format->fetch(b, j, f, room[1].memory, &out[1], &err));
        assert_memory_equal(out[0], out[1], bytes);
    }
    sw_room_fini(&room[0]);
    sw_room_fini(&room[1]);
}

static void assert_same_shape(const struct sw_records *a, const struct sw_records *b)
{
    assert_int_equal(a->field_count, b->field_count);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->has_pictures, b->has_pictures);
    for (int f = 0; f < a->field_count; f++) {
        assert_string_equal(a->field[f].name, b->field[f].name);
        assert_int_equal(a->field[f].dtype, b->field[f].dtype);
        assert_int_equal(a->field[f].ndim, b->field[f].ndim);
        assert_memory_equal(a->field[f].dim, b->field[f].dim, sizeof a->field[f].dim);
    }
}

/* Imports all that the conf opens, and compares; `step` leaves out records in between. */
static void round_trip(const struct support_conf *c, int64_t step)
{
    struct sw_records from, back;
    struct sw_import_result result;
    struct sw_err err = {0};
    const struct sw_format_args args = {.conf = c->bytes, .split = "train"};
    const char *out = support_path("trip.shard");
    ASSERT_OK(sw_records_open(&from, c->format, &args, &err));
    const struct sw_import_args import = {.from = &from, .out = out, .origin = from.where};
    ASSERT_OK(sw_import(&import, &result, &err));
    assert_int_equal(result.records, from.count);
    assert_int_equal(result.classes, from.classes);
    assert_int_equal(result.files, 1);
    assert_string_equal(result.first, out);
    ASSERT_OK(open_shards(out, NULL, &back, &err));
    assert_int_equal(back.count, from.count);
    assert_same_shape(&from, &back);
    for (int64_t i = 0; i < from.count; i += step)
        assert_same_record(&from, &back, i, i);
    sw_records_close(&from);
    sw_records_close(&back);
    sw_import_result_fini(&result);
}

static void idx_round_trips_bit_for_bit(void **state)
{
    struct support_conf c;
    support_idx(&c, 700);
    round_trip(&c, 1);
}

static void mnist_round_trips_bit_for_bit(void **state)
{
    char images[512], labels[512];
    struct support_conf c;
    if (!support_shared("mnist/t10k-images-idx3-ubyte.gz", images) ||
        !support_shared("mnist/t10k-labels-idx1-ubyte.gz", labels))
        skip();
    support_init(&c, "idx");
    support_strings(&c, "paths", 0, images, NULL);
    support_strings(&c, "labels", 1, labels, NULL);
    round_trip(&c, 1);
}

static void cifar10_round_trips_bit_for_bit(void **state)
{
    char path[512];
    struct support_conf c;
    if (!support_shared("cifar10/test_first1000.bin", path))
        skip();
    support_init(&c, "cifar10");
    support_strings(&c, "paths", 0, path, NULL);
    round_trip(&c, 1);
}

static void synthetic_round_trips_bit_for_bit(void **state)
{
    struct support_conf c;
    support_init(&c, "synthetic");
    support_int(&c, "records", 300);
    support_int(&c, "classes", 7);
    support_int(&c, "height", 33);
    support_int(&c, "width", 17);
    round_trip(&c, 1);
}

/* Images of several sizes, and image files, which nobody decodes on the way. */
static const char *lmdb_of_images(bool encoded)
{
    struct message m[20];
    for (int i = 0; i < 20; i++) {
        unsigned char bytes[300];
        m[i].count = 0;
        memset(bytes, i, sizeof bytes);
        if (!encoded)
            message_sides(&m[i], 3, 1 + i, 2);
        message_bytes(&m[i], 4, bytes, encoded ? 5 + (size_t)i : 6 * (size_t)(1 + i));
        message_number(&m[i], 7, encoded);
        message_number(&m[i], 5, (uint64_t)(i % 6));
    }
    return message_lmdb(encoded ? "encoded.mdb" : "pixels.mdb", m, 20);
}

static void images_round_trip_bit_for_bit(void **state)
{
    struct support_conf c;
    support_init(&c, "lmdb");
    support_strings(&c, "paths", 0, lmdb_of_images(false), NULL);
    round_trip(&c, 1);
    support_strings(&c, "paths", 0, lmdb_of_images(true), NULL);
    round_trip(&c, 1);
}

static void tables_round_trip_bit_for_bit(void **state)
{
    char path[512];
    struct support_conf c;
    if (!support_shared("uci/digits.csv.gz", path))
        skip();
    support_init(&c, "csv");
    support_strings(&c, "paths", 0, path, NULL);
    round_trip(&c, 1);
}

static void arrays_round_trip_bit_for_bit(void **state)
{
    float x[50][6];
    int32_t label[50];
    struct support_conf c;
    struct sw_err err = {0};
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < 6; k++)
            x[i][k] = (float)(i - 20) / (float)(k + 3);
        label[i] = i % 9;
    }
    const int64_t shape[3] = {50, 2, 3};
    const char *images = support_path("x.npy"), *labels = support_path("y.npy");
    ASSERT_OK(sw_npy_write(images, SW_F32, 3, shape, x, &err));
    ASSERT_OK(sw_npy_write(labels, SW_I32, 1, shape, label, &err));
    support_init(&c, "npy");
    support_strings(&c, "paths", 0, images, NULL);
    support_strings(&c, "labels", 1, labels, NULL);
    round_trip(&c, 1);
}

static void image_folders_round_trip_bit_for_bit(void **state)
{
    char path[512];
    struct support_conf c;
    if (!support_shared("tiny-imagenet-10/val", path))
        skip();
    support_init(&c, "image_folder");
    support_strings(&c, "paths", 0, path, NULL);
    round_trip(&c, 1);
}

static void matrices_round_trip_bit_for_bit(void **state)
{
    char path[512];
    struct support_conf c;
    if (!support_shared("wikipedia-xmodal/raw_features.mat", path))
        skip();
    support_init(&c, "mat");
    support_strings(&c, "paths", 0, path, NULL);
    support_strings(&c, "fields", 1, "image:I_te", "text:T_te");
    round_trip(&c, 1);
}

/* ---- Several files ---- */

static void files_of_limited_size_form_one_set(void **state)
{
    struct support_conf c;
    struct sw_records from, back;
    struct sw_import_result result;
    struct sw_err err = {0};
    struct stat st;
    char out[512];
    support_idx(&c, 500);
    snprintf(out, sizeof out, "%s", support_path("set.shard")); /* outlives the loop below */
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
    const struct sw_import_args import = {
        .from = &from, .out = out, .origin = "", .file_bytes = 4096};
    ASSERT_OK(sw_import(&import, &result, &err));
    assert_true(result.files > 3);
    assert_string_equal(result.first, support_path("set-00000.shard"));
    uint64_t bytes = 0;
    for (int i = 0; i < result.files; i++) {
        char name[32];
        snprintf(name, sizeof name, "set-%05d.shard", i);
        assert_int_equal(stat(support_path(name), &st), 0);
        assert_true(st.st_size <= 4096);
        bytes += (uint64_t)st.st_size;
    }
    assert_int_equal(bytes, result.bytes);
    ASSERT_OK(open_shards(support_path("set-*.shard"), NULL, &back, &err));
    assert_int_equal(back.files, result.files);
    assert_int_equal(back.count, 500);
    for (int64_t i = 499; i >= 0; i--)
        assert_same_record(&from, &back, i, i);
    struct sw_bytes text = {0};
    sw_records_locate(&back, 499, &text);
    ASSERT_CONTAINS(sw_bytes_text(&text), result.last);
    sw_bytes_fini(&text);
    sw_records_close(&back);
    sw_import_result_fini(&result);

    /* Another import under that name would mix with this one. */
    assert_int_equal(sw_import(&import, &result, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "set-00000.shard already exists");
    sw_import_result_fini(&result);
    sw_records_close(&from);
}

static void part_of_the_records_can_be_imported(void **state)
{
    struct support_conf c;
    struct sw_records from, back;
    struct sw_import_result result;
    struct sw_subset subset;
    struct sw_err err = {0};
    const double part[2] = {0.5, 0.75};
    support_idx(&c, 400);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
    ASSERT_OK(sw_subset_init(&subset, &(struct sw_reals){part, 2}, 3, 0, from.count, &err));
    const struct sw_import_args import = {
        .from = &from, .subset = &subset, .out = support_path("part.shard"), .origin = ""};
    ASSERT_OK(sw_import(&import, &result, &err));
    assert_int_equal(result.records, 100);
    ASSERT_OK(open_shards(import.out, NULL, &back, &err));
    for (int64_t i = 0; i < 100; i++)
        assert_same_record(&from, &back, sw_subset_record(&subset, i), i);
    sw_records_close(&back);
    sw_records_close(&from);
    sw_import_result_fini(&result);
}

static void shards_with_other_fields_do_not_mix(void **state)
{
    struct support_conf c;
    struct sw_records from, r;
    struct sw_import_result result;
    struct sw_err err = {0};
    const char *name[2] = {support_path("small.shard"), support_path("large.shard")};
    for (int i = 0; i < 2; i++) {
        support_init(&c, "synthetic");
        support_int(&c, "records", 5);
        support_int(&c, "height", 8 + i);
        support_int(&c, "width", 8);
        const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
        ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
        const struct sw_import_args import = {.from = &from, .out = name[i], .origin = ""};
        ASSERT_OK(sw_import(&import, &result, &err));
        sw_import_result_fini(&result);
        sw_records_close(&from);
    }
    assert_int_equal(open_shards(name[0], name[1], &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "large.shard: its fields differ from those of");
    ASSERT_OK(open_shards(name[0], name[0], &r, &err));
    assert_int_equal(r.count, 10);
    sw_records_close(&r);
}

static void damaged_record_is_named_with_its_file(void **state)
{
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    char *text = NULL;
    size_t bytes;
    const void *out = NULL;
    support_idx(&c, 20);
    round_trip(&c, 1);
    ASSERT_OK(sw_os_read_file(support_path("trip.shard"), 1 << 20, &text, &bytes, &err));
    text[bytes - 20 * 16 - 24 * 5 + 3] ^= 4; /* record 15 of 24 bytes each */
    const char *path = support_write("bad.shard", text, bytes);
    sw_free(text);
    ASSERT_OK(open_shards(support_path("trip.shard"), path, &r, &err));
    ASSERT_OK(r.format->fetch(&r, 20 + 14, 0, NULL, &out, &err));
    assert_int_equal(r.format->fetch(&r, 20 + 15, 0, NULL, &out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "bad.shard: record 15 is damaged");
    assert_int_equal(r.format->fetch(&r, 20 + 15, 1, NULL, &out, &err), SW_ERR_FORMAT);
    ASSERT_OK(r.format->fetch(&r, 20 + 16, 1, NULL, &out, &err));
    sw_records_close(&r);
}

/* ---- Ends of an import ---- */

/* A record that was checked before is handed out without another look, so that the batch is what
 * is told to be wrong. */
static void truncating_shards_between_batches_fails_the_next(void **state)
{
    enum { ROWS = 50 };
    struct support_conf c;
    struct sw_records from;
    struct sw_import_result result;
    struct sw_source *source = NULL;
    struct sw_reader reader;
    struct sw_err err = {0};
    const struct sw_data_conf conf = support_plain();
    static float image[ROWS * SUPPORT_PIXELS];
    static int32_t label[ROWS];
    void *out[SW_MAX_FIELDS] = {image, label};
    const char *path = support_path("cut-between.shard");
    support_idx(&c, ROWS);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
    const struct sw_import_args how = {.from = &from, .out = path, .origin = "idx"};
    ASSERT_OK(sw_import(&how, &result, &err));
    sw_records_close(&from);
    sw_import_result_fini(&result);

    support_init(&c, "shard");
    support_strings(&c, "paths", 0, path, NULL);
    ASSERT_OK(support_open(&c, &conf, false, 1, &source, &err));
    ASSERT_OK(sw_reader_init(&reader, source, &err));
    ASSERT_OK(sw_source_fetch(&reader, 0, ROWS, out, &err));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(sw_source_fetch(&reader, 0, ROWS, out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "data train: ");
    ASSERT_CONTAINS(err.text, "cut-between.shard: was truncated from ");
    assert_int_equal(sw_records_check(&source->raw, &err), SW_ERR_FORMAT);
    sw_reader_fini(&reader);
    sw_source_close(source);
}

static int shards_in(const char *dir, int *others)
{
    DIR *d = opendir(dir);
    int count = 0;
    *others = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (strstr(e->d_name, "end-") != e->d_name)
            continue;
        if (!sw_str_ends(e->d_name, ".shard")) {
            ++*others;
            continue;
        }
        char path[600];
        struct sw_shard s;
        struct sw_err err = {0};
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        ASSERT_OK(sw_shard_open(&s, path, 0, &err));
        for (int64_t i = 0; i < s.records; i++)
            ASSERT_OK(sw_shard_check(&s, i, NULL, &err));
        sw_shard_close(&s);
        unlink(path);
        count++;
    }
    closedir(d);
    return count;
}

static void import_that_fails_leaves_complete_files_only(void **state)
{
    struct support_conf c;
    struct sw_err err = {0};
    support_idx(&c, 300);
    const char *out = support_path("end.shard");
    for (int at = 1, rc = -1; rc; at++) {
        struct sw_records from;
        struct sw_import_result result;
        int others;
        const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
        ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
        const struct sw_import_args import = {
            .from = &from, .out = out, .origin = "", .file_bytes = 4096};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_WRITE | FAULTY_SYNC | FAULTY_RENAME |
                                                   FAULTY_ALLOC | FAULTY_OPEN,
                                          .at = at,
                                          .error = ENOSPC});
        rc = sw_import(&import, &result, &err);
        assert_int_equal(rc != 0, faulty_end() >= at);
        const int count = shards_in(support_dir, &others);
        assert_int_equal(others, 0);
        /* One more when only the folder could not be synced after the last rename. */
        assert_true(count == result.files || count == result.files + 1);
        assert_true(rc || count == 4);
        sw_import_result_fini(&result);
        sw_records_close(&from);
    }
}

static bool stop(void *user, const struct sw_import_progress *p)
{
    assert_true(p->done > 0 && p->done <= p->records && p->bytes > 0);
    return false;
}

static void import_stops_on_request(void **state)
{
    struct support_conf c;
    struct sw_records from;
    struct sw_import_result result;
    struct sw_err err = {0};
    support_idx(&c, 300);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
    const struct sw_import_args import = {
        .from = &from, .out = support_path("stopped.shard"), .origin = "", .progress = stop};
    assert_int_equal(sw_import(&import, &result, &err), SW_ERR_CANCELLED);
    ASSERT_CONTAINS(err.text, "stopped after 1 of 300 records");
    assert_int_equal(result.files, 0);
    assert_int_not_equal(access(import.out, F_OK), 0);
    sw_import_result_fini(&result);
    sw_records_close(&from);
}

static void count_bad(void *user, const char *why)
{
    ASSERT_CONTAINS(why, "record ");
    ++*(int *)user;
}

static void bad_records_stop_or_are_counted(void **state)
{
    struct support_conf c;
    struct sw_records from, back;
    struct sw_import_result result;
    struct sw_err err = {0};
    char *text = NULL;
    size_t bytes;
    int seen = 0;
    support_idx(&c, 20);
    round_trip(&c, 1);
    ASSERT_OK(sw_os_read_file(support_path("trip.shard"), 1 << 20, &text, &bytes, &err));
    text[bytes - 20 * 16 - 24 * 5] ^= 4;
    text[bytes - 20 * 16 - 24 * 8] ^= 4;
    const char *path = support_write("two-bad.shard", text, bytes);
    sw_free(text);
    ASSERT_OK(open_shards(path, NULL, &from, &err));
    struct sw_import_args import = {.from = &from,
                                    .out = support_path("rest.shard"),
                                    .origin = "",
                                    .bad = count_bad,
                                    .user = &seen};
    assert_int_equal(sw_import(&import, &result, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "record 12 (");
    sw_import_result_fini(&result);
    import.skip_bad = true;
    ASSERT_OK(sw_import(&import, &result, &err));
    assert_int_equal(result.skipped, 2);
    assert_int_equal(seen, 2);
    assert_int_equal(result.records, 18);
    ASSERT_OK(open_shards(import.out, NULL, &back, &err));
    assert_same_record(&from, &back, 13, 12);
    assert_same_record(&from, &back, 19, 17);
    sw_records_close(&from);
    sw_records_close(&back);
    sw_import_result_fini(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_round_trips_bit_for_bit),
        cmocka_unit_test(mnist_round_trips_bit_for_bit),
        cmocka_unit_test(cifar10_round_trips_bit_for_bit),
        cmocka_unit_test(synthetic_round_trips_bit_for_bit),
        cmocka_unit_test(images_round_trip_bit_for_bit),
        cmocka_unit_test(tables_round_trip_bit_for_bit),
        cmocka_unit_test(arrays_round_trip_bit_for_bit),
        cmocka_unit_test(image_folders_round_trip_bit_for_bit),
        cmocka_unit_test(matrices_round_trip_bit_for_bit),
        cmocka_unit_test(files_of_limited_size_form_one_set),
        cmocka_unit_test(part_of_the_records_can_be_imported),
        cmocka_unit_test(shards_with_other_fields_do_not_mix),
        cmocka_unit_test(damaged_record_is_named_with_its_file),
        cmocka_unit_test(truncating_shards_between_batches_fails_the_next),
        cmocka_unit_test(import_that_fails_leaves_complete_files_only),
        cmocka_unit_test(import_stops_on_request),
        cmocka_unit_test(bad_records_stop_or_are_counted),
    };
    return cmocka_run_group_tests_name("shard format", tests, support_setup, support_teardown);
}
