/* Lists folders for data sets of images: sorted by name, without names that begin with a dot, and
 * with other files counted by their suffix. No state. */
#include "data/folder.h"
#include "base/os.h"
#include "base/stop.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16, SUFFIX_BYTES = 16 };

void sw_folder_fini(struct sw_folder *l)
{
    for (int64_t i = 0; i < l->count; i++)
        sw_free(l->entry[i].name);
    sw_free(l->entry);
    *l = (struct sw_folder){0};
}

static int add(struct sw_folder *l, const char *name, bool is_folder, struct sw_err *err)
{
    int rc = sw_grow(&l->entry, sizeof *l->entry, l->count, &l->capacity, 64,
                     "the entries of a folder", err);
    if (rc)
        return rc;
    l->entry[l->count] = (struct sw_folder_entry){sw_strdup(name), is_folder};
    if (!l->entry[l->count].name)
        return sw_err_nomem(err, "the name of a file", strlen(name) + 1);

    l->count++;
    return SW_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sw_folder_entry *)a)->name,
                  ((const struct sw_folder_entry *)b)->name);
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

int sw_folder_list(struct sw_folder *l, const char *folder, struct sw_lexicon *skipped,
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
            rc = add(l, e->d_name, is_folder, err);
        else if (skipped)
            rc = count_skipped(skipped, e->d_name, err);

        if (rc)
            break;
    }

    if (!rc && errno)
        rc = sw_err_errno(err, errno, "%s: cannot read the folder", folder);
    closedir(dir);

    if (rc)
        sw_folder_fini(l);
    else if (l->count)
        qsort(l->entry, (size_t)l->count, sizeof *l->entry, by_name);

    return rc;
}

static int add_tree(const char *folder, int32_t label, int depth, struct sw_picture_files *files,
                    struct sw_lexicon *skipped, struct sw_err *err)
{
    struct sw_folder l = {0};

    if (depth > MAX_DEPTH)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: folders are nested deeper than %d levels",
                          folder, MAX_DEPTH);

    int rc = sw_folder_list(&l, folder, skipped, err);
    for (int64_t i = 0; !rc && i < l.count; i++) {
        if (!l.entry[i].is_folder) {
            rc = sw_picture_files_add(files, folder, l.entry[i].name, label, err);
            continue;
        }

        char *inner = sw_format("%s/%s", folder, l.entry[i].name);
        rc = inner ? add_tree(inner, label, depth + 1, files, skipped, err)
                   : sw_err_nomem(err, "the name of a folder", strlen(folder));
        sw_free(inner);
    }

    sw_folder_fini(&l);
    return rc;
}

int sw_folder_add_images(const char *folder, int32_t label, struct sw_picture_files *files,
                         struct sw_lexicon *skipped, struct sw_err *err)
{
    return add_tree(folder, label, 0, files, skipped, err);
}
