/* Fuzzing of data formats: the files "0", "1", ..., or those whose names end in fuzz_end[i], are in
 * memory, behind the table of the operating system. Opening and reading must end in SW_OK or an
 * error, never in a crash, and an opened file must have the sizes that it declares. */
#pragma once

#include "base/os.h"
#include "base/str.h"
#include "data/format.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FIRST_FD = 1000, MAX_FILES = 5, MAX_FETCHES = 64 };

static struct {
    const uint8_t *data;
    size_t bytes;
} fuzz_file[MAX_FILES];

static const char *fuzz_end[MAX_FILES];
static size_t memory_at[MAX_FILES]; /* position of read */

static int memory_find(const char *path)
{
    for (int i = 0; i < MAX_FILES; i++) {
        if (fuzz_end[i] ? sw_str_ends(path, fuzz_end[i]) : path[0] == '0' + i && !path[1])
            return i;
    }
    errno = ENOENT;
    return -1;
}

static int memory_fstat(int fd, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_mode = S_IFREG;
    st->st_size = (off_t)fuzz_file[fd - FIRST_FD].bytes;
    return 0;
}

static int memory_stat(const char *path, struct stat *st)
{
    const int i = memory_find(path);
    return i < 0 ? -1 : memory_fstat(FIRST_FD + i, st);
}

static int memory_open(const char *path, int flags, mode_t mode)
{
    const int i = memory_find(path);
    if (i < 0)
        return -1;
    memory_at[i] = 0;
    return FIRST_FD + i;
}

static int memory_close(int fd)
{
    return 0;
}

static ssize_t memory_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    const size_t size = fuzz_file[fd - FIRST_FD].bytes;
    size_t n = (size_t)offset < size ? size - (size_t)offset : 0;
    n = n < bytes ? n : bytes;
    if (n)
        memcpy(buf, fuzz_file[fd - FIRST_FD].data + offset, n);
    return (ssize_t)n;
}

static ssize_t memory_read(int fd, void *buf, size_t bytes)
{
    const ssize_t n = memory_pread(fd, buf, bytes, (off_t)memory_at[fd - FIRST_FD]);
    memory_at[fd - FIRST_FD] += (size_t)n;
    return n;
}

/* Sets a key of the private struct of the format. */
static inline void fuzz_set(const struct sw_format *f, unsigned char *conf, const char *key,
                            const void *value, size_t bytes)
{
    for (const struct sw_opt *o = f->base.opts; o->key; o++) {
        if (!strcmp(o->key, key)) {
            memcpy(conf + o->offset, value, bytes);
            return;
        }
    }
    __builtin_trap();
}

static inline void check_field(const struct sw_records *r, int f, const void *value)
{
    const struct sw_field *field = &r->field[f];
    for (int64_t k = 0; k < sw_field_count(field); k++) {
        if (field->dtype == SW_F32 && !isfinite(((const float *)value)[k]))
            __builtin_trap();
        if (field->dtype == SW_I32 && !strcmp(field->name, "label") && field->ndim == 0 &&
            (((const int32_t *)value)[k] < 0 || ((const int32_t *)value)[k] >= r->classes))
            __builtin_trap();
    }
}

/* Reads the last records first, since they reveal a wrong size. A record with damaged contents may
 * be refused only here. */
static inline void fuzz_read_all(const struct sw_records *r)
{
    size_t size = 4;
    for (int f = 0; f < r->field_count; f++)
        size = sw_field_bytes(&r->field[f]) > size ? sw_field_bytes(&r->field[f]) : size;
    unsigned char *scratch = sw_os()->alloc(size);
    for (int64_t i = 0; scratch && i < r->count && i < MAX_FETCHES; i++) {
        for (int f = 0; f < r->field_count; f++) {
            const void *out = NULL;
            struct sw_err err = {0};
            if (r->has_pictures && f == r->picture_field)
                continue; /* a separate file, which does not exist */
            if (r->format->fetch(r, r->count - 1 - i, f, scratch, &out, &err) == SW_OK)
                check_field(r, f, out);
            else if (!err.text[0])
                __builtin_trap();
        }
    }
    sw_free(scratch);
}

/* The operating system whose files are in memory. */
static inline struct sw_os fuzz_os(void)
{
    struct sw_os os = sw_os_posix;

    os.stat = memory_stat;
    os.fstat = memory_fstat;
    os.read = memory_read;
    os.open = memory_open;
    os.close = memory_close;
    os.pread = memory_pread;
    return os;
}

static inline void fuzz_open(const struct sw_format *format, const unsigned char *conf)
{
    const struct sw_format_args args = {.conf = conf, .split = "train", .max_bytes = 1 << 20};
    const struct sw_os os = fuzz_os();
    struct sw_records r;
    struct sw_err err = {0};
    sw_os_set(&os);
    if (sw_records_open(&r, format, &args, &err) == SW_OK) {
        if (r.count < 1 || r.field_count < 1 || !r.where)
            __builtin_trap();
        fuzz_read_all(&r);
        sw_records_close(&r);
    } else if (!err.text[0]) {
        __builtin_trap();
    }
    sw_os_set(NULL);
}
