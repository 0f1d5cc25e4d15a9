/* NumPy arrays as fields: reads a header, derives the type of the field from its name, converts
 * arrays of another type once at opening (some rows at a time), and joins several arrays into one
 * column. Reading order: one array, type conversion, shape and type of a field, columns. Frozen
 * after opening. */
#include "data/array.h"
#include "base/os.h"
#include "data/files.h"
#include "data/shape.h"
#include <string.h>

enum { CONVERT_BYTES = 1 << 20 };

/* ---- one array ---- */

static void close_array(struct sw_array *a)
{
    sw_blob_close(&a->blob);
    sw_free(a->memory);
    sw_free(a->what);
    *a = (struct sw_array){0};
}

static int check_header(struct sw_array *a, struct sw_err *err)
{
    a->rows = sw_npy_rows(&a->header);
    if (a->header.ndim == 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the array is a scalar; expected an array with one row per record",
                          a->what);
    if (a->header.count == 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the array is empty; expected at least one row",
                          a->what);

    return SW_OK;
}

static size_t raw_row_bytes(const struct sw_array *a)
{
    return (size_t)sw_npy_row_elements(&a->header) * sw_npy_dtype_bytes(a->header.dtype);
}

static int read_header(struct sw_array *a, struct sw_err *err)
{
    unsigned char first[SW_NPY_MIN_BYTES];
    size_t bytes = 0;

    int rc = sw_blob_head(&a->blob, first, sizeof first, err);
    if (rc)
        return rc;
    rc = sw_npy_header_bytes(first, a->what, &bytes, err);
    if (rc)
        return rc;

    unsigned char *head = sw_os()->alloc(bytes);
    if (!head)
        return sw_err_nomem(err, "the header of an array", bytes);

    rc = sw_blob_head(&a->blob, head, bytes, err);
    if (!rc)
        rc = sw_npy_parse(head, bytes, a->what, &a->header, err);
    sw_free(head);

    return rc ? rc : check_header(a, err);
}

static int open_file(struct sw_array *a, const char *path, uint64_t max_bytes, struct sw_err *err)
{
    *a = (struct sw_array){.what = sw_strdup(path)};

    int rc = a->what ? sw_blob_open(&a->blob, path, max_bytes, err)
                     : sw_err_nomem(err, "the name of a data file", strlen(path) + 1);
    if (rc)
        goto out;
    rc = read_header(a, err);
    if (rc)
        goto out;
    rc = sw_blob_check_size(&a->blob, a->header.data_offset, raw_row_bytes(a), (uint64_t)a->rows,
                            err);
    if (rc)
        goto out;

    if (a->blob.memory)
        a->values = a->blob.memory + a->header.data_offset;

out:
    if (rc)
        close_array(a);
    return rc;
}

static int open_member(struct sw_array *a, const struct sw_zip *zip, const char *member,
                       struct sw_err *err)
{
    char *file = sw_format("%s.npy", member);

    *a = (struct sw_array){.what = sw_format("%s: %s", zip->file.path, member)};

    int rc = file && a->what ? SW_OK : sw_err_nomem(err, "the name of an array", strlen(member));
    const struct sw_zip_member *m = rc ? NULL : sw_zip_find(zip, file);
    sw_free(file);
    if (!rc && !m)
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "%s: no such array in the archive", a->what);
    if (!rc)
        rc = sw_zip_load(zip, m, &a->memory, err);
    if (!rc)
        rc = sw_npy_parse(a->memory, (size_t)m->bytes, a->what, &a->header, err);
    if (!rc)
        rc = check_header(a, err);

    if (!rc) {
        const uint64_t want =
            a->header.data_offset + a->header.count * sw_npy_dtype_bytes(a->header.dtype);

        if (m->bytes != want)
            rc = sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: has %llu bytes, but its header requires %llu (%llu values of type %s)",
                a->what, (unsigned long long)m->bytes, (unsigned long long)want,
                (unsigned long long)a->header.count, sw_npy_dtype_name(a->header.dtype));

        a->values = a->memory + a->header.data_offset;
    }

    if (rc)
        close_array(a);
    return rc;
}

/* ---- type conversion ---- */

static bool same_bits(enum sw_npy_dtype from, enum sw_dtype to)
{
    return (to == SW_F32 && from == SW_NPY_F4) || (to == SW_I32 && from == SW_NPY_I4) ||
           (to == SW_U8 && from == SW_NPY_U1);
}

