/* The shard reader. Order of checks: the size of the file, the size and checksum of the header, the
 * fields of the header, the index, and each record when it is first read. */
#include "base/hash.h"
#include "base/os.h"
#include "base/str.h"
#include "data/shard_layout.h"

typedef unsigned long long ull;

enum { BITS = 64 };

static uint64_t at64(const struct sw_shard *s, uint64_t offset)
{
    return sw_shard_u64(s->bytes + offset);
}

/* ---- header ---- */

static int check_begin(const struct sw_shard *s, struct sw_err *err)
{
    if (s->file_bytes < SW_SHARD_MAGIC_BYTES ||
        memcmp(s->bytes, SW_SHARD_MAGIC, SW_SHARD_MAGIC_BYTES) != 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: not a shard: unexpected first bytes", s->path);
    if (s->file_bytes < SW_SHARD_MIN_HEADER)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header",
                          s->path, (ull)s->file_bytes);

    const uint64_t bytes = at64(s, SW_SHARD_AT_HEADER_BYTES);
    const uint64_t most = SW_SHARD_AT_TABLE + SW_SHARD_MAX_FIELDS * SW_SHARD_ENTRY_BYTES +
                          SW_SHARD_MAX_ORIGIN + SW_SHARD_HEADER_ALIGNMENT;
    if (bytes < SW_SHARD_MIN_HEADER || bytes > most || bytes % SW_SHARD_HEADER_ALIGNMENT)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its header is damaged: header size is %llu, expected a multiple of %d "
            "from %d to %llu",
            s->path, (ull)bytes, SW_SHARD_HEADER_ALIGNMENT, SW_SHARD_MIN_HEADER, (ull)most);

    if (bytes > s->file_bytes)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: ends after %llu bytes, inside its header of %llu", s->path,
                          (ull)s->file_bytes, (ull)bytes);

    const uint64_t want = at64(s, bytes - SW_SHARD_SUM_BYTES);
    const uint64_t is = sw_hash_bytes64(s->bytes, (size_t)bytes - SW_SHARD_SUM_BYTES);
    if (is != want)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: its header is damaged: checksum %016llx, expected %016llx", s->path,
                          (ull)is, (ull)want);

    const uint32_t version = sw_shard_u32(s->bytes + SW_SHARD_AT_VERSION);
    if (version != SW_SHARD_VERSION)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: shard version %u is not supported; this program reads version %d",
                          s->path, version, SW_SHARD_VERSION);

    return SW_OK;
}

static int take_field(struct sw_shard *s, const unsigned char *e, int f, struct sw_err *err)
{
    static const enum sw_dtype types[] = {SW_F32, SW_I32, SW_U8};
    struct sw_shard_field *to = &s->field[f];
    const uint32_t type = sw_shard_u32(e + SW_SHARD_ENTRY_TYPE);
    const uint32_t kind = sw_shard_u32(e + SW_SHARD_ENTRY_KIND);
    const uint32_t ndim = sw_shard_u32(e + SW_SHARD_ENTRY_NDIM);
    const char *fault = NULL;

    memcpy(to->name, e, SW_SHARD_NAME_BYTES);

    if (type < 1 || type > sizeof types / sizeof *types || kind > SW_SHARD_PICTURE ||
        ndim > SW_SHARD_MAX_DIMS) {
        fault = "its kind, type or number of dimensions is unknown";
    } else {
        to->kind = kind;
        to->dtype = types[type - 1];

        to->ndim = (int)ndim;
        for (uint32_t i = 0; i < ndim; i++) {
            const uint64_t dim = sw_shard_u64(e + SW_SHARD_ENTRY_DIM + 8 * i);
            to->dim[i] = dim > (uint64_t)INT64_MAX ? -1 : (int64_t)dim;
        }

        fault = sw_shard_field_fault(to);
    }

    for (int k = 0; !fault && k < f; k++) {
        if (!strcmp(to->name, s->field[k].name))
            fault = "duplicate name";
    }

    if (fault)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: field %d of its header: %s", s->path, f, fault);

    return SW_OK;
}

