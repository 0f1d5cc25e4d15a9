/* The record files of this project (data/shard.h), written by `singa-ws data import`. Any number of
 * files with the same fields form one data set, in the order of their names. A record is found by
 * binary search over the files and then by the index of its file, and is returned in place. */
#include "data/shard.h"
#include "base/os.h"
#include "data/files.h"
#include "data/format.h"
#include "data/format_opts.h"
#include <string.h>

struct shard_conf {
    struct sw_strings paths;
};

struct shard_file {
    struct sw_shard shard;
    int64_t first; /* number of its first record among all */
};

struct shard_state {
    struct shard_file *file; /* owned */
    int count;
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

static int open_files(struct sw_records *r, const struct sw_files *files, int64_t channels,
                      struct sw_err *err)
{
    struct shard_state *s = r->state;

    s->file = sw_calloc((size_t)files->count, sizeof *s->file);
    if (!s->file)
        return sw_err_nomem(err, "the list of shards", (size_t)files->count * sizeof *s->file);

    for (int i = 0; i < files->count; i++) {
        struct shard_file *f = &s->file[i];
        int rc = sw_shard_open(&f->shard, files->path[i], r->max_bytes, err);
        if (rc)
            return rc;

        s->count++;
        f->first = r->count;
        r->count += f->shard.records;
        if (f->shard.classes > r->classes)
            r->classes = f->shard.classes;
        rc = i ? match_fields(r, &s->file[0].shard, &f->shard, err)
               : take_fields(r, &f->shard, channels, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static int shard_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    int rc = open_files(r, args->files, args->channels, err);
    if (rc)
        return rc;

    r->origin = sw_strdup(((struct shard_state *)r->state)->file[0].shard.origin);
    return r->origin ? SW_OK : sw_err_nomem(err, "the origin of a shard", 0);
}

static void shard_close(struct sw_records *r)
{
    struct shard_state *s = r->state;
    for (int i = 0; i < s->count; i++)
        sw_shard_close(&s->file[i].shard);
    sw_free(s->file);
}

/* ---- fetching ---- */

/* The file that contains a record: the last one that begins at or before it. */
static const struct shard_file *file_of(const struct sw_records *r, int64_t record)
{
    const struct shard_state *s = r->state;
    int low = 0, high = s->count - 1;

    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (s->file[middle].first <= record)
            low = middle;
        else
            high = middle - 1;
    }

    return &s->file[low];
}

static int shard_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                       const void **out, struct sw_err *err)
{
    const struct shard_file *file = file_of(r, record);
    struct sw_shard_value v;

    int rc = sw_shard_read(&file->shard, record - file->first, f, &v, err);
    if (rc)
        return rc;

    *out = v.data;
    return rc;
}

static int shard_fetch_image(const struct sw_records *r, int64_t record, struct sw_room *room,
                             struct sw_picture *out, struct sw_err *err)
{
    const struct shard_file *file = file_of(r, record);
    struct sw_shard_value v;

    int rc = sw_shard_read(&file->shard, record - file->first, r->picture_field, &v, err);
    if (rc)
        return rc;

    *out = (struct sw_picture){v.encoded, v.data, v.bytes, v.channels, v.height, v.width};
    return rc;
}

static int shard_check(const struct sw_records *r, struct sw_err *err)
{
    const struct shard_state *s = r->state;
    int rc = SW_OK;

    for (int i = 0; i < s->count; i++) {
        rc = sw_shard_whole(&s->file[i].shard, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static void shard_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    const struct shard_file *file = file_of(r, record);
    sw_bytes_printf(out, "record %lld of %s", (long long)(record - file->first), file->shard.path);
}

static const struct sw_opt shard_opts[] = {
    SW_FORMAT_PATHS(struct shard_conf, "shards written by `singa-ws data import`"),
    {0},
};

const struct sw_format sw_format_shard = {
    .base =
        SW_TYPE("shard",
                "record files of singa-ws, written by `singa-ws data import` from any other format",
                struct shard_conf, shard_opts),
    .state_bytes = sizeof(struct shard_state),
    .open = shard_open,
    .close = shard_close,
    .fetch = shard_fetch,
    .fetch_picture = shard_fetch_image,
    .check = shard_check,
    .locate = shard_locate,
};
