/* What the tests of data/ share: folders and files that a test makes, the struct of a format filled
 * through its own option rows, and sources of small images whose pixels say which record they
 * are. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/str.h"
#include "data/source.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define ASSERT_CONTAINS(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" lacks \"%s\"", (text), (part));                                       \
    } while (0)

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_)                                                                                 \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

/* ---- Files ---- */

static char support_dir[256];

static inline int support_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(support_dir, sizeof support_dir, "%s/singa-data-XXXXXX", base ? base : "/tmp");
    return mkdtemp(support_dir) ? 0 : -1;
}

static inline int support_teardown(void **state)
{
    DIR *dir = opendir(support_dir);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", support_dir, e->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    return rmdir(support_dir);
}

/* The path of a file in the test's folder; one of eight buffers in turn. */
static inline const char *support_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", support_dir, name);
    return path;
}

static inline const char *support_write(const char *name, const void *bytes, size_t n)
{
    const char *path = support_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *support_gzip(const char *name, const void *bytes, size_t n)
{
    const char *path = support_path(name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)n), (int)n);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

/* The shared data's file, or NULL (and a printed reason) where it is absent. */
static inline const char *support_shared(const char *name, char path[512])
{
    const char *root = getenv("SINGA_DATA");
    if (root && root[0])
        snprintf(path, 512, "%s/%s", root, name);
    else
        snprintf(path, 512, "%s/../shared/data/%s", SW_SOURCE_DIR, name);
    if (access(path, R_OK) == 0)
        return path;
    print_message("skipped: %s is not there (set SINGA_DATA)\n", path);
    return NULL;
}

/* ---- A format's own struct, by key ---- */

struct support_conf {
    const struct sw_format *format;
    _Alignas(16) unsigned char bytes[256];
    const char *names[4][4];
};

static inline const struct sw_opt *support_row(const struct sw_format *f, const char *key)
{
    for (const struct sw_opt *o = f->base.opts; o->key; o++) {
        if (!strcmp(o->key, key))
            return o;
    }
    fail_msg("%s has no key %s", f->base.name, key);
    return NULL;
}

static inline void support_init(struct support_conf *c, const char *format)
{
    memset(c, 0, sizeof *c);
    c->format = sw_format_find(format);
    assert_non_null(c->format);
    assert_true(c->format->base.conf_bytes <= sizeof c->bytes);
}

static inline void support_int(struct support_conf *c, const char *key, int64_t value)
{
    const struct sw_opt *o = support_row(c->format, key);
    assert_int_equal(o->type, SW_OPT_INT);
    memcpy(c->bytes + o->offset, &value, sizeof value);
}

/* Any key whose member is that long. */
static inline void support_set(struct support_conf *c, const char *key, const void *value,
                               size_t bytes)
{
    memcpy(c->bytes + support_row(c->format, key)->offset, value, bytes);
}

static inline void support_text(struct support_conf *c, const char *key, const char *value)
{
    const struct sw_opt *o = support_row(c->format, key);
    assert_true(o->type == SW_OPT_STRING || o->type == SW_OPT_PATH);
    support_set(c, key, &value, sizeof value);
}

/* slot 0 to 3 of c->names holds the list; b may be NULL. */
static inline void support_strings(struct support_conf *c, const char *key, int slot, const char *a,
                                   const char *b)
{
    const struct sw_opt *o = support_row(c->format, key);
    assert_true(o->type == SW_OPT_STRINGS || o->type == SW_OPT_PATHS);
    c->names[slot][0] = a;
    c->names[slot][1] = b;
    const struct sw_strings list = {c->names[slot], b ? 2 : 1};
    memcpy(c->bytes + o->offset, &list, sizeof list);
}

/* ---- IDX files ---- */

static inline void support_big_endian(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

enum { SUPPORT_SIDE = 4, SUPPORT_PIXELS = SUPPORT_SIDE * SUPPORT_SIDE };

/* Images of 4x4: pixel 0 and 1 are the record's number, the others count up. The buffer is
 * malloc's; *bytes its size. */
static inline unsigned char *support_idx_images(int64_t records, size_t *bytes)
{
    *bytes = 16 + (size_t)records * SUPPORT_PIXELS;
    unsigned char *b = calloc(1, *bytes);
    assert_non_null(b);
    b[2] = 8;
    b[3] = 3;
    support_big_endian(b + 4, (uint32_t)records);
    support_big_endian(b + 8, SUPPORT_SIDE);
    support_big_endian(b + 12, SUPPORT_SIDE);
    for (int64_t i = 0; i < records; i++) {
        unsigned char *picture = b + 16 + i * SUPPORT_PIXELS;
        for (int k = 0; k < SUPPORT_PIXELS; k++)
            picture[k] = (unsigned char)(k * 3);
        picture[0] = (unsigned char)i;
        picture[1] = (unsigned char)(i >> 8);
    }
    return b;
}

static inline unsigned char *support_idx_labels(int64_t records, size_t *bytes)
{
    *bytes = 8 + (size_t)records;
    unsigned char *b = calloc(1, *bytes);
    assert_non_null(b);
    b[2] = 8;
    b[3] = 1;
    support_big_endian(b + 4, (uint32_t)records);
    for (int64_t i = 0; i < records; i++)
        b[8 + i] = (unsigned char)(i % 10);
    return b;
}

/* Which record a finished 1x4x4 row without transform shows. */
static inline int64_t support_record(const float *row)
{
    return (int64_t)row[0] + 256 * (int64_t)row[1];
}

/* A plain IDX pair of that many records as the conf of a section. */
static inline void support_idx(struct support_conf *c, int64_t records)
{
    size_t n;
    unsigned char *b = support_idx_images(records, &n);
    support_init(c, "idx");
    support_strings(c, "paths", 0, support_write("images", b, n), NULL);
    free(b);
    b = support_idx_labels(records, &n);
    support_strings(c, "labels", 1, support_write("labels", b, n), NULL);
    free(b);
}

static inline struct sw_data_conf support_plain(void)
{
    return (struct sw_data_conf){.scale = 1, .workers = 1, .prefetch = 2};
}

static inline int support_open(const struct support_conf *c, const struct sw_data_conf *conf,
                               bool training, uint64_t seed, struct sw_source **out,
                               struct sw_err *err)
{
    const struct sw_source_args args = {.name = "train",
                                        .conf = conf,
                                        .format = c->format,
                                        .format_conf = c->bytes,
                                        .seed = seed,
                                        .training = training};
    return sw_source_open(&args, out, err);
}
