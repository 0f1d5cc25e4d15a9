/* Tables of numbers as text (RFC 4180, CSV, and variants with other separators): a row is a record.
 * One column may be its `label`, integers or words; some may be its `target`, the values of a
 * regression; all others, in order, form its `image`, in any shape, so that the image transforms
 * (mean, std, scale; crop and mirror for images in rows) apply. Everything is read and checked at
 * opening, and stored as 32-bit floats. */
#include "base/os.h"
#include "data/blob.h"
#include "data/classes.h"
#include "data/delimited.h"
#include "data/format.h"
#include "data/format_opts.h"
#include "data/lexicon.h"
#include "data/shape.h"
#include "data/spec.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FIRST_ROWS = 1024, IMAGE = 0, LABEL, TARGET, FIELDS };

struct csv_conf {
    struct sw_strings paths;
    int separator; /* index into separators */
    bool header;
    int64_t skip_lines;
    const char *label;
    struct sw_strings target, ignore, classes;
    const char *shape;
};

enum role { ROLE_FEATURE, ROLE_TARGET, ROLE_LABEL, ROLE_NONE };

struct column {
    char *name; /* owned; NULL without a header */
    enum role role;
    int place; /* index in the row of the table, for features and targets */
};

struct csv_state {
    struct column *column; /* owned */
    int columns, features, targets;
    bool has_label, classes_listed;
    bool trained;            /* a trained net reads the table: which columns, is settled */
    float *table;            /* owned; [count, features + targets] */
    int32_t *label;          /* owned; number of the word, later the class */
    int64_t capacity;        /* rows */
    struct sw_lexicon words; /* of labels */
    int kind[FIELDS];        /* IMAGE, LABEL or TARGET of each field */
};

static const char *const separators[] = {"comma", "semicolon", "tab", "bar", "blanks", NULL};
static const char separator_chars[] = {',', ';', '\t', '|', SW_SEPARATOR_BLANKS};

/* ---- columns ---- */

/* The separator that text, the only field of a row, seems to have; NULL: none. */
static const char *separator_in(const char *text)
{
    const char *const at = strpbrk(text, ";\t|");

    for (size_t i = 0; at && i < sizeof separator_chars; i++)
        if (*at == separator_chars[i])
            return separators[i];
    return NULL;
}

/* Writes the names of the first columns into out, of `bytes` bytes; returns out. */
static const char *list_columns(const struct csv_state *s, char *out, size_t bytes)
{
    enum { LISTED = 10 };

    size_t n = 0;
    for (int i = 0; i < s->columns && i < LISTED && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%.40s", i ? ", " : "", s->column[i].name);
    if (s->columns > LISTED && n < bytes)
        snprintf(out + n, bytes - n, ", and %d more", s->columns - LISTED);
    return out;
}

static int unknown_column(const struct csv_state *s, const char *key, const char *text,
                          struct sw_err *err)
{
    if (!s->column[0].name)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s = %s: expected a column number from 1 to %d, first or last (column "
                          "names require header = yes)",
                          key, text, s->columns);

    const char *near = NULL;
    for (int i = 0; !near && i < s->columns; i++) {
        const char *const name = s->column[i].name;
        near = sw_str_nearest(text, &name, 1);
    }

    if (near)
        return sw_err_set(err, SW_ERR_INVALID, "%s = %s: no such column; did you mean %s?", key,
                          text, near);

    char list[512];
    const char *const separator = s->columns == 1 ? separator_in(s->column[0].name) : NULL;
    list_columns(s, list, sizeof list);
    if (separator)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s = %s: no such column; the only column is '%s': set separator = %s",
                          key, text, list, separator);

    return sw_err_set(err, SW_ERR_INVALID, "%s = %s: no such column; the file has %s", key, text,
                      list);
}

/* Finds a column by name, by number from 1, or as first or last. */
static int find_column(const struct csv_state *s, const char *key, const char *text, int *out,
                       struct sw_err *err)
{
    int64_t number = 0;

    for (int i = 0; i < s->columns && s->column[i].name; i++) {
        if (!strcmp(s->column[i].name, text)) {
            *out = i;
            return SW_OK;
        }
    }

    if (!strcmp(text, "first"))
        number = 1;
    else if (!strcmp(text, "last"))
        number = s->columns;
    else if (!sw_parse_int(text, &number))
        return unknown_column(s, key, text, err);

