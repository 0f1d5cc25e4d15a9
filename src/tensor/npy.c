/* Parses the headers of .npy arrays and converts their values. No state; any thread may call. The
 * contract is in tensor/npy.h. */
#include "tensor/npy.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie in memory");

enum { MAGIC_BYTES = 6 };
static const unsigned char magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [SW_NPY_B1] = {"b1", 1}, [SW_NPY_U1] = {"u1", 1}, [SW_NPY_I1] = {"i1", 1},
    [SW_NPY_I2] = {"i2", 2}, [SW_NPY_I4] = {"i4", 4}, [SW_NPY_I8] = {"i8", 8},
    [SW_NPY_F4] = {"f4", 4}, [SW_NPY_F8] = {"f8", 8},
};

size_t sw_npy_dtype_bytes(enum sw_npy_dtype t)
{
    return dtypes[t].bytes;
}

const char *sw_npy_dtype_name(enum sw_npy_dtype t)
{
    return dtypes[t].name;
}

int sw_npy_header_bytes(const void *head, const char *what, size_t *bytes, struct sw_err *err)
{
    const unsigned char *p = head;
    if (memcmp(p, magic, MAGIC_BYTES))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: not a NumPy array: it does not begin with \\x93NUMPY", what);
    if (p[6] < 1 || p[6] > 3)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: .npy version %d.%d; versions 1.0, 2.0 and 3.0 can be read", what,
                          p[6], p[7]);

    uint64_t length = p[8] | (uint64_t)p[9] << 8, before = 10;
    if (p[6] > 1) {
        length |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
        before = 12;
    }

    if (before + length < SW_NPY_MIN_BYTES || before + length > SW_NPY_MAX_HEADER)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the header length is %llu bytes, expected 2 to %d", what,
                          (unsigned long long)length, SW_NPY_MAX_HEADER);

    *bytes = (size_t)(before + length);
    return SW_OK;
}

/* A cursor over the text of the dictionary. Numpy writes one fixed form; this parser also accepts
 * other blanks and another order of keys. */
struct text {
    const char *p, *end;
    const char *what;
};

static void skip_blanks(struct text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t'))
        t->p++;
}

static bool take(struct text *t, char c)
{
    skip_blanks(t);
    if (t->p == t->end || *t->p != c)
        return false;

    t->p++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    const size_t n = strlen(word);

    skip_blanks(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n))
        return false;

    t->p += n;
    return true;
}

/* Reads a quoted string without escapes into out. */
static bool take_string(struct text *t, char *out, size_t room)
{
    skip_blanks(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;

    const char *from = t->p + 1, *to = memchr(from, *t->p, (size_t)(t->end - from));
    if (!to || (size_t)(to - from) >= room || memchr(from, '\\', (size_t)(to - from)))
        return false;

    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    t->p = to + 1;

    return true;
}

static bool take_number(struct text *t, int64_t *value)
{
    skip_blanks(t);

    const char *first = t->p;
    for (*value = 0; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *t->p - '0', value))
            return false;
    }

    return t->p > first;
}

static int bad_header(const struct text *t, const char *expected, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "%s: damaged header: expected %s", t->what, expected);
}

static int parse_descr(struct text *t, struct sw_npy_header *h, struct sw_err *err)
{
    char descr[16];
    if (!take_string(t, descr, sizeof descr))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: structured arrays are not supported; save each field as a "
                          "separate array",
                          t->what);

    const char order = descr[0];
    for (size_t i = 0; order && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(descr + 1, dtypes[i].name) != 0)
            continue;
        if (order == '<' || (order == '|' && dtypes[i].bytes == 1)) {
            h->dtype = (enum sw_npy_dtype)i;
            return SW_OK;
        }
    }

    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s: unsupported type '%s'; supported are |b1 |u1 |i1 <i2 <i4 <i8 <f4 <f8 "
                      "(in NumPy: x.astype('<f4'))",
                      t->what, descr);
}

