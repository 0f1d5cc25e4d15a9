/* NUS-WIDE (Chua et al., CIVR 2009): 269 648 images of Flickr with tags and 81 concepts, as it is
 * published: `paths` is the folder into which its archives were unpacked. Train stands for Test,
 * too:
 *
 *     ImageList/TrainImagelist.txt                       a path for each image, with backslashes
 *     NUS_WID_Tags/Train_Tags1k.dat                      0 or 1 for each of 1000 tags, by image
 *     NUS_WID_Tags/TagList1k.txt                         the tags, if it exists only counted
 *     ConceptsList/Concepts81.txt                        the concepts, in the order of classes
 *     Groundtruth/TrainTestLabels/Labels_sky_Train.txt   0 or 1 for each image
 *     NUS_WID_Low_Level_Features/Low_Level_Features/     features of each image:
 *         Train_Normalized_CH.dat, BoW_Train_int.dat     numbers, by image
 *
 * Fields: image (the features side by side, or with `images` the images themselves), tags (int32
 * numbers of the tags of an image, from 0 in the order of columns, padded with -1), text (the row
 * of 0 and 1), label (a row with 1 for each concept of the image). The files are read at opening,
 * and every value and all sizes are checked against the list of images. */
#include "base/os.h"
#include "data/bags.h"
#include "data/classes.h"
#include "data/files.h"
#include "data/lines.h"
#include "data/number_rows.h"
#include "data/picture_files.h"
#include "data/shape.h"
#include <errno.h>
#include <string.h>

enum kind { FEATURES, IMAGE, TAGS, TEXT, LABEL };
enum { SPLIT_AUTO, SPLIT_TRAIN, SPLIT_TEST };
enum { KEEP_ALL, KEEP_PAIRS, KEEP_SINGLE };
enum { FEATURE_SETS = 6, FIRST_ROWS = 1024 };

static const char *const splits[] = {"auto", "train", "test", NULL};
static const char *const keeps[] = {"all", "pairs", "single", NULL};

/* Folders of an archive: the first that has the file counts. A missing file is reported for the
 * last, the usual one. */
static const char *const lists[] = {"ImageList", NULL};
static const char *const tags_folder[] = {"NUS_WID_Tags", NULL};
static const char *const concepts[] = {".", "ConceptsList", NULL};
static const char *const truth[] = {"Groundtruth/TrainTestLabels", NULL};
static const char *const low_level[] = {"Low_Level_Features",
                                        "NUS_WID_Low_Level_Features/Low_Level_Features", NULL};

struct nus_conf {
    struct sw_strings paths, features;
    const char *images;
    int split, keep;
    bool vectors;
    int64_t max_tags;
};

/* Features of one kind. */
struct feature_set {
    float *value; /* owned; [images, columns] */
    int64_t columns, capacity;
};

struct nus_state {
    struct sw_picture_files files; /* first member; all images of the list */
    struct feature_set set[FEATURE_SETS];
    int sets;
    struct sw_bags tags;
    int64_t words;          /* columns of tags */
    unsigned char *label;   /* owned; [classes, images] */
    int64_t classes;        /* columns of label read so far */
    int64_t *kept, records; /* owned; the images that are records */
    enum kind kind[SW_MAX_FIELDS];
};

/* What opening needs besides the state. */
struct opening {
    struct sw_records *r;
    struct nus_state *s;
    const struct nus_conf *conf;
    const char *root, *split; /* split: "Train" or "Test" */
    char *list;               /* owned: the file with the list of images */
    int64_t empty_line;       /* the first empty line of the list so far; 0: none */
    struct sw_err *err;
};

/* ---- Files ---- */

/* Sets *found to whether the file exists. */
static int look_up(const struct opening *o, const char *path, bool *found)
{
    struct stat st;

    *found = sw_os()->stat(path, &st) == 0;
    return *found || errno == ENOENT || errno == ENOTDIR
               ? SW_OK
               : sw_err_errno(o->err, errno, "cannot stat %s", path);
}

/* Sets *path to new memory: the file `name` in the first of the folders that has it, else in the
 * last. */
static int find(const struct opening *o, const char *const *folders, const char *name, char **path)
{
    bool found = false;
    int rc = SW_OK;

    *path = NULL;
    for (int i = 0; folders[i] && !rc && !found; i++) {
        sw_free(*path);
        *path = sw_format("%s/%s/%s", o->root, folders[i], name);
        rc = *path ? look_up(o, *path, &found) : sw_err_nomem(o->err, name, strlen(name));
    }

    return rc;
}

