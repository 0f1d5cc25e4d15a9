/* The mat format: matrices of every type, compressed or not, in record order; and files that are
 * damaged, truncated or inconsistent. */
#include "data/mat.h"
#include "data_support.h"
#include <math.h>

/* ---- Files, put together here ---- */

struct file {
    unsigned char bytes[1 << 16];
    size_t count;
};

static void add(struct file *f, const void *bytes, size_t n)
{
    assert_true(f->count + n <= sizeof f->bytes);
    memcpy(f->bytes + f->count, bytes, n);
    f->count += n;
}

static void add32(struct file *f, uint32_t v)
{
    add(f, &v, sizeof v);
}

static void add_element(struct file *f, uint32_t type, const void *bytes, size_t n)
{
    static const unsigned char zeros[8];
    add32(f, type);
    add32(f, (uint32_t)n);
    add(f, bytes, n);
    add(f, zeros, (8 - n % 8) % 8);
}

static void begin(struct file *f)
{
    memset(f, 0, sizeof *f);
    memset(f->bytes, ' ', 124);
    memcpy(f->bytes, "MATLAB 5.0 MAT-file", 19);
    memcpy(f->bytes + 124, "\0\1IM", 4);
    f->count = 128;
}

enum { CLASS_CELL = 1, CLASS_DOUBLE = 6, CLASS_UINT8 = 9, CLASS_INT32 = 12 };

static void add_matrix(struct file *f, const char *name, uint32_t class, const int32_t *dims,
                       int ndim, uint32_t type, const void *values, size_t bytes)
{
    struct file inner = {.count = 0};
    const uint32_t flags[2] = {class, 0};
    add_element(&inner, 6, flags, 8);
    add_element(&inner, 5, dims, 4 * (size_t)ndim);
    if (strlen(name) <= 4) { /* as MATLAB does it: the data in the tag */
        char text[4] = {0};
        memcpy(text, name, strlen(name));
        add32(&inner, 1 | (uint32_t)strlen(name) << 16);
        add(&inner, text, 4);
    } else {
        add_element(&inner, 1, name, strlen(name));
    }
    add_element(&inner, type, values, bytes);
    add_element(f, 14, inner.bytes, inner.count);
}

/* The same file with each of its matrices compressed. */
static void compress_all(const struct file *from, struct file *to)
{
    begin(to);
    for (size_t at = 128; at < from->count;) {
        uint32_t bytes;
        static unsigned char packed[1 << 16];
        uLongf n = sizeof packed;
        memcpy(&bytes, from->bytes + at + 4, 4);
        assert_int_equal(compress(packed, &n, from->bytes + at, 8 + bytes), Z_OK);
        add32(to, 15);
        add32(to, (uint32_t)n);
        add(to, packed, n);
        at += 8 + bytes;
    }
}

/* x is 3 records of 2 doubles, y their labels from 1 on, z 3 images of 2x4 (height x width) in
 * bytes, c a cell. */
static void fill(struct file *f)
{
    const double x[6] = {1, 2, 3, 10.5, 20.5, 30.5};
    const unsigned char y[3] = {2, 1, 3};
    unsigned char z[24];
    for (int i = 0; i < 24; i++)
        z[i] = (unsigned char)i;
    begin(f);
    add_matrix(f, "x", CLASS_DOUBLE, (int32_t[]){3, 2}, 2, 9, x, sizeof x);
    /* MATLAB stores doubles that are small whole numbers as bytes. */
    add_matrix(f, "labels", CLASS_DOUBLE, (int32_t[]){3, 1}, 2, 2, y, sizeof y);
    add_matrix(f, "row", CLASS_DOUBLE, (int32_t[]){1, 3}, 2, 2, y, sizeof y);
    add_matrix(f, "z", CLASS_UINT8, (int32_t[]){2, 4, 3}, 3, 2, z, sizeof z);
    add_matrix(f, "c", CLASS_CELL, (int32_t[]){1, 1}, 2, 2, z, 1);
}

static int open_conf(const struct support_conf *c, struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = c->bytes, .split = "train"};
    return sw_records_open(r, c->format, &args, err);
}

static void set(struct support_conf *c, const char *path, const char *a, const char *b)
{
    support_init(c, "mat");
    support_strings(c, "paths", 0, path, NULL);
    support_strings(c, "fields", 1, a, b);
}

