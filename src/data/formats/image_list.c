/* Pictures named by lists: text files, plain or .gz, with a line `path label` for each picture, as
 * Caffe has them. The label is the last word of the line, so that paths may have blanks. Paths are
 * relative to `root`, or to the folder of the list. A list is data from outside: one that names
 * absolute paths or goes up by `..` is refused, so that it cannot reach beyond the root. */
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

struct list_state {
    struct sw_picture_files files;
};

/* One list while it is read. */
struct reading {
    struct sw_picture_files *files;
    const char *root;
    int64_t classes;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts "path label" in two, in place; false where there are not two words. */
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

/* A line of in->list. */
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
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: expected a path and a label, met \"%.80s\"",
                          path, (long long)number, text);
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
    struct list_state *s = r->state;
    int rc = SW_OK;
    for (int i = 0; !rc && i < lists->count; i++) {
        char *root = conf->root ? sw_strdup(conf->root) : sw_folder_of(lists->path[i]);
        struct reading in = {&s->files, root, conf->classes};
        rc = root ? sw_lines_visit(lists->path[i], LIST_BYTES_MOST, take_line, &in, err)
                  : sw_err_nomem(err, "the name of a folder", 0);
        sw_free(root);
    }
    if (!rc && s->files.count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no line; expected lines `path label`",
                        lists->path[0]);
    return rc;
}

static int list_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct list_conf *conf = args->conf;
    struct list_state *s = r->state;
    struct sw_files lists = {0};
    int rc = sw_files_expand(&lists, &conf->paths, "paths", err);
    if (!rc)
        rc = read_lists(r, conf, &lists, err);
    if (!rc) {
        sw_picture_files_fields(&s->files, args, r);
        r->classes = conf->classes;
        for (int64_t i = 0; i < s->files.count; i++) {
            if (s->files.item[i].label >= r->classes)
                r->classes = s->files.item[i].label + 1;
        }
        r->where = sw_files_text(&lists);
        if (!r->where)
            rc = sw_err_nomem(err, "the name of a list", 0);
    }
    sw_files_fini(&lists);
    return rc;
}

static void list_close(struct sw_records *r)
{
    struct list_state *s = r->state;
    sw_picture_files_fini(&s->files);
}

static int list_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                      const void **out, struct sw_err *err)
{
    const struct list_state *s = r->state;
    (void)f; /* the label: the picture is fetched below */
    (void)err;
    *(int32_t *)scratch = s->files.item[record].label;
    *out = scratch;
    return SW_OK;
}

static int list_fetch_picture(const struct sw_records *r, int64_t record, struct sw_room *room,
                              struct sw_picture *out, struct sw_err *err)
{
    const struct list_state *s = r->state;
    return sw_picture_files_fetch(&s->files, record, room, out, err);
}

static void list_locate(const struct sw_records *r, int64_t record, struct sw_buf *out)
{
    const struct list_state *s = r->state;
    sw_picture_files_locate(&s->files, record, out);
}

static const struct sw_opt list_opts[] = {
    SW_FORMAT_PATHS(struct list_conf, "lists with lines `path label`, plain or .gz"),
    SW_OPT(STRING, struct list_conf, root,
           "folder that paths are relative to; else the folder of the list"),
    SW_OPT(INT, struct list_conf, classes,
           "number of classes, which labels are checked against; 0: the largest label and 1",
           .def = "0", .min = 0, .max = LABEL_MOST),
    {0},
};

const struct sw_format sw_format_image_list = {
    .base = SW_TYPE("image_list",
                    "JPEG and PNG files of any size, named with their labels in text files",
                    struct list_conf, list_opts),
    .implied = {.records = 10000, .classes = 10, .channels = 3, .height = 64, .width = 64},
    .state_bytes = sizeof(struct list_state),
    .open = list_open,
    .close = list_close,
    .fetch = list_fetch,
    .fetch_picture = list_fetch_picture,
    .locate = list_locate,
};
