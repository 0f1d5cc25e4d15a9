/* Images without labels, listed at opening and read one by one. */
#include "data/image_files.h"
#include "base/os.h"
#include "data/files.h"
#include "data/folder.h"
#include "data/picture_files.h"

static int open_files(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    struct sw_picture_files *files = r->state;
    int rc = SW_OK;

    for (int i = 0; !rc && i < args->files->count; i++) {
        const char *path = args->files->path[i];
        const int64_t before = files->count;
        struct stat st;
        if (sw_os()->stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            rc = sw_picture_files_add(files, "", path, 0, err);
            continue;
        }

        rc = sw_folder_add_images(path, 0, files, NULL, err);
        if (!rc && files->count == before)
            rc = sw_err_set(err, SW_ERR_NOTFOUND,
                            "%s: no image (.jpg, .jpeg, .jpe, .png) in this folder", path);
    }

    sw_picture_files_fields(files, args, r);
    r->field_count = 1;
    return rc;
}

const struct sw_format sw_image_files = {
    .base = {.name = "image files",
             .help = "JPEG and PNG files of any size, without labels",
             .conf_bytes = sizeof(struct sw_image_files_conf)},
    .state_bytes = sizeof(struct sw_picture_files),
    SW_FORMAT_CALLS(open_files, sw_picture_files_close, sw_picture_files_label),
    .fetch_picture = sw_picture_files_fetch,
    .locate = sw_picture_files_locate,
};
