/* Image files with labels, for image_folder, image_list and pairs: each folder name once, a name
 * and a label per file. A fetch opens the file, checks its size and reads it whole into memory of
 * the caller. Frozen after opening, so any thread may fetch. */
#include "data/picture_files.h"
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void sw_picture_files_fini(struct sw_picture_files *f)
{
    sw_free(f->item);
    sw_lexicon_fini(&f->folders);
    sw_bytes_fini(&f->text);
    *f = (struct sw_picture_files){0};
}

int sw_picture_files_add(struct sw_picture_files *f, const char *folder, const char *name,
                         int32_t label, struct sw_err *err)
{
    const size_t folder_bytes = strlen(folder), name_bytes = strlen(name);
    struct sw_picture_file item = {f->text.length, 0, label};

    if (folder_bytes + name_bytes + 2 > PATH_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%.40s...: a path of %zu bytes; the limit is %d",
                          name, folder_bytes + name_bytes, PATH_MAX - 2);

    int rc = sw_lexicon_add(&f->folders, folder, folder_bytes, 1, &item.folder, err);
    if (rc)
        return rc;
    rc = sw_grow(&f->item, sizeof *f->item, f->count, &f->capacity, 256, "a list of images", err);
    if (rc)
        return rc;

    sw_bytes_append(&f->text, name, name_bytes + 1);
    if (f->text.failed)
        return sw_err_nomem(err, "the names of images", f->text.length);

    f->item[f->count++] = item;
    return SW_OK;
}

static void path_of(const struct sw_picture_files *f, int64_t i, char path[PATH_MAX])
{
    size_t bytes;
    const char *folder = sw_lexicon_word(&f->folders, f->item[i].folder, &bytes);
    snprintf(path, PATH_MAX, "%s%s%s", folder, bytes ? "/" : "", f->text.text + f->item[i].name);
}

/* The size of an open file, which must be regular and within the limit. */
static int size_of(int fd, size_t *bytes, struct sw_err *err)
{
    struct stat st;
    if (sw_os()->fstat(fd, &st))
        return sw_err_errno(err, errno, "cannot be read");
    if (!S_ISREG(st.st_mode))
        return sw_err_set(err, SW_ERR_FORMAT, "not a regular file");
    if (st.st_size > SW_PICTURE_MAX_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "a file of %lld MiB; the limit for an image is %d MiB",
                          (long long)st.st_size >> 20, SW_PICTURE_MAX_BYTES >> 20);

    *bytes = (size_t)st.st_size;
    return SW_OK;
}

/* Whether a path is relative and has no `..`. */
static bool stays_below(const char *path)
{
    if (*path == '/')
        return false;

    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return false;
        p += n + (p[n] == '/');
    }

    return true;
}

int sw_picture_files_add_below(struct sw_picture_files *f, const char *folder, const char *name,
                               int32_t label, struct sw_err *err)
{
    if (!stays_below(name))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "path \"%.200s\" is outside of `root`; use a relative path without ..",
                          name);
    return sw_picture_files_add(f, folder, name, label, err);
}

void sw_picture_files_close(struct sw_records *r)
{
    sw_picture_files_fini(r->state);
}

int sw_picture_files_label(const struct sw_records *r, int64_t record, int f, void *scratch,
                           const void **out, struct sw_err *err)
{
    const struct sw_picture_files *files = r->state;
    *(int32_t *)scratch = files->item[record].label;
    *out = scratch;
    return SW_OK;
}

int sw_picture_files_fetch(const struct sw_records *r, int64_t record, struct sw_room *room,
                           struct sw_picture *out, struct sw_err *err)
{
    char path[PATH_MAX];
    size_t bytes = 0;

    path_of(r->state, record, path);

    /* O_NONBLOCK: opening a pipe would block until it has a writer. */
    const int fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return sw_err_errno(err, errno, "cannot be opened");

    int rc = size_of(fd, &bytes, err);
    if (!rc)
        rc = sw_room_need(room, bytes, "an image", err);
    if (!rc)
        rc = sw_os_pread_all(fd, room->memory, bytes, 0, "the file", err);
    sw_os()->close(fd);
    if (!rc)
        *out = (struct sw_picture){.encoded = true, .data = room->memory, .bytes = bytes};

    return rc;
}

void sw_picture_files_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    char path[PATH_MAX];
    path_of(r->state, record, path);
    sw_bytes_add(out, path);
}

void sw_picture_files_fields(const struct sw_picture_files *f, const struct sw_format_args *args,
                             struct sw_records *r)
{
    r->count = r->files = f->count;
    r->field[0] = (struct sw_field){"image", SW_U8, 3, {args->channels ? args->channels : 3, 0, 0}};
    r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;
    r->has_pictures = true;
    r->picture_field = 0;
}

bool sw_is_picture_name(const char *name)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".jpe", ".png"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!strcasecmp(dot, suffixes[i]))
            return true;
    }

    return false;
}