/* The sizes in the header must match the file. */
static int take_sizes(struct sw_shard *s, struct sw_err *err)
{
    const uint64_t records = at64(s, SW_SHARD_AT_RECORDS), index = at64(s, SW_SHARD_AT_INDEX);
    const uint64_t classes = at64(s, SW_SHARD_AT_CLASSES), file = at64(s, SW_SHARD_AT_FILE_BYTES);

    s->records_at = at64(s, SW_SHARD_AT_HEADER_BYTES);
    if (file != s->file_bytes)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has %llu bytes, expected %llu%s", s->path,
                          (ull)s->file_bytes, (ull)file,
                          s->file_bytes < file ? ": the file is truncated" : "");

    if (records < 1 || records > file / SW_SHARD_INDEX_BYTES || index < s->records_at ||
        index % SW_SHARD_ALIGNMENT || index != file - records * SW_SHARD_INDEX_BYTES)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its header does not match the file: %llu records and an index at byte "
            "%llu, but %llu bytes",
            s->path, (ull)records, (ull)index, (ull)file);

    if (classes > (uint64_t)INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %llu classes; the limit is 2^31 - 1", s->path,
                          (ull)classes);

    s->records = (int64_t)records;
    s->classes = (int64_t)classes;
    s->index_at = index;

    return SW_OK;
}

static int take_header(struct sw_shard *s, struct sw_err *err)
{
    const uint64_t fields = sw_shard_u32(s->bytes + SW_SHARD_AT_FIELDS);
    const uint64_t origin = at64(s, SW_SHARD_AT_ORIGIN_BYTES);
    const uint64_t header = at64(s, SW_SHARD_AT_HEADER_BYTES);
    if (fields < 1 || fields > SW_SHARD_MAX_FIELDS || origin > SW_SHARD_MAX_ORIGIN ||
        SW_SHARD_AT_TABLE + fields * SW_SHARD_ENTRY_BYTES + origin + SW_SHARD_SUM_BYTES > header)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: its header of %llu bytes cannot hold %llu fields and %llu bytes of "
                          "origin",
                          s->path, (ull)header, (ull)fields, (ull)origin);

    const unsigned char *entry = s->bytes + SW_SHARD_AT_TABLE;
    for (int f = 0; f < (int)fields; f++, entry += SW_SHARD_ENTRY_BYTES) {
        int rc = take_field(s, entry, f, err);
        if (rc)
            return rc;
    }

    s->field_count = (int)fields;
    s->origin = sw_format("%.*s", (int)origin, (const char *)entry);
    if (!s->origin)
        return sw_err_nomem(err, s->path, (size_t)origin);

    return take_sizes(s, err);
}

/* ---- index ---- */

/* The minimum size of a record, and whether all records have exactly this size. */
static uint64_t least_bytes(const struct sw_shard *s, bool *exactly)
{
    uint64_t bytes = 0;

    *exactly = true;
    for (int f = 0; f < s->field_count; f++) {
        const bool is_image = s->field[f].kind == SW_SHARD_PICTURE;
        bytes += is_image ? SW_SHARD_PICTURE_HEAD
                          : sw_aligned(sw_shard_field_bytes(&s->field[f]), SW_SHARD_ALIGNMENT);
        *exactly &= !is_image;
    }

    return bytes;
}

static uint64_t begin_of(const struct sw_shard *s, int64_t record)
{
    return record < s->records ? sw_shard_u64(s->index + (size_t)record * SW_SHARD_INDEX_BYTES)
                               : s->index_at;
}

/* Copies the index: reading trusts it once it is checked, but the content of a mapped file can
 * change later. */
static int copy_index(struct sw_shard *s, struct sw_err *err)
{
    const size_t bytes = (size_t)(s->file_bytes - s->index_at);

    s->index = sw_os()->alloc(bytes);
    if (!s->index)
        return sw_err_nomem(err, s->path, bytes);

    memcpy(s->index, s->bytes + s->index_at, bytes);
    return SW_OK;
}

