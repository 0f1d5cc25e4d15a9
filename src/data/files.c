/* Expands `paths`: plain names in order, shell patterns sorted. If a file has exactly the name of a
 * pattern (with *, ? or [), it is that file. */
#include "data/files.h"
#include "base/os.h"
#include "base/str.h"
#include <glob.h>
#include <string.h>

/* A file named a[1].gz is not a pattern. */
static bool is_pattern(const char *name)
{
    struct stat st;
    return strpbrk(name, "*?[") && sw_os()->stat(name, &st) != 0;
}

static int add(struct sw_files *f, const char *path, struct sw_err *err)
{
    char **grown = sw_realloc_array(f->path, (size_t)f->count + 1, sizeof *grown);
    if (!grown)
        return sw_err_nomem(err, "a list of data files", ((size_t)f->count + 1) * sizeof *grown);

    f->path = grown;
    f->path[f->count] = sw_strdup(path);
    if (!f->path[f->count])
        return sw_err_nomem(err, "the name of a data file", strlen(path) + 1);

    f->count++;
    return SW_OK;
}

static int add_matches(struct sw_files *f, const char *pattern, const char *key, struct sw_err *err)
{
    glob_t found = {0};
    int rc = SW_OK;
    int answer = glob(pattern, 0, NULL, &found);

    if (answer == GLOB_NOMATCH)
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "%s: no file matches %s", key, pattern);
    else if (answer == GLOB_NOSPACE)
        rc = sw_err_nomem(err, "the matches of a file pattern", 0);
    else if (answer)
        rc = sw_err_set(err, SW_ERR_IO, "%s: cannot read the folders of %s", key, pattern);

    for (size_t i = 0; !rc && i < found.gl_pathc; i++)
        rc = add(f, found.gl_pathv[i], err);
    globfree(&found);

    return rc;
}

int sw_files_expand(struct sw_files *f, const struct sw_strings *names, const char *key,
                    struct sw_err *err)
{
    int rc = SW_OK;

    *f = (struct sw_files){0};
    if (names->count == 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s: the list of files is empty", key);

    for (int i = 0; !rc && i < names->count; i++) {
        rc = is_pattern(names->items[i]) ? add_matches(f, names->items[i], key, err)
                                         : add(f, names->items[i], err);
    }

    if (rc)
        sw_files_fini(f);
    return rc;
}

void sw_files_fini(struct sw_files *f)
{
    for (int i = 0; i < f->count; i++)
        sw_free(f->path[i]);
    sw_free(f->path);
    *f = (struct sw_files){0};
}

char *sw_files_text(const struct sw_files *f)
{
    return f->count == 1 ? sw_strdup(f->path[0])
                         : sw_format("%s (%d files)", f->count ? f->path[0] : "", f->count);
}

char *sw_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return sw_strdup("");
    return sw_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}
