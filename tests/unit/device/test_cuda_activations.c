/* ctest-labels: gpu
 * Operations on activations on a GPU compared with the CPU, for all types of elements: odd sizes,
 * pointers that are not aligned for vectors, outputs in place of inputs, padding. None of them runs
 * on the host. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/half.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/eltwise.h"
#include "kernels/ops/layout.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;
static struct rng random_numbers;

static const enum sw_dtype types[] = {SW_F32, SW_BF16, SW_F16};
enum { TYPES = 3, MOST_BYTES = 1 << 16 };

static float value_of(enum sw_dtype t, const void *x, int64_t i)
{
    return t == SW_F32    ? ((const float *)x)[i]
           : t == SW_BF16 ? sw_bf16_value(((const uint16_t *)x)[i])
                          : sw_fp16_value(((const uint16_t *)x)[i]);
}

/* Returns n elements between -2 and 2, which are freed by the caller; some are zero, some tiny. */
static void *elements(enum sw_dtype t, int64_t n)
{
    void *x = get_bytes((size_t)n * sw_dtype_bytes(t));

    for (int64_t i = 0; i < n; i++) {
        float v = rng_int(&random_numbers, 0, 9) ? rng_real(&random_numbers, -2, 2) : 0.0f;
        if (i % 13 == 5)
            v = ldexpf(v, -16); /* subnormal in fp16 */
        if (t == SW_F32)
            ((float *)x)[i] = v;
        else
            ((uint16_t *)x)[i] = t == SW_BF16 ? sw_bf16_of(v) : sw_fp16_of(v);
    }

    return x;
}

/* How results are compared: limit 0: the bits, else the difference in units of the last place (of
 * floats: 1e-5) of 1 and the value. shift: elements before the activations on the GPU. */
struct how {
    double limit;
    int shift;
};

static void compare(const struct sw_op *op, const struct sw_op_array *a, const void *got,
                    const void *want, double limit)
{
    const enum sw_dtype t = a->type ? *a->type : SW_F32;
    const double unit = t == SW_F32 ? 1e-5 : ldexp(1, t == SW_BF16 ? -7 : -10);
    char what[64];
    snprintf(what, sizeof what, "%s, %s %s", op->name, a->name, sw_dtype_name(t));

    if (limit == 0.0) {
        assert_same_bits(what, got, want, a->bytes);
        return;
    }

    for (int64_t i = 0; i < (int64_t)(a->bytes / sw_dtype_bytes(t)); i++) {
        const double x = (double)value_of(t, got, i), y = (double)value_of(t, want, i);
        if (!(fabs(x - y) <= limit * unit * (1 + fabs(y))))
            fail_msg("%s: element %lld is %.9g instead of %.9g", what, (long long)i, x, y);
    }
}

/* Runs the operation on the GPU and then on the CPU, on arrays that the arguments name in host
 * memory, and compares what both write. Sums and scratch are not compared. */
