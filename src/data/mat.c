/* MATLAB level 5 files: an element is a tag with a type and a size, followed by data; a matrix is
 * an element that contains elements, perhaps compressed. Opening walks over all elements and lists
 * the variables; values are read or inflated on request. Reading order: elements, the file, values.
 * Every size is checked against the bytes that remain. */
#include "data/mat.h"
#include "base/os.h"
#include "data/inflate.h"
#include <string.h>

typedef unsigned long long ull;

enum {
    HEADER_BYTES = 128,
    VERSION_AT = 124,
    TAG_BYTES = 8,
    HEAD_BYTES = 1024, /* upper limit for the part of a matrix before its values */
    COMPLEX_FLAG = 0x0800,
};
enum { INT8 = 1, UINT8, INT16, UINT16, INT32, UINT32, SINGLE, DOUBLE = 9, INT64 = 12, UINT64 };
enum { MATRIX = 14, COMPRESSED = 15 };
enum { CLASS_DOUBLE = 6, CLASS_UINT8 = 9, CLASS_LAST = 15 };

static const char *const class_names[] = {
    "unknown", "cell",  "struct", "object", "char",  "sparse", "double", "single",
    "int8",    "uint8", "int16",  "uint16", "int32", "uint32", "int64",  "uint64",
};

static uint32_t u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Bytes of one value of a storage type; 0: not numeric. */
static size_t type_bytes(uint32_t type)
{
    static const unsigned char bytes[] = {0, 1, 1, 2, 2, 4, 4, 4, 0, 8, 0, 0, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* ---- elements inside a matrix ---- */

struct element {
    uint32_t type, bytes;
    const unsigned char *data;
    size_t whole; /* bytes with tag and padding */
};

/* Reads the tag at p, where `left` bytes are available. The data may extend beyond them; callers
 * that read the data must check. False if the tag itself is incomplete. */
static bool read_tag(const unsigned char *p, size_t left, struct element *e)
{
    if (left < TAG_BYTES)
        return false;

    const uint32_t word = u32(p);
    if (word >> 16) { /* small element: up to four bytes of data in the tag */
        *e = (struct element){word & 0xffff, word >> 16, p + 4, TAG_BYTES};
        return e->bytes <= 4;
    }

    *e = (struct element){word, u32(p + 4), p + TAG_BYTES, 0};
    e->whole = TAG_BYTES + ((size_t)e->bytes + 7) / 8 * 8;
    return true;
}

static bool next_element(const unsigned char **p, size_t *left, struct element *e)
{
    if (!read_tag(*p, *left, e) || e->whole > *left)
        return false;

    *p += e->whole;
    *left -= e->whole;
    return true;
}

static bool take_dims(struct sw_mat_variable *v, const struct element *e)
{
    v->ndim = (int)(e->bytes / 4);
    v->count = 1;
    if (e->type != INT32 || e->bytes % 4 || e->bytes < 8 || e->bytes > 4 * SW_MAT_MAX_DIMS)
        return false;

    for (int i = 0; i < v->ndim; i++) {
        v->dim[i] = (int32_t)u32(e->data + 4 * i);
        if (v->dim[i] < 0 || __builtin_mul_overflow(v->count, v->dim[i], &v->count))
            return false;
    }

    return v->count <= (int64_t)1 << 48;
}

/* Parses flags, dimensions and name; *data_at is the offset of the element with the values. */
static bool parse_head(const unsigned char *p, size_t bytes, struct sw_mat_variable *v,
                       size_t *data_at)
{
    const unsigned char *at = p;
    struct element e;
    if (!next_element(&at, &bytes, &e) || e.type != UINT32 || e.bytes != 8)
        return false;

    const uint32_t flags = u32(e.data), class = flags & 0xff;
    v->class_name = class_names[class <= CLASS_LAST ? class : 0];
    v->readable = class >= CLASS_DOUBLE && class <= CLASS_LAST && !(flags & COMPLEX_FLAG);

    v->is_u8 = class == CLASS_UINT8;
    if (!next_element(&at, &bytes, &e) || !take_dims(v, &e))
        return false;
    if (!next_element(&at, &bytes, &e) || e.type != INT8 || e.bytes >= SW_MAT_NAME_BYTES)
        return false;

    memcpy(v->name, e.data, e.bytes);
    *data_at = (size_t)(at - p);
    return true;
}

/* ---- the file ---- */

static int check_header(const struct sw_mat *m, struct sw_err *err)
{
    const char *text = (const char *)m->bytes;
    if (m->size >= 10 && !memcmp(text, "MATLAB 7.3", 10))
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s: a .mat file of level 7.3 (HDF5) is not supported; save it in MATLAB with "
            "save(..., '-v7')",
            m->what);

    if (m->size < HEADER_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header of %d",
                          m->what, (ull)m->size, HEADER_BYTES);

    const unsigned char *v = m->bytes + VERSION_AT;
    if (v[2] == 'M' && v[3] == 'I')
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s: a big-endian .mat file is not supported; load it in MATLAB and save it again",
            m->what);

    if (v[0] != 0 || v[1] != 1 || v[2] != 'I' || v[3] != 'M')
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: not a .mat file of level 5: bytes 124 to 127 are %02x %02x %02x "
                          "%02x, expected 00 01 49 4d",
                          m->what, v[0], v[1], v[2], v[3]);

    return SW_OK;
}

