/* Images in folders: each sub-folder of `paths` is a class, numbered in the byte order of the
 * names, and contains JPEG and PNG files, possibly in nested folders. Several `paths` with the same
 * sub-folders share classes. Records are in the order of paths, classes and names, so that the same
 * files give the same order everywhere. Names that begin with a dot are ignored; other files are
 * not read, but counted by suffix and reported. */
#include "base/os.h"
#include "data/classes.h"
#include "data/files.h"
#include "data/folder.h"
#include "data/format_opts.h"
#include "data/spec.h"
#include <string.h>

enum { MAX_SUFFIXES = 6 };

struct folder_conf {
    struct sw_strings paths;
};

struct folder_state {
    struct sw_picture_files files; /* first member */
    struct sw_lexicon skipped;     /* suffixes of files that are not images, with their counts */
};

/* ---- Classes ---- */

/* Adds the names of the sub-folders of a path. */
static int add_classes(const char *path, struct sw_lexicon *names, struct sw_err *err)
{
    struct sw_folder l = {0};
    int32_t id;
    int rc = sw_folder_list(&l, path, NULL, err);

    for (int64_t i = 0; !rc && i < l.count; i++) {
        if (l.entry[i].is_folder)
            rc = sw_lexicon_add(names, l.entry[i].name, strlen(l.entry[i].name), 1, &id, err);
    }

    sw_folder_fini(&l);
    return rc;
}

/* ---- All ---- */

/* Reports a sub-folder that is not one of the classes that are given. */
static int unknown_class(const char *path, const char *name, bool trained, struct sw_err *err)
{
    if (!trained)
        return sw_err_set(err, SW_ERR_FORMAT, "%s/%s: not listed in class_names", path, name);
    return sw_err_set(
        err, SW_ERR_FORMAT,
        "%s/%s: the net was not trained on a class of this name; remove or rename the "
        "folder",
        path, name);
}

static int add_path(struct folder_state *s, const char *path, const struct sw_lexicon *names,
                    const int32_t *number, bool trained, struct sw_err *err)
{
    struct sw_folder l = {0};
    int rc = sw_folder_list(&l, path, NULL, err);

    for (int64_t i = 0; !rc && i < l.count; i++) {
        const char *name = l.entry[i].name;

        if (!l.entry[i].is_folder)
            continue;

        const int32_t id = sw_lexicon_find(names, name, strlen(name));
        char *inner = sw_format("%s/%s", path, name);
        if (id < 0)
            rc = unknown_class(path, name, trained, err);
        else
            rc = inner ? sw_folder_add_images(inner, number[id], &s->files, &s->skipped, err)
                       : sw_err_nomem(err, "the name of a folder", strlen(path));

        sw_free(inner);
    }

    sw_folder_fini(&l);
    return rc;
}

/* A class without images cannot be learned: its folder is probably a mistake, unless class_names
 * lists the class. */
static int check_classes(const struct sw_records *r, const struct sw_lexicon *names,
                         const int32_t *number, const char *path, struct sw_err *err)
{
    const struct folder_state *s = r->state;
    unsigned char *met = sw_calloc((size_t)r->classes + 1, 1);
    int rc = met ? SW_OK : sw_err_nomem(err, "the classes of folders", (size_t)r->classes);

    for (int64_t i = 0; !rc && i < s->files.count; i++)
        met[s->files.item[i].label] = 1;

    for (int32_t id = 0; !rc && id < names->count; id++) {
        if (!met[number[id]])
            rc = sw_err_set(err, SW_ERR_NOTFOUND,
                            "%s: no image (.jpg, .jpeg, .jpe, .png) in the folder of class %s; "
                            "remove the folder, or list the classes in class_names",
                            path, sw_lexicon_word(names, id, NULL));
    }

    sw_free(met);
    return rc;
}

/* Sets the names of the classes; *listed: their order is given, and folders may be missing. */
static int find_names(const struct sw_format_args *args, struct sw_lexicon *names, bool *listed,
                      struct sw_err *err)
{
    int rc = SW_OK;

    *listed = args->names->count > 0;
    if (*listed)
        return sw_classes_of(names, args->names, err);

    for (int i = 0; !rc && i < args->files->count; i++)
        rc = add_classes(args->files->path[i], names, err);

    return rc;
}

