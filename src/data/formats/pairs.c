/* Two modalities of each record, for nets over images and texts: the image side (images in files,
 * or arrays of pixels or features), the text side (tags, or arrays of features), and the label (a
 * class, or a set of labels). Each side is .npy arrays, plain or .gz, or text with a line for each
 * record. A list of images may contain all of them in columns separated by tabs:
 *
 *     photos/1.jpg <tab> sky sea boat <tab> nature water
 *
 * Tags are numbered by frequency or by a vocabulary; tags outside of it are dropped. `tags` are
 * int32, as many for each record as the longest has, padded with -1. A label set is a row with one
 * value per class, 1 if the record has the label. Fields: image, and if given text, tags, label. */
#include "base/os.h"
#include "data/array.h"
#include "data/bags.h"
#include "data/classes.h"
#include "data/files.h"
#include "data/format_opts.h"
#include "data/lines.h"
#include "data/picture_files.h"
#include "data/vocabulary.h"
#include <string.h>

enum kind { ARRAY, IMAGE, TAGS, LABEL, LABEL_SET };
enum { LIST_PATH, LIST_TAGS, LIST_LABELS, LIST_COLUMNS };

struct pairs_conf {
    struct sw_strings paths, text, tags, labels, vocabulary_from, classes;
    const char *root, *vocabulary, *shape;
    bool label_sets;
    int64_t max_tags, max_tokens;
};

struct pairs_state {
    struct sw_picture_files files;          /* first member */
    struct sw_column column[SW_MAX_FIELDS]; /* for fields of kind ARRAY, by field */
    enum kind kind[SW_MAX_FIELDS];
    struct sw_bags tags, labels;
    struct sw_vocabulary vocabulary; /* of tags in words */
};

/* A file of lines being read. */
struct reading {
    struct pairs_state *s;
    const char *root;
    struct sw_bags *tags, *labels; /* destination of the columns of a list; NULL: ignored */
    int columns;                   /* columns of the first line */
};

/* ---- text ---- */

/* Whether the first file is a NumPy array; otherwise it is text. */
static int is_array(const struct sw_files *files, bool *answer, struct sw_err *err)
{
    struct sw_blob b;
    char head[6];

    int rc = sw_blob_open(&b, files->path[0], 0, err);
    if (rc)
        return rc;

    rc = sw_blob_head(&b, head, sizeof head, err);
    *answer = !rc && !memcmp(head, "\x93NUMPY", sizeof head);
    sw_blob_close(&b);

    return rc == SW_ERR_FORMAT ? SW_OK : rc; /* too short for an array */
}