/* As find, for a name with the split, and reads a row for each image. */
static int read_rows(const struct opening *o, const char *const *folders, const char *before,
                     const char *after, struct sw_number_rows *rows)
{
    char *name = sw_format("%s%s%s", before, o->split, after), *path = NULL;
    int rc = name ? find(o, folders, name, &path) : sw_err_nomem(o->err, "the name of a file", 0);

    if (!rc) {
        rows->path = path;
        rows->max_bytes = o->r->max_bytes;
        rows->rows = o->s->files.count;
        rows->rows_of = o->list;
        rc = sw_number_rows_read(rows, o->err);
    }

    sw_free(name);
    sw_free(path);
    return rc;
}

/* ---- Images ---- */

static int take_image(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    struct opening *o = user;
    size_t n = strlen(text);

    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = '\0';
    for (char *at = text; (at = strchr(at, '\\')) != NULL;)
        *at = '/';

    if (!n && !o->empty_line)
        o->empty_line = number;
    if (!n) /* only at the end */
        return SW_OK;
    if (o->empty_line)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: is empty, expected the path of an image",
                          path, (long long)o->empty_line);

    int rc = sw_picture_files_add_below(&o->s->files, o->conf->images ? o->conf->images : "", text,
                                        0, err);
    return rc ? sw_err_prefix(err, rc, "%s:%lld", path, (long long)number) : SW_OK;
}

static int read_list(struct opening *o)
{
    char *name = sw_format("%sImagelist.txt", o->split);
    int rc = name ? find(o, lists, name, &o->list) : sw_err_nomem(o->err, "the name of a file", 0);

    if (!rc)
        rc = sw_lines_visit(o->list, o->r->max_bytes, take_image, o, o->err);
    if (!rc && o->s->files.count == 0)
        rc = sw_err_set(o->err, SW_ERR_FORMAT,
                        "%s: is empty, expected the path of an image in each line", o->list);
    sw_free(name);
    return rc;
}

static int take_features(void *user, int64_t row, const float *values, int64_t columns,
                         struct sw_err *err)
{
    struct feature_set *set = user;

    int rc = sw_grow(&set->value, (size_t)columns * sizeof *values, row, &set->capacity, FIRST_ROWS,
                     "features of images", err);
    if (rc)
        return rc;

    memcpy(set->value + row * columns, values, (size_t)columns * sizeof *values);
    set->columns = columns;
    return SW_OK;
}

static int read_features(const struct opening *o)
{
    const struct sw_strings *names = &o->conf->features;

    if (names->count < 1 || names->count > FEATURE_SETS)
        return sw_err_set(o->err, SW_ERR_INVALID, "features: %d names, expected 1 to %d",
                          names->count, FEATURE_SETS);

    for (int i = 0; i < names->count; i++) {
        const bool bow = strcmp(names->items[i], "BoW") == 0;
        char *after = sw_format("_Normalized_%s.dat", names->items[i]);
        struct sw_number_rows rows = {.visit = take_features, .user = &o->s->set[o->s->sets++]};

        int rc = after ? read_rows(o, low_level, bow ? "BoW_" : "", bow ? "_int.dat" : after, &rows)
                       : sw_err_nomem(o->err, "the name of a file", 0);
        sw_free(after);
        if (rc)
            return rc;
    }

    return SW_OK;
}

/* ---- Tags ---- */

static int take_tags(void *user, int64_t row, const float *values, int64_t columns,
                     struct sw_err *err)
{
    struct nus_state *s = user;
    int64_t n = 0;
    int32_t *id = sw_calloc((size_t)columns, sizeof *id);

    if (!id)
        return sw_err_nomem(err, "tags", (size_t)columns * sizeof *id);

    for (int64_t k = 0; k < columns; k++) {
        if (values[k] > 0)
            id[n++] = (int32_t)k;
    }

    s->words = columns;
    int rc = sw_bags_put(&s->tags, id, n, err);
    sw_free(id);
    return rc;
}

static int count_tag(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    *(int64_t *)user += *text != '\0';
    return SW_OK;
}

/* The list of tags must be as long as a row, if it is there. */
static int check_tags(const struct opening *o)
{
    char *path = NULL;
    int64_t count = 0;
    bool found = false;
    int rc = find(o, tags_folder, "TagList1k.txt", &path);

    if (!rc)
        rc = look_up(o, path, &found);

    if (found) {
        rc = sw_lines_visit(path, o->r->max_bytes, count_tag, &count, o->err);
        if (!rc && count != o->s->words)
            rc = sw_err_set(o->err, SW_ERR_FORMAT,
                            "%s: has %lld tags, but rows of %s_Tags1k.dat have %lld values", path,
                            (long long)count, o->split, (long long)o->s->words);
    }

    sw_free(path);
    return rc;
}

static int read_tags(const struct opening *o)
{
    struct sw_number_rows rows = {.bits = true, .visit = take_tags, .user = o->s};

    int rc = read_rows(o, tags_folder, "", "_Tags1k.dat", &rows);
    return rc ? rc : check_tags(o);
}

/* ---- Labels ---- */

