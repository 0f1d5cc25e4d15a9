/* LMDBs of Caffe's Datum messages (data/datum.h), in the order of their keys, as written by
 * convert_imageset and similar tools. Opening walks once over the keys and reads the beginning and
 * end of every message: its location, the size of its image and its label. The database is mapped,
 * and images are returned in place.
 *
 * The database is opened without its lock, so that nothing is written next to the data; it must not
 * be written by other programs meanwhile. The length of the file is checked against its last page;
 * the pages are parsed by liblmdb, which trusts them, so import an LMDB from an untrusted source
 * first, on a machine where a crash is acceptable. The only file that includes lmdb.h. */
#include "base/mapped.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/datum.h"
#include "data/format.h"
#include "data/format_opts.h"
#include <errno.h>
#include <lmdb.h>
#include <string.h>

struct lmdb_conf {
    struct sw_strings paths, classes;
};

struct lmdb_file {
    struct sw_part part;
    char *path; /* owned */
    MDB_env *env;
    MDB_txn *txn;             /* snapshot of the data while the records are open */
    struct sw_mapped *mapped; /* the mapping made by liblmdb */
    uint64_t bytes;           /* size of the file at opening */
};

struct entry {
    const void *message; /* in the map */
    size_t bytes;
    int32_t label;
};

struct lmdb_state {
    struct entry *entry; /* owned; records of all files */
    int64_t room;
    struct sw_datum like; /* the first message: kind and size */
    bool varies;          /* the size of images varies */
};

static int library_error(const struct lmdb_file *f, int code, struct sw_err *err)
{
    if (code == ENOMEM)
        return sw_err_nomem(err, f->path, 0);
    if (code > 0)
        return sw_err_errno(err, code, "%s", f->path);

    return sw_err_set(err, SW_ERR_FORMAT, "%s: not an LMDB, or damaged: %s", f->path,
                      mdb_strerror(code));
}

/* ---- opening ---- */

/* Accessing a page beyond the end of the file would kill the process. */
static int check_length(struct lmdb_file *f, struct sw_err *err)
{
    MDB_envinfo info;
    MDB_stat stat;
    struct stat st;
    mdb_filehandle_t fd;
    int code = mdb_env_info(f->env, &info);

    if (!code)
        code = mdb_env_stat(f->env, &stat);
    if (!code)
        code = mdb_env_get_fd(f->env, &fd);
    if (!code && sw_os()->fstat(fd, &st))
        code = errno;
    if (code)
        return library_error(f, code, err);

    f->bytes = (uint64_t)st.st_size;

    const uint64_t pages = (uint64_t)info.me_last_pgno + 1;
    if (pages > (uint64_t)st.st_size / stat.ms_psize)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the file is truncated: %lld bytes, expected %llu pages of %u bytes",
                          f->path, (long long)st.st_size, (unsigned long long)pages, stat.ms_psize);

    return SW_OK;
}

/* Sets f->path to the data file, which must be a regular file that is not empty: liblmdb would
 * block on a pipe and mishandles an empty file. */
static int find_file(struct lmdb_file *f, const char *path, struct sw_err *err)
{
    struct stat st;
    if (sw_os()->stat(path, &st))
        return sw_err_errno(err, errno, "%s", path);

    const bool folder = S_ISDIR(st.st_mode);
    f->path = folder ? sw_format("%s/data.mdb", path) : sw_strdup(path);
    if (!f->path)
        return sw_err_nomem(err, "the name of a data file", strlen(path) + 10);
    if (folder && sw_os()->stat(f->path, &st))
        return sw_err_errno(err, errno, "%s", f->path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: not an LMDB: %s", f->path,
                          S_ISREG(st.st_mode) ? "it is empty" : "it is not a regular file");

    return SW_OK;
}