static int bad_element(const struct sw_mat *m, uint64_t at, const char *why, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "%s: the element at byte %llu: %s", m->what, (ull)at,
                      why);
}

static struct sw_compressed compressed_element(const struct sw_mat *m,
                                               const struct sw_mat_variable *v)
{
    return (struct sw_compressed){m->bytes + v->at, v->bytes, SW_INFLATE_ZLIB, m->what};
}

/* Inflates only the beginning of a compressed matrix, to read its name; the values are inflated by
 * sw_mat_read. *matrix is false if the element contains no matrix. */
static int list_compressed(const struct sw_mat *m, struct sw_mat_variable *v, bool *matrix,
                           struct sw_err *err)
{
    unsigned char head[TAG_BYTES + HEAD_BYTES] = {0};
    uint64_t got = 0;
    size_t data_at;
    const struct sw_compressed in = compressed_element(m, v);

    int rc = sw_inflate_bytes(&in, false, head, sizeof head, &got, err);
    if (rc)
        return rc;
    if (got < TAG_BYTES)
        return bad_element(m, v->at, "the compressed data are too short for a matrix", err);

    *matrix = u32(head) == MATRIX;
    v->inflated_bytes = u32(head + 4);
    if (!*matrix)
        return SW_OK;
    if (v->inflated_bytes / SW_INFLATE_MAX_RATIO > v->bytes)
        return bad_element(m, v->at, "the stated size exceeds what the compressed bytes can hold",
                           err);

    const uint64_t whole = got - TAG_BYTES;
    const size_t known = (size_t)(whole < v->inflated_bytes ? whole : v->inflated_bytes);
    return parse_head(head + TAG_BYTES, known, v, &data_at)
               ? SW_OK
               : bad_element(m, v->at, "invalid flags, dimensions or name of the matrix", err);
}

static int add_variable(struct sw_mat *m, const struct sw_mat_variable *v, struct sw_err *err)
{
    if (m->count == SW_MAT_MAX_VARIABLES)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: has more than %d variables", m->what,
                          SW_MAT_MAX_VARIABLES);

    struct sw_mat_variable *grown =
        sw_realloc_array(m->variable, (size_t)m->count + 1, sizeof *grown);
    if (!grown)
        return sw_err_nomem(err, m->what, ((size_t)m->count + 1) * sizeof *grown);

    m->variable = grown;
    m->variable[m->count++] = *v;
    return SW_OK;
}

/* Handles the element at byte `at`; *next is the offset of the element after it. */
static int list_element(struct sw_mat *m, uint64_t at, uint64_t *next, struct sw_err *err)
{
    struct sw_mat_variable v = {.at = at + TAG_BYTES};
    bool matrix = false;
    size_t data_at;
    int rc = SW_OK;

    if (m->size - at < TAG_BYTES)
        return bad_element(m, at, "the file ends inside its tag", err);

    const uint32_t type = u32(m->bytes + at);
    v.bytes = u32(m->bytes + at + 4);
    v.compressed = type == COMPRESSED;
    if (type >> 16) { /* a small element cannot contain a matrix */
        *next = at + TAG_BYTES;
        return SW_OK;
    }

    if (v.bytes > m->size - v.at)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the element at byte %llu has %llu bytes, but the file ends after "
                          "%llu of them",
                          m->what, (ull)at, (ull)v.bytes, (ull)(m->size - v.at));

    *next = v.at + v.bytes;

    if (v.compressed) {
        rc = list_compressed(m, &v, &matrix, err);
    } else if (type == MATRIX) {
        matrix = true;
        if (!parse_head(m->bytes + v.at, v.bytes, &v, &data_at))
            rc = bad_element(m, at, "invalid flags, dimensions or name of the matrix", err);
    }

    return !rc && matrix ? add_variable(m, &v, err) : rc;
}

