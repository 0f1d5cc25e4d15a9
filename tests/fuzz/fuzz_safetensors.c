/* Untrusted safetensors files: opening ends in a file whose declared sizes are all valid, or in an
 * error. The file is in memory, behind the table of the operating system. */
#include "base/os.h"
#include "tensor/safetensors.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { ONLY_FD = 1000, PIECE = 4096 };

static struct {
    const uint8_t *data;
    size_t bytes;
} file;

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static int memory_open(const char *path, int flags, mode_t mode)
{
    return ONLY_FD;
}

static int memory_close(int fd)
{
    demand(fd == ONLY_FD);
    return 0;
}

static int memory_fstat(int fd, struct stat *st)
{
    demand(fd == ONLY_FD);
    memset(st, 0, sizeof *st);
    st->st_mode = S_IFREG;
    st->st_size = (off_t)file.bytes;
    return 0;
}

static ssize_t memory_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    demand(fd == ONLY_FD && offset >= 0 && (size_t)offset <= file.bytes);
    size_t n = file.bytes - (size_t)offset < bytes ? file.bytes - (size_t)offset : bytes;
    if (n)
        memcpy(buf, file.data + offset, n);
    return (ssize_t)n;
}

/* Reads a tensor to its end, which must lie inside the file. */
static void read_tensor(const struct sw_st_file *f, const struct sw_st_entry *e)
{
    unsigned char buf[PIECE];
    uint64_t count = 1;
    for (int i = 0; i < e->ndim; i++)
        count *= (uint64_t)e->shape[i];
    demand(count * sw_st_dtype_bytes(e->dtype) == e->bytes);
    for (uint64_t at = 0; at < e->bytes; at += PIECE) {
        size_t n = e->bytes - at < PIECE ? (size_t)(e->bytes - at) : PIECE;
        demand(sw_st_read(f, e, at, n, buf, NULL) == SW_OK);
        demand(memcmp(buf, file.data + e->offset + at, n) == 0);
    }
    demand(sw_st_read(f, e, e->bytes, 1, buf, NULL) == SW_ERR_INVALID);
}

static void open_and_read(bool need_checksum)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    const char *key, *value;
    if (sw_st_open("file", need_checksum, &f, &err) != SW_OK) {
        demand(!f && err.code < 0 && err.text[0]);
        return;
    }
    demand(sw_st_verified(f) || !need_checksum);
    uint64_t total = 0;
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        demand(sw_st_find(f, e->name) == e);
        total += e->bytes;
        read_tensor(f, e);
    }
    demand(total < file.bytes);
    for (size_t i = 0; i < 16 && sw_st_metadata_at(f, i, &key, &value); i++)
        demand(sw_st_metadata(f, key) == value);
    sw_st_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_os os = sw_os_posix;
    os.open = memory_open;
    os.close = memory_close;
    os.fstat = memory_fstat;
    os.pread = memory_pread;
    file.data = data;
    file.bytes = bytes;
    sw_os_set(&os);
    open_and_read(false);
    open_and_read(true);
    sw_os_set(NULL);
    return 0;
}
