/* ctest-labels: gpu
 * Copies between layouts on a GPU have the same bits as on the CPU: slices of every layout to every
 * other one, copied or added, with sizes above and below those of a tile. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"
#include "kernels/ops/layout.h"
#include "sim_support.h" /* streams, copies to a device and back */

enum { PLAIN, CHANNELS_LAST, BLOCKED, LAYOUTS };

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

static struct sw_desc layout_of(int layout, const int64_t *dim)
{
    struct sw_desc d =
        layout == BLOCKED ? sw_desc_blocked(SW_F32, 4, dim, 1, 16) : sw_desc_plain(SW_F32, 4, dim);
    if (layout == CHANNELS_LAST) {
        d.stride[1] = 1;
        d.stride[3] = dim[1];
        d.stride[2] = dim[1] * dim[3];
        d.stride[0] = dim[1] * dim[3] * dim[2];
    }
    return d;
}

static void check_part(const struct sw_part_args *part)
{
    struct rng r = rng_of(31);
    struct sw_err err;
    struct sw_part_args a = *part;
    const size_t from = sw_desc_bytes(&a.from), to = sw_desc_bytes(&a.to);
    float *x = random_floats(&r, sw_desc_storage(&a.from), -1, 1);
    float *y = random_floats(&r, sw_desc_storage(&a.to), -1, 1), *back = malloc(to);
    char what[96];
    assert_non_null(back);
    a.src = to_device(gpu, x, from);
    a.dst = to_device(gpu, y, to);
    ASSERT_OK(sw_op_run(gpu, &sw_op_part, &a, &err));
    to_host(gpu, back, a.dst, to);
    sw_device_free(dev, (void *)a.src, from);
    sw_device_free(dev, a.dst, to);
    a.src = x;
    a.dst = y;
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_part, &a, &err));
    float *want = malloc(to), *got = malloc(to);
    assert_true(want && got);
    sw_desc_to_plain(&a.to, y, want); /* without padding, which may become zero */
    sw_desc_to_plain(&a.to, back, got);
    snprintf(what, sizeof what, "%lld of %lld x %lld x %lld x %lld along %d", (long long)a.count,
             (long long)a.to.dim[0], (long long)a.to.dim[1], (long long)a.to.dim[2],
             (long long)a.to.dim[3], a.axis);
    assert_same_bits(what, got, want, (size_t)sw_desc_count(&a.to) * sizeof *got);
    free(x), free(y), free(back), free(want), free(got);
}

/* `count` indices of an axis from another tensor, whose size along it is `size`. */
static void check_slice(const int64_t *dim, int axis, int64_t size, int64_t from_at, int64_t to_at,
                        int64_t count)
{
    int64_t other[4] = {dim[0], dim[1], dim[2], dim[3]};
    other[axis] = size;
    for (int from = 0; from < LAYOUTS; from++)
        for (int to = 0; to < LAYOUTS; to++)
            for (int add = 0; add < 2; add++)
                check_part(&(struct sw_part_args){.from = layout_of(from, other),
                                                  .to = layout_of(to, dim),
                                                  .axis = axis,
                                                  .add = add,
                                                  .from_at = from_at,
                                                  .to_at = to_at,
                                                  .count = count});
}

static void slices_of_every_layout_have_the_bits_of_the_cpu(void **state)
{
    check_slice((int64_t[]){2, 40, 7, 9}, 1, 40, 0, 0, 40);   /* all of it, in tiles */
    check_slice((int64_t[]){3, 70, 6, 11}, 1, 45, 5, 19, 37); /* some channels */
    check_slice((int64_t[]){2, 33, 8, 5}, 2, 9, 3, 1, 6);     /* lines: they do not merge */
    check_slice((int64_t[]){2, 20, 3, 40}, 3, 50, 13, 2, 35); /* columns */
    check_slice((int64_t[]){2, 80, 3, 4}, 1, 48, 16, 32, 24); /* four at a time */
    check_slice((int64_t[]){4, 3, 20, 20}, 1, 3, 0, 0, 3);    /* few channels: no tiles */
    check_slice((int64_t[]){5, 64, 1, 1}, 1, 64, 0, 0, 64);   /* one pixel */
    check_slice((int64_t[]){1, 32, 4, 16}, 1, 96, 32, 0, 32); /* one row */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_every_layout_have_the_bits_of_the_cpu),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;
    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
