/* The bytes of one file. A plain file is read where needed, or mapped; a .gz is inflated once, to
 * exactly the size that the format expects. sw_blob_check_size compares sizes before any memory is
 * allocated. Frozen after settle, take or map. */
#include "data/blob.h"
#include "base/os.h"
#include "data/inflate.h"
#include <errno.h>
#include <string.h>

enum { GZIP_MIN_BYTES = 18 };

int sw_blob_open(struct sw_blob *b, const char *path, uint64_t max_bytes, struct sw_err *err)
{
    unsigned char magic[2] = {0};
    int rc = SW_OK;

    *b = (struct sw_blob){.max_bytes = max_bytes ? max_bytes : SW_BLOB_MAX_BYTES};
    b->path = sw_strdup(path);
    if (!b->path)
        return sw_err_nomem(err, "the name of a data file", strlen(path) + 1);
    rc = sw_os_open_regular(path, &b->fd, &b->file_bytes, err);
    if (rc)
        goto fail;

    b->is_open = true;
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
    sw_mapped_unwatch(b->mapped);

    if (b->mapped)
        sw_os()->unmap_pages(b->memory, (size_t)b->bytes);
    else
        sw_free(b->memory);

    *b = (struct sw_blob){0};
}

static int start_inflating(const struct sw_blob *b, struct sw_inflater **out, struct sw_err *err)
{
    return sw_inflater_new(b->fd, 0, b->file_bytes, SW_INFLATE_GZIP, b->path, out, err);
}

int sw_blob_head(struct sw_blob *b, void *out, size_t bytes, struct sw_err *err)
{
    uint64_t got = b->file_bytes < bytes ? b->file_bytes : bytes;
    int rc;

    if (b->gzip) {
        struct sw_inflater *s = NULL;

        rc = start_inflating(b, &s, err);
        if (rc)
            return rc;

        rc = sw_inflate(s, out, bytes, &got, err);
        sw_inflater_free(s);
    } else {
        rc = sw_os_pread_all(b->fd, out, (size_t)got, 0, b->path, err);
    }

    if (!rc && got < bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header of %zu",
                        b->path, (unsigned long long)got, bytes);

    return rc;
}

int sw_blob_stated_bytes(struct sw_blob *b, uint64_t *bytes, struct sw_err *err)
{
    unsigned char t[4];

    *bytes = b->file_bytes;
    if (!b->gzip)
        return SW_OK;
    if (b->file_bytes < GZIP_MIN_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the compressed file is truncated after %llu bytes", b->path,
                          (unsigned long long)b->file_bytes);

    int rc = sw_os_pread_all(b->fd, t, sizeof t, (off_t)(b->file_bytes - 4), b->path, err);
    *bytes = t[0] | (uint64_t)t[1] << 8 | (uint64_t)t[2] << 16 | (uint64_t)t[3] << 24;
    return rc;
}

/* The expected layout of a file, for messages that name the first record affected. */
struct layout {
    uint64_t header_bytes, record_bytes, records;
};

static int wrong_size(const struct sw_blob *b, const struct layout *l, uint64_t got, bool more,
                      struct sw_err *err)
{
    uint64_t body = got > l->header_bytes ? got - l->header_bytes : 0;

    if (more)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: data follow the last record (%llu); expected %llu records of %llu "
                          "bytes after a header of %llu bytes",
                          b->path, (unsigned long long)l->records - 1,
                          (unsigned long long)l->records, (unsigned long long)l->record_bytes,
                          (unsigned long long)l->header_bytes);
    return sw_err_set(
        err, SW_ERR_FORMAT,
        "%s: ends after %llu bytes, in record %llu; expected %llu records of %llu bytes after a "
        "header of %llu bytes",
        b->path, (unsigned long long)got, (unsigned long long)(body / l->record_bytes),
        (unsigned long long)l->records, (unsigned long long)l->record_bytes,
        (unsigned long long)l->header_bytes);
}

/* The compressed data must end where the file ends. */
static int insist_on_end(const struct sw_blob *b, const struct sw_inflater *s, struct sw_err *err)
{
    const uint64_t behind = sw_inflater_left(s);
    if (!behind)
        return SW_OK;

    return sw_err_set(err, SW_ERR_FORMAT, "%s: %llu bytes follow the end of the compressed data",
                      b->path, (unsigned long long)behind);
}

/* Inflates exactly b->bytes and requires the end of the stream and of the file. */
static int inflate_exactly(struct sw_blob *b, const struct layout *l, struct sw_err *err)
{
    struct sw_inflater *s = NULL;
    uint64_t got = 0, extra = 0;
    unsigned char spare;

    int rc = start_inflating(b, &s, err);
    if (rc)
        return rc;
    rc = sw_inflate(s, b->memory, b->bytes, &got, err);
    if (rc)
        goto out;

    if (got == b->bytes && !sw_inflater_ended(s))
        rc = sw_inflate(s, &spare, 1, &extra, err);
    if (rc)
        goto out;

    if (got < b->bytes || extra)
        rc = wrong_size(b, l, got, extra > 0, err);
    if (rc)
        goto out;

    rc = insist_on_end(b, s, err);

out:
    sw_inflater_free(s);
    return rc;
}

