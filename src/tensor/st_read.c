/* Reads safetensors files. The checks run in this order: the size of the file, the length of the
 * header, the JSON syntax of the header, every entry, all entries together (no gap, no overlap, no
 * bytes after the last), and the checksum. */
#include "base/json.h"
#include "base/os.h"
#include "base/str.h"
#include "tensor/npy.h"
#include "tensor/st_format.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sw_st_file {
    int fd;
    char *path;                         /* owned */
    struct sw_json *header;             /* owned: names and metadata live here */
    struct sw_st_entry *entry;          /* owned, by offset */
    size_t count;                       /* without sw.checksum */
    const struct sw_st_entry **by_name; /* owned, sorted */
    uint64_t file_bytes, data_at;       /* data_at: where the values begin */
    const struct sw_json *metadata;     /* inside header, or NULL */
    bool verified;
    char checksum_hex[33];
    char *array; /* owned: name of the only tensor, of a .npy file; else NULL */
};

static const char array_suffix[] = ".npy";

void sw_st_close(struct sw_st_file *f)
{
    if (!f)
        return;

    if (f->fd >= 0)
        sw_os()->close(f->fd);
    sw_json_free(f->header);
    sw_free(f->entry);
    sw_free(f->by_name);
    sw_free(f->array);
    sw_free(f->path);
    sw_free(f);
}

/* Size of the file, length of the header, both checked against each other before memory is taken.
 */
static int read_sizes(struct sw_st_file *f, uint64_t *header_bytes, struct sw_err *err)
{
    struct stat st;
    unsigned char b[SW_ST_LENGTH_BYTES];

    if (sw_os()->fstat(f->fd, &st) != 0)
        return sw_err_errno(err, errno, "cannot stat %s", f->path);
    if (!S_ISREG(st.st_mode))
        return sw_err_set(err, SW_ERR_INVALID, "not a regular file");

    f->file_bytes = (uint64_t)st.st_size;
    if (f->file_bytes < SW_ST_LENGTH_BYTES + 2)
        return sw_err_set(err, SW_ERR_FORMAT, "too short for a safetensors file: %llu bytes",
                          (unsigned long long)f->file_bytes);

    int rc = sw_os_pread_all(f->fd, b, sizeof b, 0, "the header's length", err);
    if (rc != SW_OK)
        return rc;

    *header_bytes = 0;
    for (int i = SW_ST_LENGTH_BYTES - 1; i >= 0; i--)
        *header_bytes = *header_bytes << 8 | b[i];
    if (*header_bytes > SW_ST_MAX_HEADER || *header_bytes > f->file_bytes - SW_ST_LENGTH_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "the header claims %llu bytes in a file of %llu (limit %d); not a "
                          "safetensors file, or truncated",
                          (unsigned long long)*header_bytes, (unsigned long long)f->file_bytes,
                          SW_ST_MAX_HEADER);

    f->data_at = SW_ST_LENGTH_BYTES + *header_bytes;
    return SW_OK;
}

static int read_header(struct sw_st_file *f, struct sw_err *err)
{
    uint64_t bytes = 0;

    int rc = read_sizes(f, &bytes, err);
    if (rc != SW_OK)
        return rc;

    char *text = sw_os()->alloc(bytes ? bytes : 1);
    if (!text)
        return sw_err_nomem(err, "header of a safetensors file", bytes);
    rc = sw_os_pread_all(f->fd, text, bytes, SW_ST_LENGTH_BYTES, "the header", err);
    if (rc != SW_OK)
        goto out;
    if (!bytes || text[0] != '{') {
        rc = sw_err_set(err, SW_ERR_FORMAT, "the header does not begin with '{'");
        goto out;
    }

    rc = sw_json_parse(text, bytes, &f->header, err);

out:
    sw_free(text);
    return rc;
}

static int check_metadata(struct sw_st_file *f, const struct sw_json *m, struct sw_err *err)
{
    if (m->type != SW_JSON_OBJECT)
        return sw_err_set(err, SW_ERR_FORMAT, "__metadata__ is not an object");

    for (const struct sw_json *v = m->first; v; v = v->next)
        if (v->type != SW_JSON_STRING)
            return sw_err_set(err, SW_ERR_FORMAT, "metadata %.200s is not a string", v->key);

    f->metadata = m;
    return SW_OK;
}