static int visit_files(const struct sw_files *files, uint64_t max_bytes, sw_line_visit *visit,
                       void *user, struct sw_err *err)
{
    for (int i = 0; i < files->count; i++) {
        int rc = sw_lines_visit(files->path[i], max_bytes, visit, user, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static int take_bag(void *bags, const char *path, int64_t number, char *text, struct sw_err *err)
{
    int rc = sw_bags_add(bags, text, err);
    return rc ? sw_err_prefix(err, rc, "%s:%lld", path, (long long)number) : SW_OK;
}

/* Splits a line at its tabs, in place. */
static int cut_line(char *text, char *column[LIST_COLUMNS])
{
    int n = 0;

    for (char *at = text; at && n <= LIST_COLUMNS; n++) {
        if (n < LIST_COLUMNS)
            column[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }

    return n;
}

static int take_list_line(void *user, const char *path, int64_t number, char *text,
                          struct sw_err *err)
{
    struct reading *in = user;
    char *column[LIST_COLUMNS] = {NULL};
    const int columns = cut_line(text, column);

    if (number == 1 && !in->columns)
        in->columns = columns;
    if (columns != in->columns || columns > LIST_COLUMNS || !*column[LIST_PATH])
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: %d tab-separated columns, expected %d as in the first line: "
                          "path, tags, labels",
                          path, (long long)number, *text ? columns : 0,
                          in->columns > LIST_COLUMNS ? LIST_COLUMNS : in->columns);

    int rc = SW_OK;
    if (in->root)
        rc = sw_picture_files_add_below(&in->s->files, in->root, column[LIST_PATH], 0, err);
    if (!rc && in->tags && columns > LIST_TAGS)
        rc = sw_bags_add(in->tags, column[LIST_TAGS], err);
    if (!rc && in->labels && columns > LIST_LABELS)
        rc = sw_bags_add(in->labels, column[LIST_LABELS], err);

    return rc ? sw_err_prefix(err, rc, "%s:%lld", path, (long long)number) : SW_OK;
}

/* ---- the four sides ---- */

static int next_field(struct sw_records *r, enum kind kind, const char *name, enum sw_dtype dtype)
{
    struct pairs_state *s = r->state;
    const int f = r->field_count++;

    s->kind[f] = kind;
    r->field[f] = (struct sw_field){.name = name, .dtype = dtype};
    return f;
}

static int add_array(struct sw_records *r, const char *name, const struct sw_files *files,
                     const char *shape, struct sw_err *err)
{
    struct pairs_state *s = r->state;
    const int f = next_field(r, ARRAY, name, SW_F32);

    int rc = sw_column_open(&s->column[f], name, files, shape, r->max_bytes, err);
    if (rc)
        return rc;

    r->field[f] = s->column[f].field;
    return rc;
}

static int read_lists(struct sw_records *r, const struct pairs_conf *conf,
                      const struct sw_files *lists, struct sw_err *err)
{
    struct pairs_state *s = r->state;
    struct reading in = {.s = s,
                         .tags = conf->tags.count ? NULL : &s->tags,
                         .labels = conf->labels.count ? NULL : &s->labels};
    int rc = SW_OK;

    for (int i = 0; !rc && i < lists->count; i++) {
        char *root = conf->root ? sw_strdup(conf->root) : sw_folder_of(lists->path[i]);
        in.root = root;
        rc = root ? sw_lines_visit(lists->path[i], r->max_bytes, take_list_line, &in, err)
                  : sw_err_nomem(err, "the name of a folder", 0);
        sw_free(root);
    }

    if (!rc && s->files.count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: is empty; expected the path of an image in each line", lists->path[0]);

    return rc;
}

static int open_images(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct pairs_conf *conf = args->conf;
    struct pairs_state *s = r->state;
    bool array = false;

    int rc = is_array(args->files, &array, err);
    if (rc)
        return rc;

    if (array) {
        rc = add_array(r, "image", args->files, conf->shape, err);
        r->count = s->column[0].records;
        return rc;
    }

    rc = read_lists(r, conf, args->files, err);
    sw_picture_files_fields(&s->files, args, r);
    s->kind[0] = IMAGE;
    r->field_count = 1;

    return rc;
}

static int open_text(struct sw_records *r, const struct sw_strings *paths, struct sw_err *err)
{
    struct sw_files files = {0};

    int rc = sw_files_expand(&files, paths, "text", err);
    if (rc)
        goto out;

    rc = add_array(r, "text", &files, NULL, err);

out:
    sw_files_fini(&files);
    return rc;
}

/* Opens tags or labels from separate files: an array, or lines of words. */
static int open_side(struct sw_records *r, const char *name, const struct sw_strings *paths,
                     struct sw_bags *bags, struct sw_err *err)
{
    const char *key = bags == &((struct pairs_state *)r->state)->tags ? "tags" : "labels";
    struct sw_files files = {0};
    bool array = false;

    int rc = sw_files_expand(&files, paths, key, err);
    if (rc)
        goto out;
    rc = is_array(&files, &array, err);
    if (rc)
        goto out;
    rc = array ? add_array(r, name, &files, NULL, err)
               : visit_files(&files, r->max_bytes, take_bag, bags, err);
    if (rc)
        goto out;

    if (!array && bags->count != r->count)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has %lld lines, expected %lld, one per record",
                        files.path[0], (long long)bags->count, (long long)r->count);

out:
    sw_files_fini(&files);
    return rc;
}

/* ---- tags ---- */

static int read_vocabulary(struct sw_vocabulary *v, const char *path, uint64_t max_bytes,
                           struct sw_err *err)
{
    struct sw_blob b;

    int rc = sw_blob_open_whole(&b, path, max_bytes, err);
    if (rc)
        return rc;

    rc = sw_vocabulary_parse(v, b.path, (const char *)b.memory, (size_t)b.bytes, NULL, err);
    sw_blob_close(&b);
    return rc;
}

/* Counts the tags of the files in vocabulary_from, which have the same form as those of the
 * records. */
static int count_others(struct sw_records *r, const struct pairs_conf *conf, struct sw_bags *met,
                        struct sw_err *err)
{
    struct sw_files files = {0};
    struct reading in = {.s = r->state, .tags = met};

    int rc = sw_files_expand(&files, &conf->vocabulary_from, "vocabulary_from", err);
    if (rc)
        goto out;

    rc = conf->tags.count ? visit_files(&files, r->max_bytes, take_bag, met, err)
                          : visit_files(&files, r->max_bytes, take_list_line, &in, err);

out:
    sw_files_fini(&files);
    return rc;
}

static int make_vocabulary(struct sw_records *r, const struct pairs_conf *conf,
                           struct sw_vocabulary *v, struct sw_err *err)
{
    struct pairs_state *s = r->state;
    struct sw_bags others = {0};

    if (conf->vocabulary)
        return read_vocabulary(v, conf->vocabulary, r->max_bytes, err);

    int rc = conf->vocabulary_from.count ? count_others(r, conf, &others, err) : SW_OK;
    if (rc)
        goto out;

    rc = sw_vocabulary_make(v, conf->vocabulary_from.count ? &others.words : &s->tags.words, 1,
                            conf->max_tokens, NULL, err);

out:
    sw_bags_fini(&others);
    return rc;
}

static int number_tags(struct pairs_state *s, const struct sw_vocabulary *v, struct sw_err *err)
{
    const size_t words = (size_t)s->tags.words.count;
    int32_t *number = sw_calloc(words + 1, sizeof *number);
    if (!number)
        return sw_err_nomem(err, "the numbers of tags", words * sizeof *number);

    for (int32_t w = 0; w < s->tags.words.count; w++) {
        size_t n = 0;
        const char *word = sw_lexicon_word(&s->tags.words, w, &n);
        number[w] = sw_vocabulary_find(v, word, n);
    }

    sw_bags_number(&s->tags, number);
    sw_free(number);
    return SW_OK;
}

static int finish_tags(struct sw_records *r, const struct pairs_conf *conf, int64_t *tokens,
                       struct sw_err *err)
{
    struct pairs_state *s = r->state;
    struct sw_vocabulary *v = &s->vocabulary;

    *v = (struct sw_vocabulary){.unknown = -1, .line_end = -1};

    int rc = make_vocabulary(r, conf, v, err);
    if (rc)
        return rc;
    rc = number_tags(s, v, err);
    if (rc)
        return rc;

    const int f = next_field(r, TAGS, "tags", SW_I32);
    const int64_t most = sw_bags_most(&s->tags);
    r->field[f].ndim = 1;
    r->field[f].dim[0] = conf->max_tags ? conf->max_tags : most ? most : 1;
    r->naming = sw_vocabulary_identity(v);
    r->tags = v;
    *tokens = sw_vocabulary_count(v);
    return SW_OK;
}

/* ---- labels ---- */

static int check_single(const struct sw_records *r, struct sw_err *err)
{
    const struct pairs_state *s = r->state;

    for (int64_t i = 0; i < r->count; i++) {
        int64_t n = 0;

        sw_bags_get(&s->labels, i, &n);
        if (n != 1)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "record %lld: %lld labels, expected one; set label_sets = yes for sets of "
                "labels",
                (long long)i, (long long)n);
    }

    return SW_OK;
}

/* Words that the key does not list have larger ids than those it lists. */
static int check_listed(const struct sw_bags *b, int listed, struct sw_err *err)
{
    for (int64_t i = 0; listed && b->words.count > listed && i < b->count; i++) {
        int64_t n = 0;
        const int32_t *id = sw_bags_get(b, i, &n);

        for (int64_t k = 0; k < n; k++) {
            if (id[k] >= listed)
                return sw_err_set(err, SW_ERR_FORMAT,
                                  "record %lld: label '%.60s' is not listed in classes",
                                  (long long)i, sw_lexicon_word(&b->words, id[k], NULL));
        }
    }

    return SW_OK;
}

static int finish_labels(struct sw_records *r, const struct pairs_conf *conf, struct sw_err *err)
{
    struct pairs_state *s = r->state;
    int32_t *number = NULL;
    uint64_t naming = 0;
    int rc = check_listed(&s->labels, conf->classes.count, err);

    if (!rc)
        rc = sw_classes_number(&s->labels.words,
                               conf->classes.count ? SW_CLASSES_LISTED : SW_CLASSES_NUMBERED,
                               &number, &r->classes, &naming, err);

    if (!rc && naming)
        rc = sw_classes_name(&r->class_names, &s->labels.words, number, err);
    if (!rc)
        sw_bags_number(&s->labels, number);
    sw_free(number);
    if (!rc && !conf->label_sets)
        rc = check_single(r, err);
    if (!rc && r->classes == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "no record has a label");
    if (rc)
        return rc;

    const int f = next_field(r, conf->label_sets ? LABEL_SET : LABEL, "label",
                             conf->label_sets ? SW_F32 : SW_I32);
    r->field[f].ndim = conf->label_sets;
    r->field[f].dim[0] = conf->label_sets ? r->classes : 0;
    r->naming = r->naming * 31 + naming;

    return SW_OK;
}

/* ---- the format ---- */

static int check_rows(const struct sw_records *r, struct sw_err *err)
{
    const struct pairs_state *s = r->state;

    for (int f = 0; f < r->field_count; f++) {
        const struct sw_column *c = &s->column[f];
        if (s->kind[f] == ARRAY && c->records != r->count)
            return sw_err_set(
                err, SW_ERR_FORMAT, "%s: field %s has %lld records, expected %lld, one per image",
                c->array[0].what, r->field[f].name, (long long)c->records, (long long)r->count);

        if (s->kind[f] == ARRAY && !strcmp(r->field[f].name, "tags") &&
            (r->field[f].dtype != SW_I32 || r->field[f].ndim != 1))
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: expected a row of integers for each record, padded with -1",
                              c->array[0].what);
    }

    return SW_OK;
}

static int open_sides(struct sw_records *r, const struct sw_format_args *args, int64_t *tokens,
                      struct sw_err *err)
{
    const struct pairs_conf *conf = args->conf;
    struct pairs_state *s = r->state;
    int rc = sw_classes_list(&s->labels.words, &conf->classes, "classes", err);

    if (!rc)
        rc = open_images(r, args, err);
    if (!rc && conf->text.count)
        rc = open_text(r, &conf->text, err);
    if (!rc && conf->tags.count)
        rc = open_side(r, "tags", &conf->tags, &s->tags, err);
    if (!rc && s->tags.count)
        rc = finish_tags(r, conf, tokens, err);
    if (!rc && conf->labels.count)
        rc = open_side(r, "label", &conf->labels, &s->labels, err);

    if (!rc && s->labels.count) {
        rc = finish_labels(r, conf, err);
        rc = rc ? sw_err_prefix(err, rc, "%s",
                                conf->labels.count ? conf->labels.items[0] : args->files->path[0])
                : SW_OK;
    }

    for (int f = 0; !rc && f < r->field_count; f++)
        r->classes = s->column[f].classes ? s->column[f].classes : r->classes;
    return rc ? rc : check_rows(r, err);
}

static int pairs_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    int64_t tokens = 0;

    int rc = open_sides(r, args, &tokens, err);
    if (rc || !tokens)
        return rc;

    char *first = sw_files_text(args->files);
    r->files = args->files->count;
    r->where = first ? sw_format("%lld distinct tags, %s", (long long)tokens, first) : NULL;
    sw_free(first);

    return r->where ? SW_OK : sw_err_nomem(err, "the name of a data file", 0);
}

