/* The files of NUS-WIDE: fields, the records that are kept, and every kind of damage. */
#include "data/room.h"
#include "data/sniff.h"
#include "nus_support.h"

enum { ALL, PAIRS, SINGLE };

static struct support_conf conf;

static int open_split(struct sw_records *r, const char *split, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = split};
    return sw_records_open(r, conf.format, &args, err);
}

static const void *get(const struct sw_records *r, int64_t record, int f)
{
    static _Alignas(64) unsigned char scratch[SW_MAX_FIELDS][256];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, f, scratch[f], &out, &err));
    return out;
}

static void records_have_features_tags_and_concepts(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    struct sw_bytes where = {0};
    nus_write_all();
    nus_conf_init(&conf, ALL);
    ASSERT_OK(open_split(&r, "train", &err));
    assert_int_equal(r.count, 4);
    assert_int_equal(r.field_count, 4);
    assert_string_equal(r.field[0].name, "image");
    assert_int_equal(r.field[0].dim[0], 5);
    assert_string_equal(r.field[1].name, "tags");
    assert_string_equal(r.field[2].name, "text");
    assert_string_equal(r.field[3].name, "label");
    assert_memory_equal(get(&r, 1, 0), ((float[]){1.5f, 20, 3, 4, 5}), 20);
    assert_memory_equal(get(&r, 0, 1), ((int32_t[]){0, 2, -1}), 12);
    assert_memory_equal(get(&r, 1, 1), ((int32_t[]){-1, -1, -1}), 12);
    assert_memory_equal(get(&r, 3, 1), ((int32_t[]){0, 1, 2}), 12);
    assert_memory_equal(get(&r, 0, 2), ((float[]){1, 0, 1}), 12);
    assert_memory_equal(get(&r, 0, 3), ((float[]){1, 0}), 8);
    assert_memory_equal(get(&r, 1, 3), ((float[]){1, 1}), 8);
    assert_int_equal(r.classes, 2);
    assert_string_equal(sw_lexicon_word(&r.class_names, 1, NULL), "animal");
    assert_true(r.naming != 0);
    sw_records_locate(&r, 2, &where);
    assert_string_equal(sw_bytes_text(&where), "record 2 (sea/3.jpg)");
    sw_bytes_fini(&where);
    sw_records_close(&r);
}

