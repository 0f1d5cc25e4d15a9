/* The record files of this project (data/shard.h), written by `singa-ws data import`. Any number of
 * files with the same fields form one data set, in the order of their names. A record is found by
 * binary search over the files and then by the index of its file, and is returned in place. */
#include "data/shard.h"
#include "base/os.h"
#include "data/format.h"
#include "data/format_opts.h"
#include <string.h>

struct shard_conf {
    struct sw_strings paths, classes;
};

struct shard_file {
    struct sw_part part;
    struct sw_shard shard;
};

/* ---- opening ---- */

/* Copies the fields of the first file; names are memory of that file. */
static int take_fields(struct sw_records *r, const struct sw_shard *s, int64_t channels,
                       struct sw_err *err)
{
    if (s->field_count > SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: has %d fields; the limit is %d", s->path,
                          s->field_count, SW_MAX_FIELDS);

    for (int f = 0; f < s->field_count; f++) {
        const struct sw_shard_field *from = &s->field[f];
        struct sw_field *to = &r->field[f];

        *to = (struct sw_field){.name = from->name, .dtype = from->dtype, .ndim = from->ndim};
        memcpy(to->dim, from->dim, sizeof from->dim);
        if (from->kind != SW_SHARD_PICTURE)
            continue;
        if (r->has_pictures)
            return sw_err_set(err, SW_ERR_UNSUPPORTED,
                              "%s: both %s and %s are images; the limit is one image field",
                              s->path, r->field[r->picture_field].name, from->name);

        r->has_pictures = true;
        r->picture_field = f;
        if (channels)
            to->dim[0] = channels;
    }

    r->field_count = s->field_count;
    return SW_OK;
}

/* Checks that later files have the same fields. Height and width of images may differ and are then
 * set to 0 (unknown). */
static int match_fields(struct sw_records *r, const struct sw_shard *first,
                        const struct sw_shard *s, struct sw_err *err)
{
    bool same = s->field_count == first->field_count;

    for (int f = 0; same && f < s->field_count; f++) {
        const struct sw_shard_field *a = &first->field[f], *b = &s->field[f];
        const bool is_image = a->kind == SW_SHARD_PICTURE;

        same = !strcmp(a->name, b->name) && a->kind == b->kind && a->dtype == b->dtype &&
               a->ndim == b->ndim;
        for (int i = 0; same && i < a->ndim; i++) {
            same = is_image || a->dim[i] == b->dim[i];
            if (i > 0 && a->dim[i] != b->dim[i])
                r->field[f].dim[i] = 0;
        }
    }

    if (same)
        return SW_OK;

    return sw_err_set(err, SW_ERR_FORMAT, "%s: its fields differ from those of %s", s->path,
                      first->path);
}

static int shard_open_part(struct sw_records *r, void *part, const char *path,
                           const struct sw_format_args *args, struct sw_err *err)
{
    const struct shard_file *first = r->part;
    struct shard_file *f = part;

    int rc = sw_shard_open(&f->shard, path, r->max_bytes, err);
    if (rc)
        return rc;

    r->count += f->shard.records;
    if (f->shard.classes > r->classes)
        r->classes = f->shard.classes;
    return f != first ? match_fields(r, &first->shard, &f->shard, err)
                      : take_fields(r, &f->shard, args->channels, err);
}

static int shard_finish(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    r->origin = sw_strdup(((const struct shard_file *)r->part)->shard.origin);
    return r->origin ? SW_OK : sw_err_nomem(err, "the origin of a shard", 0);
}

static void shard_close_part(void *part)
{
    struct shard_file *f = part;
    sw_shard_close(&f->shard);
}

/* ---- fetching ---- */

static int shard_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                       const void **out, struct sw_err *err)
{
    const struct shard_file *file = sw_records_part(r, record);
    struct sw_shard_value v;

    int rc = sw_shard_read(&file->shard, record - file->part.first, f, &v, err);
    if (rc)
        return rc;

    *out = v.data;
    return rc;
}

static int shard_fetch_image(const struct sw_records *r, int64_t record, struct sw_room *room,
                             struct sw_picture *out, struct sw_err *err)
{
    const struct shard_file *file = sw_records_part(r, record);
    struct sw_shard_value v;

    int rc = sw_shard_read(&file->shard, record - file->part.first, r->picture_field, &v, err);
    if (rc)
        return rc;

    *out = (struct sw_picture){v.encoded, v.data, v.bytes, v.channels, v.height, v.width};
    return rc;
}

static int shard_check_part(const void *part, struct sw_err *err)
{
    const struct shard_file *f = part;
    return sw_shard_whole(&f->shard, err);
}

static void shard_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    const struct shard_file *file = sw_records_part(r, record);
    sw_bytes_printf(out, "record %lld of %s", (long long)(record - file->part.first),
                    file->shard.path);
}

static const struct sw_opt shard_opts[] = {
    SW_FORMAT_PATHS(struct shard_conf, "shards written by `singa-ws data import`"),
    SW_FORMAT_CLASS_LIST(struct shard_conf),
    {0},
};

const struct sw_format sw_format_shard = {
    .base =
        SW_TYPE("shard",
                "record files of singa-ws, written by `singa-ws data import` from any other format",
                struct shard_conf, shard_opts),
    SW_FORMAT_PARTS(struct shard_file, shard_open_part, shard_close_part),
    .finish = shard_finish,
    .fetch = shard_fetch,
    .fetch_picture = shard_fetch_image,
    .check_part = shard_check_part,
    .locate = shard_locate,
};
