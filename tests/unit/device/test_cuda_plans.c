/* ctest-labels: gpu
 * ctest-timeout: 300
 * Plans on a GPU compared with the CPU's reference: all passes, with plain and blocked sources and
 * with channels last, shapes that are not multiples of blocks or alignments, and one that cuDNN
 * does not support; in every precision. Skipped without a GPU. */
#include "base/os.h"
#include "cuda_support.h"
#include "device/tune.h"
#include "plan_support.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_stream *gpu;
static enum sw_precision precision; /* of it, and of the CPU's reference */

enum { CHANNELS_LAST = -1 }; /* instead of a block */

/* ---- A plan with host arrays that wraps a plan of the device ---- */

struct wrapped_plan {
    struct sw_plan base; /* first member */
    struct sw_plan *inner;
};

enum { ARRAYS = 10 };

typedef int pass_fn(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err);

static size_t bytes_of(const struct sw_desc *d)
{
    return d->ndim ? sw_desc_bytes(d) : 0;
}

static int call_inner(struct sw_plan *p, const struct sw_plan_args *a, pass_fn *run,
                      struct sw_err *err)
{
    const size_t src = bytes_of(&p->src), weight = bytes_of(&p->weight), bias = bytes_of(&p->bias);
    const size_t dst = bytes_of(&p->dst);
    const size_t bytes[ARRAYS] = {
        src, weight, bias, dst, dst, src, weight, bias, p->saved_bytes, p->scratch_bytes};
    const void *const here[ARRAYS] = {a->src,      a->weight,   a->bias,        a->dst,
                                      a->diff_dst, a->diff_src, a->diff_weight, a->diff_bias,
                                      a->saved,    a->scratch};
    void *there[ARRAYS] = {NULL};
    for (int i = 0; i < ARRAYS; i++)
        if (here[i] && bytes[i])
            there[i] = to_device(gpu, here[i], bytes[i]);
    const struct sw_plan_args b = {.src = there[0],
                                   .weight = there[1],
                                   .bias = there[2],
                                   .dst = there[3],
                                   .diff_dst = there[4],
                                   .diff_src = there[5],
                                   .diff_weight = there[6],
                                   .diff_bias = there[7],
                                   .saved = there[8],
                                   .scratch = there[9]};
    int rc = run(((struct wrapped_plan *)(void *)p)->inner, &b, err);
    for (int i = 0; i < ARRAYS; i++) {
        if (there[i] && rc == SW_OK)
            to_host(gpu, (void *)(uintptr_t)here[i], there[i], bytes[i]);
        sw_device_free(gpu->dev, there[i], bytes[i]);
    }
    return rc;
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return call_inner(p, a, ((struct wrapped_plan *)(void *)p)->inner->ops->forward, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return call_inner(p, a, ((struct wrapped_plan *)(void *)p)->inner->ops->backward_data, err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return call_inner(p, a, ((struct wrapped_plan *)(void *)p)->inner->ops->backward_weights, err);
}

static const struct sw_plan_ops carried_ops = {
    .forward = forward, .backward_data = backward_data, .backward_weights = backward_weights};

/* ---- Compared with the reference ---- */

static struct sw_desc layout_of(const struct problem *p, int block)
{
    struct sw_desc d = sw_desc_plain(SW_F32, problem_ndim(p), p->dim);
    if (block > 0)
        return sw_desc_blocked(SW_F32, problem_ndim(p), p->dim, 1, block);
    if (block == CHANNELS_LAST && p->dim[2]) {
        d.stride[1] = 1;
        d.stride[3] = p->dim[1];
        d.stride[2] = p->dim[1] * p->dim[3];
    }
    return d;
}

static int make_there(const struct problem *p, int block, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_plan_passes all = {true, has_weights(p), true};
    struct sw_desc src = layout_of(p, block);
    return make_plan_from(p, &src, gpu, all, out, err);
}

/* Both round the same operands and accumulate floats. But libraries round to tf32 differently, and
 * a convolution may have no engine that writes floats. */
static double limit_of(const struct problem *p)
{
    static const double rounded[] = {1e-4, 2e-3, 8e-3, 1e-3};
    return precision == SW_PRECISION_TF32 || p->kind == CONVOLUTION ? rounded[precision] : 1e-4;
}

static void compare(const struct problem *p, int block, const char *what, const float *a,
                    const float *b, int64_t n)
{
    char text[128];
    double *wanted = get_doubles(n);
    snprintf(text, sizeof text, "%s, %s, block %d: %s", sw_precision_name(precision), p->name,
             block, what);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = (double)b[i];
    assert_near(text, a, wanted, n, limit_of(p));
    free(wanted);
}

static void check_problem(const struct problem *p, int block, struct fixture *cpu)
{
    struct sw_plan *plan;
    struct sw_err err;
    ASSERT_OK(make_there(p, block, &plan, &err));
    struct wrapped_plan c = {.base = *plan, .inner = plan};
    c.base.ops = &carried_ops;
    struct tensors a = random_tensors(p, &c.base, 7), b = run_problem(p, cpu->stream, 7);
    run_plan(p, &c.base, &a);
    compare(p, block, "dst", a.dst, b.dst, a.dst_count);
    compare(p, block, "diff_src", a.diff_src, b.diff_src, a.src_count);
    if (has_weights(p))
        compare(p, block, "diff_weight", a.diff_weight, b.diff_weight, a.weight_count);
    if (has_bias(p))
        compare(p, block, "diff_bias", a.diff_bias, b.diff_bias, a.bias_count);
    sw_plan_free(plan);
    free_tensors(&a);
    free_tensors(&b);
}

static void check_table(const struct problem *p, size_t count)
{
    static const int blocks[] = {0, 8, 16, CHANNELS_LAST};
    struct fixture cpu = open_cpu_as(true, precision, 1);
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            check_problem(&p[i], blocks[b], &cpu);
    close_cpu(&cpu);
}

static void convolutions_agree(void **state)
{
    struct problem p[] = {
        conv_problem("one row, one channel", 1, 1, 6, 6, 1, 3, 1, 0, 1),
        conv_problem("groups of channels that are no block", 3, 6, 9, 10, 9, 3, 1, 1, 3),
        conv_problem("groups of one channel", 2, 8, 7, 7, 8, 3, 1, 1, 8),
        conv_problem("1x1", 2, 16, 5, 5, 12, 1, 1, 0, 1),
        conv_problem("dilated", 2, 4, 12, 12, 6, 3, 1, 2, 1),
        conv_problem("last pixels unseen", 2, 4, 11, 11, 5, 3, 3, 0, 1),
        conv_problem("no bias", 2, 5, 9, 9, 7, 5, 1, 0, 1),
        conv_problem("relu", 2, 4, 8, 8, 6, 3, 1, 1, 1),
        conv_problem("hangs over on one side", 2, 3, 7, 7, 4, 3, 1, 0, 1),
    };
    p[4].conv.dilation_h = p[4].conv.dilation_w = 2;
    p[4].conv.out_h = p[4].conv.out_w = conv_out(12, 3, 1, 2, 2);
    p[6].conv.bias = false;
    p[7].conv.fuse_relu = true;
    p[8].conv.out_h = p[8].conv.out_w = 7;
    check_table(p, sizeof p / sizeof *p);
}

/* Sizes that overflow in the library are refused, with the size that would work. */
static void arrays_of_2_to_the_31_are_refused(void **state)
{
    const struct problem p = conv_problem("large", 3000, 4, 120, 120, 64, 3, 1, 1, 1);
    struct sw_plan *plan;
    struct sw_err err = {0};
    assert_int_equal(make_there(&p, 0, &plan, &err), SW_ERR_UNSUPPORTED);
    assert_says(&err, "3000 rows has arrays of 2764800000 elements");
    assert_says(&err, "at most 2330 rows per worker");
}

static void poolings_agree(void **state)
{
    const struct problem p[] = {
        pool_problem("max, pad, windows over the border", true, 2, 5, 8, 6, 3, 2, 1),
        pool_problem("average, windows over the border", false, 2, 16, 8, 6, 3, 2, 0),
        pool_problem("average, pad, windows over the border", false, 2, 3, 8, 8, 3, 2, 1),
        pool_problem("max, overlapping", true, 2, 4, 9, 9, 3, 1, 1),
        pool_problem("average of a whole image", false, 2, 33, 7, 7, 7, 1, 0),
        pool_problem("gaps between windows", true, 2, 16, 11, 11, 2, 4, 0),
    };
    check_table(p, sizeof p / sizeof *p);
}

static void lrn_agrees(void **state)
{
    const struct problem p[] = {
        lrn_problem("as in AlexNet", 2, 20, 5, 5, 5, 1e-4f, 0.75f, 1),
        lrn_problem("strong", 2, 16, 4, 4, 5, 1, 0.75f, 1),
        lrn_problem("another power, three channels", 3, 20, 5, 6, 3, 0.5f, 0.5f, 2),
    };
    check_table(p, sizeof p / sizeof *p);
}

static void inner_products_agree(void **state)
{
    struct problem p[] = {
        ip_problem("relu", 5, 40, 0, 0, 33),
        ip_problem("relu without bias, image", 3, 24, 3, 5, 16),
        ip_problem("one output", 7, 100, 0, 0, 1),
        ip_problem("image", 4, 6, 3, 3, 10),
    };
    p[0].ip.fuse_relu = p[1].ip.fuse_relu = true;
    p[1].ip.bias = false;
    check_table(p, sizeof p / sizeof *p);
}

/* Weights are converted once, by forward; the plan's name says if results are 16-bit values. */
static void converted_weights_are_saved_for_backward(void **state)
{
    const struct sw_plan_passes all = {true, true, true}, none = {false, false, false};
    const struct problem p[] = {conv_problem("conv", 2, 8, 6, 6, 16, 3, 1, 1, 1),
                                ip_problem("ip", 3, 20, 0, 0, 10)};
    for (int i = 0; i < 2; i++)
        for (int training = 0; training < 2; training++) {
            struct sw_plan *plan;
            struct sw_err err;
            ASSERT_OK(make_plan(&p[i], gpu, training ? all : none, &plan, &err));
            size_t weights = (size_t)sw_desc_count(&plan->weight) * 2;
            if (training && sw_precision_is_half(precision))
                assert_true(plan->saved_bytes >= weights && plan->saved_bytes < weights + 256);
            else
                assert_int_equal(plan->saved_bytes, 0);
            assert_true(precision == SW_PRECISION_FP32 ||
                        strstr(plan->algorithm, sw_precision_name(precision)));
            sw_plan_free(plan);
        }
}

/* A clock with arbitrary times, so that every engine is the fastest once. */
static int64_t whim(void)
{
    static int64_t now_ns = 1;
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    now_ns += (int64_t)(state >> 40);
    return now_ns;
}

static void name_forward(const struct problem *p, struct sw_tune *t, char algorithm[64])
{
    struct sw_plan *plan;
    struct sw_err err;
    gpu->dev->tune = t;
    ASSERT_OK(make_there(p, CHANNELS_LAST, &plan, &err));
    memcpy(algorithm, plan->algorithm, sizeof plan->algorithm);
    sw_plan_free(plan);
}

/* Whichever implementation is chosen, a table with the saved choices uses the same. */
static void check_measured(const struct problem *p)
{
    struct fixture cpu = open_cpu_as(true, precision, 1);
    struct sw_os os = sw_os_posix;
    int chosen = 0, others = 0;
    os.monotonic_ns = whim;
    for (int i = 0; i < 6; i++) {
        struct sw_tune t, later;
        struct sw_err err;
        char here[64], there[64];
        sw_tune_init(&t, true);
        sw_tune_init(&later, false);
        sw_os_set(&os);
        name_forward(p, &t, here);
        sw_os_set(NULL);
        check_problem(p, CHANNELS_LAST, &cpu);
        for (int k = 0; k < t.count; k++)
            others += strcmp(t.items[k].name, t.items[k].rule) != 0;
        chosen += t.count;
        for (int k = 0; k < t.count; k++)
            ASSERT_OK(sw_tune_put(&later, t.items[k].key, t.items[k].name, SW_TUNE_KEPT, &err));
        name_forward(p, &later, there);
        assert_string_equal(here, there);
        gpu->dev->tune = NULL;
        sw_tune_fini(&later);
        sw_tune_fini(&t);
    }
    print_message("%s: %d choices, %d of them not the rule's\n", p->name, chosen, others);
    assert_true(chosen == 0 || others > 0);
    close_cpu(&cpu);
}

static void measured_engines_match_the_reference(void **state)
{
    const struct problem p = conv_problem("conv", 2, 8, 9, 9, 16, 3, 1, 1, 1);
    check_measured(&p);
}

/* Fused and not, and with weights stored plain and transposed. */
static void measured_products_match_the_reference(void **state)
{
    struct problem p[] = {ip_problem("relu", 5, 40, 0, 0, 32), ip_problem("image", 4, 6, 3, 3, 20),
                          ip_problem("turned", 6, 24, 0, 0, 16)};
    const int64_t weight[] = {16, 24}, turned[] = {24, 16};
    struct sw_desc stored = sw_desc_plain(SW_F32, 2, turned);
    struct sw_desc layout = sw_desc_transposed(&stored, 0, 1);
    assert_memory_equal(layout.dim, weight, sizeof weight);
    p[0].ip.fuse_relu = true;
    p[2].ip.weight_layout = &layout;
    for (int i = 0; i < 3; i++)
        check_measured(&p[i]);
}

/* ---- 16 bits ---- */

/* Runs forward on the stream `on`, whose device has the plan. The caller frees the result. */
static void *result_of(struct sw_stream *on, struct sw_plan *plan, const void *src)
{
    struct sw_err err;
    size_t from = sw_desc_bytes(&plan->src), to = sw_desc_bytes(&plan->dst);
    void *there = to_device(on, src, from), *dst = device_bytes(on->dev, to), *back = get_bytes(to);
    const size_t scratch = plan->scratch_bytes, saved = plan->saved_bytes;
    struct sw_plan_args a = {.src = there,
                             .dst = dst,
                             .scratch = scratch ? device_bytes(on->dev, scratch) : NULL,
                             .saved = saved ? device_bytes(on->dev, saved) : NULL};
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    to_host(on, back, dst, to);
    sw_device_free(on->dev, there, from);
    sw_device_free(on->dev, dst, to);
    if (scratch)
        sw_device_free(on->dev, a.scratch, scratch);
    if (saved)
        sw_device_free(on->dev, a.saved, saved);
    sw_plan_free(plan);
    return back;
}

/* Reorders that convert, and the largest of 16-bit values, have the bits of the CPU. */
static void conversions_agree(void **state)
{
    struct fixture cpu = open_cpu(true, 1);
    struct problem p = pool_problem("maximum", true, 2, 20, 5, 7, 3, 2, 0);
    const int blocks[] = {0, 8, 16, CHANNELS_LAST};
    struct rng r = rng_of(3);
    for (int i = 0; i < 4 * 4 * 2; i++) {
        struct sw_desc from = layout_of(&p, blocks[i % 4]), to = layout_of(&p, blocks[i / 4 % 4]);
        struct sw_plan *plan[4];
        struct sw_err err;
        float *plain = random_floats(&r, sw_desc_count(&from), -3, 3);
        void *floats = stored_of(&from, plain), *got[4];
        to.dtype = i / 16 ? SW_F16 : SW_BF16;
        ASSERT_OK(make_reorder(cpu.stream, &from, &to, &plan[0], &err));
        ASSERT_OK(make_reorder(gpu, &from, &to, &plan[1], &err));
        ASSERT_OK(make_reorder(cpu.stream, &to, &from, &plan[2], &err));
        ASSERT_OK(make_reorder(gpu, &to, &from, &plan[3], &err));
        for (int k = 0; k < 4; k++)
            got[k] = result_of(k % 2 ? gpu : cpu.stream, plan[k], k < 2 ? floats : got[0]);
        assert_same_bits("to 16 bits", got[1], got[0], sw_desc_bytes(&to));
        assert_same_bits("from 16 bits", got[3], got[2], sw_desc_bytes(&from));
        free(got[2]);
        free(got[3]);

        struct sw_desc other = sw_desc_as(&from, to.dtype);
        const struct sw_plan_passes none = {false, false, false};
        ASSERT_OK(make_reorder(cpu.stream, &to, &other, &plan[0], &err));
        ASSERT_OK(make_reorder(gpu, &to, &other, &plan[1], &err));
        got[2] = result_of(cpu.stream, plan[0], got[0]);
        got[3] = result_of(gpu, plan[1], got[0]);
        assert_same_bits("moved", got[3], got[2], sw_desc_bytes(&other));
        free(got[2]);
        free(got[3]);

        ASSERT_OK(make_plan_from(&p, &to, cpu.stream, none, &plan[0], &err));
        ASSERT_OK(make_plan_from(&p, &to, gpu, none, &plan[1], &err));
        assert_int_equal(plan[1]->dst.dtype, to.dtype);
        struct sw_desc results[] = {plan[0]->dst, plan[1]->dst};
        for (int k = 0; k < 2; k++) {
            void *stored = result_of(k ? gpu : cpu.stream, plan[k], got[0]);
            got[2 + k] = get_bytes(sw_desc_bytes(&results[k]));
            sw_desc_to_plain(&results[k], stored, got[2 + k]);
            free(stored);
        }
        assert_same_bits("maximum", got[3], got[2], (size_t)sw_desc_count(&results[0]) * 2);
        for (int k = 0; k < 4; k++)
            free(got[k]);
        free(floats);
        free(plain);
    }
    close_cpu(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_agree),
        cmocka_unit_test(arrays_of_2_to_the_31_are_refused),
        cmocka_unit_test(poolings_agree),
        cmocka_unit_test(lrn_agrees),
        cmocka_unit_test(inner_products_agree),
        cmocka_unit_test(conversions_agree),
        cmocka_unit_test(measured_engines_match_the_reference),
        cmocka_unit_test(measured_products_match_the_reference),
        cmocka_unit_test(converted_weights_are_saved_for_backward),
    };
    int rc = 0;
    for (precision = SW_PRECISION_FP32; precision <= SW_PRECISION_FP16 && rc == 0; precision++) {
        struct sw_device *dev = open_gpu_as(0, precision);
        if (!dev)
            return SKIPPED;
        gpu = new_stream(dev);
        rc = cmocka_run_group_tests(tests, NULL, NULL);
        sw_stream_free(gpu);
        sw_device_close(dev);
    }
    return rc;
}
