#include "tensor/tensor.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A device whose addresses the host cannot touch and whose copies happen when the stream is waited
 * for: what forgets the staging or the wait is wrong here. */
enum { ROOM = 1 << 16, PENDING = 8 };
#define FAR ((uintptr_t)0x1000)

static struct {
    unsigned char memory[ROOM];
    size_t used;
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } pending[PENDING];
    int queued, alive;
    int fails; /* error code of the next wait */
} far;

static void *near_address(const void *p)
{
    uintptr_t a = (uintptr_t)p;
    return a >= FAR && a < FAR + ROOM ? far.memory + (a - FAR) : (void *)a;
}

static int far_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what,
                     void **out, struct sw_err *err)
{
    if (bytes > ROOM - far.used)
        return sw_err_nomem(err, what, bytes);
    *out = (void *)(FAR + far.used);
    memset(far.memory + far.used, 0, bytes);
    far.used += bytes;
    far.alive++;
    return SW_OK;
}

static void far_free(struct sw_device *dev, void *p, size_t bytes)
{
    far.alive--;
}

static int far_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes,
                    struct sw_err *err)
{
    far.pending[far.queued].to = near_address(dst);
    far.pending[far.queued].from = near_address(src);
    far.pending[far.queued++].bytes = bytes;
    return SW_OK;
}

static int far_wait(struct sw_stream *s, struct sw_err *err)
{
    for (int i = 0; i < far.queued; i++)
        memcpy(far.pending[i].to, far.pending[i].from, far.pending[i].bytes);
    far.queued = 0;
    return far.fails ? sw_err_set(err, far.fails, "lost") : SW_OK;
}

static const struct sw_device_ops far_ops = {
    .alloc = far_alloc, .free = far_free, .copy = far_copy, .stream_wait = far_wait};
static struct sw_device far_device = {.ops = &far_ops, .name = "far:0"};
static struct sw_stream far_stream = {.dev = &far_device};

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i + 1);
}

static void new_tensors_are_zero_and_named_in_errors(void **state)
{
    struct sw_desc d = sw_desc_blocked(SW_F32, 4, (int64_t[]){2, 20, 3, 3}, 1, 16);
    struct sw_tensor *t = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_tensor_new(NULL, &d, "conv1", &t, &err), SW_OK);
    for (size_t i = 0; i < sw_desc_bytes(&d); i++)
        assert_int_equal(((unsigned char *)t->data)[i], 0);
    sw_tensor_free(t);
    sw_tensor_free(NULL);
    for (int at = 1; at <= 2; at++) {
        t = NULL;
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        assert_int_equal(sw_tensor_new(NULL, &d, "conv1", &t, &err), SW_ERR_NOMEM);
        assert_null(t);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
        assert_non_null(strstr(err.text, "conv1"));
    }
    d = sw_desc_plain(SW_F32, 2, (int64_t[]){INT64_MAX, 2});
    assert_int_equal(sw_tensor_new(NULL, &d, "fc9", &t, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "fc9"));
}

static void views_do_not_own(void **state)
{
    float memory[6] = {0}, plain[6];
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (int64_t[]){2, 3});
    struct sw_tensor t = sw_tensor_view(NULL, &d, memory);
    assert_false(t.owned);
    fill(plain, 6);
    assert_int_equal(sw_tensor_write(&t, NULL, plain, NULL), SW_OK);
    assert_memory_equal(memory, plain, sizeof memory);
}

/* Reads and writes by pieces of `rows` equal the whole. */
static void check_pieces(struct sw_tensor *t, struct sw_stream *s, int64_t rows)
{
    int64_t n = sw_desc_count(&t->desc), all = sw_tensor_rows(t);
    int64_t row = (int64_t)(sw_tensor_row_bytes(t) / sizeof(float));
    float *plain = malloc((size_t)n * sizeof *plain), *back = malloc((size_t)n * sizeof *back);
    fill(plain, n);
    for (int64_t first = 0; first < all; first += rows) {
        int64_t part = all - first < rows ? all - first : rows;
        assert_int_equal(sw_tensor_write_rows(t, s, first, part, plain + first * row, NULL), SW_OK);
    }
    memset(back, 0xFF, (size_t)n * sizeof *back);
    assert_int_equal(sw_tensor_read(t, s, back, NULL), SW_OK);
    assert_memory_equal(back, plain, (size_t)n * sizeof *back);
    memset(back, 0xFF, (size_t)n * sizeof *back);
    for (int64_t first = 0; first < all; first += rows) {
        int64_t part = all - first < rows ? all - first : rows;
        assert_int_equal(sw_tensor_read_rows(t, s, first, part, back + first * row, NULL), SW_OK);
    }
    assert_memory_equal(back, plain, (size_t)n * sizeof *back);
    free(plain);
    free(back);
}