static int add_all(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    struct folder_state *s = r->state;
    const struct sw_files *paths = args->files;
    const bool trained = args->spec && args->spec->classes.count;
    struct sw_lexicon names = {0};
    int32_t *number = NULL;
    bool listed;

    int rc = find_names(args, &names, &listed, err);
    if (rc)
        goto out;
    rc = sw_classes_number(&names, listed ? SW_CLASSES_LISTED : SW_CLASSES_SORTED, &number,
                           &r->classes, &r->naming, err);
    if (rc)
        goto out;
    rc = sw_classes_name(&r->class_names, &names, number, err);
    if (rc)
        goto out;

    for (int i = 0; i < paths->count; i++) {
        rc = add_path(s, paths->path[i], &names, number, trained, err);
        if (rc)
            goto out;
    }

    if (s->files.count == 0)
        rc = sw_err_set(err, SW_ERR_NOTFOUND,
                        "%s: no image (.jpg, .jpeg, .jpe, .png) in its %d sub-folders; expected a "
                        "sub-folder with images for each class",
                        paths->path[0], names.count);

    if (rc)
        goto out;

    if (!listed)
        rc = check_classes(r, &names, number, paths->path[0], err);

out:
    sw_lexicon_fini(&names);
    sw_free(number);

    return rc;
}

/* Appends ", 12 files skipped (not JPEG or PNG): 10 .gif, 2 .webp", or nothing if there are none.
 */
static int describe_skipped(const struct sw_lexicon *skipped, struct sw_bytes *out,
                            struct sw_err *err)
{
    int32_t *order = sw_calloc((size_t)skipped->count + 1, sizeof *order);
    int64_t files = 0;

    if (!order)
        return sw_err_nomem(err, "the suffixes of files", (size_t)skipped->count * sizeof *order);

    for (int32_t i = 0; i < skipped->count; i++)
        files += sw_lexicon_times(skipped, i);

    if (files)
        sw_bytes_printf(out, ", %lld file%s skipped (not JPEG or PNG):", (long long)files,
                        files == 1 ? "" : "s");

    sw_lexicon_rank(skipped, SW_LEXICON_BY_TIMES, order);

    for (int32_t k = 0; k < skipped->count && k < MAX_SUFFIXES; k++)
        sw_bytes_printf(out, "%s %lld %s", k ? "," : "",
                        (long long)sw_lexicon_times(skipped, order[k]),
                        sw_lexicon_word(skipped, order[k], NULL));

    if (skipped->count > MAX_SUFFIXES)
        sw_bytes_add(out, ", ...");
    sw_free(order);

    return SW_OK;
}

/* Sets r->where. */
static int set_where(struct sw_records *r, const struct sw_files *paths, struct sw_err *err)
{
    const struct folder_state *s = r->state;
    struct sw_bytes text = {0};

    sw_bytes_add(&text, paths->path[0]);
    if (paths->count > 1)
        sw_bytes_printf(&text, " (%d folders)", paths->count);

    int rc = describe_skipped(&s->skipped, &text, err);
    r->where = rc ? NULL : sw_strdup(sw_bytes_text(&text));
    if (!rc && (text.failed || !r->where))
        rc = sw_err_nomem(err, "the name of a folder", 0);
    sw_bytes_fini(&text);

    return rc;
}

static int folder_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct folder_state *s = r->state;

    int rc = add_all(r, args, err);
    if (rc)
        return rc;

    sw_picture_files_fields(&s->files, args, r);
    return set_where(r, args->files, err);
}

static void folder_close(struct sw_records *r)
{
    struct folder_state *s = r->state;
    sw_picture_files_fini(&s->files);
    sw_lexicon_fini(&s->skipped);
}

static const struct sw_opt folder_opts[] = {
    SW_FORMAT_PATHS(struct folder_conf, "folders whose sub-folders are the classes"),
    {0},
};

const struct sw_format sw_format_image_folder = {
    .base = SW_TYPE("image_folder", "JPEG and PNG files of any size, a sub-folder for each class",
                    struct folder_conf, folder_opts),
    .implied = {.records = 10000, .classes = 10, .channels = 3, .height = 64, .width = 64},
    .state_bytes = sizeof(struct folder_state),
    SW_FORMAT_CALLS(folder_open, folder_close, sw_picture_files_label),
    .fetch_picture = sw_picture_files_fetch,
    .locate = sw_picture_files_locate,
};
