/* A list of picture files with a label each: what image_folder and image_list have in common. The
 * names of folders are kept once, so that a million files take some forty bytes each. No file is
 * looked at before it is fetched; then it is read whole into the reader's memory.
 *
 * Thread rule: filled by one thread; afterwards fetch from any thread. */
#pragma once

#include "base/str.h"
#include "data/format.h"
#include "data/lexicon.h"
#include "data/picture.h"

struct sw_picture_file {
    uint64_t name; /* in text */
    int32_t folder, label;
};

/* Zero-initialise; free with fini. */
struct sw_picture_files {
    struct sw_picture_file *item; /* owned */
    int64_t count, capacity;
    struct sw_lexicon folders; /* the empty one is the working directory */
    struct sw_buf text;        /* names, each with a zero byte behind it */
};

void sw_picture_files_fini(struct sw_picture_files *f);

/* Adds the file `name` of a folder. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED (names of 2 GiB),
 * SW_ERR_FORMAT (a name that is too long for the system). */
int sw_picture_files_add(struct sw_picture_files *f, const char *folder, const char *name,
                         int32_t label, struct sw_err *err) SW_MUST_CHECK;

/* The same for a name out of a list, which is data from outside: absolute paths and those that go
 * up by `..` are refused, so that it cannot reach beyond the folder. Errors: also SW_ERR_FORMAT. */
int sw_picture_files_add_below(struct sw_picture_files *f, const char *folder, const char *name,
                               int32_t label, struct sw_err *err) SW_MUST_CHECK;

/* Callbacks of formats whose state begins with a struct sw_picture_files. The label is field 1 of a
 * record. Fetch reads a file: SW_ERR_NOTFOUND, SW_ERR_FORMAT (no regular file, or larger than
 * SW_PICTURE_MAX_BYTES), SW_ERR_IO, SW_ERR_NOMEM; the reader puts the name in front. */
void sw_picture_files_close(struct sw_records *r);
int sw_picture_files_label(const struct sw_records *r, int64_t record, int f, void *scratch,
                           const void **out, struct sw_err *err) SW_MUST_CHECK;
int sw_picture_files_fetch(const struct sw_records *r, int64_t record, struct sw_room *room,
                           struct sw_picture *out, struct sw_err *err) SW_MUST_CHECK;
void sw_picture_files_locate(const struct sw_records *r, int64_t record, struct sw_buf *out);

/* Sets the fields of r, image and label, for these files: channels as asked, or colour. */
void sw_picture_files_fields(const struct sw_picture_files *f, const struct sw_format_args *args,
                             struct sw_records *r);

/* Whether a name ends like one of a picture, in any case: .jpg .jpeg .jpe .png */
bool sw_is_picture_name(const char *name);
