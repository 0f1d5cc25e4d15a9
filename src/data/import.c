/* Import into shards: derives the fields of the shard from those of the source, then fetches each
 * record, re-encodes its image if requested (recode.c), and appends it to the current file, which
 * is committed when it is full. Between records it handles stop requests and reports progress. One
 * thread. */
#include "data/import.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/shard.h"
#include <string.h>

enum { PROGRESS_NS = 100 * 1000 * 1000, SUFFIX_BYTES = 6 };

static const char suffix[SUFFIX_BYTES + 1] = ".shard";

struct import {
    const struct sw_import_args *args;
    struct sw_import_result *result;
    struct sw_shard_field field[SW_MAX_FIELDS];
    struct sw_shard_value value[SW_MAX_FIELDS];
    struct sw_room scratch[SW_MAX_FIELDS];
    struct sw_shard_writer writer;
    char *path;                 /* owned: name of the current file, or NULL */
    uint64_t complete;          /* total bytes of the complete files */
    int label;                  /* index of the class field, or -1 */
    int recoded;                /* index of the image field that is re-encoded, or -1 */
    struct sw_recoder *recoder; /* owned, or NULL */
    int64_t classes;            /* largest label so far + 1 */
    int64_t next_report_ns;     /* time of the next progress report */
};

void sw_import_result_fini(struct sw_import_result *r)
{
    sw_free(r->first);
    sw_free(r->last);
    *r = (struct sw_import_result){0};
}

/* ---- fields ---- */

/* Sets the shard field of a re-encoded image: an array if all images become pixels of one size,
 * else an image field. */
static int set_recoded(struct import *m, int f, struct sw_err *err)
{
    const struct sw_records *from = m->args->from;
    const struct sw_field *is = &from->field[f];
    struct sw_recode_args a = m->args->recode;
    struct sw_shard_field *to = &m->field[f];
    const bool is_image = from->has_pictures && f == from->picture_field;

    if (is->dtype != SW_U8 || is->ndim != 3)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "field %s is not an image of bytes, so it cannot be resized or encoded",
                          is->name);

    if (a.height) {
        to->dim[1] = a.height;
        to->dim[2] = a.width;
    } else if (a.shorter) {
        to->dim[1] = to->dim[2] = 0;
    }

    const bool pixels = a.form == SW_RECODE_PIXELS || (a.form == SW_RECODE_SAME && !is_image);
    const bool alike = pixels && to->dim[1] && to->dim[2];
    to->kind = alike ? SW_SHARD_ARRAY : SW_SHARD_PICTURE;

    if (alike && is_image)
        a.channels = to->dim[0];
    else if (a.channels)
        to->dim[0] = a.channels;

    m->recoded = f;
    a.max_pixels = from->max_pixels;
    return sw_recoder_new(&a, &m->recoder, err);
}

static int set_fields(struct import *m, struct sw_err *err)
{
    const struct sw_records *from = m->args->from;

    m->label = m->recoded = -1;
    for (int f = 0; f < from->field_count; f++) {
        const struct sw_field *is = &from->field[f];
        struct sw_shard_field *to = &m->field[f];
        const bool is_image = from->has_pictures && f == from->picture_field;

        if (strlen(is->name) >= SW_SHARD_NAME_BYTES || is->ndim > SW_SHARD_MAX_DIMS)
            return sw_err_set(
                err, SW_ERR_INVALID,
                "field %s: its name is longer than 31 bytes, or it has more than %d dimensions",
                is->name, SW_SHARD_MAX_DIMS);

        *to = (struct sw_shard_field){.kind = is_image ? SW_SHARD_PICTURE : SW_SHARD_ARRAY,
                                      .dtype = is->dtype,
                                      .ndim = is->ndim};
        memcpy(to->name, is->name, strlen(is->name));
        memcpy(to->dim, is->dim, (size_t)is->ndim * sizeof *is->dim);
        if (sw_shard_is_label(to))
            m->label = f;

        int rc = is_image ? SW_OK
                          : sw_room_need(&m->scratch[f], sw_field_bytes(is), "a raw record", err);
        if (!rc && sw_recode_is_needed(&m->args->recode) && !strcmp(is->name, "image"))
            rc = set_recoded(m, f, err);
        if (rc)
            return rc;
    }

    if (sw_recode_is_needed(&m->args->recode) && m->recoded < 0)
        return sw_err_set(err, SW_ERR_INVALID, "%s: has no images to resize or encode",
                          from->where);

    return SW_OK;
}