    if (number < 1 || number > s->columns)
        return sw_err_set(err, SW_ERR_INVALID, "%s = %s: the table has only columns 1 to %d", key,
                          text, s->columns);

    *out = (int)number - 1;
    return SW_OK;
}

static int assign_role(struct csv_state *s, const char *key, const char *text, enum role role,
                       struct sw_err *err)
{
    int i = 0;

    int rc = find_column(s, key, text, &i, err);
    if (rc)
        return rc;
    if (s->column[i].role != ROLE_FEATURE)
        return sw_err_set(err, SW_ERR_INVALID, "%s = %s: column %d is already used by another key",
                          key, text, i + 1);

    s->column[i].role = role;
    return SW_OK;
}

/* Places the features in the order of the file. */
static int number_features(struct csv_state *s, struct sw_err *err)
{
    for (int i = 0; i < s->columns; i++) {
        if (s->column[i].role == ROLE_FEATURE)
            s->column[i].place = s->features++;
    }

    if (s->features == 0 && s->columns == 1 && s->column[0].name && separator_in(s->column[0].name))
        return sw_err_set(err, SW_ERR_INVALID, "the only column is '%.200s': set separator = %s",
                          s->column[0].name, separator_in(s->column[0].name));
    if (s->features == 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "no column is left for the image: all %d columns have another use",
                          s->columns);

    return SW_OK;
}

/* Finds the features of a trained net by their names, in its order. */
static int choose_by_name(struct csv_state *s, const struct sw_lexicon *names, const char *file,
                          struct sw_err *err)
{
    for (int i = 0; i < s->columns; i++) {
        struct column *c = &s->column[i];

        if (c->role != ROLE_FEATURE)
            continue;
        c->place = sw_lexicon_find(names, c->name, strlen(c->name));
        c->role = c->place < 0 ? ROLE_NONE : ROLE_FEATURE;
        s->features += c->role == ROLE_FEATURE;
    }

    for (int32_t k = 0; k < names->count; k++) {
        int found = 0;

        for (int i = 0; i < s->columns; i++)
            found += s->column[i].role == ROLE_FEATURE && s->column[i].place == k;
        if (found != 1)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: %d columns are named %s, expected one: the net reads it", file,
                              found, sw_lexicon_word(names, k, NULL));
    }

    return SW_OK;
}

/* Places the targets behind the features, in the order of the key. */
static int place_targets(struct csv_state *s, const struct csv_conf *conf, struct sw_err *err)
{
    for (int t = 0; t < conf->target.count; t++) {
        int i = 0;
        int rc = find_column(s, "target", conf->target.items[t], &i, err);
        if (rc)
            return rc;

        s->column[i].place = s->features + s->targets++;
    }

    return SW_OK;
}

/* A table for a trained net may lack columns that are ignored. */
static int ignore_column(struct csv_state *s, const char *text, struct sw_err *err)
{
    int64_t number;
    bool found = sw_parse_int(text, &number) || !s->column[0].name || !s->trained ||
                 !strcmp(text, "first") || !strcmp(text, "last");

    for (int i = 0; !found && i < s->columns; i++)
        found = !strcmp(s->column[i].name, text);

    return found ? assign_role(s, "ignore", text, ROLE_NONE, err) : SW_OK;
}

/* names: of the features of a trained net, or NULL; file is for messages. */
static int choose_columns(struct csv_state *s, const struct csv_conf *conf,
                          const struct sw_lexicon *names, const char *file, struct sw_err *err)
{
    /* With targets the default is no label. */
    const char *label = conf->label ? conf->label : conf->target.count ? "none" : "last";
    int rc = SW_OK;

    for (int i = 0; !rc && i < conf->ignore.count; i++)
        rc = ignore_column(s, conf->ignore.items[i], err);
    for (int i = 0; !rc && i < conf->target.count; i++)
        rc = assign_role(s, "target", conf->target.items[i], ROLE_TARGET, err);
    s->has_label = strcmp(label, "none") != 0;
    if (!rc && s->has_label)
        rc = assign_role(s, "label", label, ROLE_LABEL, err);

    if (!rc)
        rc = names ? choose_by_name(s, names, file, err) : number_features(s, err);

    return rc ? rc : place_targets(s, conf, err);
}

static const struct sw_lexicon *names_of_features(const struct csv_state *s,
                                                  const struct sw_data_spec *spec)
{
    return spec && spec->columns.count && s->column[0].name ? &spec->columns : NULL;
}