static void check(const struct sw_op *op, const void *args, struct how how)
{
    _Alignas(max_align_t) char here[SW_OP_ARGS_BYTES], there[SW_OP_ARGS_BYTES];
    const uint64_t bridged = sw_device_bytes_of(dev).bridged;
    struct sw_op_arrays list;
    struct sw_err err;
    void *host[SW_OP_ARRAYS] = {0}, *device[SW_OP_ARRAYS] = {0};
    static char back[SW_OP_ARRAYS][MOST_BYTES];

    memcpy(here, args, op->args_bytes);
    memcpy(there, args, op->args_bytes);
    sw_op_list(op, here, &list);

    for (int i = 0; i < list.count; i++) {
        const struct sw_op_array *a = &list.array[i];
        const size_t shift =
            a->type ? (size_t)how.shift * sw_dtype_bytes(*a->type) : 0; /* others are aligned */
        assert_true(a->bytes <= MOST_BYTES);
        memcpy(&host[i], here + a->offset, sizeof host[i]);
        if (!a->bytes)
            continue;

        for (int k = 0; k < i && !device[i]; k++)
            device[i] = host[k] == host[i] ? device[k] : NULL;
        if (!device[i]) {
            device[i] = (char *)device_bytes(dev, a->bytes + shift) + shift;
            ASSERT_OK(sw_copy(gpu, device[i], host[i], a->bytes, &err));
        }
        memcpy(there + a->offset, &device[i], sizeof device[i]);
    }

    ASSERT_OK(sw_op_run(gpu, op, there, &err));
    for (int i = 0; i < list.count; i++)
        if (list.array[i].bytes && list.array[i].written)
            to_host(gpu, back[i], device[i], list.array[i].bytes);
    ASSERT_OK(sw_op_run(cpu.stream, op, here, &err));
    assert_true(sw_device_bytes_of(dev).bridged == bridged);

    for (int i = 0; i < list.count; i++) {
        const struct sw_op_array *a = &list.array[i];
        if (a->bytes && a->written && strcmp(a->name, "sums") != 0 &&
            strcmp(a->name, "scratch") != 0)
            compare(op, a, back[i], host[i], how.limit);
    }

    for (int i = 0; i < list.count; i++) {
        const struct sw_op_array *a = &list.array[i];
        const size_t shift = a->type ? (size_t)how.shift * sw_dtype_bytes(*a->type) : 0;
        bool first = device[i];
        for (int k = 0; k < i; k++)
            first = first && device[k] != device[i];
        if (first)
            sw_device_free(dev, (char *)device[i] - shift, a->bytes + shift);
    }
}

/* Sizes with and without elements after the last vector. */
static const int64_t sizes[] = {1, 8, 67, 2048, 3003};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_activation(enum sw_dtype t, int64_t n, enum sw_activation f, int shift)
{
    const bool relu = f == SW_ACT_RELU;
    void *x = elements(t, n), *y = elements(t, n), *dy = elements(t, n), *dx = elements(t, n);

    check(&sw_op_activate,
          &(struct sw_activation_args){
              .function = f, .alpha = 0.1f, .type = t, .n = n, .x = x, .y = shift ? x : y},
          (struct how){relu ? 0 : 1, shift});
    check(&sw_op_activation_gradient,
          &(struct sw_activation_gradient_args){.function = f,
                                                .alpha = 0.1f,
                                                .type = t,
                                                .n = n,
                                                .x = x,
                                                .y = y,
                                                .dy = dy,
                                                .dx = shift ? dy : dx},
          (struct how){relu ? 0 : 2, shift});

    free(x);
    free(y);
    free(dy);
    free(dx);
}

static void activation_functions_match_the_cpu(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int f = 0; f < SW_ACT_COUNT; f++)
                if (f == SW_ACT_RELU || sizes[i] == 67)
                    for (int shift = 0; shift < 2; shift++)
                        check_activation(types[t], sizes[i], f, shift);
}

static void sums_match_the_cpu(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int shift = 0; shift < 2; shift++) {
                void *x = elements(types[t], sizes[i]), *y = elements(types[t], sizes[i]);
                check(&sw_op_add_to,
                      &(struct sw_add_args){.type = types[t], .n = sizes[i], .y = y, .x = x},
                      (struct how){0, shift});
                free(x);
                free(y);
            }
}

enum { SRCS = 3 };

/* Three arrays combined, and the gradients, of which one replaces dy, one is added to, and one is
 * not needed. */