/* ---- Reading ---- */

static void assert_features(struct sw_records *r)
{
    const float want[3][2] = {{1, 10.5f}, {2, 20.5f}, {3, 30.5f}};
    const int32_t label[3] = {1, 0, 2};
    struct sw_err err = {0};
    const void *out = NULL;
    assert_int_equal(r->count, 3);
    assert_int_equal(r->classes, 3);
    assert_string_equal(r->field[0].name, "image");
    assert_int_equal(r->field[0].ndim, 3);
    assert_int_equal(r->field[0].dim[0], 2);
    for (int i = 2; i >= 0; i--) {
        ASSERT_OK(r->format->fetch(r, i, 0, NULL, &out, &err));
        assert_memory_equal(out, want[i], sizeof want[i]);
        ASSERT_OK(r->format->fetch(r, i, 1, NULL, &out, &err));
        assert_memory_equal(out, &label[i], 4);
    }
}

static void rows_become_records_plain_and_compressed(void **state)
{
    static struct file plain, packed;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    fill(&plain);
    compress_all(&plain, &packed);
    const char *path[3] = {support_write("plain.mat", plain.bytes, plain.count),
                           support_write("packed.mat", packed.bytes, packed.count),
                           support_gzip("plain.mat.gz", plain.bytes, plain.count)};
    for (int i = 0; i < 3; i++) {
        set(&c, path[i], "image:x", i == 1 ? "label:row" : "label:labels");
        support_int(&c, "first_label", 1);
        ASSERT_OK(open_conf(&c, &r, &err));
        assert_features(&r);
        sw_records_close(&r);
    }
    /* Two files are one set. */
    set(&c, path[0], "text:x", "label:labels");
    support_strings(&c, "paths", 0, path[0], path[1]);
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.count, 6);
    assert_int_equal(r.classes, 4);
    assert_int_equal(r.field[0].ndim, 1);
    sw_records_close(&r);
}

static void images_are_transposed_from_columns_to_rows(void **state)
{
    static struct file f;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    const void *out = NULL;
    fill(&f);
    set(&c, support_write("z.mat", f.bytes, f.count), "image:z", "label:row");
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.field[0].dtype, SW_U8);
    assert_int_equal(r.field[0].dim[0] * 100 + r.field[0].dim[1] * 10 + r.field[0].dim[2], 124);
    ASSERT_OK(r.format->fetch(&r, 1, 0, NULL, &out, &err));
    const unsigned char want[8] = {8, 10, 12, 14, 9, 11, 13, 15};
    assert_memory_equal(out, want, sizeof want);
    sw_records_close(&r);

    /* Height x width x channels x records, as SVHN has it. */
    unsigned char v[2 * 3 * 2 * 2];
    for (int i = 0; i < 24; i++)
        v[i] = (unsigned char)i;
    begin(&f);
    add_matrix(&f, "X", CLASS_UINT8, (int32_t[]){2, 3, 2, 2}, 4, 2, v, sizeof v);
    set(&c, support_write("x.mat", f.bytes, f.count), "image:X", NULL);
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.count, 2);
    assert_int_equal(r.field[0].dim[0] * 100 + r.field[0].dim[1] * 10 + r.field[0].dim[2], 223);
    ASSERT_OK(r.format->fetch(&r, 1, 0, NULL, &out, &err));
    const unsigned char rgb[12] = {12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21, 23};
    assert_memory_equal(out, rgb, sizeof rgb);
    sw_records_close(&r);
}