/* Chooses the features of rows to be predicted. By number, they are all columns if the net reads as
 * many; else the roles of the columns are those of the training data. */
static int choose_inputs(struct csv_state *s, const struct sw_format_args *args, const char *file,
                         struct sw_err *err)
{
    const struct sw_data_spec *spec = args->spec;
    const int64_t reads = spec ? spec->raw[0] * spec->raw[1] * spec->raw[2] : 0;
    const struct sw_lexicon *names = names_of_features(s, spec);

    if (names)
        return choose_by_name(s, names, file, err);

    int rc = reads == s->columns ? number_features(s, err)
                                 : choose_columns(s, args->conf, NULL, file, err);
    if (rc)
        return rc;

    for (int i = 0; i < s->columns; i++)
        if (s->column[i].role != ROLE_FEATURE)
            s->column[i].role = ROLE_NONE;
    s->has_label = false;
    s->targets = 0;

    if (reads && s->features != reads)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %d columns, of which %d are features; the net reads %lld features",
                          file, s->columns, s->features, (long long)reads);
    return SW_OK;
}

/* Creates the columns, and their names, from the first row of the first file. */
static int make_columns(struct csv_state *s, const struct sw_format_args *args,
                        const struct sw_delimited *row, struct sw_err *err)
{
    const struct csv_conf *conf = args->conf;

    s->column = sw_calloc((size_t)row->count, sizeof *s->column);
    if (!s->column)
        return sw_err_nomem(err, "the columns of a table", (size_t)row->count * sizeof *s->column);

    s->columns = row->count;
    for (int i = 0; conf->header && i < row->count; i++) {
        s->column[i].name = sw_strdup(row->field[i]);
        if (!s->column[i].name)
            return sw_err_nomem(err, "the name of a column", strlen(row->field[i]) + 1);
    }

    return args->unlabeled
               ? choose_inputs(s, args, row->what, err)
               : choose_columns(s, conf, names_of_features(s, args->spec), row->what, err);
}

static int check_names(const struct csv_state *s, const struct sw_delimited *row,
                       struct sw_err *err)
{
    for (int i = 0; i < s->columns && i < row->count; i++) {
        if (strcmp(s->column[i].name, row->field[i]) != 0)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: line %lld: column %d is named %.60s, expected %.60s as in the first "
                "file",
                row->what, (long long)row->line, i + 1, row->field[i], s->column[i].name);
    }

    return SW_OK;
}

/* ---- rows ---- */

static int grow_rows(struct sw_records *r, struct sw_err *err)
{
    struct csv_state *s = r->state;
    if (r->count < s->capacity)
        return SW_OK;

    const int64_t capacity = s->capacity ? 2 * s->capacity : FIRST_ROWS;
    const size_t width = (size_t)(s->features + s->targets) * sizeof(float);
    float *table = sw_realloc_array(s->table, (size_t)capacity, width);
    if (table)
        s->table = table;

    int32_t *label = table ? sw_realloc_array(s->label, (size_t)capacity, sizeof *label) : NULL;
    if (!label)
        return sw_err_nomem(err, "a table of numbers", (size_t)capacity * width);

    s->label = label;
    s->capacity = capacity;
    return SW_OK;
}

static char *trim(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = '\0';
    return text + strspn(text, " \t");
}

static int bad_value(const struct sw_records *r, const struct sw_delimited *row, int column,
                     const char *text, const char *expected, struct sw_err *err)
{
    const struct csv_state *s = r->state;
    const char *const name = s->column[column].name;

    return sw_err_set(err, SW_ERR_FORMAT,
                      "%s: line %lld, record %lld, column %d%s%.60s%s: '%.60s', %s", row->what,
                      (long long)row->line, (long long)r->count, column + 1, name ? " (" : "",
                      name ? name : "", name ? ")" : "", text, expected);
}

static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "nan", "na", "n/a", "null", "none", "?", "-"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i]))
            return true;
    return false;
}

