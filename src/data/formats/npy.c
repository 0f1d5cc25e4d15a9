/* NumPy arrays in .npy files, one or more files for each field of a record (data/array.h describes
 * the types of fields). Dimension 0 counts the records and is the same for all fields. */
#include "base/os.h"
#include "data/array.h"
#include "data/files.h"
#include "data/format_opts.h"
#include <string.h>

struct npy_conf {
    struct sw_strings paths, labels, fields, classes;
    const char *shape;
};

struct npy_state {
    struct sw_column column[SW_MAX_FIELDS];
    int count;
    char *name[SW_MAX_FIELDS]; /* owned; field names from the key `fields` */
    int names;
    uint64_t max_bytes; /* limit for a file in memory */
};

/* One field name of the key `fields` with all its files. */
struct named {
    const char *path[64]; /* borrowed from the conf */
    struct sw_strings list;
};

enum { MAX_NAMED = sizeof((struct named *)0)->path / sizeof(char *) };

/* The colon of "NAME:FILE", or NULL. */
static const char *cut(const char *item)
{
    const char *colon = strchr(item, ':');
    return colon && colon > item && colon[1] ? colon : NULL;
}

/* Where the file begins in an item of `fields`. */
static size_t file_of_named(const char *item)
{
    const char *colon = cut(item);
    return colon ? (size_t)(colon + 1 - item) : strlen(item);
}

static int check_items(const struct sw_strings *fields, struct sw_err *err)
{
    for (int i = 0; i < fields->count; i++) {
        if (!cut(fields->items[i]))
            return sw_err_set(err, SW_ERR_INVALID,
                              "fields: '%s', expected NAME:FILE, such as text:captions.npy",
                              fields->items[i]);
    }

    return SW_OK;
}

static int own_name(struct npy_state *s, const char *item, size_t n, const char **out,
                    struct sw_err *err)
{
    char *name = sw_format("%.*s", (int)n, item);
    if (!name)
        return sw_err_nomem(err, "the name of a field", n + 1);

    s->name[s->names++] = name;
    *out = name;

    for (int f = 0; f < s->count; f++) {
        if (!strcmp(s->column[f].field.name, name))
            return sw_err_set(err, SW_ERR_INVALID, "fields: %s is already defined by the key %s",
                              name, f == 0 ? "paths" : "labels");
    }

    return SW_OK;
}

static int add_column(struct npy_state *s, const char *name, const struct sw_files *files,
                      const char *shape, struct sw_err *err)
{
    if (s->count == SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "fields: more than %d fields in a record",
                          SW_MAX_FIELDS);

    int rc = sw_column_open(&s->column[s->count], name, files, shape, s->max_bytes, err);
    s->count += rc == SW_OK;
    return rc;
}

static int open_column(struct npy_state *s, const char *name, const struct sw_strings *paths,
                       const char *key, struct sw_err *err)
{
    struct sw_files files = {0};

    int rc = sw_files_expand(&files, paths, key, err);
    if (rc)
        goto out;

    rc = add_column(s, name, &files, NULL, err);

out:
    sw_files_fini(&files);
    return rc;
}

/* Opens all files of the field that item i is the first to name. */
static int open_named(struct npy_state *s, const struct sw_strings *fields, int i,
                      struct sw_err *err)
{
    struct named n = {0};
    const char *name = NULL, *item = fields->items[i];
    const size_t bytes = (size_t)(cut(item) - item);
    int count = 0;

    if (s->names == SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "fields: more than %d fields in a record",
                          SW_MAX_FIELDS);

    int rc = own_name(s, item, bytes, &name, err);
    for (int k = i; !rc && k < fields->count; k++) {
        if (strncmp(fields->items[k], item, bytes + 1) != 0)
            continue;

        if (count == MAX_NAMED)
            rc = sw_err_set(err, SW_ERR_INVALID, "fields: more than %d files for %s; use a pattern",
                            MAX_NAMED, name);
        else
            n.path[count++] = fields->items[k] + bytes + 1;
    }

    n.list = (struct sw_strings){n.path, count};
    return rc ? rc : open_column(s, name, &n.list, "fields", err);
}

static bool is_first(const struct sw_strings *fields, int i)
{
    const size_t bytes = (size_t)(cut(fields->items[i]) - fields->items[i]) + 1;

    for (int k = 0; k < i; k++) {
        if (!strncmp(fields->items[k], fields->items[i], bytes))
            return false;
    }

    return true;
}

static int npy_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct npy_conf *conf = args->conf;
    struct npy_state *s = r->state;

    s->max_bytes = r->max_bytes;

    int rc = check_items(&conf->fields, err);
    if (!rc)
        rc = add_column(s, "image", args->files, conf->shape, err);
    if (!rc && conf->labels.count)
        rc = open_column(s, "label", &conf->labels, "labels", err);

    for (int i = 0; !rc && i < conf->fields.count; i++) {
        if (is_first(&conf->fields, i))
            rc = open_named(s, &conf->fields, i, err);
    }

    return rc ? rc : sw_columns_join(r, s->column, s->count, err);
}

static void npy_close(struct sw_records *r)
{
    struct npy_state *s = r->state;

    for (int f = 0; f < s->count; f++)
        sw_column_close(&s->column[f]);
    for (int i = 0; i < s->names; i++)
        sw_free(s->name[i]);
}

static int npy_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct npy_state *s = r->state;
    return sw_column_fetch(&s->column[f], record, scratch, out, err);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct npy_conf, member, __VA_ARGS__)

static const struct sw_opt npy_opts[] = {
    SW_FORMAT_PATHS(struct npy_conf, "arrays of the field image, plain or .gz"),
    OPT(PATHS, labels,
        "arrays of the field label: one class per record, or a row of values (label sets)"),
    OPT(PATHS, fields, "arrays of further fields, a list of NAME:FILE", .path_at = file_of_named),
    SW_FORMAT_CLASS_LIST(struct npy_conf),
    SW_FORMAT_SHAPE(struct npy_conf, SW_FORMAT_SHAPE_OF_ARRAY),
    {0},
};

const struct sw_format sw_format_npy = {
    .base = SW_TYPE("npy", "NumPy arrays, a .npy file for each field, plain or .gz",
                    struct npy_conf, npy_opts),
    .state_bytes = sizeof(struct npy_state),
    SW_FORMAT_CALLS(npy_open, npy_close, npy_fetch),
};