/* ---- files ---- */

static char *file_name(const struct import *m, int number)
{
    const char *out = m->args->out;

    if (m->args->file_bytes == 0)
        return sw_strdup(out);

    const int stem = (int)strlen(out) - (sw_str_ends(out, suffix) ? SUFFIX_BYTES : 0);
    return sw_format("%.*s-%05d%s", stem, out, number, suffix);
}

/* Leftover files of an earlier import with more files would be mixed with the new ones. */
static int refuse_existing(const struct import *m, struct sw_err *err)
{
    struct stat st;
    if (m->args->file_bytes == 0 || m->result->files > 0 || sw_os()->stat(m->path, &st) != 0)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "%s already exists; remove the files of that import or choose another name",
                      m->path);
}

static int begin_file(struct import *m, struct sw_err *err)
{
    const struct sw_import_args *a = m->args;

    m->path = file_name(m, m->result->files);
    if (!m->path)
        return sw_err_nomem(err, "the name of a shard", strlen(a->out) + 16);

    int rc = refuse_existing(m, err);
    if (rc)
        return rc;

    return sw_shard_begin(&m->writer, m->path, m->field, a->from->field_count, a->origin, err);
}

static int end_file(struct import *m, struct sw_err *err)
{
    struct sw_import_result *r = m->result;
    const uint64_t bytes = sw_shard_bytes(&m->writer);

    int rc = sw_shard_commit(&m->writer, m->classes, err);
    if (rc)
        return rc;

    m->complete += bytes;
    r->bytes = m->complete;
    r->files++;
    sw_free(r->last);
    r->last = m->path;
    m->path = NULL;
    if (!r->first)
        r->first = sw_strdup(r->last);

    return r->first ? SW_OK : sw_err_nomem(err, "the name of a shard", strlen(r->last) + 1);
}

/* ---- records ---- */

static struct sw_shard_value image_value(const struct sw_picture *p)
{
    return (struct sw_shard_value){p->data, p->bytes, p->encoded, p->channels, p->height, p->width};
}

/* Fetches a field as an image; an array of bytes is converted to one. */
static int fetch_picture(struct import *m, int64_t record, int f, struct sw_picture *out,
                         struct sw_err *err)
{
    const struct sw_records *from = m->args->from;
    const struct sw_field *is = &from->field[f];

    if (from->has_pictures && f == from->picture_field)
        return from->format->fetch_picture(from, record, &m->scratch[f], out, err);

    *out = (struct sw_picture){.bytes = sw_field_bytes(is),
                               .channels = is->dim[0],
                               .height = is->dim[1],
                               .width = is->dim[2]};
    return from->format->fetch(from, record, f, m->scratch[f].memory, &out->data, err);
}

static int fetch_field(struct import *m, int64_t record, int f, struct sw_err *err)
{
    const struct sw_records *from = m->args->from;
    struct sw_shard_value *v = &m->value[f];
    struct sw_picture p, changed;

    if (f != m->recoded && m->field[f].kind == SW_SHARD_ARRAY) {
        *v = (struct sw_shard_value){.bytes = sw_shard_field_bytes(&m->field[f])};
        return from->format->fetch(from, record, f, m->scratch[f].memory, &v->data, err);
    }

    int rc = fetch_picture(m, record, f, &p, err);
    if (rc)
        return rc;

    if (f == m->recoded) {
        rc = sw_recode(m->recoder, &p, &changed, err);
        p = changed;
    }

    if (rc)
        return rc;

    *v = image_value(&p);
    return rc;
}