static int parse_shape(struct text *t, struct sw_npy_header *h, struct sw_err *err)
{
    static const char form[] = "a shape such as (60000, 28, 28)";

    if (!take(t, '('))
        return bad_header(t, form, err);

    for (h->ndim = 0; !take(t, ')'); h->ndim++) {
        if (h->ndim == SW_NPY_MAX_DIMS)
            return sw_err_set(err, SW_ERR_UNSUPPORTED,
                              "%s: more than %d dimensions are not supported (in NumPy: "
                              "x.reshape)",
                              t->what, SW_NPY_MAX_DIMS);

        if (!take_number(t, &h->shape[h->ndim]))
            return bad_header(t, form, err);
        if (!take(t, ',') && !(t->p < t->end && *t->p == ')'))
            return bad_header(t, form, err);
    }

    return SW_OK;
}

static int parse_keys(struct text *t, struct sw_npy_header *h, bool *fortran, struct sw_err *err)
{
    static const char form[] = "a dictionary of descr, fortran_order and shape";
    unsigned seen = 0;

    if (!take(t, '{'))
        return bad_header(t, form, err);

    while (!take(t, '}')) {
        char key[16];
        int rc = SW_OK;
        unsigned bit = 0;

        if (!take_string(t, key, sizeof key) || !take(t, ':'))
            return bad_header(t, form, err);

        if (!strcmp(key, "descr")) {
            bit = 1;
            rc = parse_descr(t, h, err);
        } else if (!strcmp(key, "fortran_order")) {
            bit = 2;
            *fortran = take_word(t, "True");
            if (!*fortran && !take_word(t, "False"))
                rc = bad_header(t, "fortran_order to be True or False", err);
        } else if (!strcmp(key, "shape")) {
            bit = 4;
            rc = parse_shape(t, h, err);
        }

        if (rc)
            return rc;
        if (!bit || seen & bit)
            return bad_header(t, form, err);

        seen |= bit;
        if (!take(t, ',') && !(t->p < t->end && *t->p == '}'))
            return bad_header(t, form, err);
    }

    skip_blanks(t);
    return seen == 7 && t->p == t->end ? SW_OK : bad_header(t, form, err);
}

/* Sets h->count; false if the number of values, or of those in one row of an empty array,
 * overflows. */
static bool count_values(struct sw_npy_header *h)
{
    uint64_t values = 1;
    bool empty = false, fits = true;

    for (int i = 0; i < h->ndim; i++) {
        empty |= h->shape[i] == 0;
        if (h->shape[i])
            fits &= !__builtin_mul_overflow(values, (uint64_t)h->shape[i], &values);
    }

    h->count = empty ? 0 : values;
    return fits && values <= (UINT64_C(1) << 62) / dtypes[h->dtype].bytes;
}

int sw_npy_parse(const void *head, size_t bytes, const char *what, struct sw_npy_header *h,
                 struct sw_err *err)
{
    size_t whole = 0;
    bool fortran = false;

    *h = (struct sw_npy_header){0};
    if (bytes < SW_NPY_MIN_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %zu bytes, inside its header", what,
                          bytes);

    int rc = sw_npy_header_bytes(head, what, &whole, err);
    if (!rc && whole > bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %zu bytes, inside its header of %zu",
                        what, bytes, whole);

    if (rc)
        return rc;

    const char *first = head;
    struct text t = {first + (first[6] > 1 ? 12 : 10), first + whole, what};
    rc = parse_keys(&t, h, &fortran, err);
    if (rc)
        return rc;
    h->data_offset = whole;
    if (!count_values(h))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the size of its shape overflows", what);

    int long_dims = 0;
    for (int i = 0; i < h->ndim; i++)
        long_dims += h->shape[i] != 1;