static int check_index(struct sw_shard *s, struct sw_err *err)
{
    const uint64_t want = at64(s, SW_SHARD_AT_INDEX_SUM);
    const uint64_t is = sw_hash_bytes64(s->index, (size_t)(s->file_bytes - s->index_at));
    if (is != want)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: its index is damaged: checksum %016llx, expected %016llx", s->path,
                          (ull)is, (ull)want);

    bool exactly;
    const uint64_t least = least_bytes(s, &exactly);
    uint64_t begin = begin_of(s, 0);
    if (begin != s->records_at)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: record 0 begins at byte %llu, expected %llu",
                          s->path, (ull)begin, (ull)s->records_at);

    for (int64_t i = 0; i < s->records; i++) {
        const uint64_t end = begin_of(s, i + 1);
        if (end % SW_SHARD_ALIGNMENT || end > s->index_at || end < begin || end - begin < least ||
            (exactly && end - begin != least))
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: record %lld: from byte %llu to %llu, expected %s%llu bytes "
                              "before the index at byte %llu",
                              s->path, (long long)i, (ull)begin, (ull)end,
                              exactly ? "" : "at least ", (ull)least, (ull)s->index_at);

        begin = end;
    }

    return SW_OK;
}

/* ---- open, close ---- */

int sw_shard_parse(struct sw_shard *s, const char *name, const void *bytes, uint64_t size,
                   struct sw_err *err)
{
    *s = (struct sw_shard){.bytes = bytes, .file_bytes = size};

    int rc = SW_OK;
    s->path = sw_strdup(name);
    if (!s->path)
        rc = sw_err_nomem(err, "the name of a data file", strlen(name) + 1);
    if (rc)
        goto out;
    rc = check_begin(s, err);
    if (rc)
        goto out;
    rc = take_header(s, err);
    if (rc)
        goto out;
    rc = copy_index(s, err);
    if (rc)
        goto out;
    rc = check_index(s, err);
    if (rc)
        goto out;

    const size_t words = (size_t)(s->records + BITS - 1) / BITS;
    s->checked = sw_calloc(words, sizeof *s->checked);
    if (!s->checked)
        rc = sw_err_nomem(err, name, words * sizeof *s->checked);

out:
    if (rc)
        sw_shard_close(s);
    return rc;
}

int sw_shard_open(struct sw_shard *s, const char *path, uint64_t max_bytes, struct sw_err *err)
{
    struct sw_blob blob;
    uint64_t bytes = 0;

    *s = (struct sw_shard){0};

    int rc = sw_blob_open(&blob, path, max_bytes, err);
    if (rc)
        return rc;
    rc = sw_blob_stated_bytes(&blob, &bytes, err);
    if (rc)
        goto out;
    rc = sw_blob_check_size(&blob, 0, 1, bytes, err);
    if (rc)
        goto out;
    rc = sw_blob_map(&blob, err);
    if (rc)
        goto out;

    rc = sw_shard_parse(s, path, blob.memory, blob.bytes, err);

out:
    if (rc)
        sw_blob_close(&blob);
    else
        s->blob = blob;

    return rc;
}

void sw_shard_close(struct sw_shard *s)
{
    sw_free(s->path);
    sw_free(s->origin);
    sw_free(s->checked);
    sw_free(s->index);
    sw_blob_close(&s->blob);
    *s = (struct sw_shard){0};
}

/* ---- records ---- */

static int wrong(const struct sw_shard *s, int64_t record, int f, const char *what,
                 struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "%s: record %lld: field %s: %s", s->path,
                      (long long)record, s->field[f].name, what);
}

/* Locates the value of field f, which begins at offset *at of the record, and advances *at to the
 * end of the field. */
static int find_value(const struct sw_shard *s, int64_t record, int f, uint64_t *at,
                      struct sw_shard_value *v, struct sw_err *err)
{
    const uint64_t begin = begin_of(s, record), left = begin_of(s, record + 1) - begin - *at;
    const unsigned char *value = s->bytes + begin + *at;
    const struct sw_shard_field *field = &s->field[f];
    const bool is_image = field->kind == SW_SHARD_PICTURE;
    const uint64_t head = is_image ? SW_SHARD_PICTURE_HEAD : 0;
    if (left < head)
        return wrong(s, record, f, "the record ends before this field", err);

    *v = (struct sw_shard_value){.data = value + head, .bytes = sw_shard_field_bytes(field)};