static int too_large(const struct sw_blob *b, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT,
                      "%s: has more than max_bytes = %llu bytes%s; raise max_bytes in the [data] "
                      "section if the file is valid",
                      b->path, (unsigned long long)b->max_bytes, b->gzip ? ", inflated" : "");
}

int sw_blob_check_size(struct sw_blob *b, uint64_t header_bytes, uint64_t record_bytes,
                       uint64_t records, struct sw_err *err)
{
    const struct layout l = {header_bytes, record_bytes, records};
    uint64_t body;
    if (__builtin_mul_overflow(record_bytes, records, &body) ||
        __builtin_add_overflow(body, header_bytes, &b->bytes) || b->bytes > (uint64_t)INT64_MAX)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %llu records of %llu bytes exceed the maximum file size", b->path,
                          (unsigned long long)records, (unsigned long long)record_bytes);

    if (!b->gzip)
        return b->file_bytes == b->bytes
                   ? SW_OK
                   : wrong_size(b, &l, b->file_bytes, b->file_bytes > b->bytes, err);

    if (b->bytes / SW_INFLATE_MAX_RATIO > b->file_bytes)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its header claims %llu records of %llu bytes, more than %llu compressed bytes can "
            "hold",
            b->path, (unsigned long long)records, (unsigned long long)record_bytes,
            (unsigned long long)b->file_bytes);

    if (b->bytes > b->max_bytes)
        return too_large(b, err);

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

/* Grows memory to `bytes` and a zero byte. */
static int grow(struct sw_blob *b, uint64_t bytes, struct sw_err *err)
{
    void *grown = sw_realloc_array(b->memory, (size_t)bytes + 1, 1);
    if (!grown)
        return sw_err_nomem(err, b->path, (size_t)bytes + 1);

    b->memory = grown;
    return SW_OK;
}

/* Inflates the whole stream. The trailer of a .gz states its size modulo 2^32, so the content ends
 * there or a multiple of 2^32 bytes later. A size beyond what the compressed bytes can hold is
 * refused. */
static int inflate_all(struct sw_blob *b, struct sw_err *err)
{
    struct sw_inflater *s = NULL;
    uint64_t room = 0, got = 0, step = 0;
    int rc = sw_blob_stated_bytes(b, &step, err);

    if (!rc)
        rc = start_inflating(b, &s, err);

    while (!rc && !sw_inflater_ended(s)) {
        if (room + step > b->max_bytes)
            rc = too_large(b, err);
        else if ((room + step) / SW_INFLATE_MAX_RATIO > b->file_bytes)
            rc = sw_err_set(
                err, SW_ERR_FORMAT,
                room ? "%s: inflates to more than the %llu bytes stated in its trailer"
                     : "%s: its trailer states %llu bytes, more than the compressed data can hold",
                b->path, (unsigned long long)(room ? room : step));

        if (!rc)
            rc = grow(b, room + step, err);

        /* Requests one byte more than stated, so that the end of the stream is reached and checked.
         */
        if (!rc)
            rc = sw_inflate(s, b->memory + b->bytes, room + step + 1 - b->bytes, &got, err);
        b->bytes += rc ? 0 : got;
        room += step;
        step = UINT64_C(1) << 32;
    }

    if (!rc)
        rc = insist_on_end(b, s, err);
    sw_inflater_free(s);

    return rc;
}

int sw_blob_take(struct sw_blob *b, struct sw_err *err)
{
    int rc = SW_OK;

    if (b->gzip) {
        rc = inflate_all(b, err);
    } else {
        if (b->file_bytes > b->max_bytes)
            return too_large(b, err);

        b->bytes = b->file_bytes;
        rc = grow(b, b->bytes, err);
        if (!rc)
            rc = sw_os_pread_all(b->fd, b->memory, (size_t)b->bytes, 0, b->path, err);
    }

    if (!rc)
        b->memory[b->bytes] = '\0';
    return rc;
}

int sw_blob_open_whole(struct sw_blob *b, const char *path, uint64_t max_bytes, struct sw_err *err)
{
    int rc = sw_blob_open(b, path, max_bytes, err);
    if (rc)
        goto out;

    rc = sw_blob_take(b, err);

out:
    if (rc)
        sw_blob_close(b);
    return rc;
}

int sw_blob_map(struct sw_blob *b, struct sw_err *err)
{
    if (b->memory || b->bytes == 0)
        return SW_OK;

    void *map = sw_os()->map_file(b->fd, (size_t)b->bytes);
    if (!map)
        return sw_err_errno(err, errno, "cannot map %s into memory", b->path);

    int rc = sw_mapped_watch(&b->mapped, map, (size_t)b->bytes, err);
    if (rc)
        sw_os()->unmap_pages(map, (size_t)b->bytes);
    else
        b->memory = map;

    return rc;
}

int sw_blob_check(const struct sw_blob *b, struct sw_err *err)
{
    return b->mapped ? sw_mapped_check(b->mapped, b->fd, b->file_bytes, b->path, err) : SW_OK;
}

int sw_blob_view(const struct sw_blob *b, uint64_t offset, size_t bytes, void *scratch,
                 const void **out, struct sw_err *err)
{
    *out = b->memory ? b->memory + offset : scratch;
    return b->memory ? SW_OK : sw_os_pread_all(b->fd, scratch, bytes, (off_t)offset, b->path, err);
}