static int read_shape(const struct sw_json *shape, struct sw_st_entry *e, struct sw_err *err)
{
    if (!shape || shape->type != SW_JSON_ARRAY)
        return sw_err_set(err, SW_ERR_FORMAT, "tensor %.200s has no shape", e->name);

    for (const struct sw_json *v = shape->first; v; v = v->next) {
        uint64_t dim;

        if (e->ndim == SW_ST_MAX_DIMS)
            return sw_err_set(err, SW_ERR_UNSUPPORTED, "tensor %.200s has more than %d dimensions",
                              e->name, SW_ST_MAX_DIMS);
        if (!sw_json_as_size(v, &dim))
            return sw_err_set(err, SW_ERR_FORMAT,
                              "tensor %.200s: dimension %d is not a non-negative integer", e->name,
                              e->ndim);

        e->shape[e->ndim++] = (int64_t)dim;
    }

    return SW_OK;
}

static int read_dtype(const struct sw_json *dtype, struct sw_st_entry *e, struct sw_err *err)
{
    if (!dtype || dtype->type != SW_JSON_STRING)
        return sw_err_set(err, SW_ERR_FORMAT, "tensor %.200s has no dtype", e->name);

    int t = sw_st_dtype_from_name(dtype->string);
    if (t < 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "tensor %.200s has dtype %.20s; known are F64 I64 U64 F32 I32 U8",
                          e->name, dtype->string);

    e->dtype = (enum sw_st_dtype)t;
    return SW_OK;
}

/* data_offsets, against the shape and the end of the file. Offsets count from the first value. */
static int read_offsets(const struct sw_st_file *f, const struct sw_json *offsets,
                        struct sw_st_entry *e, struct sw_err *err)
{
    const struct sw_json *v = offsets && offsets->type == SW_JSON_ARRAY ? offsets->first : NULL;
    uint64_t begin, end, bytes, data_bytes = f->file_bytes - f->data_at;
    if (!v || !v->next || v->next->next || !sw_json_as_size(v, &begin) ||
        !sw_json_as_size(v->next, &end))
        return sw_err_set(err, SW_ERR_FORMAT, "tensor %.200s has no pair of data_offsets", e->name);

    if (begin > end || end > data_bytes)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "tensor %.200s claims bytes %llu to %llu of %llu; the file is damaged or "
                          "truncated",
                          e->name, (unsigned long long)begin, (unsigned long long)end,
                          (unsigned long long)data_bytes);

    if (!sw_st_size(e->dtype, e->ndim, e->shape, &bytes) || bytes != end - begin)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "tensor %.200s: its shape does not match its %llu bytes", e->name,
                          (unsigned long long)(end - begin));

    e->offset = f->data_at + begin;
    e->bytes = bytes;
    return SW_OK;
}

static int read_entry(const struct sw_st_file *f, const struct sw_json *v, struct sw_st_entry *e,
                      struct sw_err *err)
{
    *e = (struct sw_st_entry){.name = v->key};
    if (v->type != SW_JSON_OBJECT)
        return sw_err_set(err, SW_ERR_FORMAT, "tensor %.200s is not an object", v->key);

    int rc = read_dtype(sw_json_get(v, "dtype"), e, err);
    if (rc != SW_OK)
        return rc;
    rc = read_shape(sw_json_get(v, "shape"), e, err);
    if (rc != SW_OK)
        return rc;

    return read_offsets(f, sw_json_get(v, "data_offsets"), e, err);
}

