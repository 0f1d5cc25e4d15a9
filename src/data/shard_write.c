/* The shard writer: records are written as they arrive; index and header are written at the end,
 * when they are known. */
#include "base/hash.h"
#include "base/os.h"
#include "data/shard_layout.h"

enum { BUFFER_BYTES = 1 << 20 };

static void release(struct sw_shard_writer *w)
{
    sw_free(w->origin);
    sw_free(w->buffer);
    sw_free(w->record);
    sw_free(w->index);
    *w = (struct sw_shard_writer){.file.fd = -1};
}

void sw_shard_abandon(struct sw_shard_writer *w)
{
    sw_os_new_file_abandon(&w->file);
    release(w);
}

static int flush(struct sw_shard_writer *w, struct sw_err *err)
{
    const size_t bytes = w->used;
    w->used = 0;
    return sw_os_write_all(w->file.fd, w->buffer, bytes, w->file.path, err);
}

static int put(struct sw_shard_writer *w, const void *bytes, size_t count, struct sw_err *err)
{
    int rc = SW_OK;

    if (count > BUFFER_BYTES - w->used)
        rc = flush(w, err);
    if (!rc && count > BUFFER_BYTES)
        return sw_os_write_all(w->file.fd, bytes, count, w->file.path, err);

    if (!rc && count) {
        memcpy(w->buffer + w->used, bytes, count);
        w->used += count;
    }

    return rc;
}

static int check_fields(const struct sw_shard_field *fields, int count, const char *origin,
                        struct sw_err *err)
{
    if (count < 1 || count > SW_SHARD_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "%d fields, expected 1 to %d", count,
                          SW_SHARD_MAX_FIELDS);
    if (strlen(origin) > SW_SHARD_MAX_ORIGIN)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the description of the shard's origin has %zu bytes; the limit is %d",
                          strlen(origin), SW_SHARD_MAX_ORIGIN);

    for (int i = 0; i < count; i++) {
        const char *fault = sw_shard_field_fault(&fields[i]);
        if (fault)
            return sw_err_set(err, SW_ERR_INVALID, "field %.*s: %s", SW_SHARD_NAME_BYTES,
                              fields[i].name, fault);

        for (int k = 0; k < i; k++) {
            if (!strcmp(fields[i].name, fields[k].name))
                return sw_err_set(err, SW_ERR_INVALID, "duplicate field %s", fields[i].name);
        }
    }

    return SW_OK;
}

/* Zeros reserve the space of the header, so an incomplete file is not a valid shard. */
static int reserve_header(struct sw_shard_writer *w, struct sw_err *err)
{
    const unsigned char zeros[SW_SHARD_HEADER_ALIGNMENT] = {0};
    int rc = SW_OK;

    w->header_bytes =
        sw_aligned(SW_SHARD_AT_TABLE + (uint64_t)w->field_count * SW_SHARD_ENTRY_BYTES +
                       strlen(w->origin) + SW_SHARD_SUM_BYTES,
                   SW_SHARD_HEADER_ALIGNMENT);
    for (; !rc && w->at < w->header_bytes; w->at += sizeof zeros)
        rc = put(w, zeros, sizeof zeros, err);

    return rc;
}

int sw_shard_begin(struct sw_shard_writer *w, const char *path, const struct sw_shard_field *fields,
                   int count, const char *origin, struct sw_err *err)
{
    *w = (struct sw_shard_writer){.file.fd = -1};

    int rc = check_fields(fields, count, origin, err);
    if (rc)
        return sw_err_prefix(err, rc, "%s", path);

    w->field_count = count;
    memcpy(w->field, fields, (size_t)count * sizeof *fields);
    w->origin = sw_strdup(origin);
    w->buffer = sw_os()->alloc(BUFFER_BYTES);
    if (!w->origin || !w->buffer)
        rc = sw_err_nomem(err, path, BUFFER_BYTES);
    if (!rc)
        rc = sw_os_new_file_begin(&w->file, path, 0666, err);
    if (!rc)
        rc = reserve_header(w, err);
    if (rc)
        sw_shard_abandon(w);

    return rc;
}

/* ---- records ---- */

static uint64_t value_bytes(const struct sw_shard_writer *w, int f, const struct sw_shard_value *v)
{
    return sw_aligned(v->bytes + (w->field[f].kind == SW_SHARD_PICTURE ? SW_SHARD_PICTURE_HEAD : 0),
                      SW_SHARD_ALIGNMENT);
}

/* Reserves memory for a record and its index entry. */
static int reserve_record(struct sw_shard_writer *w, size_t bytes, struct sw_err *err)
{
    if (bytes > w->record_room) {
        unsigned char *grown = sw_realloc_array(w->record, bytes, 1);
        if (!grown)
            return sw_err_nomem(err, "a record", bytes);

        w->record = grown;
        w->record_room = bytes;
    }

    return sw_grow(&w->index, SW_SHARD_INDEX_BYTES, w->records, &w->index_room, 1024,
                   "the index of a shard", err);
}

