/* Archives of arrays written by numpy.savez and savez_compressed (a ZIP archive whose members are
 * .npy files): every array, or each one named by a key, becomes a field of the records. The records
 * of several archives with the same arrays are concatenated. data/array.h describes the types of
 * fields. */
#include "base/os.h"
#include "data/array.h"
#include "data/files.h"
#include "data/format_opts.h"
#include <string.h>

struct npz_conf {
    struct sw_strings paths, fields, classes;
    const char *shape;
};

struct npz_state {
    struct sw_zip *zip; /* owned, elements too; only during open */
    int zips;
    struct sw_column column[SW_MAX_FIELDS];
    char *name[SW_MAX_FIELDS]; /* owned; names of fields */
    int count;
};

static int add_field(struct npz_state *s, const char *name, size_t name_bytes, const char *member,
                     size_t member_bytes, const char *shape, struct sw_err *err)
{
    if (s->count == SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID,
                          "more than %d arrays; select some with the key fields", SW_MAX_FIELDS);

    char *own = sw_format("%.*s", (int)name_bytes, name),
         *array = sw_format("%.*s", (int)member_bytes, member);
    int rc = own && array ? SW_OK : sw_err_nomem(err, "the name of a field", name_bytes);
    for (int f = 0; !rc && f < s->count; f++) {
        if (!strcmp(s->name[f], own))
            rc = sw_err_set(err, SW_ERR_INVALID, "fields: duplicate field %s", own);
    }

    if (!rc)
        rc = sw_column_open_members(&s->column[s->count], own, s->zip, s->zips, array, shape, err);
    sw_free(array);

    if (rc)
        sw_free(own);
    else
        s->name[s->count++] = own;

    return rc;
}

static int add_listed(struct npz_state *s, const struct npz_conf *conf, struct sw_err *err)
{
    for (int i = 0; i < conf->fields.count; i++) {
        const char *item = conf->fields.items[i], *colon = strchr(item, ':');
        const char *member = colon ? colon + 1 : item;
        const size_t name_bytes = colon ? (size_t)(colon - item) : strlen(item);
        if (!name_bytes || !*member)
            return sw_err_set(err, SW_ERR_INVALID,
                              "fields: '%s', expected FIELD:ARRAY, such as image:x_train", item);
        int rc = add_field(s, item, name_bytes, member, strlen(member), conf->shape, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

/* Adds every array of the first archive as a field with the same name. */
static int add_members(struct npz_state *s, const struct npz_conf *conf, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; !rc && i < s->zip[0].count; i++) {
        const char *name = s->zip[0].member[i].name;
        const size_t bytes = strlen(name);
        if (bytes > 4 && !strcmp(name + bytes - 4, ".npy"))
            rc = add_field(s, name, bytes - 4, name, bytes - 4, conf->shape, err);
    }

    if (!rc && s->count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no arrays (members that end in .npy)",
                        s->zip[0].file.path);

    return rc;
}

static int open_archives(struct npz_state *s, const struct sw_files *files, uint64_t max_bytes,
                         struct sw_err *err)
{
    int rc = SW_OK;

    s->zip = sw_calloc((size_t)files->count, sizeof *s->zip);
    if (!s->zip)
        return sw_err_nomem(err, "a list of archives", (size_t)files->count * sizeof *s->zip);

    for (int i = 0; !rc && i < files->count; i++) {
        rc = sw_zip_open(&s->zip[i], files->path[i], max_bytes, err);
        s->zips += rc == SW_OK;
    }

    return rc;
}

static void close_archives(struct npz_state *s)
{
    for (int i = 0; i < s->zips; i++)
        sw_zip_close(&s->zip[i]);
    sw_free(s->zip);
    s->zip = NULL;
    s->zips = 0;
}

static int npz_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct npz_conf *conf = args->conf;
    struct npz_state *s = r->state;

    int rc = open_archives(s, args->files, r->max_bytes, err);
    if (rc)
        goto out;
    rc = conf->fields.count ? add_listed(s, conf, err) : add_members(s, conf, err);
    if (rc)
        goto out;

    rc = sw_columns_join(r, s->column, s->count, err);

out:
    close_archives(s);
    return rc;
}

static void npz_close(struct sw_records *r)
{
    struct npz_state *s = r->state;

    for (int f = 0; f < s->count; f++) {
        sw_column_close(&s->column[f]);
        sw_free(s->name[f]);
    }

    close_archives(s);
}

static int npz_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct npz_state *s = r->state;
    return sw_column_fetch(&s->column[f], record, scratch, out, err);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct npz_conf, member, __VA_ARGS__)

static const struct sw_opt npz_opts[] = {
    SW_FORMAT_PATHS(struct npz_conf, "archives"),
    OPT(STRINGS, fields,
        "arrays to use as fields, a list of FIELD:ARRAY such as image:x_train; unset: all, with "
        "their own names"),
    SW_FORMAT_CLASS_LIST(struct npz_conf),
    SW_FORMAT_SHAPE(struct npz_conf, SW_FORMAT_SHAPE_OF_ARRAY),
    {0},
};

const struct sw_format sw_format_npz = {
    .base =
        SW_TYPE("npz", "archives of NumPy arrays, stored or deflated", struct npz_conf, npz_opts),
    .state_bytes = sizeof(struct npz_state),
    SW_FORMAT_CALLS(npz_open, npz_close, npz_fetch),
};
