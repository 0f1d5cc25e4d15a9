/* The idx format with untrusted files: opening and reading every record must end in SW_OK or an
 * error, never in a crash. Input: two bytes, the length of the image file (big-endian), the image
 * file, then the label file. The files are in memory, behind the table of the operating system. */
#include "base/os.h"
#include "data/format.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FIRST_FD = 1000, MAX_FETCHES = 64 };

static struct {
    const uint8_t *data;
    size_t bytes;
} file[2];

static int memory_stat(const char *path, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_mode = S_IFREG;
    st->st_size = (off_t)file[path[0] == 'l'].bytes;
    return 0;
}

static int memory_open(const char *path, int flags, mode_t mode)
{
    return FIRST_FD + (path[0] == 'l');
}

static int memory_close(int fd)
{
    return 0;
}

static ssize_t memory_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    const size_t size = file[fd - FIRST_FD].bytes;
    size_t n = (size_t)offset < size ? size - (size_t)offset : 0;
    n = n < bytes ? n : bytes;
    if (n)
        memcpy(buf, file[fd - FIRST_FD].data + offset, n);
    return (ssize_t)n;
}

/* The private struct of the format begins with paths, then labels; both are set by key. */
static void set_list(unsigned char *conf, const char *key, const struct sw_strings *list)
{
    for (const struct sw_opt *o = sw_format_find("idx")->base.opts; o->key; o++) {
        if (!strcmp(o->key, key))
            memcpy(conf + o->offset, list, sizeof *list);
    }
}

static void read_all(const struct sw_records *r)
{
    const size_t size = sw_field_bytes(&r->field[0]);
    unsigned char *scratch = sw_os()->alloc(size < 4 ? 4 : size);
    const void *out = NULL;
    for (int64_t i = 0; scratch && i < r->count && i < MAX_FETCHES; i++) {
        /* Reads the last records first, since they reveal a wrong size. */
        const int64_t record = r->count - 1 - i;
        if (r->format->fetch(r, record, 0, scratch, &out, NULL))
            __builtin_trap(); /* the size was checked at opening */
        memmove(scratch, out, size);
        if (r->format->fetch(r, record, 1, scratch, &out, NULL) ||
            *(const int32_t *)out >= r->classes)
            __builtin_trap();
    }
    sw_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *images = "images", *labels = "labels";
    const struct sw_strings paths = {&images, 1}, label_paths = {&labels, 1};
    _Alignas(16) unsigned char conf[256] = {0};
    const struct sw_format_args args = {.conf = conf, .split = "train"};
    struct sw_os os = sw_os_posix;
    struct sw_records r;
    struct sw_err err = {0};
    if (bytes < 2)
        return 0;
    size_t first = (size_t)data[0] << 8 | data[1];
    first = first < bytes - 2 ? first : bytes - 2;
    file[0].data = data + 2;
    file[0].bytes = first;
    file[1].data = data + 2 + first;
    file[1].bytes = bytes - 2 - first;
    os.stat = memory_stat;
    os.open = memory_open;
    os.close = memory_close;
    os.pread = memory_pread;
    sw_os_set(&os);
    set_list(conf, "paths", &paths);
    set_list(conf, "labels", &label_paths);
    if (sw_records_open(&r, sw_format_find("idx"), &args, &err) == SW_OK) {
        read_all(&r);
        sw_records_close(&r);
    }
    sw_os_set(NULL);
    return 0;
}