static void every_type_of_value_is_read(void **state)
{
    const int8_t a[2] = {-1, 100};
    const uint16_t b[2] = {65535, 1};
    const int16_t c[2] = {-300, 300};
    const int32_t d[2] = {-100000, 1};
    const uint32_t e[2] = {4000000000u, 2};
    const float f[2] = {0.5f, -0.25f};
    const int64_t g[2] = {-(1ll << 40), 3};
    const uint64_t h[2] = {1ull << 50, 4};
    const struct {
        uint32_t type;
        const void *values;
        size_t bytes;
        double want[2];
    } kind[] = {
        {1, a, 2, {-1, 100}},
        {4, b, 4, {65535, 1}},
        {3, c, 4, {-300, 300}},
        {5, d, 8, {-100000, 1}},
        {6, e, 8, {4000000000.0, 2}},
        {7, f, 8, {0.5, -0.25}},
        {12, g, 16, {-1099511627776.0, 3}},
        {13, h, 16, {1125899906842624.0, 4}},
    };
    static struct file m;
    struct sw_err err = {0};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        struct sw_mat mat;
        struct sw_mat_values x;
        begin(&m);
        add_matrix(&m, "a_name", CLASS_DOUBLE, (int32_t[]){2, 1}, 2, kind[i].type, kind[i].values,
                   kind[i].bytes);
        ASSERT_OK(sw_mat_open(&mat, "m", m.bytes, m.count, &err));
        assert_int_equal(mat.count, 1);
        assert_null(sw_mat_find(&mat, "other"));
        ASSERT_OK(sw_mat_read(&mat, sw_mat_find(&mat, "a_name"), &x, &err));
        assert_true(sw_mat_value(&x, 0) == kind[i].want[0]);
        assert_true(sw_mat_value(&x, 1) == kind[i].want[1]);
        sw_mat_values_fini(&x);
        sw_mat_close(&mat);
    }
}

/* Labels in a text: the last word of each line; too many, too few and wrong ones are named. */
static void labels_come_from_a_text(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"a 1\nb 2\n", "2 lines, expected one for each of 3 records"},
        {"a 1\nb 2\nc 3\nd 1\n", "more than 3 lines"},
        {"a 1\nb x\nc 3\n", "l.txt:2: the last word is 'x', expected the number of a class"},
        {"a 1\nb 0\nc 3\n", "at least first_label (1)"},
        {"a 1\n\nc 3\n", "l.txt:2: the last word is ''"},
    };
    static const int32_t want[3] = {1, 0, 3};
    static const char right[] = "one\tp\t2\ntwo\tq\t1 \nthree 4\n";
    static struct file m;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    const void *out = NULL;

    fill(&m);
    const char *mat = support_write("l.mat", m.bytes, m.count);

    set(&c, mat, "image:x", NULL);
    support_strings(&c, "labels", 2, support_write("l.txt", right, strlen(right)), NULL);
    support_int(&c, "first_label", 1);
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.classes, 4);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(r.format->fetch(&r, i, 1, NULL, &out, &err));
        assert_memory_equal(out, &want[i], sizeof want[i]);
    }
    sw_records_close(&r);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        support_write("l.txt", wrong[i].text, strlen(wrong[i].text));
        assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, wrong[i].says);
    }

    set(&c, mat, "image:x", "label:labels");
    support_strings(&c, "labels", 2, support_write("l.txt", right, strlen(right)), NULL);
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "labels and fields = label:labels are both set");
}

static void wikipedia_features_are_read(void **state)
{
    char path[512];
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    const void *out = NULL;
    if (!support_shared("wikipedia-xmodal/raw_features.mat", path))
        skip();
    set(&c, path, "image:I_tr", "text:T_tr");
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.count, 2173);
    ASSERT_OK(r.format->fetch(&r, 1, 0, NULL, &out, &err));
    double sum = 0;
    for (int i = 0; i < 128; i++) /* each is a histogram */
        sum += (double)((const float *)out)[i];
    assert_true(sum > 0.9999 && sum < 1.0001);
    ASSERT_OK(r.format->fetch(&r, 2172, 1, NULL, &out, &err));
    sum = 0;
    for (int i = 0; i < 10; i++) /* and each of these a mixture of topics */
        sum += (double)((const float *)out)[i];
    assert_true(sum > 0.9999 && sum < 1.0001);
    sw_records_close(&r);
}

/* ---- What is refused ---- */

static void refused(const char *path, const char *a, const char *b, int code, const char *says)
{
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    set(&c, path, a, b);
    assert_int_equal(open_conf(&c, &r, &err), code);
    ASSERT_CONTAINS(err.text, says);
}

