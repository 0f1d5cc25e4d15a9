/* Matrices of .mat files, level 5 (data/mat.h): selected variables become the fields of records. In
 * a 2-d matrix each row is a record; in a matrix of more dimensions the last one counts the records
 * (height x width x channels x records, as in SVHN). The field `label` becomes a class, counted
 * from first_label, or the last word of a line of a text; uint8 matrices with more than two
 * dimensions become images of bytes, all others 32-bit floats. Everything is read, checked and
 * reordered by records at opening. */
#include "data/mat.h"
#include "base/os.h"
#include "data/blob.h"
#include "data/format.h"
#include "data/format_opts.h"
#include "data/lines.h"
#include "data/shape.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum records_in { RECORDS_AUTO, RECORDS_FIRST, RECORDS_LAST };

struct mat_conf {
    struct sw_strings paths, fields, classes, labels;
    int records; /* enum records_in */
    int64_t first_label;
    const char *shape;
};

struct mat_field {
    char *name;           /* owned */
    const char *variable; /* borrowed from the conf, during open; NULL: of the key labels */
    unsigned char *data;  /* owned; [count, ...] */
    size_t bytes;         /* bytes of one record */
};

struct mat_state {
    struct mat_field field[SW_MAX_FIELDS];
    int files; /* that were read */
};

/* How the values of a matrix are stored: element k of record i is value i * record_step + (the
 * offset of element k in the remaining dimensions). */
struct layout {
    int64_t records, record_step;
    int ndim; /* remaining dimensions, slowest first */
    int64_t dim[SW_MAT_MAX_DIMS], step[SW_MAT_MAX_DIMS];
};

/* ---- fields ---- */

static void list_variables(const struct sw_mat *m, struct sw_bytes *out)
{
    for (int i = 0; i < m->count && i < 20; i++) {
        const struct sw_mat_variable *v = &m->variable[i];
        sw_bytes_printf(out, "%s%s (%s", i ? ", " : "", v->name, v->class_name);
        for (int k = 0; k < v->ndim; k++)
            sw_bytes_printf(out, "%s%lld", k ? "x" : " ", (long long)v->dim[k]);
        sw_bytes_add(out, ")");
    }

    sw_bytes_add(out, m->count > 20 ? ", ..." : "");
}

static int no_fields(const struct sw_mat *m, struct sw_err *err)
{
    struct sw_bytes list = {0};

    list_variables(m, &list);

    int rc =
        sw_err_set(err, SW_ERR_INVALID,
                   "fields is not set; list the variables to use, for example fields = image:%s; "
                   "%s has %s",
                   m->count ? m->variable[0].name : "X", m->what, sw_bytes_text(&list));
    sw_bytes_fini(&list);

    return rc;
}

static int no_variable(const struct sw_mat *m, const char *name, struct sw_err *err)
{
    struct sw_bytes list = {0};

    list_variables(m, &list);

    int rc = sw_err_set(err, SW_ERR_NOTFOUND, "%s: no variable %s; the file has %s", m->what, name,
                        sw_bytes_text(&list));
    sw_bytes_fini(&list);

    return rc;
}

/* Adds the field of the key labels. */
static int add_labels(struct sw_records *r, struct sw_err *err)
{
    struct mat_state *s = r->state;

    for (int f = 0; f < r->field_count; f++) {
        if (!strcmp(s->field[f].name, "label"))
            return sw_err_set(err, SW_ERR_INVALID,
                              "labels and fields = label:%s are both set; remove one",
                              s->field[f].variable);
    }
    if (r->field_count == SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "fields: with the label more than %d fields",
                          SW_MAX_FIELDS);

    struct mat_field *field = &s->field[r->field_count];
    field->name = sw_strdup("label");
    field->bytes = sizeof(int32_t);
    if (!field->name)
        return sw_err_nomem(err, "the name of a field", 0);

    r->field[r->field_count++] = (struct sw_field){.name = field->name, .dtype = SW_I32};
    return SW_OK;
}