static int bad_number(const struct sw_records *r, const struct sw_delimited *row, int column,
                      const char *text, struct sw_err *err)
{
    const struct csv_state *s = r->state;
    const char *const name = s->column[column].name;
    const char *const separator = s->columns == 1 ? separator_in(text) : NULL;
    char expected[320] = "expected a number in the range of 32-bit floats", ignore[128] = "";
    double value;
    size_t n = strlen(expected);

    if (s->column[column].role == ROLE_FEATURE && !s->trained && name)
        snprintf(ignore, sizeof ignore, ", or leave the column out with ignore = %.60s", name);
    else if (s->column[column].role == ROLE_FEATURE && !s->trained)
        snprintf(ignore, sizeof ignore, ", or leave the column out with ignore = %d", column + 1);

    if (separator)
        snprintf(expected + n, sizeof expected - n, ": set separator = %s", separator);
    else if (is_missing(text))
        snprintf(expected + n, sizeof expected - n,
                 "; missing values are not supported: fill them in, remove the row%s", ignore);
    else if (!name && !sw_parse_real(text, &value))
        snprintf(expected + n, sizeof expected - n,
                 ": if this is a header, set header = yes or skip_lines%s", ignore);
    else if (!sw_parse_real(text, &value))
        snprintf(expected + n, sizeof expected - n, ": write words as numbers%s", ignore);

    return bad_value(r, row, column, text, expected, err);
}

static int take_label(struct sw_records *r, const struct sw_delimited *row, int column,
                      const char *text, struct sw_err *err)
{
    struct csv_state *s = r->state;

    if (!*text)
        return bad_value(r, row, column, text, "expected a label", err);

    const int32_t known = sw_lexicon_find(&s->words, text, strlen(text));
    if (known < 0 && s->classes_listed)
        return bad_value(r, row, column, text, "expected one of the labels listed in classes", err);

    if (known < 0 && s->words.count == SW_MAX_CLASS_NUMBERS)
        return bad_value(
            r, row, column, text,
            "more than 65536 distinct labels; list columns of values to predict in the "
            "key target",
            err);

    return sw_lexicon_add(&s->words, text, strlen(text), 1, &s->label[r->count], err);
}

static int take_row(struct sw_records *r, const struct sw_delimited *row, struct sw_err *err)
{
    struct csv_state *s = r->state;
    if (row->count != s->columns)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: line %lld, record %lld: %d columns, expected %d as in the first row",
                          row->what, (long long)row->line, (long long)r->count, row->count,
                          s->columns);

    int rc = grow_rows(r, err);
    float *to = rc ? NULL : s->table + r->count * (s->features + s->targets);
    for (int i = 0; !rc && i < s->columns; i++) {
        const struct column *c = &s->column[i];
        const char *text = trim(row->field[i]);
        double value = 0;

        if (c->role == ROLE_NONE)
            continue;

        if (c->role == ROLE_LABEL)
            rc = take_label(r, row, i, text, err);
        else if (!sw_parse_real(text, &value) || fabs(value) > FLT_MAX)
            rc = bad_number(r, row, i, text, err);
        else
            to[c->place] = (float)value;
    }

    r->count += rc == SW_OK;
    return rc;
}

static int read_rows(struct sw_records *r, const struct sw_format_args *args,
                     struct sw_delimited *row, struct sw_err *err)
{
    const struct csv_conf *conf = args->conf;
    struct csv_state *s = r->state;
    int rc = sw_delimited_skip(row, conf->skip_lines, err);

    if (!rc)
        rc = sw_delimited_next(row, err);

    if (!rc && row->count && s->columns == 0)
        rc = make_columns(s, args, row, err);
    else if (!rc && row->count && conf->header)
        rc = check_names(s, row, err);

    if (!rc && row->count && conf->header)
        rc = sw_delimited_next(row, err);

    if (!rc && row->count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no records; expected one row per record",
                        row->what);

    while (!rc && row->count) {
        rc = take_row(r, row, err);
        if (!rc)
            rc = sw_delimited_next(row, err);
    }

    return rc;
}

static int csv_open_part(struct sw_records *r, void *part, const char *path,
                         const struct sw_format_args *args, struct sw_err *err)
{
    const struct csv_conf *conf = args->conf;
    struct sw_blob blob;
    struct sw_delimited row;

    int rc = sw_blob_open_whole(&blob, path, r->max_bytes, err);
    if (rc)
        return rc;

    sw_delimited_init(&row, blob.path, (char *)blob.memory, (size_t)blob.bytes,
                      separator_chars[conf->separator]);
    rc = read_rows(r, args, &row, err);
    sw_delimited_fini(&row);
    sw_blob_close(&blob);

    return rc;
}

/* ---- labels to classes ---- */

