/* Writes safetensors files: the header, the values as their sources emit them, and the checksum,
 * all through one buffer that feeds the hash and the file. */
#include "base/json.h"
#include "base/os.h"
#include "base/str.h"
#include "tensor/st_format.h"
#include <string.h>

struct item {
    char *name; /* owned */
    enum sw_st_dtype dtype;
    int ndim;
    int64_t shape[SW_ST_MAX_DIMS];
    uint64_t bytes;
    sw_st_source *source; /* or NULL: tensor */
    void *user;           /* borrowed until write */
    const struct sw_tensor *tensor;
    struct sw_stream *stream;
};

struct pair {
    char *key, *value; /* owned */
};

struct sw_st_writer {
    struct item *items; /* owned, in the order of adding */
    int64_t item_count, item_room;
    struct pair *pairs; /* owned */
    int64_t pair_count, pair_room;
};

struct sw_st_writer *sw_st_writer_new(void)
{
    return sw_calloc(1, sizeof(struct sw_st_writer));
}

void sw_st_writer_free(struct sw_st_writer *w)
{
    if (!w)
        return;

    for (int64_t i = 0; i < w->item_count; i++)
        sw_free(w->items[i].name);

    for (int64_t i = 0; i < w->pair_count; i++) {
        sw_free(w->pairs[i].key);
        sw_free(w->pairs[i].value);
    }

    sw_free(w->items);
    sw_free(w->pairs);
    sw_free(w);
}

int sw_st_writer_metadata(struct sw_st_writer *w, const char *key, const char *value,
                          struct sw_err *err)
{
    if (!sw_utf8_is_valid(key) || !sw_utf8_is_valid(value))
        return sw_err_set(err, SW_ERR_INVALID, "metadata %.200s is not UTF-8", key);

    for (int64_t i = 0; i < w->pair_count; i++)
        if (strcmp(w->pairs[i].key, key) == 0)
            return sw_err_set(err, SW_ERR_INVALID, "metadata key %.200s already exists", key);

    int rc = sw_grow(&w->pairs, sizeof *w->pairs, w->pair_count, &w->pair_room, 16,
                     "list of a safetensors file", err);
    if (rc != SW_OK)
        return rc;

    struct pair p = {.key = sw_strdup(key), .value = sw_strdup(value)};
    if (!p.key || !p.value) {
        sw_free(p.key);
        sw_free(p.value);
        return sw_err_nomem(err, "metadata", strlen(key) + strlen(value) + 2);
    }

    w->pairs[w->pair_count++] = p;
    return SW_OK;
}

static int check_name(const struct sw_st_writer *w, const char *name, struct sw_err *err)
{
    if (!*name || !sw_utf8_is_valid(name))
        return sw_err_set(err, SW_ERR_INVALID, "a tensor's name is empty or not UTF-8");
    if (strcmp(name, SW_ST_CHECKSUM) == 0 || strcmp(name, SW_ST_METADATA) == 0)
        return sw_err_set(err, SW_ERR_INVALID, "the tensor name %s is reserved", name);

    for (int64_t i = 0; i < w->item_count; i++)
        if (strcmp(w->items[i].name, name) == 0)
            return sw_err_set(err, SW_ERR_INVALID, "tensor %.200s already exists", name);

    return SW_OK;
}

/* Adds a copy of the item under the given name. */
static int add_item(struct sw_st_writer *w, const char *name, struct item item, struct sw_err *err)
{
    int rc = check_name(w, name, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_st_size(item.dtype, item.ndim, item.shape, &item.bytes))
        return sw_err_set(err, SW_ERR_INVALID, "the size of tensor %.200s overflows", name);

    rc = sw_grow(&w->items, sizeof *w->items, w->item_count, &w->item_room, 16,
                 "list of a safetensors file", err);
    if (rc != SW_OK)
        return rc;
    item.name = sw_strdup(name);
    if (!item.name)
        return sw_err_nomem(err, name, strlen(name) + 1);

    w->items[w->item_count++] = item;
    return SW_OK;
}

int sw_st_writer_add(struct sw_st_writer *w, const char *name, struct sw_st_shape shape,
                     sw_st_source *source, void *user, struct sw_err *err)
{
    struct item item = {.dtype = shape.dtype, .ndim = shape.ndim, .source = source, .user = user};
    if (shape.ndim < 0 || shape.ndim > SW_ST_MAX_DIMS)
        return sw_err_set(err, SW_ERR_INVALID, "tensor %.200s has %d dimensions, the limit is %d",
                          name, shape.ndim, SW_ST_MAX_DIMS);

    if (shape.ndim)
        memcpy(item.shape, shape.dim, (size_t)shape.ndim * sizeof *shape.dim);
    return add_item(w, name, item, err);
}

int sw_st_writer_add_tensor(struct sw_st_writer *w, const char *name, const struct sw_tensor *t,
                            struct sw_stream *stream, struct sw_err *err)
{
    struct item item = {.dtype = sw_st_dtype_of(t->desc.dtype), .ndim = t->desc.ndim};

    memcpy(item.shape, t->desc.dim, (size_t)item.ndim * sizeof *item.shape);
    item.tensor = t;
    item.stream = stream;

    return add_item(w, name, item, err);
}

static void describe(struct sw_json_writer *j, const char *name, enum sw_st_dtype dtype, int ndim,
                     const int64_t *shape, uint64_t begin, uint64_t end)
{
    sw_json_open_object(j, name);
    sw_json_string(j, "dtype", sw_st_dtype_name(dtype));
    sw_json_open_array(j, "shape");
    for (int i = 0; i < ndim; i++)
        sw_json_int(j, NULL, shape[i]);
    sw_json_close_array(j);
    sw_json_open_array(j, "data_offsets");
    sw_json_int(j, NULL, (int64_t)begin);
    sw_json_int(j, NULL, (int64_t)end);
    sw_json_close_array(j);
    sw_json_close_object(j);
}