/* Converts rows [0, rows) of the array, some at a time, into `out`. */
static int convert_rows(const struct sw_array *a, enum sw_dtype to, unsigned char *out,
                        unsigned char *scratch, int64_t step, struct sw_err *err)
{
    const int64_t per_row = sw_npy_row_elements(&a->header);
    const size_t raw_bytes = raw_row_bytes(a), row_bytes = (size_t)per_row * sw_dtype_bytes(to);

    for (int64_t first = 0; first < a->rows; first += step) {
        const int64_t n = a->rows - first < step ? a->rows - first : step;
        const void *raw = a->values ? a->values + (size_t)first * raw_bytes : NULL;
        int64_t at = 0;
        int rc = raw ? SW_OK
                     : sw_blob_view(&a->blob, a->header.data_offset + (uint64_t)first * raw_bytes,
                                    (size_t)n * raw_bytes, scratch, &raw, err);
        if (rc)
            return rc;
        rc = sw_npy_convert(a->header.dtype, raw, n * per_row, to, out + (size_t)first * row_bytes,
                            &at, err);
        if (rc)
            return sw_err_prefix(err, rc, "%s: record %lld", a->what,
                                 (long long)(first + at / per_row));
    }

    return SW_OK;
}

/* Converts all values to `to`, in memory. */
static int convert(struct sw_array *a, enum sw_dtype to, struct sw_err *err)
{
    const size_t raw_bytes = raw_row_bytes(a);
    const int64_t most = (int64_t)(CONVERT_BYTES / raw_bytes), step = most < 1 ? 1 : most;
    size_t bytes = 0;
    unsigned char *out = NULL, *scratch = NULL;
    int rc = SW_OK;

    if (!__builtin_mul_overflow(a->header.count, sw_dtype_bytes(to), &bytes))
        out = sw_os()->alloc(bytes);
    if (!a->values)
        scratch = sw_os()->alloc((size_t)step * raw_bytes);
    if (!out || (!a->values && !scratch))
        rc = sw_err_nomem(err, a->what, bytes);
    if (!rc)
        rc = convert_rows(a, to, out, scratch, step, err);
    sw_free(scratch);
    if (rc) {
        sw_free(out);
        return rc;
    }

    sw_blob_close(&a->blob);
    sw_free(a->memory);
    a->memory = out;
    a->values = out;

    return SW_OK;
}

/* ---- shape and type of a field ---- */

static enum sw_dtype field_type(const char *name, const struct sw_npy_header *h)
{
    const bool real = h->dtype == SW_NPY_F4 || h->dtype == SW_NPY_F8;

    if (!strcmp(name, "image"))
        return h->dtype == SW_NPY_U1 || h->dtype == SW_NPY_B1 ? SW_U8 : SW_F32;
    if (!strcmp(name, "label"))
        return sw_npy_row_elements(h) == 1 ? SW_I32 : SW_F32;

    return real || h->dtype == SW_NPY_B1 ? SW_F32 : SW_I32;
}

static int image_shape(const struct sw_array *a, const char *shape, struct sw_field *f,
                       struct sw_err *err)
{
    const int64_t *dim = a->header.shape + 1;
    const int ndim = a->header.ndim - 1;

    f->ndim = 3;
    if ((shape && *shape) || ndim < 2)
        return sw_shape_read(shape, sw_npy_row_elements(&a->header), f->dim, err);

    if (ndim > 3)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: rows have %d dimensions; an image has height x width or "
                          "channels x height x width",
                          a->what, ndim);

    f->dim[0] = ndim == 3 ? dim[0] : 1;
    f->dim[1] = dim[ndim - 2];
    f->dim[2] = dim[ndim - 1];

    return SW_OK;
}

static int make_field(const struct sw_array *a, const char *name, const char *shape,
                      struct sw_field *f, struct sw_err *err)
{
    const struct sw_npy_header *h = &a->header;

    *f = (struct sw_field){.name = name, .dtype = field_type(name, h)};
    if (raw_row_bytes(a) > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: a row has %zu bytes; the limit is 2 GiB",
                          a->what, raw_row_bytes(a));
    if (!strcmp(name, "image"))
        return image_shape(a, shape, f, err);
    if (!strcmp(name, "label") && f->dtype == SW_I32)
        return SW_OK;
    if (h->ndim - 1 > SW_MAX_FIELD_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: rows have %d dimensions; the limit is %d",
                          a->what, h->ndim - 1, SW_MAX_FIELD_DIMS);

    f->ndim = h->ndim - 1;
    memcpy(f->dim, h->shape + 1, (size_t)f->ndim * sizeof *f->dim);
    return SW_OK;
}

/* ---- columns ---- */

