/* A list of image files with one label each, used by image_folder, image_list and pairs. Folder
 * names are stored once, so that a file takes about forty bytes. A file is not opened before it is
 * fetched; then it is read whole into memory of the reader.
 *
 * Thread rule: filled by one thread; afterwards fetch from any thread. */
#pragma once

#include "base/str.h"
#include "data/format.h"
#include "data/lexicon.h"
#include "data/picture.h"

struct sw_picture_file {
    uint64_t name; /* offset in text */
    int32_t folder, label;
};

/* Zero-initialize; free with fini. */
struct sw_picture_files {
    struct sw_picture_file *item; /* owned */
    int64_t count, capacity;
    struct sw_lexicon folders; /* "": the working directory */
    struct sw_bytes text;      /* zero-terminated file names */
};

void sw_picture_files_fini(struct sw_picture_files *f);

/* Adds the file `name` of a folder. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED (more than 2 GiB of
 * names), SW_ERR_FORMAT (path longer than the system allows). */
int sw_picture_files_add(struct sw_picture_files *f, const char *folder, const char *name,
                         int32_t label, struct sw_err *err) SW_MUST_CHECK;

/* Adds a file named by a list, which is untrusted input: absolute paths and paths with `..` are
 * refused, so that a list cannot reach outside the folder. Errors: as sw_picture_files_add;
 * SW_ERR_FORMAT. */
int sw_picture_files_add_below(struct sw_picture_files *f, const char *folder, const char *name,
                               int32_t label, struct sw_err *err) SW_MUST_CHECK;

/* Callbacks of formats whose state begins with a struct sw_picture_files. The label is field 1 of a
 * record. Fetch reads a file: SW_ERR_NOTFOUND, SW_ERR_FORMAT (not a regular file, or larger than
 * SW_PICTURE_MAX_BYTES), SW_ERR_IO, SW_ERR_NOMEM; the reader puts the name in front. */
void sw_picture_files_close(struct sw_records *r);
int sw_picture_files_label(const struct sw_records *r, int64_t record, int f, void *scratch,
                           const void **out, struct sw_err *err) SW_MUST_CHECK;
int sw_picture_files_fetch(const struct sw_records *r, int64_t record, struct sw_room *room,
                           struct sw_picture *out, struct sw_err *err) SW_MUST_CHECK;
void sw_picture_files_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out);

/* Sets the fields of r, image and label, for these files; the image has the requested number of
 * channels, or 3. */
void sw_picture_files_fields(const struct sw_picture_files *f, const struct sw_format_args *args,
                             struct sw_records *r);

/* Whether a name has the suffix of an image file, in any case: .jpg .jpeg .jpe .png */
bool sw_is_picture_name(const char *name);
