/* The images and sub-folders of a folder, for formats that find their images by name. Names that
 * begin with a dot are ignored, links are followed, and the order is that of the bytes of the
 * names, so that the same files give the same order everywhere. One owner. */
#pragma once

#include "data/lexicon.h"
#include "data/picture_files.h"

struct sw_folder_entry {
    char *name; /* owned */
    bool is_folder;
};

/* Zero-initialize; free with fini. */
struct sw_folder {
    struct sw_folder_entry *entry; /* owned; sorted by name */
    int64_t count, capacity;
};

/* Lists the sub-folders and images in a folder; other files are counted by suffix in skipped,
 * unless it is NULL. *l is empty after an error. Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM,
 * SW_ERR_CANCELLED (base/stop.h). */
int sw_folder_list(struct sw_folder *l, const char *folder, struct sw_lexicon *skipped,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_folder_fini(struct sw_folder *l);

/* Adds the images in a folder and the folders below it, with this label. Errors: as above, and
 * SW_ERR_FORMAT for more than 16 levels. */
int sw_folder_add_images(const char *folder, int32_t label, struct sw_picture_files *files,
                         struct sw_lexicon *skipped, struct sw_err *err) SW_MUST_CHECK;