int sw_mat_open(struct sw_mat *m, const char *what, const void *bytes, uint64_t size,
                struct sw_err *err)
{
    *m = (struct sw_mat){.what = what, .bytes = bytes, .size = size};

    int rc = check_header(m, err);
    if (rc)
        goto out;

    for (uint64_t at = HEADER_BYTES; at < size;) {
        rc = list_element(m, at, &at, err);
        if (rc)
            goto out;
    }

out:
    if (rc)
        sw_mat_close(m);
    return rc;
}

void sw_mat_close(struct sw_mat *m)
{
    sw_free(m->variable);
    *m = (struct sw_mat){0};
}

const struct sw_mat_variable *sw_mat_find(const struct sw_mat *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        if (!strcmp(m->variable[i].name, name))
            return &m->variable[i];
    }

    return NULL;
}

/* ---- values ---- */

static int load_matrix(const struct sw_mat *m, const struct sw_mat_variable *v,
                       struct sw_mat_values *x, const unsigned char **matrix, size_t *bytes,
                       struct sw_err *err)
{
    uint64_t got = 0;

    *matrix = m->bytes + v->at;
    *bytes = (size_t)v->bytes;
    if (!v->compressed)
        return SW_OK;

    const uint64_t whole = TAG_BYTES + v->inflated_bytes;
    if (m->max_bytes && whole > m->max_bytes)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: variable %s inflates to %llu bytes, more than max_bytes = %llu; raise "
            "max_bytes in the [data] section if the file is valid",
            m->what, v->name, (ull)whole, (ull)m->max_bytes);
    x->memory = sw_os()->alloc((size_t)whole);
    if (!x->memory)
        return sw_err_nomem(err, m->what, (size_t)whole);

    *matrix = x->memory + TAG_BYTES;
    *bytes = (size_t)v->inflated_bytes;

    const struct sw_compressed in = compressed_element(m, v);
    return sw_inflate_bytes(&in, true, x->memory, whole, &got, err);
}

int sw_mat_read(const struct sw_mat *m, const struct sw_mat_variable *v, struct sw_mat_values *out,
                struct sw_err *err)
{
    struct sw_mat_variable again = {0};
    const unsigned char *matrix = NULL;
    size_t bytes = 0, data_at = 0;
    struct element e = {0};

    *out = (struct sw_mat_values){.count = v->count};
    if (!v->readable)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: variable %s is of class %s, expected a real, full, numeric matrix",
                          m->what, v->name, v->class_name);

    int rc = load_matrix(m, v, out, &matrix, &bytes, err);
    if (!rc && (!parse_head(matrix, bytes, &again, &data_at) ||
                !read_tag(matrix + data_at, bytes - data_at, &e) ||
                e.bytes > bytes - (size_t)(e.data - matrix) || type_bytes(e.type) == 0 ||
                (uint64_t)e.bytes != (uint64_t)v->count * type_bytes(e.type)))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: variable %s: expected %lld numeric values, as its dimensions require",
                        m->what, v->name, (long long)v->count);

    if (rc) {
        sw_mat_values_fini(out);
        return rc;
    }

    out->type = (int)e.type;
    out->data = e.data;
    return SW_OK;
}

void sw_mat_values_fini(struct sw_mat_values *x)
{
    sw_free(x->memory);
    *x = (struct sw_mat_values){0};
}

#define LOAD(kind)                                                                                 \
    do {                                                                                           \
        kind value_;                                                                               \
        memcpy(&value_, x->data + (size_t)i * sizeof value_, sizeof value_);                       \
        return (double)value_;                                                                     \
    } while (0)

double sw_mat_value(const struct sw_mat_values *x, int64_t i)
{
    switch (x->type) {
    case INT8:
        LOAD(int8_t);
    case UINT8:
        LOAD(uint8_t);
    case INT16:
        LOAD(int16_t);
    case UINT16:
        LOAD(uint16_t);
    case INT32:
        LOAD(int32_t);
    case UINT32:
        LOAD(uint32_t);
    case SINGLE:
        LOAD(float);
    case INT64:
        LOAD(int64_t);
    case UINT64:
        LOAD(uint64_t);
    default:
        LOAD(double);
    }
}