static int take_label(void *user, int64_t row, const float *values, int64_t columns,
                      struct sw_err *err)
{
    unsigned char *of_concept = user;
    of_concept[row] = values[0] > 0;
    return SW_OK;
}

static int read_concept(const struct opening *o, const char *concept)
{
    struct nus_state *s = o->s;
    const size_t images = (size_t)s->files.count;
    struct sw_number_rows rows = {.bits = true, .columns = 1, .visit = take_label};

    if (strchr(concept, '/'))
        return sw_err_set(o->err, SW_ERR_FORMAT, "concept '%.60s': a name cannot contain '/'",
                          concept);

    unsigned char *grown = sw_realloc_array(s->label, (size_t)s->classes + 1, images);
    char *before = sw_format("Labels_%s_", concept);
    s->label = grown ? grown : s->label;
    rows.user = s->label ? s->label + (size_t)s->classes * images : NULL;

    int rc = grown && before ? read_rows(o, truth, before, ".txt", &rows)
                             : sw_err_nomem(o->err, "labels", images);
    s->classes += !rc;
    sw_free(before);
    return rc;
}

static int read_labels(const struct opening *o)
{
    struct sw_lexicon *names = &o->r->class_names;
    char *path = NULL;

    int rc = find(o, concepts, "Concepts81.txt", &path);
    if (!rc)
        rc = sw_classes_read(names, path, o->err);
    for (int32_t c = 0; !rc && c < names->count; c++)
        rc = read_concept(o, sw_lexicon_word(names, c, NULL));
    sw_free(path);
    if (rc)
        return rc;

    o->r->classes = o->s->classes;
    o->r->classes_fixed = true;
    o->r->naming = sw_lexicon_identity(names, NULL);
    return SW_OK;
}

/* ---- Records ---- */

static int64_t label_count(const struct nus_state *s, int64_t image)
{
    int64_t n = 0;
    for (int64_t c = 0; c < s->classes; c++)
        n += s->label[c * s->files.count + image];
    return n;
}

static bool is_kept(const struct nus_state *s, int keep, int64_t image)
{
    int64_t tags;

    if (keep == KEEP_ALL)
        return true;

    const int64_t labels = label_count(s, image);
    sw_bags_get(&s->tags, image, &tags);
    return tags > 0 && (keep == KEEP_SINGLE ? labels == 1 : labels > 0);
}

static int keep_records(const struct opening *o)
{
    struct nus_state *s = o->s;

    s->kept = sw_calloc((size_t)s->files.count, sizeof *s->kept);
    if (!s->kept)
        return sw_err_nomem(o->err, "the list of records",
                            (size_t)s->files.count * sizeof *s->kept);

    for (int64_t i = 0; i < s->files.count; i++) {
        if (is_kept(s, o->conf->keep, i))
            s->kept[s->records++] = i;
    }

    if (s->records == 0)
        return sw_err_set(o->err, SW_ERR_FORMAT, "%s: none of its %lld images has a tag and %s",
                          o->list, (long long)s->files.count,
                          o->conf->keep == KEEP_SINGLE ? "exactly one concept" : "a concept");
    o->r->count = s->records;
    return SW_OK;
}

static struct sw_field *add_field(const struct opening *o, enum kind kind, const char *name,
                                  enum sw_dtype dtype, int64_t values)
{
    const int f = o->r->field_count++;

    o->s->kind[f] = kind;
    o->r->field[f] = (struct sw_field){name, dtype, 1, {values}};
    return &o->r->field[f];
}

static int set_fields(const struct opening *o, const struct sw_format_args *args)
{
    struct nus_state *s = o->s;
    const int64_t most = sw_bags_most(&s->tags);
    int64_t values = 0;
    int rc = SW_OK;

    if (o->conf->images) {
        sw_picture_files_fields(&s->files, args, o->r);
        s->kind[0] = IMAGE;
        o->r->field_count = 1;
    } else {
        for (int i = 0; i < s->sets; i++)
            values += s->set[i].columns;
        struct sw_field *image = add_field(o, FEATURES, "image", SW_F32, values);
        image->ndim = 3;
        rc = sw_shape_read(NULL, values, image->dim, o->err);
    }

    add_field(o, TAGS, "tags", SW_I32, o->conf->max_tags ? o->conf->max_tags : most ? most : 1);
    if (o->conf->vectors)
        add_field(o, TEXT, "text", SW_F32, s->words);
    add_field(o, LABEL, "label", SW_F32, s->classes);
    return rc;
}

static int read_all(struct opening *o, const struct sw_format_args *args)
{
    int rc = read_list(o);
    if (rc)
        return rc;
    rc = o->conf->images ? SW_OK : read_features(o);
    if (rc)
        return rc;
    rc = read_tags(o);
    if (rc)
        return rc;
    rc = read_labels(o);
    if (rc)
        return rc;
    rc = set_fields(o, args);

    return rc ? rc : keep_records(o);
}