/* Splits the items "NAME:VARIABLE" of the key fields. */
static int mat_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct mat_conf *conf = args->conf;
    struct mat_state *s = r->state;

    if (conf->fields.count > SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "fields: %d items; the limit is %d",
                          conf->fields.count, SW_MAX_FIELDS);

    for (int f = 0; f < conf->fields.count; f++) {
        const char *text = conf->fields.items[f], *colon = strchr(text, ':');
        struct mat_field *field = &s->field[f];

        if (!colon || colon == text || !colon[1])
            return sw_err_set(err, SW_ERR_INVALID,
                              "fields: '%s', expected NAME:VARIABLE, such as image:I_tr", text);

        const int bytes = (int)(colon - text);
        field->name = sw_format("%.*s", bytes, text);
        if (!field->name)
            return sw_err_nomem(err, "the name of a field", (size_t)bytes);

        field->variable = colon + 1;
        for (int k = 0; k < f; k++) {
            if (!strcmp(field->name, s->field[k].name))
                return sw_err_set(err, SW_ERR_INVALID, "fields: duplicate field %s", field->name);
        }

        r->field_count = f + 1;
    }

    return conf->labels.count && conf->fields.count ? add_labels(r, err) : SW_OK;
}

/* ---- layout ---- */

static bool is_label(const struct mat_field *f)
{
    return !strcmp(f->name, "label");
}

static struct layout lay_out(const struct mat_conf *conf, const struct sw_mat_variable *v,
                             const struct mat_field *field)
{
    struct layout l = {.records = 0};
    const bool row_of_labels = is_label(field) && v->ndim == 2 && v->dim[0] == 1;
    const bool last = conf->records == RECORDS_LAST ||
                      (conf->records == RECORDS_AUTO && (v->ndim > 2 || row_of_labels));
    const int axis = last ? v->ndim - 1 : 0;
    int64_t step[SW_MAT_MAX_DIMS] = {0}, run = 1;

    for (int i = 0; i < v->ndim; i++) {
        step[i] = run;
        run *= v->dim[i];
    }

    l.records = v->dim[axis];
    l.record_step = step[axis];

    /* MATLAB stores images as height x width x channels; the field is channels, height, width. */
    const int left = v->ndim - 1;
    for (int i = 0; i < v->ndim; i++) {
        if (i == axis)
            continue;

        const int place = l.ndim++;
        const int to = left == 3 ? (place + 1) % 3 : place;
        l.dim[to] = v->dim[i];
        l.step[to] = step[i];
    }

    return l;
}

/* Sets the type and shape of the field: a number, a row of numbers, or an image. */
static int set_field(struct sw_records *r, int f, const struct mat_conf *conf,
                     const struct sw_mat_variable *v, const struct layout *l, struct sw_err *err)
{
    const struct mat_state *s = r->state;
    struct sw_field *to = &r->field[f];
    int64_t count = 1;

    for (int i = 0; i < l->ndim; i++)
        count *= l->dim[i];
    *to = (struct sw_field){.name = s->field[f].name, .dtype = SW_F32, .ndim = l->ndim};
    if (is_label(&s->field[f])) {
        to->dtype = SW_I32;
        to->ndim = 0;
        if (count != 1)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "variable %s: %lld values per record, expected one label", v->name,
                              (long long)count);

        return SW_OK;
    }

    if (l->ndim > SW_MAX_FIELD_DIMS)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "variable %s: records have %d dimensions; the limit is 4", v->name,
                          l->ndim);

    if (v->is_u8 && v->ndim > 2)
        to->dtype = SW_U8;
    memcpy(to->dim, l->dim, sizeof to->dim);
    if (strcmp(to->name, "image") != 0 || l->ndim == 3)
        return SW_OK;

    to->ndim = 3;
    memset(to->dim, 0, sizeof to->dim);
    if (l->ndim == 2 && !conf->shape) {
        to->dim[0] = 1;
        memcpy(to->dim + 1, l->dim, 2 * sizeof *l->dim);
        return SW_OK;
    }

    return sw_shape_read(conf->shape, count, to->dim, err);
}

/* ---- values ---- */

static int bad_value(const struct sw_mat_variable *v, int64_t record, double x, const char *wanted,
                     struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "variable %s: record %lld: %g, expected %s", v->name,
                      (long long)record, x, wanted);
}

static int put_label(struct sw_records *r, const struct mat_conf *conf,
                     const struct sw_mat_variable *v, int64_t record, double x, void *out,
                     struct sw_err *err)
{
    const double label = x - (double)conf->first_label;
    if (!(label >= 0 && label < INT32_MAX && floor(label) == label))
        return bad_value(v, record, x, "a class: an integer of at least first_label", err);

    const int32_t value = (int32_t)label;
    memcpy(out, &value, sizeof value);
    if (value >= r->classes)
        r->classes = (int64_t)value + 1;

    return SW_OK;
}