/* Orders by offset; an empty tensor comes before the one that begins at the same offset. */
static int compare_place(const void *a, const void *b)
{
    const struct sw_st_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_name(const void *a, const void *b)
{
    const struct sw_st_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int read_entries(struct sw_st_file *f, struct sw_err *err)
{
    size_t count = 0;

    for (const struct sw_json *v = f->header->first; v; v = v->next)
        count++;
    f->entry = sw_calloc(count, sizeof *f->entry);
    f->by_name = sw_calloc(count, sizeof *f->by_name);
    if (!f->entry || !f->by_name)
        return sw_err_nomem(err, "list of tensors", count * sizeof *f->entry);

    for (const struct sw_json *v = f->header->first; v; v = v->next) {
        int rc = strcmp(v->key, SW_ST_METADATA) == 0 ? check_metadata(f, v, err)
                                                     : read_entry(f, v, &f->entry[f->count++], err);
        if (rc != SW_OK)
            return rc;
    }

    qsort(f->entry, f->count, sizeof *f->entry, compare_place);
    return SW_OK;
}

static int check_coverage(const struct sw_st_file *f, struct sw_err *err)
{
    uint64_t at = f->data_at;

    for (size_t i = 0; i < f->count; i++) {
        const struct sw_st_entry *e = &f->entry[i];
        if (e->offset != at)
            return sw_err_set(err, SW_ERR_FORMAT, "tensor %.200s %s", e->name,
                              e->offset > at ? "follows a gap" : "overlaps another tensor");

        at += e->bytes;
    }

    if (at != f->file_bytes)
        return sw_err_set(err, SW_ERR_FORMAT, "%llu bytes after the last tensor",
                          (unsigned long long)(f->file_bytes - at));

    return SW_OK;
}

/* Hashes the first n bytes of the file. */
static int hash_file(const struct sw_st_file *f, uint64_t n, struct sw_hash *hash,
                     struct sw_err *err)
{
    struct sw_hash_state *state = sw_hash_new();
    unsigned char *buf = sw_os()->alloc(SW_ST_CHUNK_BYTES);
    int rc = SW_OK;

    if (!state || !buf) {
        rc = sw_err_nomem(err, "buffer of a safetensors file", SW_ST_CHUNK_BYTES);
        goto out;
    }

    for (uint64_t at = 0; at < n;) {
        size_t part = n - at < SW_ST_CHUNK_BYTES ? (size_t)(n - at) : SW_ST_CHUNK_BYTES;

        rc = sw_os_pread_all(f->fd, buf, part, (off_t)at, "the file", err);
        if (rc != SW_OK)
            goto out;

        sw_hash_update(state, buf, part);
        at += part;
    }

    *hash = sw_hash_finish(state);

out:
    sw_hash_free(state);
    sw_free(buf);

    return rc;
}

/* sw.checksum must be the last tensor; it is removed from the list. */
static int verify(struct sw_st_file *f, bool need, struct sw_err *err)
{
    unsigned char stored[SW_ST_CHECKSUM_BYTES], right[SW_ST_CHECKSUM_BYTES];
    const struct sw_st_entry *last = NULL;
    struct sw_hash hash;

    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->entry[i].name, SW_ST_CHECKSUM) == 0)
            last = &f->entry[i];

    if (!last)
        return need ? sw_err_set(err, SW_ERR_FORMAT,
                                 "sw.checksum is missing: the file is damaged or was not written "
                                 "by singa-ws")
                    : SW_OK;

    if (last != &f->entry[f->count - 1] || last->dtype != SW_ST_U8 || last->bytes != sizeof stored)
        return sw_err_set(err, SW_ERR_FORMAT, "sw.checksum is not 16 bytes at the end");

    int rc = sw_os_pread_all(f->fd, stored, sizeof stored, (off_t)last->offset, "sw.checksum", err);
    if (rc != SW_OK)
        return rc;
    rc = hash_file(f, last->offset, &hash, err);
    if (rc != SW_OK)
        return rc;

    sw_st_checksum_bytes(hash, right);
    if (memcmp(stored, right, sizeof stored) != 0)
        return sw_err_set(err, SW_ERR_FORMAT, "checksum mismatch: the file is damaged");

    sw_hash_hex(hash, f->checksum_hex);
    f->verified = true;
    f->count--;

    return SW_OK;
}

static int read_checked(struct sw_st_file *f, bool need_checksum, struct sw_err *err)
{
    int rc = read_header(f, err);
    if (rc != SW_OK)
        return rc;
    rc = read_entries(f, err);
    if (rc != SW_OK)
        return rc;
    rc = check_coverage(f, err);
    if (rc != SW_OK)
        return rc;

    return verify(f, need_checksum, err);
}

/* ---- arrays ---- */

static int read_array_entry(struct sw_st_file *f, const struct sw_npy_header *h, struct sw_err *err)
{
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;

    f->array = sw_format("%.*s", (int)(strlen(name) - strlen(array_suffix)), name);
    f->entry = sw_calloc(1, sizeof *f->entry);
    f->by_name = sw_calloc(1, sizeof *f->by_name);
    if (!f->array || !f->entry || !f->by_name)
        return sw_err_nomem(err, f->path, sizeof *f->entry);
    if (h->dtype != SW_NPY_F4)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: values of type %s, expected float32 (numpy.float32, '<f4')", f->path,
                          sw_npy_dtype_name(h->dtype));

    f->entry[0] = (struct sw_st_entry){.name = f->array,
                                       .dtype = SW_ST_F32,
                                       .ndim = h->ndim,
                                       .offset = h->data_offset,
                                       .bytes = h->count * sw_npy_dtype_bytes(h->dtype)};
    memcpy(f->entry[0].shape, h->shape, (size_t)h->ndim * sizeof *h->shape);
    f->by_name[0] = f->entry;
    f->count = 1;
    return SW_OK;
}