static void check_eltwise(enum sw_dtype t, int64_t n, enum sw_eltwise kind, bool relu, int shift)
{
    const struct how how = {kind == SW_ELTWISE_MAX ? 0 : 1, shift};
    void *x[SRCS], *y = elements(t, n), *dy = elements(t, n), *dx = elements(t, n);
    for (int k = 0; k < SRCS; k++)
        x[k] = elements(t, n);

    struct sw_eltwise_args a = {.kind = kind,
                                .count = SRCS,
                                .relu = relu,
                                .n = n,
                                .factor = {1, -2, 0.5f},
                                .type = t,
                                .x = {x[0], x[1], x[2]},
                                .y = y};
    check(&sw_op_eltwise, &a, how);
    a.y = x[0];
    check(&sw_op_eltwise, &a, how);

    if (kind == SW_ELTWISE_SUM)
        check(&sw_op_eltwise_sum_gradient,
              &(struct sw_eltwise_sum_gradient_args){.count = SRCS,
                                                     .adds = 2,
                                                     .n = n,
                                                     .factor = {1, -2, 0.5f},
                                                     .type = t,
                                                     .y = relu ? y : NULL,
                                                     .dy = dy,
                                                     .dx = {NULL, dx, dy}},
              how);

    for (int of = 0; of < SRCS && kind != SW_ELTWISE_SUM; of++) {
        struct sw_eltwise_gradient_args g = {.kind = kind,
                                             .count = SRCS,
                                             .of = of,
                                             .add = of == 1,
                                             .n = n,
                                             .type = t,
                                             .x = {x[0], x[1], x[2]},
                                             .y = relu ? y : NULL,
                                             .dy = dy,
                                             .dx = of == 2 ? dy : dx};
        if (kind == SW_ELTWISE_PRODUCT)
            g.x[of] = NULL; /* is not read */
        check(&sw_op_eltwise_gradient, &g, how);
    }

    for (int k = 0; k < SRCS; k++)
        free(x[k]);
    free(y);
    free(dy);
    free(dx);
}

static void combinations_match_the_cpu(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int kind = SW_ELTWISE_SUM; kind <= SW_ELTWISE_MAX; kind++)
            for (int relu = 0; relu < 2; relu++) {
                check_eltwise(types[t], 67, kind, relu, relu);
                check_eltwise(types[t], 2048, kind, relu, 0);
            }
}

/* The layouts of [N, C, H, W]. */
enum layout { PLAIN, CHANNELS_LAST, BLOCKED, LAYOUTS };

static struct sw_desc image(enum sw_dtype t, enum layout layout, const int64_t *dim)
{
    struct sw_desc d =
        layout == BLOCKED ? sw_desc_blocked(t, 4, dim, 1, 8) : sw_desc_plain(t, 4, dim);
    if (layout != CHANNELS_LAST)
        return d;

    d.stride[1] = 1;
    d.stride[3] = dim[1];
    d.stride[2] = dim[1] * dim[3];
    d.stride[0] = dim[1] * dim[3] * dim[2];
    return d;
}

/* Returns the elements of an activation, whose padding is zero. */
static void *activation(const struct sw_desc *d)
{
    void *plain = elements(d->dtype, sw_desc_count(d)), *x = get_bytes(sw_desc_bytes(d));

    sw_desc_from_plain(d, plain, x);
    free(plain);
    return x;
}