/* The offset of element k of a record, in row-major order, among the stored values. */
static int64_t offset_of(const struct layout *l, int64_t k)
{
    int64_t at = 0;

    for (int i = l->ndim - 1; i >= 0; i--) {
        at += k % l->dim[i] * l->step[i];
        k /= l->dim[i];
    }

    return at;
}

/* A matrix being read. */
struct matrix {
    const struct sw_mat_variable *variable; /* borrowed */
    struct layout layout;
    struct sw_mat_values values; /* owned */
};

/* Converts one record of the matrix to field f, at out. */
static int put_record(struct sw_records *r, int f, const struct mat_conf *conf,
                      const struct matrix *m, int64_t record, unsigned char *out,
                      struct sw_err *err)
{
    const struct sw_mat_variable *v = m->variable;
    const struct sw_mat_values *x = &m->values;
    const struct sw_field *field = &r->field[f];
    const int64_t count = sw_field_count(field), first = record * m->layout.record_step;

    if (field->dtype == SW_I32)
        return put_label(r, conf, v, record, sw_mat_value(x, first), out, err);

    for (int64_t k = 0; k < count; k++) {
        const double value = sw_mat_value(x, first + offset_of(&m->layout, k));

        if (field->dtype == SW_U8) {
            if (!(value >= 0 && value <= 255))
                return bad_value(v, record, value, "0 to 255", err);
            out[k] = (unsigned char)value;
            continue;
        }

        if (!(fabs(value) <= (double)FLT_MAX))
            return bad_value(v, record, value, "a finite number in the range of 32-bit floats",
                             err);

        const float rounded = (float)value;
        memcpy(out + (size_t)k * sizeof rounded, &rounded, sizeof rounded);
    }

    return SW_OK;
}

/* Appends all records of the matrix to the data of field f. */
static int append_values(struct sw_records *r, int f, const struct mat_conf *conf,
                         const struct matrix *m, struct sw_err *err)
{
    const int64_t records = m->layout.records;
    struct mat_field *field = &((struct mat_state *)r->state)->field[f];

    field->bytes = sw_field_bytes(&r->field[f]);

    unsigned char *grown =
        sw_realloc_array(field->data, (size_t)(r->count + records), field->bytes);
    if (!grown)
        return sw_err_nomem(err, "values of a .mat file",
                            (size_t)(r->count + records) * field->bytes);

    field->data = grown;

    for (int64_t i = 0; i < records; i++) {
        int rc =
            put_record(r, f, conf, m, i, field->data + (size_t)(r->count + i) * field->bytes, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static int read_field(struct sw_records *r, int f, const struct mat_conf *conf,
                      const struct sw_mat *m, int64_t *records, struct sw_err *err)
{
    const struct mat_field *field = &((struct mat_state *)r->state)->field[f];
    const struct sw_mat_variable *v = sw_mat_find(m, field->variable);
    const struct sw_field before = r->field[f];

    if (!v)
        return no_variable(m, field->variable, err);

    struct matrix matrix = {.variable = v, .layout = lay_out(conf, v, field)};
    const int64_t rows = matrix.layout.records;
    int rc = sw_mat_read(m, v, &matrix.values, err);
    if (rc)
        return rc;

    rc = set_field(r, f, conf, v, &matrix.layout, err);
    if (!rc && r->count > 0 && !sw_field_same(&before, &r->field[f]))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "variable %s: shape or type differs from that in the first file", v->name);

    if (!rc && (v->count == 0 || (f > 0 && rows != *records)))
        rc = sw_err_set(err, SW_ERR_FORMAT, "variable %s: %lld records, expected %s", v->name,
                        (long long)rows,
                        v->count == 0 ? "at least one" : "as many as in the first field");

    if (!rc)
        rc = append_values(r, f, conf, &matrix, err);
    *records = rows;
    sw_mat_values_fini(&matrix.values);

    return rc ? sw_err_prefix(err, rc, "%s", m->what) : SW_OK;
}

/* ---- labels in a text ---- */

struct label_lines {
    struct sw_records *records;
    int32_t *label; /* of the records of the file */
    int64_t first_label, count, read;
};

/* The class is the last word of a line. */
static int take_label_line(void *user, const char *path, int64_t number, char *text,
                           struct sw_err *err)
{
    struct label_lines *l = user;
    size_t length = strlen(text);
    int64_t value;

    if (l->read == l->count)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: more than %lld lines, the number of records in the .mat file", path,
                          (long long)l->count);

    while (length && strchr(" \t", text[length - 1]))
        text[--length] = '\0';
    while (length && !strchr(" \t", text[length - 1]))
        length--;

    if (!sw_parse_int(text + length, &value) || value < l->first_label ||
        value - l->first_label >= INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: the last word is '%.40s', expected the number of a class, at "
                          "least first_label (%lld)",
                          path, (long long)number, text + length, (long long)l->first_label);

    value -= l->first_label;
    l->label[l->read++] = (int32_t)value;
    if (value >= l->records->classes)
        l->records->classes = value + 1;
    return SW_OK;
}

/* Appends the labels of the records of the newest .mat file. */
static int read_labels(struct sw_records *r, const struct mat_conf *conf, int64_t records,
                       struct sw_err *err)
{
    struct mat_state *s = r->state;
    struct mat_field *field = &s->field[r->field_count - 1];
    struct label_lines l = {.records = r, .first_label = conf->first_label, .count = records};

    if (s->files >= conf->labels.count)
        return sw_err_set(err, SW_ERR_INVALID, "labels: %d files for more .mat files",
                          conf->labels.count);

    unsigned char *grown =
        sw_realloc_array(field->data, (size_t)(r->count + records), field->bytes);
    if (!grown)
        return sw_err_nomem(err, "labels", (size_t)(r->count + records) * field->bytes);

    const char *path = conf->labels.items[s->files++];
    field->data = grown;
    l.label = (int32_t *)(void *)grown + r->count;

    int rc = sw_lines_visit(path, (uint64_t)r->max_bytes, take_label_line, &l, err);
    if (!rc && l.read < records)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %lld lines, expected one for each of %lld records",
                        path, (long long)l.read, (long long)records);
    return rc;
}