/* A .npy file is one tensor. */
static int load_array(struct sw_st_file *f, struct sw_err *err)
{
    struct sw_npy_file a;

    int rc = sw_npy_open(&a, f->path, err);
    if (rc != SW_OK)
        return rc;

    rc = read_array_entry(f, &a.header, err);
    sw_npy_close(&a);
    return rc;
}

/* ---- opening ---- */

/* Reads the header and indexes the tensors by name; an error names the file. */
static int load(struct sw_st_file *f, bool need_checksum, struct sw_err *err)
{
    int rc = read_checked(f, need_checksum, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "%s", f->path);

    for (size_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->entry[i];
    qsort(f->by_name, f->count, sizeof *f->by_name, compare_name);

    return SW_OK;
}

int sw_st_open(const char *path, bool need_checksum, struct sw_st_file **out, struct sw_err *err)
{
    struct sw_st_file *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, path, sizeof *f);

    f->fd = -1;
    f->path = sw_strdup(path);

    int rc = SW_OK;
    if (!f->path)
        rc = sw_err_nomem(err, path, strlen(path) + 1);
    else if ((f->fd = sw_os()->open(path, O_RDONLY | O_NONBLOCK, 0)) < 0)
        rc = sw_err_errno(err, errno, "cannot open %s", path);
    else
        rc = !need_checksum && sw_str_ends(path, array_suffix) ? load_array(f, err)
                                                               : load(f, need_checksum, err);

    if (rc != SW_OK) {
        sw_st_close(f);
        return rc;
    }

    *out = f;
    return SW_OK;
}

const char *sw_st_path(const struct sw_st_file *f)
{
    return f->path;
}

int sw_st_peek_checksum(const char *path, char hex[33], struct sw_err *err)
{
    unsigned char end[SW_ST_CHECKSUM_BYTES];
    struct stat st;
    int fd = sw_os()->open(path, O_RDONLY | O_NONBLOCK, 0), rc = SW_OK;

    if (fd < 0 || sw_os()->fstat(fd, &st) != 0)
        rc = sw_err_errno(err, errno, "cannot open %s", path);
    else if (st.st_size < (off_t)sizeof end)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: too short for a checksum: %lld bytes", path,
                        (long long)st.st_size);
    else
        rc = sw_os_pread_all(fd, end, sizeof end, st.st_size - (off_t)sizeof end, path, err);

    for (size_t i = 0; rc == SW_OK && i < sizeof end; i++)
        snprintf(hex + 2 * i, 3, "%02x", end[i]);
    if (fd >= 0)
        sw_os()->close(fd);

    return rc;
}

bool sw_st_verified(const struct sw_st_file *f)
{
    return f->verified;
}

const char *sw_st_checksum_hex(const struct sw_st_file *f)
{
    return f->verified ? f->checksum_hex : NULL;
}

size_t sw_st_count(const struct sw_st_file *f)
{
    return f->count;
}

const struct sw_st_entry *sw_st_entry_at(const struct sw_st_file *f, size_t i)
{
    return i < f->count ? &f->entry[i] : NULL;
}

const struct sw_st_entry *sw_st_find(const struct sw_st_file *f, const char *name)
{
    struct sw_st_entry key = {.name = name};
    const struct sw_st_entry *wanted = &key;
    const struct sw_st_entry **found =
        bsearch(&wanted, f->by_name, f->count, sizeof *f->by_name, compare_name);

    return found ? *found : NULL;
}

const char *sw_st_metadata(const struct sw_st_file *f, const char *key)
{
    const struct sw_json *v = sw_json_get(f->metadata, key);
    return v ? v->string : NULL;
}

bool sw_st_metadata_at(const struct sw_st_file *f, size_t i, const char **key, const char **value)
{
    const struct sw_json *v = f->metadata ? f->metadata->first : NULL;

    while (v && i--)
        v = v->next;
    if (!v)
        return false;

    *key = v->key;
    *value = v->string;
    return true;
}

int sw_st_read(const struct sw_st_file *f, const struct sw_st_entry *e, uint64_t first, size_t n,
               void *buffer, struct sw_err *err)
{
    if (first > e->bytes || n > e->bytes - first)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: bytes %llu and %zu more of tensor %.200s, which has %llu", f->path,
                          (unsigned long long)first, n, e->name, (unsigned long long)e->bytes);

    int rc = sw_os_pread_all(f->fd, buffer, n, (off_t)(e->offset + first), e->name, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s", f->path);
}