static int nus_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct nus_conf *conf = args->conf;
    const bool train = conf->split == SPLIT_TRAIN ||
                       (conf->split == SPLIT_AUTO && strcmp(args->split, "train") == 0);
    struct opening o = {.r = r,
                        .s = r->state,
                        .conf = conf,
                        .root = args->files->path[0],
                        .split = train ? "Train" : "Test",
                        .err = err};

    if (args->files->count != 1)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "paths: %d names, expected one folder that holds ImageList, NUS_WID_Tags, "
            "Groundtruth and ConceptsList",
            args->files->count);

    int rc = read_all(&o, args);
    sw_free(o.list);
    return rc;
}

static void nus_close(struct sw_records *r)
{
    struct nus_state *s = r->state;

    sw_picture_files_fini(&s->files);
    sw_bags_fini(&s->tags);
    for (int i = 0; i < s->sets; i++)
        sw_free(s->set[i].value);
    sw_free(s->label);
    sw_free(s->kept);
}

/* ---- Fetching ---- */

static void fill_features(const struct nus_state *s, int64_t image, float *out)
{
    for (int i = 0; i < s->sets; i++) {
        const struct feature_set *set = &s->set[i];
        memcpy(out, set->value + image * set->columns, (size_t)set->columns * sizeof *out);
        out += set->columns;
    }
}

static void fill_tags(const struct nus_state *s, int64_t image, int64_t room, int32_t *out)
{
    int64_t n;
    const int32_t *id = sw_bags_get(&s->tags, image, &n);
    for (int64_t k = 0; k < room; k++)
        out[k] = k < n ? id[k] : -1;
}

static void fill_text(const struct nus_state *s, int64_t image, float *out)
{
    int64_t n;
    const int32_t *id = sw_bags_get(&s->tags, image, &n);

    memset(out, 0, (size_t)s->words * sizeof *out);
    for (int64_t k = 0; k < n; k++)
        out[id[k]] = 1;
}

static void fill_label(const struct nus_state *s, int64_t image, float *out)
{
    for (int64_t c = 0; c < s->classes; c++)
        out[c] = s->label[c * s->files.count + image];
}

static int nus_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct nus_state *s = r->state;
    const int64_t image = s->kept[record];

    *out = scratch;
    switch (s->kind[f]) {
    case FEATURES:
        fill_features(s, image, scratch);
        break;
    case TAGS:
        fill_tags(s, image, r->field[f].dim[0], scratch);
        break;
    case TEXT:
        fill_text(s, image, scratch);
        break;
    case LABEL:
        fill_label(s, image, scratch);
        break;
    case IMAGE: /* fetch_picture */
        break;
    }

    return SW_OK;
}

static int nus_fetch_picture(const struct sw_records *r, int64_t record, struct sw_room *room,
                             struct sw_picture *out, struct sw_err *err)
{
    const struct nus_state *s = r->state;
    return sw_picture_files_fetch(r, s->kept[record], room, out, err);
}

static void nus_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    const struct nus_state *s = r->state;
    sw_picture_files_locate(r, s->kept[record], out);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct nus_conf, member, __VA_ARGS__)

static const struct sw_opt nus_opts[] = {
    OPT(PATHS, paths, "folder with the unpacked archives", .required = true),
    OPT(ENUM, split, "the published half to read; auto: train for [data train], else test",
        .def = "auto", .choices = splits),
    OPT(PATH, images,
        "folder that the paths in the list of images are relative to: images instead of features"),
    OPT(STRINGS, features,
        "features that make up the image, side by side: CH, CORR, EDH, WT, CM55, "
        "BoW",
        .def = "CH, CORR, EDH, WT, CM55"),
    OPT(ENUM, keep,
        "records: all images, pairs (those with a tag and a concept), or of these only the ones "
        "with a single concept",
        .def = "pairs", .choices = keeps),
    OPT(BOOL, vectors, "also the field text: a row with 1 for each tag of the image", .def = "yes"),
    OPT(INT, max_tags,
        "limit for the tags of a record; further tags are dropped; 0: the largest number",
        .def = "0", .min = 0, .max = 1e6),
    {0},
};

const struct sw_format sw_format_nus_wide = {
    .base =
        SW_TYPE("nus_wide", "images or image features, tags and concepts as in NUS-WIDE's files",
                struct nus_conf, nus_opts),
    .implied =
        {.records = 10000, .classes = 81, .channels = 3, .height = 32, .width = 32, .words = 1000},
    .state_bytes = sizeof(struct nus_state),
    SW_FORMAT_CALLS(nus_open, nus_close, nus_fetch),
    .fetch_picture = nus_fetch_picture,
    .locate = nus_locate,
};