static int make_classes(struct sw_records *r, struct sw_err *err)
{
    struct csv_state *s = r->state;
    int32_t *class = NULL;
    int rc =
        sw_classes_number(&s->words, s->classes_listed ? SW_CLASSES_LISTED : SW_CLASSES_NUMBERED,
                          &class, &r->classes, &r->naming, err);

    if (!rc && r->naming)
        rc = sw_classes_name(&r->class_names, &s->words, class, err);
    for (int64_t i = 0; !rc && i < r->count; i++)
        s->label[i] = class[s->label[i]];
    sw_free(class);

    return rc;
}

/* Names the features, if the table has a header that names all of them, each differently. */
static int name_features(struct sw_records *r, struct sw_err *err)
{
    const struct csv_state *s = r->state;
    int rc = SW_OK;

    for (int k = 0; !rc && k < s->features; k++) {
        const struct column *c = s->column;
        int32_t id;

        while (c->role != ROLE_FEATURE || c->place != k)
            c++;
        if (!c->name || !*c->name)
            break;
        rc = sw_lexicon_add(&r->columns, c->name, strlen(c->name), 1, &id, err);
    }

    if (r->columns.count < s->features)
        sw_lexicon_fini(&r->columns);
    return rc;
}

/* ---- the format ---- */

static int csv_finish(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct csv_conf *conf = args->conf;
    struct csv_state *s = r->state;
    struct sw_field image = {.name = "image", .dtype = SW_F32, .ndim = 3};

    int rc = sw_shape_read(conf->shape, s->features, image.dim, err);
    if (rc)
        return rc;

    r->field[r->field_count++] = image;
    rc = name_features(r, err);
    if (rc)
        return rc;

    if (s->has_label) {
        s->kind[r->field_count] = LABEL;
        r->field[r->field_count++] = (struct sw_field){.name = "label", .dtype = SW_I32};
        rc = make_classes(r, err);
    }

    if (s->targets) {
        s->kind[r->field_count] = TARGET;
        r->field[r->field_count++] = (struct sw_field){"target", SW_F32, 1, {s->targets}};
    }

    return rc;
}

static int csv_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct csv_conf *conf = args->conf;
    struct csv_state *s = r->state;

    s->trained = args->spec != NULL;

    int rc = sw_classes_list(&s->words, &conf->classes, "classes", err);
    if (!rc && args->spec && !conf->classes.count)
        rc = sw_classes_of(&s->words, &args->spec->classes, err);
    s->classes_listed = s->words.count > 0;

    return rc;
}

static void csv_close(struct sw_records *r)
{
    struct csv_state *s = r->state;

    for (int i = 0; i < s->columns; i++)
        sw_free(s->column[i].name);
    sw_free(s->column);
    sw_free(s->table);
    sw_free(s->label);
    sw_lexicon_fini(&s->words);
}

static int csv_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct csv_state *s = r->state;
    const float *row = s->table + record * (s->features + s->targets);

    if (s->kind[f] == LABEL)
        *out = &s->label[record];
    else
        *out = s->kind[f] == TARGET ? row + s->features : row;

    return SW_OK;
}

#define OPT(kind, member, ...) SW_OPT(kind, struct csv_conf, member, __VA_ARGS__)

static const struct sw_opt csv_opts[] = {
    SW_FORMAT_PATHS(struct csv_conf, "tables, plain or .gz"),
    OPT(ENUM, separator, "separator of columns; blanks: any number of blanks and tabs",
        .def = "comma", .choices = separators),
    OPT(INT, skip_lines, "lines to skip at the top of each file", .def = "0", .min = 0, .max = 1e6),
    OPT(BOOL, header, "the first row (after skip_lines) contains the column names", .def = "no"),
    OPT(STRING, label,
        "column of the label: a name, a number from 1, first, last or none; unset: last, or none "
        "with target"),
    SW_FORMAT_CLASSES(struct csv_conf),
    OPT(STRINGS, target, "columns of values to predict: field target, f32"),
    OPT(STRINGS, ignore, "columns that are not read"),
    SW_FORMAT_SHAPE(struct csv_conf, "one channel per column up to 64 columns, else one row"),
    {0},
};

const struct sw_format sw_format_csv = {
    .base = SW_TYPE("csv", "tables of numbers as text, plain or .gz; a row is a record",
                    struct csv_conf, csv_opts),
    .state_bytes = sizeof(struct csv_state),
    SW_FORMAT_PARTS(struct sw_part, csv_open_part, NULL),
    .finish = csv_finish,
    SW_FORMAT_CALLS(csv_open, csv_close, csv_fetch),
};