static void pairs_close(struct sw_records *r)
{
    struct pairs_state *s = r->state;

    for (int f = 0; f < SW_MAX_FIELDS; f++)
        sw_column_close(&s->column[f]);
    sw_picture_files_fini(&s->files);
    sw_bags_fini(&s->tags);
    sw_bags_fini(&s->labels);
    sw_vocabulary_fini(&s->vocabulary);
}

static void fill_tags(const struct sw_bags *b, int64_t record, int32_t *out, int64_t room)
{
    int64_t n = 0;
    const int32_t *id = sw_bags_get(b, record, &n);
    for (int64_t k = 0; k < room; k++)
        out[k] = k < n ? id[k] : -1;
}

static void fill_set(const struct sw_bags *b, int64_t record, float *out, int64_t classes)
{
    int64_t n = 0;
    const int32_t *id = sw_bags_get(b, record, &n);

    memset(out, 0, (size_t)classes * sizeof *out);
    for (int64_t k = 0; k < n; k++)
        out[id[k]] = 1;
}

static int pairs_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                       const void **out, struct sw_err *err)
{
    const struct pairs_state *s = r->state;
    int64_t n;

    *out = scratch;
    if (s->kind[f] == ARRAY)
        return sw_column_fetch(&s->column[f], record, scratch, out, err);

    if (s->kind[f] == TAGS)
        fill_tags(&s->tags, record, scratch, r->field[f].dim[0]);
    else if (s->kind[f] == LABEL_SET)
        fill_set(&s->labels, record, scratch, r->classes);
    else
        *out = sw_bags_get(&s->labels, record, &n);

    return SW_OK;
}