static void describe_metadata(const struct sw_st_writer *w, struct sw_json_writer *j)
{
    if (!w->pair_count)
        return;

    sw_json_open_object(j, SW_ST_METADATA);
    for (int64_t i = 0; i < w->pair_count; i++)
        sw_json_string(j, w->pairs[i].key, w->pairs[i].value);
    sw_json_close_object(j);
}

/* Formats the header, padded with blanks so that the values begin at a multiple of eight. */
static int build_header(const struct sw_st_writer *w, struct sw_bytes *text, struct sw_err *err)
{
    static const int64_t checksum_shape[] = {SW_ST_CHECKSUM_BYTES};
    struct sw_json_writer j;
    uint64_t at = 0;

    sw_json_begin(&j, text);
    sw_json_open_object(&j, NULL);
    describe_metadata(w, &j);

    for (size_t size = 8; size; size /= 2) {
        for (int64_t i = 0; i < w->item_count; i++) {
            const struct item *item = &w->items[i];
            if (sw_st_dtype_bytes(item->dtype) != size)
                continue;
            if (item->bytes > (1ull << 62) - at)
                return sw_err_set(err, SW_ERR_INVALID, "the sizes of all tensors overflow");

            describe(&j, item->name, item->dtype, item->ndim, item->shape, at, at + item->bytes);
            at += item->bytes;
        }
    }

    describe(&j, SW_ST_CHECKSUM, SW_ST_U8, 1, checksum_shape, at, at + SW_ST_CHECKSUM_BYTES);
    sw_json_close_object(&j);
    while (text->length % 8 && !text->failed)
        sw_bytes_add(text, " ");
    if (text->failed)
        return sw_err_nomem(err, "header of a safetensors file", text->length);
    if (text->length > SW_ST_MAX_HEADER)
        return sw_err_set(err, SW_ERR_INVALID, "a header of %zu bytes, the format's limit is %d",
                          text->length, SW_ST_MAX_HEADER);

    return SW_OK;
}

static int put_item(struct sw_st_sink *s, const struct item *item, struct sw_err *err)
{
    s->expected = item->bytes;

    int rc = item->tensor ? sw_st_emit_tensor(item->tensor, item->stream, s, err)
                          : item->source(item->user, s, err);
    if (rc != SW_OK)
        goto fail;
    if (!s->expected)
        return SW_OK;

    rc = sw_err_set(err, SW_ERR_INVALID, "the source returned %llu of %llu bytes",
                    (unsigned long long)(item->bytes - s->expected),
                    (unsigned long long)item->bytes);

fail:
    return sw_err_prefix(err, rc, "tensor %.200s", item->name);
}

static int put_header(const struct sw_st_writer *w, struct sw_st_sink *s, struct sw_err *err)
{
    struct sw_bytes header = {0};

    int rc = build_header(w, &header, err);
    if (rc != SW_OK)
        goto out;

    uint64_t length = header.length;
    rc = sw_st_put(s, &length, SW_ST_LENGTH_BYTES, err);
    if (rc != SW_OK)
        goto out;

    rc = sw_st_put(s, header.text, header.length, err);

out:
    sw_bytes_fini(&header);
    return rc;
}

/* Writes the values of all tensors, larger elements first so that all are aligned. */
static int put_values(const struct sw_st_writer *w, struct sw_st_sink *s, struct sw_err *err)
{
    for (size_t size = 8; size; size /= 2)
        for (int64_t i = 0; i < w->item_count; i++) {
            if (sw_st_dtype_bytes(w->items[i].dtype) != size)
                continue;

            int rc = put_item(s, &w->items[i], err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}

static int put_everything(const struct sw_st_writer *w, struct sw_st_sink *s, struct sw_hash *hash,
                          struct sw_err *err)
{
    unsigned char checksum[SW_ST_CHECKSUM_BYTES];

    int rc = put_header(w, s, err);
    if (rc != SW_OK)
        return rc;
    rc = put_values(w, s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_st_flush(s, err);
    if (rc != SW_OK)
        return rc;

    *hash = sw_hash_finish(s->hash);
    sw_st_checksum_bytes(*hash, checksum);

    rc = sw_st_put(s, checksum, sizeof checksum, err);
    if (rc != SW_OK)
        return rc;

    return sw_st_flush(s, err);
}

int sw_st_writer_write(struct sw_st_writer *w, const char *path, mode_t mode, uint64_t *bytes,
                       char *checksum_hex, struct sw_err *err)
{
    struct sw_st_sink sink = {.path = path, .buf = sw_os()->alloc(SW_ST_CHUNK_BYTES)};
    struct sw_new_file file = {.fd = -1};
    struct sw_hash hash;
    int rc = SW_OK;

    sink.hash = sw_hash_new();
    if (!sink.buf || !sink.hash) {
        rc = sw_err_nomem(err, "buffer of a safetensors file", SW_ST_CHUNK_BYTES);
        goto out;
    }
    rc = sw_os_new_file_begin(&file, path, mode, err);
    if (rc != SW_OK)
        goto out;

    sink.fd = file.fd;
    rc = put_everything(w, &sink, &hash, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_os_new_file_commit(&file, err);
    if (rc != SW_OK)
        goto out;

    if (bytes)
        *bytes = sink.written;
    if (checksum_hex)
        sw_hash_hex(hash, checksum_hex);

out:
    sw_os_new_file_abandon(&file);
    sw_hash_free(sink.hash);
    sw_free(sink.buf);

    return rc;
}
