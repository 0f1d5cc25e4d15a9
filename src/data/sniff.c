/* Detects a format: a folder by its content, a file by its first bytes, else by the suffix of its
 * name. */
#include "data/sniff.h"
#include "base/os.h"
#include "data/blob.h"
#include <errno.h>
#include <string.h>

enum { HEAD_BYTES = 24 };

static const struct {
    size_t at;
    const char *bytes;
    size_t count;
    const char *format;
} magics[] = {
    {0, "\x89SWSHD\r\n", 8, "shard"},
    {0, "\x93NUMPY", 6, "npy"},
    {0, "MATLAB 5.0 MAT-file", 19, "mat"},
    {16, "\xde\xc0\xef\xbe", 4, "lmdb"}, /* behind the header of page 0 */
};

/* Characteristic suffixes; a .gz after them is ignored. */
static const struct {
    const char *end, *format;
} names[] = {
    {".npz", "npz"},
    {".csv", "csv"},
    {".tsv", "csv"},
    {".txt", "text"},
};

static bool has(const char *folder, const char *name)
{
    struct stat st;
    char *path = sw_format("%s/%s", folder, name);
    const bool found = path && sw_os()->stat(path, &st) == 0;

    sw_free(path);
    return found;
}

static const struct sw_format *of_folder(const char *path)
{
    return sw_format_find(has(path, "data.mdb")                      ? "lmdb"
                          : has(path, "Groundtruth/TrainTestLabels") ? "nus_wide"
                                                                     : "image_folder");
}

static const struct sw_format *of_name(const char *path)
{
    size_t n = strlen(path);

    n -= sw_str_ends(path, ".gz") ? 3 : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t end = strlen(names[i].end);
        if (n >= end && !strncmp(path + n - end, names[i].end, end))
            return sw_format_find(names[i].format);
    }

    return NULL;
}

static const struct sw_format *of_head(const unsigned char head[HEAD_BYTES])
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        if (!memcmp(head + magics[i].at, magics[i].bytes, magics[i].count))
            return sw_format_find(magics[i].format);
    }

    return NULL;
}

int sw_data_sniff(const char *path, const struct sw_format **out, struct sw_err *err)
{
    unsigned char head[HEAD_BYTES] = {0};
    struct sw_blob blob;
    struct sw_err short_one;
    struct stat st;

    *out = NULL;
    if (sw_os()->stat(path, &st))
        return sw_err_errno(err, errno, "%s", path);
    if (S_ISDIR(st.st_mode)) {
        *out = of_folder(path);
        return SW_OK;
    }

    int rc = sw_blob_open(&blob, path, 0, err);
    if (rc)
        return rc;

    /* Not an error: a shorter file, or a damaged .gz, is identified by its name. */
    rc = sw_blob_head(&blob, head, sizeof head, &short_one);
    if (rc == SW_OK)
        *out = of_head(head);
    sw_blob_close(&blob);
    if (!*out)
        *out = of_name(path);

    return SW_OK;
}