static void pairs_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    const struct pairs_state *s = r->state;

    if (s->kind[0] == IMAGE)
        sw_picture_files_locate(r, record, out);
    else
        sw_bytes_add(out, r->where);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct pairs_conf, member, __VA_ARGS__)

static const struct sw_opt pairs_opts[] = {
    OPT(PATHS, paths,
        "images: .npy arrays of pixels or features, or lists with a line for each record: path "
        "of the image, tags, labels, separated by tabs; names or patterns",
        .required = true),
    OPT(PATH, root, "folder that paths in lists are relative to; unset: the folder of the list"),
    SW_FORMAT_SHAPE(struct pairs_conf, "one channel per value up to 64, else one row"),
    OPT(PATHS, text, "texts as features: .npy arrays"),
    OPT(PATHS, tags,
        "tags: files with a line of words for each record, or .npy arrays of integers padded with "
        "-1; unset: those in the lists"),
    OPT(PATH, vocabulary,
        "file with one tag per line; unset: built from the tags, the most frequent first"),
    OPT(PATHS, vocabulary_from,
        "files in the form of tags to build the vocabulary from, the same in all sections"),
    SW_FORMAT_MAX_TOKENS(struct pairs_conf,
                         "limit for distinct tags, which keeps the most frequent; 0: all"),
    OPT(INT, max_tags,
        "limit for the tags of a record; further tags are dropped; 0: the largest number",
        .def = "0", .min = 0, .max = 1e6),
    OPT(PATHS, labels,
        "labels: files with a line of words for each record, or .npy arrays of classes or of one "
        "value per class; unset: those in the lists"),
    OPT(BOOL, label_sets, "labels in lines are sets: one value per class; no: one class per record",
        .def = "yes"),
    SW_FORMAT_CLASSES(struct pairs_conf),
    {0},
};

const struct sw_format sw_format_pairs = {
    .base = SW_TYPE("pairs", "images or image features with tags or text features and label sets",
                    struct pairs_conf, pairs_opts),
    .implied =
        {.records = 10000, .classes = 10, .channels = 3, .height = 32, .width = 32, .words = 100},
    .state_bytes = sizeof(struct pairs_state),
    SW_FORMAT_CALLS(pairs_open, pairs_close, pairs_fetch),
    .fetch_picture = sw_picture_files_fetch,
    .locate = pairs_locate,
};