static unsigned char *write_value(unsigned char *at, const struct sw_shard_field *f,
                                  const struct sw_shard_value *v)
{
    if (f->kind == SW_SHARD_PICTURE) {
        sw_shard_put64(at, v->bytes);
        sw_shard_put32(at + 8, v->encoded);
        sw_shard_put32(at + 12, (uint32_t)v->channels);
        sw_shard_put32(at + 16, (uint32_t)v->height);
        sw_shard_put32(at + 20, (uint32_t)v->width);
        at += SW_SHARD_PICTURE_HEAD;
    }

    memcpy(at, v->data, v->bytes);

    const size_t whole = sw_aligned(v->bytes, SW_SHARD_ALIGNMENT);
    memset(at + v->bytes, 0, whole - v->bytes);
    return at + whole;
}

int sw_shard_append(struct sw_shard_writer *w, const struct sw_shard_value *values,
                    struct sw_err *err)
{
    uint64_t bytes = 0;

    for (int f = 0; f < w->field_count; f++) {
        const char *fault = sw_shard_value_fault(&w->field[f], &values[f]);
        if (fault)
            return sw_err_set(err, SW_ERR_INVALID, "%s: record %lld: field %s: %s", w->file.path,
                              (long long)w->records, w->field[f].name, fault);

        bytes += value_bytes(w, f, &values[f]);
    }

    int rc = reserve_record(w, (size_t)bytes, err);
    if (rc)
        return rc;

    unsigned char *at = w->record;
    for (int f = 0; f < w->field_count; f++)
        at = write_value(at, &w->field[f], &values[f]);
    rc = put(w, w->record, (size_t)bytes, err);
    if (rc)
        return rc;

    w->index[2 * w->records] = w->at;
    w->index[2 * w->records + 1] = sw_hash_bytes64(w->record, (size_t)bytes);
    w->at += bytes;
    w->records++;

    return SW_OK;
}

uint64_t sw_shard_bytes(const struct sw_shard_writer *w)
{
    return w->at + (uint64_t)w->records * SW_SHARD_INDEX_BYTES;
}

/* ---- the end ---- */

static void fill_entry(unsigned char *e, const struct sw_shard_field *f)
{
    static const uint32_t type[] = {[SW_F32] = 1, [SW_I32] = 2, [SW_U8] = 3};

    memcpy(e, f->name, strlen(f->name));
    sw_shard_put32(e + SW_SHARD_ENTRY_KIND, f->kind);
    sw_shard_put32(e + SW_SHARD_ENTRY_TYPE, type[f->dtype]);
    sw_shard_put32(e + SW_SHARD_ENTRY_NDIM, (uint32_t)f->ndim);
    for (int i = 0; i < f->ndim; i++)
        sw_shard_put64(e + SW_SHARD_ENTRY_DIM + 8 * i, (uint64_t)f->dim[i]);
}

static int write_header(struct sw_shard_writer *w, int64_t classes, struct sw_err *err)
{
    const size_t index_bytes = (size_t)w->records * SW_SHARD_INDEX_BYTES;
    const size_t origin_bytes = strlen(w->origin), bytes = (size_t)w->header_bytes;
    unsigned char *h = sw_calloc(1, bytes);
    if (!h)
        return sw_err_nomem(err, "the header of a shard", bytes);

    memcpy(h, SW_SHARD_MAGIC, SW_SHARD_MAGIC_BYTES);
    sw_shard_put32(h + SW_SHARD_AT_VERSION, SW_SHARD_VERSION);
    sw_shard_put32(h + SW_SHARD_AT_FIELDS, (uint32_t)w->field_count);
    sw_shard_put64(h + SW_SHARD_AT_HEADER_BYTES, bytes);
    sw_shard_put64(h + SW_SHARD_AT_FILE_BYTES, w->at + index_bytes);
    sw_shard_put64(h + SW_SHARD_AT_RECORDS, (uint64_t)w->records);
    sw_shard_put64(h + SW_SHARD_AT_CLASSES, (uint64_t)classes);
    sw_shard_put64(h + SW_SHARD_AT_INDEX, w->at);
    sw_shard_put64(h + SW_SHARD_AT_INDEX_SUM, sw_hash_bytes64(w->index, index_bytes));
    sw_shard_put64(h + SW_SHARD_AT_ORIGIN_BYTES, origin_bytes);
    for (int f = 0; f < w->field_count; f++)
        fill_entry(h + SW_SHARD_AT_TABLE + f * SW_SHARD_ENTRY_BYTES, &w->field[f]);
    memcpy(h + SW_SHARD_AT_TABLE + w->field_count * SW_SHARD_ENTRY_BYTES, w->origin, origin_bytes);
    sw_shard_put64(h + bytes - SW_SHARD_SUM_BYTES, sw_hash_bytes64(h, bytes - SW_SHARD_SUM_BYTES));

    int rc = sw_os_pwrite_all(w->file.fd, h, bytes, 0, w->file.path, err);
    sw_free(h);
    return rc;
}

int sw_shard_commit(struct sw_shard_writer *w, int64_t classes, struct sw_err *err)
{
    int rc = SW_OK;

    if (w->records == 0)
        rc = sw_err_set(err, SW_ERR_INVALID, "%s: a shard without a record is not written",
                        w->file.path);

    if (!rc)
        rc = put(w, w->index, (size_t)w->records * SW_SHARD_INDEX_BYTES, err);
    if (!rc)
        rc = flush(w, err);
    if (!rc)
        rc = write_header(w, classes, err);
    if (rc) {
        sw_shard_abandon(w);
        return rc;
    }

    rc = sw_os_new_file_commit(&w->file, err);
    release(w);
    return rc;
}
