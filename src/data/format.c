/* Records of any format: finds a format by name, opens and closes it, and names the location of a
 * record for messages. The registry sw_formats[] is written by the build. */
#include "data/format.h"
#include "base/os.h"
#include "base/str.h"
#include "data/blob.h"
#include "data/classes.h"
#include "data/files.h"
#include "data/spec.h"
#include <string.h>

int64_t sw_field_count(const struct sw_field *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->ndim; i++)
        n *= f->dim[i];
    return n;
}

size_t sw_field_bytes(const struct sw_field *f)
{
    return (size_t)sw_field_count(f) * sw_dtype_bytes(f->dtype);
}

bool sw_field_same(const struct sw_field *a, const struct sw_field *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim);
}

const struct sw_format *sw_format_find(const char *name)
{
    for (int i = 0; name && sw_formats[i]; i++) {
        if (!strcmp(sw_formats[i]->base.name, name))
            return sw_formats[i];
    }

    return NULL;
}

static struct sw_part *part_at(const struct sw_records *r, int i)
{
    return (struct sw_part *)(void *)((char *)r->part + (size_t)i * r->format->part_bytes);
}

static int open_parts(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct sw_format *f = r->format;
    const int count = f->open_part ? args->files->count : 0;
    const size_t bytes = (size_t)count * f->part_bytes;

    r->part = count ? sw_calloc(1, bytes) : NULL;
    if (count && !r->part)
        return sw_err_nomem(err, "the list of data files", bytes);

    for (int i = 0; i < count; i++) {
        struct sw_part *part = part_at(r, r->parts++);

        part->first = r->count;
        int rc = f->open_part(r, part, args->files->path[i], args, err);
        if (rc)
            return rc;
        part->count = r->count - part->first;
    }

    return SW_OK;
}

/* Runs the callbacks of the format in order. */
static int open_all(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    int rc = r->format->open ? r->format->open(r, args, err) : SW_OK;
    if (rc)
        return rc;
    rc = open_parts(r, args, err);
    if (rc)
        return rc;

    return r->format->finish ? r->format->finish(r, args, err) : SW_OK;
}

/* ---- Names of classes ---- */

/* The key `classes` where it lists names. */
static const struct sw_strings *list_of(const struct sw_format *f, const void *conf)
{
    for (const struct sw_opt *o = f->base.opts; o && o->key; o++)
        if (strcmp(o->key, "classes") == 0 && o->type == SW_OPT_STRINGS)
            return (const void *)((const char *)conf + o->offset);
    return NULL;
}

static int find_names(const struct sw_format *f, const struct sw_format_args *a,
                      struct sw_lexicon *names, struct sw_err *err)
{
    const struct sw_strings *list = list_of(f, a->conf);

    if (a->spec && a->spec->classes.count)
        return sw_classes_of(names, &a->spec->classes, err);
    if (a->unlabeled)
        return SW_OK;
    if (list && list->count && a->class_names)
        return sw_err_set(err, SW_ERR_INVALID, "classes and class_names are mutually exclusive");
    if (list && list->count)
        return sw_classes_list(names, list, "classes", err);
    return a->class_names ? sw_classes_read(names, a->class_names, err) : SW_OK;
}

/* Reads the file of names beside the data, if it exists. */
static int find_names_beside(const struct sw_format *f, const struct sw_format_args *a,
                             struct sw_lexicon *names, struct sw_err *err)
{
    char *folder = sw_folder_of(a->files->path[0]);
    char *path =
        folder ? sw_format("%s%s%s", folder, *folder ? "/" : "", f->names_file(a->conf)) : NULL;
    struct stat st;
    int rc = path ? SW_OK : sw_err_nomem(err, "the name of a file", 0);

    if (rc == SW_OK && sw_os()->stat(path, &st) == 0)
        rc = sw_classes_read(names, path, err);
    sw_free(path);
    sw_free(folder);
    return rc;
}

/* The number of classes that must have names; *fixed: and no others. */
static int64_t classes_of(const struct sw_records *r, bool *fixed)
{
    for (int f = 0; f < r->field_count; f++) {
        const struct sw_field *field = &r->field[f];

        *fixed = field->ndim == 1 || r->classes_fixed;
        if (strcmp(field->name, "label") == 0)
            return field->ndim == 1 ? field->dim[0] : r->classes;
    }

    return 0;
}

