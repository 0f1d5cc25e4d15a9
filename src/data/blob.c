#include "data/blob.h"
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <zlib.h>

/* Deflate never does better than 1032 : 1 (zlib's own documentation), so a stream of n bytes that
 * is said to hold more is lying, and no memory is taken for it. */
enum { MAX_RATIO = 1032, GZIP_MIN_BYTES = 18, IN_BYTES = 1 << 16 };

int sw_blob_open(struct sw_blob *b, const char *path, struct sw_err *err)
{
    unsigned char magic[2] = {0};
    struct stat st;
    int rc = SW_OK;
    *b = (struct sw_blob){0};
    /* Asked before opening: to open a pipe would wait for its writer. */
    if (sw_os()->stat(path, &st))
        return sw_err_errno(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: not a regular file", path);
    b->path = sw_strdup(path);
    if (!b->path)
        return sw_err_nomem(err, "the name of a data file", strlen(path) + 1);
    b->fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
    if (b->fd < 0) {
        rc = sw_err_errno(err, errno, "%s", path);
        goto fail;
    }
    b->is_open = true;
    b->file_bytes = (uint64_t)st.st_size;
    if (b->file_bytes >= sizeof magic)
        rc = sw_os_pread_all(b->fd, magic, sizeof magic, 0, path, err);
    if (rc)
        goto fail;
    b->gzip = magic[0] == 0x1f && magic[1] == 0x8b;
    return SW_OK;
fail:
    sw_blob_close(b);
    return rc;
}

void sw_blob_close(struct sw_blob *b)
{
    if (b->is_open)
        sw_os()->close(b->fd);
    sw_free(b->path);
    if (b->mapped)
        sw_os()->unmap_pages(b->memory, (size_t)b->bytes);
    else
        sw_free(b->memory);
    *b = (struct sw_blob){0};
}

static void *zlib_alloc(void *user, unsigned items, unsigned size)
{
    (void)user;
    return sw_calloc(items, size);
}

static void zlib_free(void *user, void *p)
{
    (void)user;
    sw_free(p);
}

struct inflater {
    const struct sw_blob *blob;
    z_stream z;
    uint64_t in_offset; /* next byte of the file */
    bool ended;         /* the stream's end was met, and its checksum was right */
    unsigned char in[IN_BYTES];
};

static int refill(struct inflater *s, struct sw_err *err)
{
    uint64_t left = s->blob->file_bytes - s->in_offset;
    size_t n = left < IN_BYTES ? (size_t)left : IN_BYTES;
    if (n == 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the compressed file is cut short after %llu bytes", s->blob->path,
                          (unsigned long long)s->blob->file_bytes);
    int rc = sw_os_pread_all(s->blob->fd, s->in, n, (off_t)s->in_offset, s->blob->path, err);
    s->in_offset += n;
    s->z.next_in = s->in;
    s->z.avail_in = (uInt)n;
    return rc;
}

/* Inflates up to `want` bytes; *got is less only when the stream ended. */
static int inflate_some(struct inflater *s, unsigned char *out, uint64_t want, uint64_t *got,
                        struct sw_err *err)
{
    *got = 0;
    while (*got < want && !s->ended) {
        uint64_t room = want - *got;
        uInt step = room < (1u << 30) ? (uInt)room : 1u << 30;
        if (s->z.avail_in == 0) {
            int rc = refill(s, err);
            if (rc)
                return rc;
        }
        s->z.next_out = out + *got;
        s->z.avail_out = step;
        int answer = inflate(&s->z, Z_NO_FLUSH);
        *got += step - s->z.avail_out;
        if (answer == Z_STREAM_END)
            s->ended = true;
        else if (answer == Z_MEM_ERROR)
            return sw_err_nomem(err, "the state of zlib", 0);
        else if (answer != Z_OK && answer != Z_BUF_ERROR)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: the compressed data are damaged after %llu bytes of content (%s)",
                s->blob->path, (unsigned long long)s->z.total_out, s->z.msg ? s->z.msg : "zlib");
    }
    return SW_OK;
}

static int inflater_new(const struct sw_blob *b, struct inflater **out, struct sw_err *err)
{
    struct inflater *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "a buffer for compressed data", sizeof *s);
    s->blob = b;
    s->z.zalloc = zlib_alloc;
    s->z.zfree = zlib_free;
    if (inflateInit2(&s->z, 15 + 16) != Z_OK) {
        sw_free(s);
        return sw_err_nomem(err, "the state of zlib", 0);
    }
    *out = s;
    return SW_OK;
}

static void inflater_free(struct inflater *s)
{
    inflateEnd(&s->z);
    sw_free(s);
}

int sw_blob_head(struct sw_blob *b, void *out, size_t bytes, struct sw_err *err)
{
    uint64_t got = b->file_bytes < bytes ? b->file_bytes : bytes;
    int rc;
    if (b->gzip) {
        struct inflater *s = NULL;
        rc = inflater_new(b, &s, err);
        if (rc)
            return rc;
        rc = inflate_some(s, out, bytes, &got, err);
        inflater_free(s);
    } else {
        rc = sw_os_pread_all(b->fd, out, (size_t)got, 0, b->path, err);
    }
    if (!rc && got < bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header of %zu",
                        b->path, (unsigned long long)got, bytes);
    return rc;
}