static void only_complete_or_single_records_are_kept(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    nus_write_all();
    nus_conf_init(&conf, PAIRS); /* image 2 has no tag, image 3 no concept */
    ASSERT_OK(open_split(&r, "train", &err));
    assert_int_equal(r.count, 2);
    assert_true(*(const float *)get(&r, 0, 0) == 0.5f && *(const float *)get(&r, 1, 0) == 3.5f);
    assert_memory_equal(get(&r, 1, 3), ((float[]){1, 1}), 8);
    sw_records_close(&r);
    nus_conf_init(&conf, SINGLE);
    ASSERT_OK(open_split(&r, "train", &err));
    assert_int_equal(r.count, 1);
    assert_true(*(const float *)get(&r, 0, 0) == 0.5f);
    sw_records_close(&r);
    nus_write(nus_files[4].name, "0\n1\n0\n1\n");
    assert_int_equal(open_split(&r, "train", &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "none of its 4 images has a tag and exactly one concept");
    nus_write(nus_files[4].name, "0\n0\n0\n0\n");
    nus_write(nus_files[5].name, "0\n0\n0\n0\n");
    nus_conf_init(&conf, PAIRS);
    assert_int_equal(open_split(&r, "train", &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "none of its 4 images has a tag and a concept");
}

static void images_replace_features(void **state)
{
    struct sw_records r;
    struct sw_room room = {0};
    struct sw_picture picture;
    struct sw_err err = {0};
    const bool no = false;
    char images[600];
    nus_write_all();
    nus_write("Flickr/sea/4.jpg", "the bytes");
    snprintf(images, sizeof images, "%s/Flickr", nus_root);
    nus_conf_init(&conf, PAIRS);
    support_text(&conf, "images", images);
    support_set(&conf, "vectors", &no, sizeof no);
    support_int(&conf, "max_tags", 2);
    ASSERT_OK(open_split(&r, "train", &err));
    assert_true(r.has_pictures && r.picture_field == 0);
    assert_int_equal(r.field_count, 3);
    assert_int_equal(r.field[1].dim[0], 2);
    assert_memory_equal(get(&r, 1, 1), ((int32_t[]){0, 1}), 8);
    assert_memory_equal(get(&r, 1, 2), ((float[]){1, 1}), 8);
    ASSERT_OK(r.format->fetch_picture(&r, 1, &room, &picture, &err));
    assert_int_equal(picture.bytes, 9);
    assert_memory_equal(picture.data, "the bytes", 9);
    assert_int_equal(r.format->fetch_picture(&r, 0, &room, &picture, &err), SW_ERR_NOTFOUND);
    sw_room_fini(&room);
    sw_records_close(&r);
}

static void folders_may_lie_elsewhere_and_are_recognized(void **state)
{
    struct sw_records r;
    const struct sw_format *found;
    struct sw_err err = {0};
    char from[600], to[600];
    nus_write_all();
    ASSERT_OK(sw_data_sniff(nus_root, &found, &err));
    assert_string_equal(found->base.name, "nus_wide");
    snprintf(from, sizeof from, "%s/NUS_WID_Low_Level_Features/Low_Level_Features", nus_root);
    snprintf(to, sizeof to, "%s/Low_Level_Features", nus_root);
    assert_int_equal(rename(from, to), 0);
    snprintf(from, sizeof from, "%s/ConceptsList/Concepts81.txt", nus_root);
    snprintf(to, sizeof to, "%s/Concepts81.txt", nus_root);
    assert_int_equal(rename(from, to), 0);
    nus_conf_init(&conf, ALL);
    ASSERT_OK(open_split(&r, "train", &err));
    assert_int_equal(r.field[0].dim[0], 5);
    sw_records_close(&r);
    assert_int_equal(open_split(&r, "test", &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "ImageList/TestImagelist.txt");
    const int test = 1; /* "train" */
    support_set(&conf, "split", &test, sizeof test);
    ASSERT_OK(open_split(&r, "val", &err));
    sw_records_close(&r);
    nus_teardown(NULL);
    mkdir(support_dir, 0700);
}

struct damage {
    int file;
    const char *content, *says;
};

static void damaged_files_are_refused_with_file_and_line(void **state)
{
    static const struct damage damages[] = {
        {0, "", "TrainImagelist.txt: is empty"},
        {0, "a.jpg\n\nb.jpg\nc.jpg\nd.jpg\n", "TrainImagelist.txt:2: is empty"},
        {0, "a.jpg\n..\\b.jpg\nc.jpg\nd.jpg\n", "TrainImagelist.txt:2: path \"../b.jpg\""},
        {0, "a.jpg\n/b.jpg\nc.jpg\nd.jpg\n", "TrainImagelist.txt:2: path \"/b.jpg\""},
        {0, "a.jpg\nb.jpg\nc.jpg\n", "Train_Normalized_CH.dat:4: more rows than the 3 of "},
        {1, "1\t0\t1\n0\t0\t0\n0\t2\t0\n1\t1\t1\n",
         "Train_Tags1k.dat:3: value 2 is '2', expected 0 or 1"},
        {1, "1\t0\t1\n0\t0\t0\n0\t10\t0\n1\t1\t1\n",
         "Train_Tags1k.dat:3: value 2 is '10', expected 0 or 1"},
        {1, "1\t0\t1\n0\t0\n0\t1\t0\n1\t1\t1\n", "Train_Tags1k.dat:2: 2 values, expected 3"},
        {1, "1\t0\t1\n0\t0\t0\t0\n0\t1\t0\n1\t1\t1\n", "Train_Tags1k.dat:2: 4 values, expected 3"},
        {1, "1\t0\t1\n0\t0\t0\n0\t1\t0\n", "Train_Tags1k.dat: has 3 rows, expected 4, as many as "},
        {1, "1\t0\t1\n\n0\t0\t0\n0\t1\t0\n1\t1\t1\n", "Train_Tags1k.dat:2: is empty"},
        {2, "nature\nblue\n",
         "TagList1k.txt: has 2 tags, but rows of Train_Tags1k.dat have 3 values"},
        {3, "", "Concepts81.txt: has no class names"},
        {3, "water\nwater\n", "Concepts81.txt: duplicate class water"},
        {3, "water\nsky\n", "Labels_sky_Train.txt"},
        {3, "water\n../x\n", "concept '../x': a name cannot contain '/'"},
        {4, "1\n1\n0\n", "Labels_water_Train.txt: has 3 rows, expected 4"},
        {4, "1\n1\n0\n1\n1\n", "Labels_water_Train.txt:5: more rows than the 4 of "},
        {4, "1\n-1\n0\n1\n", "Labels_water_Train.txt:2: value 1 is '-1', expected 0 or 1"},
        {4, "1\n1 0\n0\n1\n", "Labels_water_Train.txt:2: 2 values, expected 1"},
        {6, "0.5 -1\n1.5 nan\n2.5 0\n3.5 7\n",
         "Train_Normalized_CH.dat:2: value 2 is 'nan', expected a finite number"},
        {6, "0.5 -1\n1.5 1e99\n2.5 0\n3.5 7\n", "Train_Normalized_CH.dat:2: value 2 is '1e99'"},
        {6, "0.5 -1\n1.5 2x\n2.5 0\n3.5 7\n", "Train_Normalized_CH.dat:2: value 2 is '2x'"},
        {6, "0.5 -1\n1.5\n2.5 0\n3.5 7\n", "Train_Normalized_CH.dat:2: 1 values, expected 2"},
        {7, "0 1\n2 3\n", "BoW_Train_int.dat: has 2 rows, expected 4"},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *d = &damages[i];
        struct sw_records r;
        struct sw_err err = {0};
        nus_write_all();
        nus_conf_init(&conf, ALL);
        nus_write(nus_files[d->file].name, d->content);
        assert_true(open_split(&r, "train", &err) != SW_OK);
        ASSERT_CONTAINS(err.text, d->says);
    }
}

static void a_missing_file_is_named(void **state)
{
    for (size_t i = 0; i < sizeof nus_files / sizeof *nus_files; i++) {
        struct sw_records r;
        struct sw_err err = {0};
        char path[1024];
        nus_write_all();
        nus_conf_init(&conf, ALL);
        snprintf(path, sizeof path, "%s/%s", nus_root, nus_files[i].name);
        assert_int_equal(unlink(path), 0);
        const int rc = open_split(&r, "train", &err);
        if (i == 2) { /* the list of tags is not needed */
            ASSERT_OK(rc);
            sw_records_close(&r);
            continue;
        }
        assert_int_equal(rc, SW_ERR_NOTFOUND);
        ASSERT_CONTAINS(err.text, path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_have_features_tags_and_concepts),
        cmocka_unit_test(only_complete_or_single_records_are_kept),
        cmocka_unit_test(images_replace_features),
        cmocka_unit_test(folders_may_lie_elsewhere_and_are_recognized),
        cmocka_unit_test(damaged_files_are_refused_with_file_and_line),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, support_setup, nus_teardown);
}