/* Gives classes that have only numbers their names, which it takes. */
static int name_classes(struct sw_records *r, const struct sw_format_args *a,
                        struct sw_lexicon *names, struct sw_err *err)
{
    const bool trained = a->spec && a->spec->classes.count;
    bool fixed = false;
    const int64_t classes = classes_of(r, &fixed);

    if (r->class_names.count) {
        if (trained || !a->class_names || r->naming == sw_lexicon_identity(names, NULL))
            return SW_OK;
        return sw_err_set(err, SW_ERR_INVALID,
                          "class_names: %s: the data name their classes themselves, in another "
                          "order; use classes",
                          a->class_names);
    }
    if (classes > 0 && (names->count == classes || (names->count > classes && !fixed))) {
        r->class_names = *names;
        *names = (struct sw_lexicon){0};
        r->classes = r->class_names.count;
        r->naming = sw_lexicon_identity(&r->class_names, NULL);
        return SW_OK;
    }
    if (trained || names->count == 0)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID, "%d names of classes, but the data have %lld classes",
                      names->count, (long long)classes);
}

/* ---- Opening ---- */

static int open_named(struct sw_records *r, struct sw_format_args *a, struct sw_err *err)
{
    struct sw_lexicon names = {0};

    a->names = &names;
    int rc = find_names(r->format, a, &names, err);
    if (rc == SW_OK)
        rc = open_all(r, a, err);
    if (rc == SW_OK && !names.count && !a->unlabeled && r->format->names_file)
        rc = find_names_beside(r->format, a, &names, err);
    if (rc == SW_OK)
        rc = name_classes(r, a, &names, err);
    sw_lexicon_fini(&names);
    return rc;
}

int sw_records_open(struct sw_records *r, const struct sw_format *format,
                    const struct sw_format_args *args, struct sw_err *err)
{
    memset(r, 0, sizeof *r);
    r->format = format;
    r->max_bytes = args->max_bytes ? (uint64_t)args->max_bytes : SW_BLOB_MAX_BYTES;
    r->max_pixels = args->max_pixels ? args->max_pixels : SW_PICTURE_MAX_PIXELS;

    r->state = format->state_bytes ? sw_calloc(1, format->state_bytes) : NULL;
    if (format->state_bytes && !r->state)
        return sw_err_nomem(err, "the state of a data format", format->state_bytes);

    struct sw_format_args format_args = *args;
    struct sw_files files = {0};
    format_args.files = format->generated ? NULL : &files;

    int rc = format_args.files ? sw_files_expand(&files, args->conf, "paths", err) : SW_OK;
    if (rc)
        goto out;
    rc = open_named(r, &format_args, err);
    if (rc)
        goto out;

    if (!r->where) {
        r->files = files.count;
        r->where = sw_files_text(&files);
        rc = r->where ? SW_OK : sw_err_nomem(err, "the name of a data file", 0);
    }

out:
    sw_files_fini(&files);
    if (rc)
        sw_records_close(r);

    return rc;
}

void sw_records_close(struct sw_records *r)
{
    for (int i = 0; i < r->parts && r->format->close_part; i++)
        r->format->close_part(part_at(r, i));
    sw_free(r->part);
    if (r->state && r->format->close)
        r->format->close(r);
    sw_free(r->state);
    sw_lexicon_fini(&r->class_names);
    sw_lexicon_fini(&r->columns);
    sw_free(r->origin);
    sw_free(r->where);
    memset(r, 0, sizeof *r);
}

int sw_records_check(const struct sw_records *r, struct sw_err *err)
{
    for (int i = 0; i < r->parts && r->format->check_part; i++) {
        int rc = r->format->check_part(part_at(r, i), err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

const void *sw_records_part(const struct sw_records *r, int64_t record)
{
    int low = 0, high = r->parts - 1;

    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (part_at(r, middle)->first <= record)
            low = middle;
        else
            high = middle - 1;
    }

    return part_at(r, low);
}

void sw_records_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    sw_bytes_printf(out, "record %lld (", (long long)record);

    if (r->format->locate)
        r->format->locate(r, record, out);
    else
        sw_bytes_add(out, r->where);

    sw_bytes_add(out, ")");
}