static int open_env(struct lmdb_file *f, const char *path, struct sw_err *err)
{
    int rc = find_file(f, path, err);
    if (rc)
        return rc;

    int code = mdb_env_create(&f->env);
    if (!code)
        code = mdb_env_open(f->env, f->path, MDB_RDONLY | MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS, 0);
    if (code)
        return library_error(f, code, err);

    rc = check_length(f, err);
    if (rc)
        return rc;

    code = mdb_txn_begin(f->env, NULL, MDB_RDONLY, &f->txn);
    return code ? library_error(f, code, err) : SW_OK;
}

static int add_entry(struct sw_records *r, struct lmdb_file *f, const MDB_val *value,
                     struct sw_err *err)
{
    struct lmdb_state *s = r->state;
    const long long number = (long long)(r->count - f->part.first);
    struct sw_datum d;

    int rc = sw_grow(&s->entry, sizeof *s->entry, r->count, &s->room, 4096,
                     "the list of records of an LMDB", err);
    if (rc)
        return rc;
    rc = sw_datum_parse(value->mv_data, value->mv_size, &d, err);
    if (rc)
        return sw_err_prefix(err, rc, "%s: record %lld", f->path, number);

    if (r->count == 0)
        s->like = d;
    if (d.kind != s->like.kind || d.has_label != s->like.has_label)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: record %lld differs in kind from the first one (pixels, floats or "
                          "encoded, with or without a label)",
                          f->path, number);

    if (d.has_label && d.label < 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: record %lld: label %d, expected 0 or more",
                          f->path, number, d.label);

    s->varies |= d.kind == SW_DATUM_ENCODED || d.channels != s->like.channels ||
                 d.height != s->like.height || d.width != s->like.width;
    if (d.label >= r->classes)
        r->classes = d.has_label ? (int64_t)d.label + 1 : 0;
    s->entry[r->count++] = (struct entry){value->mv_data, value->mv_size, d.label};

    return SW_OK;
}

static int walk_keys(struct sw_records *r, struct lmdb_file *f, struct sw_err *err)
{
    MDB_cursor *cursor = NULL;
    MDB_dbi dbi;
    MDB_val key, value;
    int rc = SW_OK;
    int code = mdb_dbi_open(f->txn, NULL, 0, &dbi);

    if (!code)
        code = mdb_cursor_open(f->txn, dbi, &cursor);
    if (!code)
        code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    if (!code)
        rc = sw_mapped_watch_around(&f->mapped, key.mv_data, err);
    for (; !code && !rc; code = rc ? 0 : mdb_cursor_get(cursor, &key, &value, MDB_NEXT))
        rc = sw_stop_check(err) ? SW_ERR_CANCELLED : add_entry(r, f, &value, err);
    if (cursor)
        mdb_cursor_close(cursor);
    if (!rc && code != MDB_NOTFOUND)
        rc = library_error(f, code, err);
    if (!rc && r->count == f->part.first)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no records", f->path);

    return rc;
}

static int lmdb_finish(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct lmdb_state *s = r->state;
    const struct sw_datum *d = &s->like;
    const bool f32 = d->kind == SW_DATUM_F32;
    if (f32 && s->varies)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s: images of floats have different sizes; float images cannot be resized",
            ((const struct lmdb_file *)r->part)->path);

    r->field[0] =
        (struct sw_field){"image", f32 ? SW_F32 : SW_U8, 3, {d->channels, d->height, d->width}};

    if (s->varies) {
        r->has_pictures = true;
        r->field[0].dim[0] = args->channels ? args->channels : d->channels ? d->channels : 3;
        r->field[0].dim[1] = r->field[0].dim[2] = 0;
    }

    r->field_count = 1;
    if (d->has_label)
        r->field[r->field_count++] = (struct sw_field){.name = "label", .dtype = SW_I32};

    return SW_OK;
}

static int lmdb_open_part(struct sw_records *r, void *part, const char *path,
                          const struct sw_format_args *args, struct sw_err *err)
{
    int rc = open_env(part, path, err);
    return rc ? rc : walk_keys(r, part, err);
}

