#include "tensor/safetensors.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* OIxio with blocks of 16, as oneDNN keeps weights. Over 4 MB, so that conversion takes pieces. */
static struct sw_desc blocked_weights(int64_t outputs, int64_t inputs)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (int64_t[]){outputs, inputs});
    d.nblock = 2;
    d.block[0] = d.block[1] = 16;
    d.block_dim[0] = 1;
    d.block_dim[1] = 0;
    d.padded[0] = (outputs + 15) / 16 * 16;
    d.padded[1] = (inputs + 15) / 16 * 16;
    d.stride[1] = 256;
    d.stride[0] = 256 * (d.padded[1] / 16);
    return d;
}

static struct sw_tensor *tensor(struct sw_desc d)
{
    struct sw_tensor *t = NULL;
    assert_int_equal(sw_tensor_new(NULL, &d, "t", &t, NULL), SW_OK);
    return t;
}

static void write_one(const char *path, const char *name, const struct sw_tensor *t)
{
    struct sw_err err = {0};
    struct sw_st_writer *w = sw_st_writer_new();
    assert_int_equal(sw_st_writer_add_tensor(w, name, t, NULL, &err), SW_OK);
    assert_int_equal(sw_st_writer_write(w, path, 0600, NULL, NULL, &err), SW_OK);
    sw_st_writer_free(w);
}

static void values_survive_a_change_of_layout(void **state)
{
    int64_t dim[] = {1100, 1003};
    size_t n = 1100 * 1003;
    float *plain = sw_calloc(n, sizeof *plain), *back = sw_calloc(n, sizeof *back);
    for (size_t i = 0; i < n; i++)
        plain[i] = (float)i;
    struct sw_desc transposed = sw_desc_plain(SW_F32, 2, dim);
    transposed.stride[0] = 1, transposed.stride[1] = 1100;
    struct sw_desc d[] = {sw_desc_plain(SW_F32, 2, dim), blocked_weights(dim[0], dim[1]),
                          transposed};
    for (size_t from = 0; from < 3; from++) {
        struct sw_tensor *t = tensor(d[from]);
        struct sw_st_file *f = NULL;
        assert_int_equal(sw_tensor_write(t, NULL, plain, NULL), SW_OK);
        write_one(scratch_path("w"), "fc.weight", t);
        sw_tensor_free(t);
        assert_int_equal(sw_st_open(scratch_path("w"), true, &f, NULL), SW_OK);
        assert_int_equal(sw_st_read(f, sw_st_find(f, "fc.weight"), 0, n * sizeof *back, back, NULL),
                         SW_OK);
        assert_memory_equal(back, plain, n * sizeof *back);
        for (size_t to = 0; to < 3; to++) {
            t = tensor(d[to]);
            assert_int_equal(sw_st_read_tensor(f, "fc.weight", t, NULL, NULL), SW_OK);
            assert_int_equal(sw_tensor_read(t, NULL, back, NULL), SW_OK);
            assert_memory_equal(back, plain, n * sizeof *back);
            sw_tensor_free(t);
        }
        sw_st_close(f);
    }
    sw_free(plain);
    sw_free(back);
}

static void every_type_and_rank_is_written_and_read(void **state)
{
    struct sw_desc d[] = {
        sw_desc_plain(SW_I32, 1, (int64_t[]){3}), sw_desc_plain(SW_U8, 3, (int64_t[]){2, 2, 2}),
        sw_desc_plain(SW_F32, 0, (int64_t[]){1}), sw_desc_plain(SW_F32, 2, (int64_t[]){3, 0})};
    const enum sw_st_dtype want[] = {SW_ST_I32, SW_ST_U8, SW_ST_F32, SW_ST_F32};
    for (size_t i = 0; i < sizeof d / sizeof d[0]; i++) {
        struct sw_tensor *t = tensor(d[i]), *back = tensor(d[i]);
        struct sw_st_file *f = NULL;
        for (size_t b = 0; b < sw_desc_bytes(&d[i]); b++)
            ((unsigned char *)t->data)[b] = (unsigned char)(b + 1);
        write_one(scratch_path("t"), "x", t);
        assert_int_equal(sw_st_open(scratch_path("t"), true, &f, NULL), SW_OK);
        assert_int_equal(sw_st_find(f, "x")->dtype, want[i]);
        assert_int_equal(sw_st_find(f, "x")->ndim, d[i].ndim);
        assert_int_equal(sw_st_read_tensor(f, "x", back, NULL, NULL), SW_OK);
        assert_memory_equal(back->data, t->data, sw_desc_bytes(&d[i]));
        sw_st_close(f);
        sw_tensor_free(t);
        sw_tensor_free(back);
    }
}

static void shape_mismatch_is_rejected_with_both_shapes(void **state)
{
    struct sw_err err = {0};
    struct sw_st_file *f = NULL;
    struct sw_tensor *t = tensor(sw_desc_plain(SW_F32, 2, (int64_t[]){2, 3}));
    struct sw_tensor *other = tensor(sw_desc_plain(SW_F32, 2, (int64_t[]){3, 2}));
    struct sw_tensor *ints = tensor(sw_desc_plain(SW_I32, 2, (int64_t[]){2, 3}));
    write_one(scratch_path("t"), "fc8.weight", t);
    assert_int_equal(sw_st_open(scratch_path("t"), true, &f, NULL), SW_OK);
    assert_int_equal(sw_st_read_tensor(f, "fc8.weight", other, NULL, &err), SW_ERR_INVALID);
    assert_string_equal(err.text,
                        "tensor fc8.weight is F32 [2, 3] in the file, but F32 [3, 2] is needed");
    assert_int_equal(sw_st_read_tensor(f, "fc8.weight", ints, NULL, &err), SW_ERR_INVALID);
    assert_int_equal(sw_st_read_tensor(f, "fc9.weight", t, NULL, &err), SW_ERR_NOTFOUND);
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1, .forever = true});
    assert_int_equal(sw_st_read_tensor(f, "fc8.weight", t, NULL, &err), SW_ERR_NOMEM);
    faulty_end();
    sw_st_close(f);
    sw_tensor_free(t);
    sw_tensor_free(other);
    sw_tensor_free(ints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_survive_a_change_of_layout),
        cmocka_unit_test(every_type_and_rank_is_written_and_read),
        cmocka_unit_test(shape_mismatch_is_rejected_with_both_shapes),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