int sw_blob_claimed(struct sw_blob *b, uint64_t *bytes, struct sw_err *err)
{
    unsigned char t[4];
    *bytes = b->file_bytes;
    if (!b->gzip)
        return SW_OK;
    if (b->file_bytes < GZIP_MIN_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the compressed file is cut short after %llu bytes", b->path,
                          (unsigned long long)b->file_bytes);
    int rc = sw_os_pread_all(b->fd, t, sizeof t, (off_t)(b->file_bytes - 4), b->path, err);
    *bytes = t[0] | (uint64_t)t[1] << 8 | (uint64_t)t[2] << 16 | (uint64_t)t[3] << 24;
    return rc;
}

/* What was promised and what is there, with the record that is hit first. */
struct layout {
    uint64_t header_bytes, record_bytes, records;
};

static int wrong_size(const struct sw_blob *b, const struct layout *l, uint64_t got, bool more,
                      struct sw_err *err)
{
    uint64_t body = got > l->header_bytes ? got - l->header_bytes : 0;
    if (more)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: goes on after record %llu, the last one: %llu records of %llu bytes "
                          "behind a header of %llu are expected",
                          b->path, (unsigned long long)l->records - 1,
                          (unsigned long long)l->records, (unsigned long long)l->record_bytes,
                          (unsigned long long)l->header_bytes);
    return sw_err_set(
        err, SW_ERR_FORMAT,
        "%s: ends after %llu bytes, in record %llu: %llu records of %llu bytes behind a "
        "header of %llu are expected",
        b->path, (unsigned long long)got, (unsigned long long)(body / l->record_bytes),
        (unsigned long long)l->records, (unsigned long long)l->record_bytes,
        (unsigned long long)l->header_bytes);
}

/* Inflates exactly b->bytes, then insists on the end of the stream and of the file. */
static int inflate_exactly(struct sw_blob *b, const struct layout *l, struct sw_err *err)
{
    struct inflater *s = NULL;
    uint64_t got = 0, extra = 0;
    unsigned char spare;
    int rc = inflater_new(b, &s, err);
    if (rc)
        return rc;
    rc = inflate_some(s, b->memory, b->bytes, &got, err);
    if (!rc && got == b->bytes && !s->ended)
        rc = inflate_some(s, &spare, 1, &extra, err);
    if (!rc && (got < b->bytes || extra))
        rc = wrong_size(b, l, got, extra > 0, err);
    uint64_t behind = b->file_bytes - s->in_offset + s->z.avail_in;
    if (!rc && behind)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %llu bytes follow the end of the compressed data",
                        b->path, (unsigned long long)behind);
    inflater_free(s);
    return rc;
}

int sw_blob_settle(struct sw_blob *b, uint64_t header_bytes, uint64_t record_bytes,
                   uint64_t records, struct sw_err *err)
{
    const struct layout l = {header_bytes, record_bytes, records};
    uint64_t body;
    if (__builtin_mul_overflow(record_bytes, records, &body) ||
        __builtin_add_overflow(body, header_bytes, &b->bytes) || b->bytes > (uint64_t)INT64_MAX)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %llu records of %llu bytes are more than any file holds", b->path,
                          (unsigned long long)records, (unsigned long long)record_bytes);
    if (!b->gzip)
        return b->file_bytes == b->bytes
                   ? SW_OK
                   : wrong_size(b, &l, b->file_bytes, b->file_bytes > b->bytes, err);
    if (b->bytes / MAX_RATIO > b->file_bytes)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: promises %llu records of %llu bytes, more than %llu compressed bytes can hold",
            b->path, (unsigned long long)records, (unsigned long long)record_bytes,
            (unsigned long long)b->file_bytes);
    b->memory = sw_os()->alloc((size_t)b->bytes);
    if (!b->memory)
        return sw_err_nomem(err, b->path, (size_t)b->bytes);
    return inflate_exactly(b, &l, err);
}

int sw_blob_load(struct sw_blob *b, struct sw_err *err)
{
    if (b->memory)
        return SW_OK;
    b->memory = sw_os()->alloc(b->bytes ? (size_t)b->bytes : 1);
    if (!b->memory)
        return sw_err_nomem(err, b->path, (size_t)b->bytes);
    return sw_os_pread_all(b->fd, b->memory, (size_t)b->bytes, 0, b->path, err);
}

int sw_blob_map(struct sw_blob *b, struct sw_err *err)
{
    if (b->memory || b->bytes == 0)
        return SW_OK;
    b->memory = sw_os()->map_file(b->fd, (size_t)b->bytes);
    if (!b->memory)
        return sw_err_errno(err, errno, "cannot map %s into memory", b->path);
    b->mapped = true;
    return SW_OK;
}

int sw_blob_view(const struct sw_blob *b, uint64_t offset, size_t bytes, void *scratch,
                 const void **out, struct sw_err *err)
{
    *out = b->memory ? b->memory + offset : scratch;
    return b->memory ? SW_OK : sw_os_pread_all(b->fd, scratch, bytes, (off_t)offset, b->path, err);
}
