/* Series of frames, such as motion capture: a record is a window of `order` past frames and the
 * frame that follows them. A file is a NumPy array, [frames, values] or several sequences
 * [sequences, frames, values], or a table as text, in which a row is a frame (any extension; .gz
 * too). Windows do not cross the end of a sequence or a file. Fields: past [order, values], last
 * (the last frame of past) and frame, the one to predict. Everything is read and checked at
 * opening, and stored as 32-bit floats. */
#include "base/os.h"
#include "data/blob.h"
#include "data/delimited.h"
#include "data/files.h"
#include "data/format.h"
#include "data/format_opts.h"
#include "tensor/npy.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { PAST, LAST, FRAME, FIELDS, FIRST_VALUES = 1 << 16, MAX_ORDER = 1 << 16 };

struct series_conf {
    struct sw_strings paths;
    int64_t order, skip_lines;
    int separator; /* index into separators */
};

/* A file: sequences of the same length, one after the other. */
struct part {
    struct sw_part base;
    int64_t first_frame, length; /* frames */
};

struct series_state {
    float *value;            /* owned; frames x width of all files */
    int64_t count, capacity; /* values */
    int64_t width, order;
};

static const char *const separators[] = {"comma", "semicolon", "tab", "bar", "blanks", NULL};
static const char separator_chars[] = {',', ';', '\t', '|', SW_SEPARATOR_BLANKS};

/* ---- Values ---- */

static char *trim(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = '\0';
    return text + strspn(text, " \t");
}

/* Makes room for n more values. */
static int reserve(struct series_state *s, int64_t n, struct sw_err *err)
{
    while (s->count + n > s->capacity) {
        int rc = sw_grow(&s->value, sizeof *s->value, s->capacity, &s->capacity, FIRST_VALUES,
                         "the frames of a series", err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

static int take_width(struct series_state *s, int64_t width, const char *file, struct sw_err *err)
{
    if (width < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: frames have no values", file);
    if (s->width && s->width != width)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: a frame has %lld values, in earlier files %lld",
                          file, (long long)width, (long long)s->width);
    if (width > INT32_MAX / (s->order + 1))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %lld values in a frame are too many", file,
                          (long long)width);

    s->width = width;
    return SW_OK;
}

/* Adds the sequences of an array; *length gets their frames. */
static int read_array(struct series_state *s, const struct sw_blob *blob, int64_t *sequences,
                      int64_t *length, struct sw_err *err)
{
    struct sw_npy_header h;
    const unsigned char *bytes = blob->memory;
    int64_t at = 0;

    int rc = sw_npy_parse(bytes, (size_t)blob->bytes, blob->path, &h, err);
    if (rc)
        return rc;
    if (h.ndim != 2 && h.ndim != 3)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: the array has %d dimensions, expected frames x values or sequences x "
            "frames x values",
            blob->path, h.ndim);
    if (h.count > ((uint64_t)blob->bytes - h.data_offset) / sw_npy_dtype_bytes(h.dtype))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the file is shorter than its header says",
                          blob->path);

    *sequences = h.ndim == 3 ? h.shape[0] : 1;
    *length = h.shape[h.ndim - 2];
    rc = take_width(s, h.shape[h.ndim - 1], blob->path, err);
    if (!rc)
        rc = reserve(s, (int64_t)h.count, err);
    if (rc)
        return rc;

    rc = sw_npy_convert(h.dtype, bytes + h.data_offset, (int64_t)h.count, SW_F32,
                        s->value + s->count, &at, err);
    if (rc)
        return sw_err_prefix(err, rc, "%s: value %lld", blob->path, (long long)at + 1);

    s->count += (int64_t)h.count;
    return SW_OK;
}

static int take_row(struct series_state *s, const struct sw_delimited *row, struct sw_err *err)
{
    int rc = s->width == row->count ? SW_OK : take_width(s, row->count, row->what, err);
    if (!rc)
        rc = reserve(s, s->width, err);

    for (int i = 0; !rc && i < row->count; i++) {
        const char *text = trim(row->field[i]);
        double value;

        if (!sw_parse_real(text, &value) || !(fabs(value) <= (double)FLT_MAX))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: line %lld, column %d: '%.40s' is no number",
                              row->what, (long long)row->line, i + 1, text);
        s->value[s->count++] = (float)value;
    }

    return rc;
}