    /* In an array of one long dimension both orders are the same. */
    if (fortran && long_dims > 1)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: Fortran order is not supported; use C order (in NumPy: "
                          "np.ascontiguousarray(x))",
                          what);

    return SW_OK;
}

int64_t sw_npy_rows(const struct sw_npy_header *h)
{
    return h->ndim ? h->shape[0] : 1;
}

int64_t sw_npy_row_elements(const struct sw_npy_header *h)
{
    int64_t n = 1;
    for (int i = 1; i < h->ndim; i++)
        n *= h->shape[i];
    return n;
}

static bool is_real(enum sw_npy_dtype t)
{
    return t == SW_NPY_F4 || t == SW_NPY_F8;
}

static int64_t load_int(enum sw_npy_dtype t, const unsigned char *p)
{
    int16_t two;
    int32_t four;
    int64_t eight;

    switch (t) {
    case SW_NPY_B1:
        return *p != 0;
    case SW_NPY_I1:
        return (signed char)*p;
    case SW_NPY_I2:
        memcpy(&two, p, sizeof two);
        return two;
    case SW_NPY_I4:
        memcpy(&four, p, sizeof four);
        return four;
    case SW_NPY_I8:
        memcpy(&eight, p, sizeof eight);
        return eight;
    default:
        return *p;
    }
}

static double load_real(enum sw_npy_dtype t, const unsigned char *p)
{
    float four;
    double eight;

    if (t == SW_NPY_F4) {
        memcpy(&four, p, sizeof four);
        return four;
    }

    memcpy(&eight, p, sizeof eight);
    return eight;
}

/* Converts a value to an integer; returns false unless it is one from min to max. */
static bool whole(enum sw_npy_dtype from, const unsigned char *p, int64_t min, int64_t max,
                  int64_t *value)
{
    if (!is_real(from)) {
        *value = load_int(from, p);
    } else {
        const double real = load_real(from, p);
        if (!(real >= (double)min && real <= (double)max) || floor(real) != real)
            return false;
        *value = (int64_t)real;
    }

    return *value >= min && *value <= max;
}

static bool convert_one(enum sw_npy_dtype from, const unsigned char *p, enum sw_dtype to, void *out,
                        int64_t i)
{
    int64_t value = 0;
    bool good = false;

    switch (to) {
    case SW_F32:
        good = !is_real(from) || fabs(load_real(from, p)) <= FLT_MAX;
        if (good)
            ((float *)out)[i] =
                is_real(from) ? (float)load_real(from, p) : (float)load_int(from, p);
        return good;
    case SW_I32:
        good = whole(from, p, INT32_MIN, INT32_MAX, &value);
        ((int32_t *)out)[i] = (int32_t)value;
        return good;
    case SW_U8:
        good = whole(from, p, 0, UCHAR_MAX, &value);
        ((unsigned char *)out)[i] = (unsigned char)value;
        return good;
    case SW_BF16:
    case SW_F16:
        break; /* no field has them */
    }

    return false;
}

static const char *expected_of(enum sw_dtype to)
{
    return to == SW_F32   ? "a finite number in the range of 32-bit floats"
           : to == SW_I32 ? "a whole number of 32 bits"
                          : "a whole number 0 to 255";
}

int sw_npy_convert(enum sw_npy_dtype from, const void *values, int64_t count, enum sw_dtype to,
                   void *out, int64_t *at, struct sw_err *err)
{
    const unsigned char *p = values;
    const size_t step = dtypes[from].bytes;

    for (int64_t i = 0; i < count; i++, p += step) {
        if (convert_one(from, p, to, out, i))
            continue;

        *at = i;
        if (is_real(from))
            return sw_err_set(err, SW_ERR_FORMAT, "value %.9g, expected %s", load_real(from, p),
                              expected_of(to));

        return sw_err_set(err, SW_ERR_FORMAT, "value %lld, expected %s",
                          (long long)load_int(from, p), expected_of(to));
    }

    return SW_OK;
}