/* OI4i4o and a transposed matrix, as weights of plans may be. */
static struct sw_desc weights_by_four(void)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (int64_t[]){10, 7});
    d.nblock = 2;
    d.block[0] = d.block[1] = 4;
    d.block_dim[0] = 1;
    d.block_dim[1] = 0;
    d.padded[0] = 12, d.padded[1] = 8;
    d.stride[1] = 16, d.stride[0] = 32;
    return d;
}

static struct sw_desc transposed(void)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (int64_t[]){10, 7});
    d.stride[0] = 1, d.stride[1] = 10;
    return d;
}

static void rows_are_copied_in_multiples_of_the_block(void **state)
{
    struct sw_desc d[] = {sw_desc_plain(SW_F32, 2, (int64_t[]){10, 7}),
                          sw_desc_blocked(SW_F32, 4, (int64_t[]){10, 5, 2, 3}, 1, 4),
                          weights_by_four(), transposed(),
                          sw_desc_plain(SW_F32, 0, (int64_t[]){1})};
    const int64_t step[] = {1, 1, 4, 10, 1};
    for (size_t i = 0; i < sizeof d / sizeof d[0]; i++) {
        for (int on_device = 0; on_device <= 1; on_device++) {
            struct sw_tensor *t = NULL;
            far.used = 0;
            assert_int_equal(sw_tensor_new(on_device ? &far_device : NULL, &d[i], "x", &t, NULL),
                             SW_OK);
            assert_int_equal(sw_tensor_row_step(t), step[i]);
            for (int64_t rows = step[i]; rows <= 2 * step[i]; rows += step[i])
                check_pieces(t, on_device ? &far_stream : NULL, rows);
            sw_tensor_free(t);
            assert_int_equal(far.alive, 0);
        }
    }
}

static void out_of_range_rows_are_rejected(void **state)
{
    float x[100] = {0};
    struct sw_desc d = weights_by_four();
    struct sw_tensor *t = NULL;
    assert_int_equal(sw_tensor_new(NULL, &d, "x", &t, NULL), SW_OK);
    const int64_t bad[][2] = {{-4, 4}, {0, 11}, {2, 4}, {0, 3}, {8, 4}, {12, 0}, {4, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sw_err err = {0};
        assert_int_equal(sw_tensor_read_rows(t, NULL, bad[i][0], bad[i][1], x, &err),
                         SW_ERR_INVALID);
        assert_int_equal(sw_tensor_write_rows(t, NULL, bad[i][0], bad[i][1], x, &err),
                         SW_ERR_INVALID);
    }
    assert_int_equal(sw_tensor_read_rows(t, NULL, 8, 2, x, NULL), SW_OK);
    sw_tensor_free(t);
}

static void device_errors_are_passed_on(void **state)
{
    float x[70] = {0};
    struct sw_err err = {0};
    struct sw_desc d = transposed();
    struct sw_tensor *t = NULL;
    far.used = 0;
    assert_int_equal(sw_tensor_new(&far_device, &d, "x", &t, NULL), SW_OK);
    far.fails = SW_ERR_LIBRARY;
    assert_int_equal(sw_tensor_read(t, &far_stream, x, &err), SW_ERR_LIBRARY);
    assert_int_equal(sw_tensor_write(t, &far_stream, x, &err), SW_ERR_LIBRARY);
    far.fails = 0;
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1, .forever = true});
    assert_int_equal(sw_tensor_read(t, &far_stream, x, &err), SW_ERR_NOMEM);
    assert_int_equal(sw_tensor_write(t, &far_stream, x, &err), SW_ERR_NOMEM);
    faulty_end();
    sw_tensor_free(t);
    d = sw_desc_plain(SW_F32, 1, (int64_t[]){ROOM});
    assert_int_equal(sw_tensor_new(&far_device, &d, "x", &t, &err), SW_ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_tensors_are_zero_and_named_in_errors),
        cmocka_unit_test(views_do_not_own),
        cmocka_unit_test(rows_are_copied_in_multiples_of_the_block),
        cmocka_unit_test(out_of_range_rows_are_rejected),
        cmocka_unit_test(device_errors_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
