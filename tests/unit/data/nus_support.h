/* A small set of four images in the files of NUS-WIDE, in the test's folder. */
#pragma once

#include "data_support.h"
#include <sys/stat.h>

static char nus_root[512];

static const struct nus_file {
    const char *name, *content;
} nus_files[] = {
    {"ImageList/TrainImagelist.txt", "sky\\1.jpg\r\nsky\\2.jpg\r\nsea\\3.jpg\r\nsea\\4.jpg\r\n"},
    {"NUS_WID_Tags/Train_Tags1k.dat", "1\t0\t1\t\n0\t0\t0\t\n0\t1\t0\t\n1\t1\t1\t\n"},
    {"NUS_WID_Tags/TagList1k.txt", "nature\nblue\nboat\n"},
    {"ConceptsList/Concepts81.txt", "water\nanimal\n"},
    {"Groundtruth/TrainTestLabels/Labels_water_Train.txt", "1\n1\n0\n1\n"},
    {"Groundtruth/TrainTestLabels/Labels_animal_Train.txt", "0\n1\n0\n1\n"},
    {"NUS_WID_Low_Level_Features/Low_Level_Features/Train_Normalized_CH.dat",
     "0.5 -1 \n1.5 2e1 \n2.5 0 \n3.5 7 \n"},
    {"NUS_WID_Low_Level_Features/Low_Level_Features/BoW_Train_int.dat",
     "0 1 2\n3 4 5\n6 7 8\n9 10 11\n"},
};

/* Writes one of the files, and the folders above it. */
static inline void nus_write(const char *name, const char *content)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", nus_root, name);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, strlen(content), f), strlen(content));
    assert_int_equal(fclose(f), 0);
}

static inline void nus_write_all(void)
{
    snprintf(nus_root, sizeof nus_root, "%s/nus", support_dir);
    for (size_t i = 0; i < sizeof nus_files / sizeof *nus_files; i++)
        nus_write(nus_files[i].name, nus_files[i].content);
}

/* A section that reads them, with the features CH and BoW. */
static inline void nus_conf_init(struct support_conf *c, int keep)
{
    const bool yes = true;
    support_init(c, "nus_wide");
    support_strings(c, "paths", 0, nus_root, NULL);
    support_strings(c, "features", 1, "CH", "BoW");
    support_set(c, "keep", &keep, sizeof keep);
    support_set(c, "vectors", &yes, sizeof yes);
}

static inline int nus_teardown(void **state)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", support_dir);
    return system(command);
}