static const int64_t shapes[][4] = {{3, 16, 4, 4}, {2, 8, 3, 5}, {3, 5, 4, 2}, {4, 64, 1, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_dropout(const struct sw_desc *d, const struct sw_dropout *k, double limit)
{
    const struct sw_step step = {.step = 3, .first_row = 9, .valid_rows = d->dim[0]};
    void *x = activation(d), *y = activation(d);
    struct sw_dropout_args a = {.desc = *d, .dropout = *k, .step = &step, .x = x, .y = y};

    check(&sw_op_dropout, &a, (struct how){limit, 0});
    a.y = x;
    check(&sw_op_dropout, &a, (struct how){limit, 1});
    free(x);
    free(y);
}

static void dropout_matches_the_cpu(void **state)
{
    const struct sw_dropout drops = {
        .key = sw_philox_stream(5, 1, 2), .threshold = 1u << 30, .scale = 4.0f / 3};
    struct sw_dropout shard = drops, noise = drops;
    shard.first_channel = 3;
    noise.std = 0.5f;

    for (int t = 0; t < TYPES; t++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int i = 0; i < SHAPES; i++) {
                const struct sw_desc d = image(types[t], layout, shapes[i]);
                shard.channels = d.dim[1] + 7;
                check_dropout(&d, &drops, 0);
                check_dropout(&d, &shard, 0);
                check_dropout(&d, &noise, 1);
            }
}

static void check_norm(const struct sw_desc *d, bool relu, int shift)
{
    const int64_t c = d->dim[1];
    float *channel = random_floats(&random_numbers, 8 * c, 0.5, 1.5);
    double *sums = get_doubles(2 * c + 1);
    void *x = activation(d), *y = activation(d), *dy = activation(d), *dx = activation(d);
    struct sw_batch_norm_args a = {.b = {.desc = *d,
                                         .eps = 1e-3f,
                                         .momentum = 0.9f,
                                         .relu = relu,
                                         .sums = sums,
                                         .scratch = calloc(1, sw_channel_scratch_bytes(d)),
                                         .scale = channel,
                                         .bias = channel + c,
                                         .mean = channel + 2 * c,
                                         .inv_std = channel + 3 * c,
                                         .update_mean = channel + 4 * c,
                                         .update_variance = channel + 5 * c},
                                   .x = x,
                                   .y = y};
    assert_non_null(a.b.scratch);
    for (int64_t i = 0; i < 2 * c; i++)
        sums[i] = i < c ? 3 : 40;
    sums[2 * c] = 24;

    check(&sw_op_batch_norm, &a, (struct how){2, shift});
    check(&sw_op_batch_norm_again, &a, (struct how){2, shift});
    a.b.running_mean = channel + 4 * c;
    a.b.running_variance = channel + 5 * c;
    check(&sw_op_batch_norm_running, &a, (struct how){2, shift});

    a.y = NULL;
    a.dy = dy;
    a.dx = shift ? dy : dx;
    check(&sw_op_batch_norm_gradient, &a, (struct how){2, shift});

    free(a.b.scratch);
    free(channel);
    free(sums);
    free(x);
    free(y);
    free(dy);
    free(dx);
}

static void normalization_matches_the_cpu(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int i = 0; i < SHAPES; i++) {
                const struct sw_desc d = image(types[t], layout, shapes[i]);
                check_norm(&d, i % 2, 0);
                check_norm(&d, !(i % 2), 1);
            }
}

/* Channels 1 to 4 of a tensor go to channels 2 to 5 of another one, whose type or layout differs;
 * all 16 bits of any two types but bf16 with fp16. */
static void check_part(enum sw_dtype from, enum sw_dtype to, bool add)
{
    const int64_t small[] = {2, 6, 3, 2}, large[] = {2, 9, 3, 2};

    for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
        struct sw_part_args a = {.from = image(from, i % LAYOUTS, small),
                                 .to = image(to, i / LAYOUTS, large),
                                 .axis = 1,
                                 .add = add,
                                 .from_at = 1,
                                 .to_at = 2,
                                 .count = 4};
        void *src = activation(&a.from);
        a.src = src;
        a.dst = activation(&a.to);
        check(&sw_op_part, &a, (struct how){0, i % 2});
        free(src);
        free(a.dst);
    }
}

static void parts_match_the_cpu(void **state)
{
    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES; to++)
            for (int add = 0; add < 2; add++)
                if (from == to || types[from] == SW_F32 || types[to] == SW_F32)
                    check_part(types[from], types[to], add);
}

static void padding_becomes_zero(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SHAPES; i++) {
            struct sw_zero_padding_args a = {.desc = image(types[t], BLOCKED, shapes[i])};
            a.x = elements(types[t], sw_desc_storage(&a.desc));
            check(&sw_op_clear_padding, &a, (struct how){0, 1});
            free(a.x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activation_functions_match_the_cpu),
        cmocka_unit_test(sums_match_the_cpu),
        cmocka_unit_test(combinations_match_the_cpu),
        cmocka_unit_test(dropout_matches_the_cpu),
        cmocka_unit_test(normalization_matches_the_cpu),
        cmocka_unit_test(parts_match_the_cpu),
        cmocka_unit_test(padding_becomes_zero),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;

    random_numbers = rng_of(31);
    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