    if (is_image) {
        const uint64_t bytes = sw_shard_u64(value);
        const uint32_t encoded = sw_shard_u32(value + 8);

        v->bytes = bytes > left ? SIZE_MAX : (size_t)bytes;
        v->encoded = encoded != 0;
        v->channels = sw_shard_u32(value + 12);
        v->height = sw_shard_u32(value + 16);
        v->width = sw_shard_u32(value + 20);

        const char *fault = encoded > 1 ? "it is neither pixels nor an encoded image"
                                        : sw_shard_value_fault(field, v);
        if (fault)
            return wrong(s, record, f, fault, err);
    }

    if (v->bytes > left - head)
        return wrong(s, record, f, "the record ends inside this field", err);

    *at += sw_aligned(head + v->bytes, SW_SHARD_ALIGNMENT);
    return SW_OK;
}

/* Walks over fields 0 .. last; *v becomes the value of the last, *end the offset in the record
 * where it ends. */
static int walk(const struct sw_shard *s, int64_t record, int last, struct sw_shard_value *v,
                uint64_t *end, struct sw_err *err)
{
    uint64_t at = 0;

    for (int f = 0; f <= last; f++) {
        int rc = find_value(s, record, f, &at, v, err);
        if (rc)
            return rc;
    }

    *end = at;
    return SW_OK;
}

static int check_label(const struct sw_shard *s, int64_t record, struct sw_err *err)
{
    for (int f = 0; f < s->field_count; f++) {
        struct sw_shard_value v;
        uint64_t end;
        int32_t label;

        if (!sw_shard_is_label(&s->field[f]))
            continue;

        int rc = walk(s, record, f, &v, &end, err);
        if (rc)
            return rc;

        memcpy(&label, v.data, sizeof label);
        if (label < 0 || label >= s->classes)
            return sw_err_set(err, SW_ERR_FORMAT, "%s: record %lld: label %d, expected 0 to %lld",
                              s->path, (long long)record, label, (long long)s->classes - 1);
    }

    return SW_OK;
}

int sw_shard_check(const struct sw_shard *s, int64_t record, size_t *bytes, struct sw_err *err)
{
    const uint64_t begin = begin_of(s, record), size = begin_of(s, record + 1) - begin;
    const uint64_t want = sw_shard_u64(s->index + (size_t)record * SW_SHARD_INDEX_BYTES + 8);
    const uint64_t is = sw_hash_bytes64(s->bytes + begin, (size_t)size);
    struct sw_shard_value v;
    uint64_t end = 0;

    if (is != want)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: record %lld is damaged: checksum %016llx, expected %016llx", s->path,
                          (long long)record, (ull)is, (ull)want);

    int rc = walk(s, record, s->field_count - 1, &v, &end, err);
    if (rc)
        return rc;

    if (end != size)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: record %lld: its fields fill %llu bytes, expected %llu", s->path,
                        (long long)record, (ull)end, (ull)size);

    if (rc)
        return rc;

    rc = check_label(s, record, err);
    if (rc)
        return rc;

    if (bytes)
        *bytes = (size_t)size;
    return rc;
}

/* Relaxed: the bit only records that a check of immutable bytes succeeded. */
static int check_once(const struct sw_shard *s, int64_t record, struct sw_err *err)
{
    uint64_t *word = &s->checked[record / BITS];
    const uint64_t bit = (uint64_t)1 << record % BITS;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
        return SW_OK;

    int rc = sw_shard_check(s, record, NULL, err);
    if (rc)
        return rc;

    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    return rc;
}

int sw_shard_read(const struct sw_shard *s, int64_t record, int f, struct sw_shard_value *out,
                  struct sw_err *err)
{
    uint64_t end;
    int rc = check_once(s, record, err);

    if (!rc)
        rc = walk(s, record, f, out, &end, err);

    /* A damaged record may be the result of a file truncated meanwhile, which is then reported. */
    struct sw_err why;
    const int whole = rc ? sw_shard_whole(s, &why) : SW_OK;
    return whole ? sw_err_set(err, whole, "%s", why.text) : rc;
}

int sw_shard_whole(const struct sw_shard *s, struct sw_err *err)
{
    return sw_blob_check(&s->blob, err);
}