/* ---- opening ---- */

static int mat_open_part(struct sw_records *r, void *part, const char *path,
                         const struct sw_format_args *args, struct sw_err *err)
{
    const struct mat_conf *conf = args->conf;
    struct sw_blob blob = {0};
    struct sw_mat m = {0};
    int64_t records = 0;

    int rc = sw_blob_open_whole(&blob, path, r->max_bytes, err);
    if (rc)
        return rc;

    rc = sw_mat_open(&m, path, blob.memory, blob.bytes, err);
    m.max_bytes = blob.max_bytes;
    if (!rc && r->field_count == 0)
        rc = no_fields(&m, err);
    for (int f = 0; !rc && f < conf->fields.count; f++)
        rc = read_field(r, f, conf, &m, &records, err);
    if (!rc && conf->labels.count)
        rc = read_labels(r, conf, records, err);
    if (!rc)
        r->count += records;
    sw_mat_close(&m);
    sw_blob_close(&blob);

    return rc;
}

static void mat_close(struct sw_records *r)
{
    struct mat_state *s = r->state;

    for (int f = 0; f < SW_MAX_FIELDS; f++) {
        sw_free(s->field[f].name);
        sw_free(s->field[f].data);
    }
}

static int mat_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct mat_field *field = &((const struct mat_state *)r->state)->field[f];
    *out = field->data + (size_t)record * field->bytes;
    return SW_OK;
}

#define OPT(kind, member, ...) SW_OPT(kind, struct mat_conf, member, __VA_ARGS__)

static const char *const records_in[] = {"auto", "first", "last", NULL};

static const struct sw_opt mat_opts[] = {
    SW_FORMAT_PATHS(struct mat_conf, ".mat files of level 5, plain or .gz"),
    OPT(STRINGS, fields, "variables to use as fields, a list of NAME:VARIABLE such as image:I_tr"),
    OPT(ENUM, records,
        "dimension that counts records; auto: the first of two (the second for a row of labels), "
        "the last of more",
        .def = "auto", .choices = records_in),
    OPT(INT, first_label, "the label of class 0 in the file; often 1 in MATLAB programs",
        .def = "0", .min = -1e9, .max = 1e9),
    OPT(PATHS, labels,
        "texts, one for each of `paths`, with a line for each record whose last word is the label"),
    SW_FORMAT_CLASS_LIST(struct mat_conf),
    SW_FORMAT_SHAPE(struct mat_conf, "one channel per value up to 64, else one row"),
    {0},
};

const struct sw_format sw_format_mat = {
    .base = SW_TYPE("mat", "matrices in MATLAB .mat files (level 5): features, images, labels",
                    struct mat_conf, mat_opts),
    .state_bytes = sizeof(struct mat_state),
    SW_FORMAT_PARTS(struct sw_part, mat_open_part, NULL),
    SW_FORMAT_CALLS(mat_open, mat_close, mat_fetch),
};
