/* Folders of images that tests make: every image has one color, which identifies it. */
#pragma once

#include "picture_support.h"
#include <sys/stat.h>

/* Makes a folder in the test's folder. */
static inline void support_mkdir(const char *name)
{
    assert_int_equal(mkdir(support_path(name), 0700), 0);
}

/* A gray level as a JPEG or, by its name, PNG of those sides. */
static inline void support_level(const char *name, int height, int width, unsigned char level)
{
    size_t bytes;
    unsigned char *rows = malloc((size_t)(height * width * 3)), *data;
    assert_non_null(rows);
    memset(rows, level, (size_t)(height * width * 3));
    if (sw_str_ends(name, "png") || sw_str_ends(name, "PNG"))
        data = support_png((struct support_png){height, width, PNG_COLOR_TYPE_RGB, 8, false}, rows,
                           &bytes);
    else
        data = support_jpeg((struct support_jpeg){height, width, 3, false, false}, rows, &bytes);
    support_write(name, data, bytes);
    free(rows);
    free(data);
}

static inline int support_remove_all(void **state)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", support_dir);
    return system(command);
}

static inline void support_string(struct support_conf *c, const char *key, const char *value)
{
    const struct sw_opt *o = support_row(c->format, key);
    assert_int_equal(o->type, SW_OPT_PATH);
    memcpy(c->bytes + o->offset, &value, sizeof value);
}
