/* Images in folders: each sub-folder of `paths` is a class, numbered in the byte order of the
 * names, and contains JPEG and PNG files, possibly in nested folders. Several `paths` with the same
 * sub-folders share classes. Records are in the order of paths, classes and names, so that the same
 * files give the same order everywhere. Names that begin with a dot are ignored; other files are
 * not read, but counted by suffix and reported. */
#include "base/os.h"
#include "base/stop.h"
#include "data/classes.h"
#include "data/files.h"
#include "data/format_opts.h"
#include "data/lexicon.h"
#include "data/picture_files.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16, NAMES_BYTES_MOST = 16 << 20, SUFFIX_BYTES = 16, MAX_SUFFIXES = 6 };

struct folder_conf {
    struct sw_strings paths;
    const char *class_names;
};

struct folder_state {
    struct sw_picture_files files; /* first member */
    struct sw_lexicon skipped;     /* suffixes of files that are not images, with their counts */
};

/* ---- One folder ---- */

struct entry {
    char *name; /* owned */
    bool is_folder;
};

struct listing {
    struct entry *entry; /* owned; sorted by name */
    int64_t count, capacity;
};

static void listing_fini(struct listing *l)
{
    for (int64_t i = 0; i < l->count; i++)
        sw_free(l->entry[i].name);
    sw_free(l->entry);
    *l = (struct listing){0};
}