/* All labels are checked at opening, so that a bad one cannot stop a run later. */
static int count_classes(struct sw_column *c, const struct sw_array *a, struct sw_err *err)
{
    for (int64_t i = 0; i < a->rows; i++) {
        int32_t label;

        memcpy(&label, a->values + (size_t)i * sizeof label, sizeof label);
        if (label < 0 || label == INT32_MAX)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: record %lld: label %d is negative or too large; expected 0 to 2147483646",
                a->what, (long long)i, label);

        c->classes = label >= c->classes ? label + 1 : c->classes;
    }

    return SW_OK;
}

/* Appends an opened array to the column, which owns it afterwards. */
static int add_array(struct sw_column *c, const char *name, const char *shape, struct sw_array *a,
                     struct sw_err *err)
{
    struct sw_field field;
    int rc = make_field(a, name, shape, &field, err);

    if (!rc && c->count == 0)
        c->field = field;

    if (!rc && !sw_field_same(&field, &c->field))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: the shape or type of its rows differs from that of %s", a->what,
                        c->array[0].what);

    const bool is_class = !strcmp(name, "label") && field.dtype == SW_I32;
    if (!rc && (is_class || !same_bits(a->header.dtype, field.dtype)))
        rc = convert(a, field.dtype, err);
    if (!rc && is_class)
        rc = count_classes(c, a, err);
    if (rc) {
        close_array(a);
        return rc;
    }

    c->array[c->count++] = *a;
    c->records += a->rows;
    return SW_OK;
}

static int begin_column(struct sw_column *c, int count, struct sw_err *err)
{
    *c = (struct sw_column){.array = sw_calloc((size_t)count, sizeof *c->array)};
    return c->array ? SW_OK
                    : sw_err_nomem(err, "a list of arrays", (size_t)count * sizeof *c->array);
}

int sw_column_open(struct sw_column *c, const char *name, const struct sw_files *files,
                   const char *shape, uint64_t max_bytes, struct sw_err *err)
{
    int rc = begin_column(c, files->count, err);

    for (int i = 0; !rc && i < files->count; i++) {
        struct sw_array a;
        rc = open_file(&a, files->path[i], max_bytes, err);
        if (!rc)
            rc = add_array(c, name, shape, &a, err);
    }

    if (rc)
        sw_column_close(c);
    return rc;
}

int sw_column_open_members(struct sw_column *c, const char *name, const struct sw_zip *zip,
                           int zip_count, const char *member, const char *shape, struct sw_err *err)
{
    int rc = begin_column(c, zip_count, err);

    for (int i = 0; !rc && i < zip_count; i++) {
        struct sw_array a;
        rc = open_member(&a, &zip[i], member, err);
        if (!rc)
            rc = add_array(c, name, shape, &a, err);
    }

    if (rc)
        sw_column_close(c);
    return rc;
}

void sw_column_close(struct sw_column *c)
{
    for (int i = 0; i < c->count; i++)
        close_array(&c->array[i]);
    sw_free(c->array);
    *c = (struct sw_column){0};
}

/* Infinities and NaN are the floats whose exponent bits are all set. */
static bool all_finite(const void *values, int64_t count)
{
    const uint32_t *p = values;
    uint32_t bad = 0;

    for (int64_t i = 0; i < count; i++)
        bad |= (p[i] & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

int sw_column_fetch(const struct sw_column *c, int64_t record, void *scratch, const void **out,
                    struct sw_err *err)
{
    const struct sw_array *a = c->array;
    const size_t bytes = sw_field_bytes(&c->field);

    for (; record >= a->rows; a++)
        record -= a->rows;

    const uint64_t offset = (uint64_t)record * bytes;
    int rc = SW_OK;
    if (!a->values)
        rc = sw_blob_view(&a->blob, a->header.data_offset + offset, bytes, scratch, out, err);
    else if ((uintptr_t)a->values % sw_dtype_bytes(c->field.dtype))
        *out = memcpy(scratch, a->values + offset, bytes);
    else
        *out = a->values + offset;

    if (!rc && c->field.dtype == SW_F32 && !all_finite(*out, sw_field_count(&c->field)))
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: contains a value that is not finite", a->what);
    return rc ? sw_err_prefix(err, rc, "record %lld", (long long)record) : SW_OK;
}

int sw_columns_join(struct sw_records *r, const struct sw_column *columns, int count,
                    struct sw_err *err)
{
    r->count = columns[0].records;
    for (int i = 0; i < count; i++) {
        const struct sw_column *c = &columns[i];
        if (c->records != r->count)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: field %s has %lld records, but %s has %lld in %s",
                              c->array[0].what, c->field.name, (long long)c->records,
                              columns[0].field.name, (long long)r->count, columns[0].array[0].what);

        r->field[i] = c->field;
        r->classes = c->classes > r->classes ? c->classes : r->classes;
    }

    r->field_count = count;
    return SW_OK;
}