static int read_table(struct series_state *s, const struct series_conf *conf,
                      const struct sw_blob *blob, int64_t *length, struct sw_err *err)
{
    struct sw_delimited row;

    sw_delimited_init(&row, blob->path, (char *)blob->memory, (size_t)blob->bytes,
                      separator_chars[conf->separator]);

    int rc = sw_delimited_skip(&row, conf->skip_lines, err);
    if (!rc)
        rc = sw_delimited_next(&row, err);
    while (!rc && row.count > 0) {
        rc = take_row(s, &row, err);
        ++*length;
        if (!rc)
            rc = sw_delimited_next(&row, err);
    }

    sw_delimited_fini(&row);
    return rc;
}

/* ---- The format ---- */

static int series_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct series_conf *conf = args->conf;
    struct series_state *s = r->state;

    s->order = conf->order;
    return SW_OK;
}

static int series_open_part(struct sw_records *r, void *part, const char *path,
                            const struct sw_format_args *args, struct sw_err *err)
{
    struct series_state *s = r->state;
    struct part *p = part;
    struct sw_blob blob;
    int64_t sequences = 1;

    int rc = sw_blob_open_whole(&blob, path, r->max_bytes, err);
    if (rc)
        return rc;

    p->first_frame = s->width ? s->count / s->width : 0;
    if (blob.bytes >= SW_NPY_MIN_BYTES && !memcmp(blob.memory, "\x93NUMPY", 6))
        rc = read_array(s, &blob, &sequences, &p->length, err);
    else
        rc = read_table(s, args->conf, &blob, &p->length, err);
    sw_blob_close(&blob);
    if (rc)
        return rc;

    if (sequences < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the array has no sequences", path);
    if (p->length <= s->order)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: a sequence has %lld frames; order = %lld requires at least %lld",
                          path, (long long)p->length, (long long)s->order, (long long)s->order + 1);

    p->base.count = sequences * (p->length - s->order);
    r->count += p->base.count;
    return SW_OK;
}

static int series_finish(struct sw_records *r, const struct sw_format_args *args,
                         struct sw_err *err)
{
    const struct series_state *s = r->state;

    r->field[PAST] = (struct sw_field){"past", SW_F32, 2, {s->order, s->width}};
    r->field[LAST] = (struct sw_field){"last", SW_F32, 1, {s->width}};
    r->field[FRAME] = (struct sw_field){"frame", SW_F32, 1, {s->width}};
    r->field_count = FIELDS;
    return SW_OK;
}

static void series_close(struct sw_records *r)
{
    const struct series_state *s = r->state;
    sw_free(s->value);
}

static int series_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                        const void **out, struct sw_err *err)
{
    const struct series_state *s = r->state;
    const struct part *p = sw_records_part(r, record);
    const int64_t windows = p->length - s->order, at = record - p->base.first;
    const int64_t frame = p->first_frame + at / windows * p->length + at % windows;

    *out = s->value + (frame + (f == PAST ? 0 : f == LAST ? s->order - 1 : s->order)) * s->width;
    return SW_OK;
}

#define OPT(kind, member, ...) SW_OPT(kind, struct series_conf, member, __VA_ARGS__)

static const struct sw_opt series_opts[] = {
    SW_FORMAT_PATHS(struct series_conf, "arrays (.npy) or tables, plain or .gz, one or more series "
                                        "each"),
    OPT(INT, order, "past frames of a record", .def = "3", .min = 1, .max = MAX_ORDER),
    OPT(ENUM, separator, "separator of columns in tables; blanks: any number of blanks and tabs",
        .def = "comma", .choices = separators),
    OPT(INT, skip_lines, "lines to skip at the top of each table", .def = "0", .min = 0,
        .max = 1e6),
    {0},
};

const struct sw_format sw_format_series = {
    .base = SW_TYPE("series", "series of frames: windows of past frames, and the next frame",
                    struct series_conf, series_opts),
    .implied = {.records = 10000, .width = 12, .frames = 100},
    .state_bytes = sizeof(struct series_state),
    SW_FORMAT_PARTS(struct part, series_open_part, NULL),
    .finish = series_finish,
    SW_FORMAT_CALLS(series_open, series_close, series_fetch),
};