static int listing_add(struct listing *l, const char *name, bool is_folder, struct sw_err *err)
{
    int rc = sw_grow(&l->entry, sizeof *l->entry, l->count, &l->capacity, 64,
                     "the entries of a folder", err);
    if (rc)
        return rc;
    l->entry[l->count] = (struct entry){sw_strdup(name), is_folder};
    if (!l->entry[l->count].name)
        return sw_err_nomem(err, "the name of a file", strlen(name) + 1);

    l->count++;
    return SW_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Whether the entry is a file or folder, following links; anything else is ignored. */
static bool take_kind(const char *folder, const struct dirent *e, bool *is_folder)
{
    struct stat st;
    bool known = e->d_type == DT_REG || e->d_type == DT_DIR;

    *is_folder = e->d_type == DT_DIR;
    if (known)
        return true;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return false;

    char *path = sw_format("%s/%s", folder, e->d_name);
    known = path && sw_os()->stat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    *is_folder = known && S_ISDIR(st.st_mode);
    sw_free(path);

    return known;
}

/* Counts a file that is not an image, by suffix. Long and missing suffixes are counted together. */
static int count_skipped(struct sw_lexicon *skipped, const char *name, struct sw_err *err)
{
    const char *dot = strrchr(name, '.');
    char suffix[SUFFIX_BYTES] = "no suffix";
    int32_t id;

    if (dot && strlen(dot) < sizeof suffix) {
        for (size_t i = 0; i <= strlen(dot); i++)
            suffix[i] = (char)tolower((unsigned char)dot[i]);
    }

    return sw_lexicon_add(skipped, suffix, strlen(suffix), 1, &id, err);
}

/* Lists the folders and images in a folder; other files are counted in skipped, unless it is NULL.
 */
static int list(const char *folder, struct listing *l, struct sw_lexicon *skipped,
                struct sw_err *err)
{
    DIR *dir = opendir(folder);
    int rc = SW_OK;

    if (!dir)
        return sw_err_errno(err, errno, "%s: cannot read the folder", folder);

    for (;;) {
        bool is_folder;

        errno = 0;

        const struct dirent *e = readdir(dir);
        if (!e)
            break;
        if (e->d_name[0] == '.' || !take_kind(folder, e, &is_folder))
            continue;

        rc = sw_stop_check(err);
        if (!rc && (is_folder || sw_is_picture_name(e->d_name)))
            rc = listing_add(l, e->d_name, is_folder, err);
        else if (skipped)
            rc = count_skipped(skipped, e->d_name, err);

        if (rc)
            break;
    }

    if (!rc && errno)
        rc = sw_err_errno(err, errno, "%s: cannot read the folder", folder);
    closedir(dir);

    if (rc)
        listing_fini(l);
    else if (l->count)
        qsort(l->entry, (size_t)l->count, sizeof *l->entry, by_name);

    return rc;
}

/* ---- Classes ---- */

/* Reads the names of the classes, one per line, in the order of their numbers. */
static int read_names(const char *path, struct sw_lexicon *names, struct sw_err *err)
{
    char *text = NULL;
    size_t bytes;
    int rc = sw_os_read_file(path, NAMES_BYTES_MOST, &text, &bytes, err);

    for (char *at = text; !rc && at && *at;) {
        const size_t line = strcspn(at, "\n");
        size_t n = line;
        int32_t id, before = names->count;

        if (n && at[n - 1] == '\r')
            n--;
        if (n)
            rc = sw_lexicon_add(names, at, n, 1, &id, err);
        if (!rc && n && id < before)
            rc = sw_err_set(err, SW_ERR_FORMAT, "%s: duplicate class %.*s", path, (int)n, at);
        at += line + (at[line] == '\n');
    }

    sw_free(text);
    if (!rc && names->count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no class names", path);

    return rc;
}

/* Adds the names of the sub-folders of a path. */
static int add_classes(const char *path, struct sw_lexicon *names, struct sw_err *err)
{
    struct listing l = {0};
    int32_t id;
    int rc = list(path, &l, NULL, err);

    for (int64_t i = 0; !rc && i < l.count; i++) {
        if (l.entry[i].is_folder)
            rc = sw_lexicon_add(names, l.entry[i].name, strlen(l.entry[i].name), 1, &id, err);
    }

    listing_fini(&l);
    return rc;
}

/* ---- All ---- */

static int add_images(struct folder_state *s, const char *folder, int32_t label, int depth,
                      struct sw_err *err)
{
    struct listing l = {0};

    if (depth > MAX_DEPTH)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: folders are nested deeper than %d levels",
                          folder, MAX_DEPTH);

    int rc = list(folder, &l, &s->skipped, err);
    for (int64_t i = 0; !rc && i < l.count; i++) {
        if (!l.entry[i].is_folder) {
            rc = sw_picture_files_add(&s->files, folder, l.entry[i].name, label, err);
            continue;
        }

        char *inner = sw_format("%s/%s", folder, l.entry[i].name);
        rc = inner ? add_images(s, inner, label, depth + 1, err)
                   : sw_err_nomem(err, "the name of a folder", strlen(folder));
        sw_free(inner);
    }

    listing_fini(&l);
    return rc;
}

static int add_path(struct folder_state *s, const char *path, const struct sw_lexicon *names,
                    const int32_t *number, struct sw_err *err)
{
    struct listing l = {0};
    int rc = list(path, &l, NULL, err);

    for (int64_t i = 0; !rc && i < l.count; i++) {
        const char *name = l.entry[i].name;

        if (!l.entry[i].is_folder)
            continue;

        const int32_t id = sw_lexicon_find(names, name, strlen(name));
        char *inner = sw_format("%s/%s", path, name);
        if (id < 0)
            rc = sw_err_set(err, SW_ERR_FORMAT, "%s/%s: not listed in class_names", path, name);
        else
            rc = inner ? add_images(s, inner, number[id], 0, err)
                       : sw_err_nomem(err, "the name of a folder", strlen(path));

        sw_free(inner);
    }

    listing_fini(&l);
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

static int add_all(struct sw_records *r, const struct folder_conf *conf,
                   const struct sw_files *paths, struct sw_err *err)
{
    struct folder_state *s = r->state;
    struct sw_lexicon names = {0};
    int32_t *number = NULL;

    int rc = conf->class_names ? read_names(conf->class_names, &names, err) : SW_OK;
    if (rc)
        goto out;

    for (int i = 0; i < paths->count && !conf->class_names; i++) {
        rc = add_classes(paths->path[i], &names, err);
        if (rc)
            goto out;
    }

    rc = sw_classes_number(&names, conf->class_names ? SW_CLASSES_LISTED : SW_CLASSES_SORTED,
                           &number, &r->classes, &r->naming, err);
    if (rc)
        goto out;

    for (int i = 0; i < paths->count; i++) {
        rc = add_path(s, paths->path[i], &names, number, err);
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

    if (!conf->class_names)
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

    int rc = add_all(r, args->conf, args->files, err);
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
    SW_OPT(PATH, struct folder_conf, class_names,
           "file with the names of the sub-folders, one per line, in the order of their numbers; "
           "unset: sorted by name"),
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
