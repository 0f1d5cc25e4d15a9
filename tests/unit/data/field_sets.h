/* Small sets of records with several fields, one of each format that has them: `conf` is filled by
 * the functions of field_sets. */
#pragma once

#include "npy_support.h"
#include "nus_support.h"

enum { FIELD_RECORDS = 50 };

static struct support_conf conf;

static void make_csv(void)
{
    struct sw_bytes b = {0};
    for (int i = 0; i < FIELD_RECORDS; i++)
        sw_bytes_printf(&b, "%d,%d,%d,c%d\n", i, 2 * i, 3 * i, i % 3);
    support_init(&conf, "csv");
    support_strings(&conf, "paths", 0, support_gzip("t.gz", b.text, b.length), NULL);
    support_strings(&conf, "target", 1, "1", NULL);
    support_text(&conf, "label", "last");
    sw_bytes_fini(&b);
}

static void make_text(void)
{
    struct sw_bytes b = {0};
    const int words = 2;
    for (int i = 0; i < 9 * FIELD_RECORDS; i++)
        sw_bytes_printf(&b, "w%d ", i * i % 97);
    support_init(&conf, "text");
    support_set(&conf, "unit", &words, sizeof words);
    support_int(&conf, "length", 8);
    support_strings(&conf, "paths", 0, support_write("t.txt", b.text, b.length), NULL);
    sw_bytes_fini(&b);
}

static void make_pairs(void)
{
    static float image[FIELD_RECORDS][3];
    static double text[FIELD_RECORDS][5];
    struct sw_bytes tags = {0}, labels = {0};
    const bool sets = true;
    for (int i = 0; i < FIELD_RECORDS; i++) {
        for (int k = 0; k < 3; k++)
            image[i][k] = (float)(i * 3 + k);
        for (int k = 0; k < 5; k++)
            text[i][k] = i * 5 + k;
        sw_bytes_printf(&tags, "t%d t%d\n", i % 7, i % 11);
        sw_bytes_printf(&labels, i % 4 ? "%d\n" : "%d 9\n", i % 5);
    }
    support_init(&conf, "pairs");
    support_set(&conf, "label_sets", &sets, sizeof sets);
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(50, 3)", image, sizeof image), NULL);
    support_strings(&conf, "text", 1, npy_write("y", "<f8", "(50, 5)", text, sizeof text), NULL);
    support_strings(&conf, "tags", 2, support_write("g", tags.text, tags.length), NULL);
    support_strings(&conf, "labels", 3, support_write("l", labels.text, labels.length), NULL);
    sw_bytes_fini(&tags);
    sw_bytes_fini(&labels);
}

static void make_synthetic(void)
{
    const int pairs = 3;
    support_init(&conf, "synthetic");
    support_set(&conf, "kind", &pairs, sizeof pairs);
    support_int(&conf, "records", FIELD_RECORDS);
    support_int(&conf, "height", 8);
    support_int(&conf, "width", 8);
    support_int(&conf, "tags", 6);
}

static void make_npz(void)
{
    static struct zip_maker maker;
    static float image[FIELD_RECORDS][4];
    static int16_t label[FIELD_RECORDS];
    for (int i = 0; i < FIELD_RECORDS; i++) {
        image[i][i % 4] = (float)i;
        label[i] = (int16_t)(i % 6);
    }
    memset(&maker, 0, sizeof maker);
    zip_add_array(&maker, "image.npy", "<f4", "(50, 2, 2)", image, sizeof image, true);
    zip_add_array(&maker, "label.npy", "<i2", "(50,)", label, sizeof label, false);
    zip_end(&maker);
    support_init(&conf, "npz");
    support_strings(&conf, "paths", 0, support_write("a.npz", maker.bytes, maker.used), NULL);
}

static void make_nus_wide(void)
{
    struct sw_bytes list = {0}, tags = {0}, labels = {0}, features = {0};
    for (int i = 0; i < FIELD_RECORDS; i++) {
        sw_bytes_printf(&list, "sky\\%d.jpg\n", i);
        sw_bytes_printf(&tags, "%d %d 1\n", i % 2, i / 3 % 2);
        sw_bytes_printf(&labels, "%d\n", i / 2 % 2);
        sw_bytes_printf(&features, "%d.5 %d\n", i, -i);
    }
    nus_write_all();
    nus_write(nus_files[0].name, list.text);
    nus_write(nus_files[1].name, tags.text);
    nus_write(nus_files[4].name, labels.text);
    nus_write(nus_files[5].name, labels.text);
    nus_write(nus_files[6].name, features.text);
    nus_write(nus_files[7].name, features.text);
    nus_conf_init(&conf, 0);
    sw_bytes_fini(&list);
    sw_bytes_fini(&tags);
    sw_bytes_fini(&labels);
    sw_bytes_fini(&features);
}

static const struct {
    void (*make)(void);
    int fields;
} field_sets[] = {{make_csv, 3}, {make_text, 3},      {make_pairs, 4},
                  {make_npz, 2}, {make_synthetic, 4}, {make_nus_wide, 4}};

enum { FIELD_SETS = sizeof field_sets / sizeof field_sets[0] };