static void errors_name_wrong_fields(void **state)
{
    static struct file f;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    const double bad[4] = {1, 2, INFINITY, 4};
    fill(&f);
    add_matrix(&f, "inf", CLASS_DOUBLE, (int32_t[]){2, 2}, 2, 9, bad, sizeof bad);
    const char *path = support_write("f.mat", f.bytes, f.count);
    set(&c, path, "image:x", NULL);
    memset(c.bytes + support_row(c.format, "fields")->offset, 0, sizeof(struct sw_strings));
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "x (double 3x2), labels (double 3x1)");
    refused(path, "image", NULL, SW_ERR_INVALID, "expected NAME:VARIABLE");
    refused(path, "a:x", "a:x", SW_ERR_INVALID, "duplicate field a");
    refused(path, "a:w", NULL, SW_ERR_NOTFOUND, "no variable w; the file has x (double 3x2)");
    refused(path, "a:c", NULL, SW_ERR_UNSUPPORTED, "variable c is of class cell");
    refused(path, "a:inf", NULL, SW_ERR_FORMAT, "variable inf: record 0: inf, expected a finite");
    refused(path, "label:x", NULL, SW_ERR_FORMAT, "2 values per record, expected one label");
    refused(path, "a:x", "b:inf", SW_ERR_FORMAT, "variable inf: 2 records, expected as many");
    set(&c, path, "label:labels", NULL);
    support_int(&c, "first_label", 2);
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "variable labels: record 1: 1, expected a class");
}

static void other_files_are_refused(void **state)
{
    static struct file f;
    refused(support_write("no.mat", "hello", 5), "a:x", NULL, SW_ERR_FORMAT, "inside its header");
    fill(&f);
    f.bytes[126] = 'M', f.bytes[127] = 'I';
    refused(support_write("no.mat", f.bytes, f.count), "a:x", NULL, SW_ERR_UNSUPPORTED,
            "big-endian");
    f.bytes[126] = 'x';
    refused(support_write("no.mat", f.bytes, f.count), "a:x", NULL, SW_ERR_FORMAT,
            "not a .mat file of level 5");
    memcpy(f.bytes, "MATLAB 7.3 MAT-file", 19);
    refused(support_write("no.mat", f.bytes, f.count), "a:x", NULL, SW_ERR_UNSUPPORTED, "-v7");
}

static int read_whole(const unsigned char *bytes, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1); /* so that a step too far is seen */
    struct sw_mat m;
    struct sw_err err = {0};
    double sum = 0;
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    int rc = sw_mat_open(&m, "m", copy, n, &err);
    for (int i = 0; !rc && i < m.count; i++) {
        struct sw_mat_values x;
        if (!m.variable[i].readable)
            continue;
        rc = sw_mat_read(&m, &m.variable[i], &x, &err);
        for (int64_t k = 0; !rc && k < x.count; k++)
            sum += sw_mat_value(&x, k);
        sw_mat_values_fini(&x);
    }
    sw_mat_close(&m);
    free(copy);
    assert_false(rc && !*err.text);
    return sum == -1 ? 1 : rc;
}

static void truncation_and_damage_are_detected(void **state)
{
    static struct file plain, packed;
    fill(&plain);
    compress_all(&plain, &packed);
    for (int which = 0; which < 2; which++) {
        struct file *f = which ? &packed : &plain;
        int whole = 0;
        assert_int_equal(read_whole(f->bytes, f->count), SW_OK);
        /* Between two elements a shorter file is a file with fewer variables. */
        for (size_t n = 0; n < f->count; n++)
            whole += read_whole(f->bytes, n) == SW_OK;
        assert_int_equal(whole, 5);
        int unnoticed = 0;
        for (size_t bit = 8 * 128; bit < 8 * f->count; bit++) {
            f->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            unnoticed += read_whole(f->bytes, f->count) == SW_OK;
            f->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        /* Level 5 has checksums where it is compressed only: there what is left is the types of
         * elements that are passed over, and the compressed cell, of which only the head is read.
         */
        if (which)
            assert_true(unnoticed < (int)f->count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_records_plain_and_compressed),
        cmocka_unit_test(images_are_transposed_from_columns_to_rows),
        cmocka_unit_test(every_type_of_value_is_read),
        cmocka_unit_test(labels_come_from_a_text),
        cmocka_unit_test(wikipedia_features_are_read),
        cmocka_unit_test(errors_name_wrong_fields),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(truncation_and_damage_are_detected),
    };
    return cmocka_run_group_tests_name("mat", tests, support_setup, support_teardown);
}