static int fetch(struct import *m, int64_t record, struct sw_err *err)
{
    for (int f = 0; f < m->args->from->field_count; f++) {
        int rc = fetch_field(m, record, f, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static int check_label(struct import *m, struct sw_err *err)
{
    int32_t label;
    if (m->label < 0)
        return SW_OK;

    memcpy(&label, m->value[m->label].data, sizeof label);
    if (label < 0)
        return sw_err_set(err, SW_ERR_FORMAT, "label %d, expected 0 or more", label);

    if (label >= m->classes)
        m->classes = (int64_t)label + 1;
    return SW_OK;
}

/* Whether the record could exceed the size limit of the file, allowing 16 bytes for the index and
 * 32 bytes per field for headers and padding. */
static bool is_full(const struct import *m)
{
    uint64_t more = 16;

    for (int f = 0; f < m->args->from->field_count; f++)
        more += m->value[f].bytes + 32;
    return m->args->file_bytes && m->writer.records > 0 &&
           sw_shard_bytes(&m->writer) + more > m->args->file_bytes;
}

static int put_record(struct import *m, struct sw_err *err)
{
    int rc = SW_OK;

    if (m->path && is_full(m))
        rc = end_file(m, err);
    if (!rc && !m->path)
        rc = begin_file(m, err);
    if (!rc)
        rc = sw_shard_append(&m->writer, m->value, err);
    if (!rc)
        rc = sw_records_check(m->args->from, err);
    if (!rc)
        m->result->records++;

    return rc;
}

static bool may_skip(int rc)
{
    return rc == SW_ERR_FORMAT || rc == SW_ERR_UNSUPPORTED || rc == SW_ERR_NOTFOUND;
}

static int take_record(struct import *m, int64_t record, struct sw_err *err)
{
    const struct sw_import_args *a = m->args;
    struct sw_err own;
    struct sw_err *e = err ? err : &own;
    int rc = fetch(m, record, e);

    if (!rc)
        rc = check_label(m, e);
    if (!rc)
        return put_record(m, err);

    struct sw_bytes place = {0};
    sw_records_locate(a->from, record, &place);
    rc = sw_err_prefix(e, rc, "%s", sw_bytes_text(&place));
    sw_bytes_fini(&place);
    if (!a->skip_bad || !may_skip(rc))
        return rc;

    m->result->skipped++;
    if (a->bad)
        a->bad(a->user, e->text);

    return SW_OK;
}

static int stopped(int64_t done, int64_t records, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_CANCELLED, "stopped after %lld of %lld records", (long long)done,
                      (long long)records);
}

static int check_progress(struct import *m, int64_t done, int64_t records, struct sw_err *err)
{
    const int64_t now = sw_os()->monotonic_ns();

    if (sw_stop_check(NULL) != SW_OK)
        return stopped(done, records, err);
    if (!m->args->progress || now < m->next_report_ns)
        return SW_OK;

    m->next_report_ns = now + PROGRESS_NS;

    const struct sw_import_progress p = {.done = done,
                                         .records = records,
                                         .bytes = m->complete +
                                                  (m->path ? sw_shard_bytes(&m->writer) : 0),
                                         .files = m->result->files};
    return m->args->progress(m->args->user, &p) ? SW_OK : stopped(done, records, err);
}

int sw_import(const struct sw_import_args *args, struct sw_import_result *result,
              struct sw_err *err)
{
    struct import m = {.args = args, .result = result, .writer.file.fd = -1};
    const int64_t records = args->subset ? args->subset->count : args->from->count;

    *result = (struct sw_import_result){0};
    m.classes = args->from->classes;

    int rc = set_fields(&m, err);
    for (int64_t i = 0; !rc && i < records; i++) {
        rc = take_record(&m, args->subset ? sw_subset_record(args->subset, i) : i, err);
        if (rc == SW_ERR_CANCELLED) /* interrupted inside an image */
            rc = stopped(i, records, err);
        if (!rc)
            rc = check_progress(&m, i + 1, records, err);
    }

    if (!rc && m.path)
        rc = end_file(&m, err);
    if (!rc && result->records == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: no record can be read", args->from->where);
    result->classes = m.classes;
    sw_shard_abandon(&m.writer);
    sw_recoder_free(m.recoder);
    sw_free(m.path);
    for (int f = 0; f < SW_MAX_FIELDS; f++)
        sw_room_fini(&m.scratch[f]);

    return rc;
}