static void lmdb_close_part(void *part)
{
    struct lmdb_file *f = part;

    sw_mapped_unwatch(f->mapped);
    if (f->txn)
        mdb_txn_abort(f->txn);
    if (f->env)
        mdb_env_close(f->env);
    sw_free(f->path);
}

static void lmdb_close(struct sw_records *r)
{
    struct lmdb_state *s = r->state;
    sw_free(s->entry);
}

/* ---- fetching ---- */

static int lmdb_check_part(const void *part, struct sw_err *err)
{
    const struct lmdb_file *f = part;
    mdb_filehandle_t fd;
    const int code = mdb_env_get_fd(f->env, &fd);
    return code ? library_error(f, code, err)
                : sw_mapped_check(f->mapped, fd, f->bytes, f->path, err);
}

/* Parses the message of a record again and compares its size with that at opening, because a file
 * changed by another program must not cause writes beyond the buffer. */
static int parse_again(const struct sw_records *r, int64_t record, struct sw_datum *d,
                       struct sw_err *err)
{
    const struct lmdb_state *s = r->state;
    const struct entry *e = &s->entry[record];
    struct sw_err why;
    int rc = sw_datum_parse(e->message, e->bytes, d, err);

    if (!rc && (d->kind != s->like.kind ||
                (!s->varies && (d->channels != s->like.channels || d->height != s->like.height ||
                                d->width != s->like.width))))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "its kind or size has changed since the LMDB was opened");

    const int whole = rc ? lmdb_check_part(sw_records_part(r, record), &why) : SW_OK;
    return whole ? sw_err_set(err, whole, "%s", why.text) : rc;
}

static void lmdb_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    const struct lmdb_file *f = sw_records_part(r, record);
    sw_bytes_printf(out, "record %lld of %s", (long long)(record - f->part.first), f->path);
}

static int lmdb_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                      const void **out, struct sw_err *err)
{
    const struct lmdb_state *s = r->state;
    const struct entry *e = &s->entry[record];
    struct sw_datum d;

    if (f == 1) {
        *out = &e->label;
        return SW_OK;
    }

    int rc = parse_again(r, record, &d, err);
    if (rc)
        return rc;

    *out = d.kind == SW_DATUM_F32 ? scratch : d.data;
    if (d.kind == SW_DATUM_F32)
        sw_datum_floats(e->message, e->bytes, d.floats, scratch);

    return SW_OK;
}

static int lmdb_fetch_image(const struct sw_records *r, int64_t record, struct sw_room *room,
                            struct sw_picture *out, struct sw_err *err)
{
    struct sw_datum d;

    int rc = parse_again(r, record, &d, err);
    if (rc)
        return rc;

    *out = (struct sw_picture){.data = d.data, .bytes = d.bytes, .encoded = true};

    if (d.kind == SW_DATUM_U8)
        *out = (struct sw_picture){.data = d.data,
                                   .bytes = d.bytes,
                                   .channels = d.channels,
                                   .height = d.height,
                                   .width = d.width};

    return SW_OK;
}

static const struct sw_opt lmdb_opts[] = {
    SW_FORMAT_PATHS(struct lmdb_conf, "folders (or data files) of LMDBs"),
    SW_FORMAT_CLASS_LIST(struct lmdb_conf),
    {0},
};

const struct sw_format sw_format_lmdb = {
    .base = SW_TYPE("lmdb", "Caffe LMDBs: Datum messages with pixels, floats or encoded images",
                    struct lmdb_conf, lmdb_opts),
    .state_bytes = sizeof(struct lmdb_state),
    SW_FORMAT_PARTS(struct lmdb_file, lmdb_open_part, lmdb_close_part),
    .finish = lmdb_finish,
    .close = lmdb_close,
    .fetch = lmdb_fetch,
    .fetch_picture = lmdb_fetch_image,
    .check_part = lmdb_check_part,
    .locate = lmdb_locate,
};
