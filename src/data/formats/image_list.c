/* Images named in lists: text files, plain or .gz, with a line `path label` for each image, as in
 * Caffe. The label is the last word of the line, so paths may contain blanks. Paths are relative to
 * `root`, or to the folder of the list. A list is untrusted input: absolute paths and paths with
 * `..` are refused, so that it cannot reach outside the root. */
#include "base/os.h"
#include "data/files.h"
#include "data/format_opts.h"
#include "data/lines.h"
#include "data/picture_files.h"
#include <string.h>

enum { LABEL_MOST = (1 << 24) - 1 };
#define LIST_BYTES_MOST ((uint64_t)4 << 30)

struct list_conf {
    struct sw_strings paths;
    const char *root;
    int64_t classes;
};

/* A list being read. */
struct reading {
    struct sw_picture_files *files;
    const char *root;
    int64_t classes;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Splits "path label" in place; false if there are fewer than two words. */
static bool cut_line(char *line, char **label)
{
    size_t n = strlen(line);

    while (n && is_blank(line[n - 1]))
        line[--n] = 0;
    while (n && !is_blank(line[n - 1]))
        n--;
    *label = line + n;
    while (n && is_blank(line[n - 1]))
        line[--n] = 0;

    return n > 0;
}

/* Handles one line of a list. */
static int take_line(void *user, const char *path, int64_t number, char *line, struct sw_err *err)
{
    const struct reading *in = user;
    char *text;
    int64_t label;

    while (is_blank(*line))
        line++;
    if (!*line)
        return SW_OK;
    if (!cut_line(line, &text))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: expected a path and a label, found \"%.80s\"", path,
                          (long long)number, text);

    if (!sw_parse_int(text, &label) || label < 0 ||
        label > (in->classes ? in->classes - 1 : LABEL_MOST))
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: label \"%.40s\", expected 0 to %lld", path,
                          (long long)number, text,
                          (long long)(in->classes ? in->classes - 1 : LABEL_MOST));

    int rc = sw_picture_files_add_below(in->files, in->root, line, (int32_t)label, err);
    return rc ? sw_err_prefix(err, rc, "%s:%lld", path, (long long)number) : SW_OK;
}

static int read_lists(struct sw_records *r, const struct list_conf *conf,
                      const struct sw_files *lists, struct sw_err *err)
{
    struct sw_picture_files *images = r->state;
    int rc = SW_OK;

    for (int i = 0; !rc && i < lists->count; i++) {
        char *root = conf->root ? sw_strdup(conf->root) : sw_folder_of(lists->path[i]);
        struct reading in = {images, root, conf->classes};
        rc = root ? sw_lines_visit(lists->path[i], LIST_BYTES_MOST, take_line, &in, err)
                  : sw_err_nomem(err, "the name of a folder", 0);
        sw_free(root);
    }

    if (!rc && images->count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: is empty; expected lines `path label`",
                        lists->path[0]);

    return rc;
}

static int list_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct list_conf *conf = args->conf;
    const struct sw_picture_files *images = r->state;

    int rc = read_lists(r, conf, args->files, err);
    if (rc)
        return rc;

    sw_picture_files_fields(images, args, r);

    r->classes = conf->classes;
    r->classes_fixed = conf->classes > 0;
    for (int64_t i = 0; i < images->count; i++) {
        if (images->item[i].label >= r->classes)
            r->classes = images->item[i].label + 1;
    }

    return SW_OK;
}

static const struct sw_opt list_opts[] = {
    SW_FORMAT_PATHS(struct list_conf, "lists with lines `path label`, plain or .gz"),
    SW_OPT(PATH, struct list_conf, root,
           "folder that paths are relative to; unset: the folder of the list"),
    SW_OPT(INT, struct list_conf, classes,
           "number of classes, checked against the labels; 0: the largest label + 1", .def = "0",
           .min = 0, .max = LABEL_MOST),
    {0},
};

const struct sw_format sw_format_image_list = {
    .base = SW_TYPE("image_list",
                    "JPEG and PNG files of any size, named with their labels in text files",
                    struct list_conf, list_opts),
    .implied = {.records = 10000, .classes = 10, .channels = 3, .height = 64, .width = 64},
    .state_bytes = sizeof(struct sw_picture_files),
    SW_FORMAT_CALLS(list_open, sw_picture_files_close, sw_picture_files_label),
    .fetch_picture = sw_picture_files_fetch,
    .locate = sw_picture_files_locate,
};
