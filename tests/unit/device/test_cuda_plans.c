/* ctest-labels: gpu
 * ctest-timeout: 300
 * Plans on a GPU compared with the CPU's reference: all passes, with plain and blocked sources and
 * with channels last, shapes that are not multiples of blocks or alignments, and one that cuDNN
 * does not support; in every precision, and on activations of 16 bits. Skipped without a GPU. */
#include "base/os.h"
#include "cuda_support.h"
#include "device/tune.h"
#include "kernels/half.h"
#include "plan_support.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_stream *gpu;
static enum sw_precision precision; /* of it, and of the CPU's reference */

enum { CHANNELS_LAST = -1 }; /* instead of a block */

/* ---- A plan with host arrays of floats that wraps a plan of a device ---- */

struct wrapped_plan {
    struct sw_plan base; /* first member */
    struct sw_plan *inner;
};

typedef int pass_fn(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err);

/* The type of an array. */
static enum sw_dtype type_of(const struct sw_plan *p, int array)
{
    return array == SW_PLAN_SRC || array == SW_PLAN_DIFF_SRC   ? p->src.dtype
           : array == SW_PLAN_DST || array == SW_PLAN_DIFF_DST ? p->dst.dtype
                                                               : SW_F32;
}

/* Floats as the device stores them, in `bytes`. */
static void *send(struct sw_stream *s, enum sw_dtype type, const void *here, size_t bytes)
{
    if (type == SW_F32)
        return to_device(s, here, bytes);
    uint16_t *halves = get_bytes(bytes);
    for (size_t i = 0; i < bytes / sizeof *halves; i++) {
        float x = ((const float *)here)[i];
        halves[i] = type == SW_BF16 ? sw_bf16_of(x) : sw_fp16_of(x);
    }
    void *there = to_device(s, halves, bytes);
    free(halves);
    return there;
}

static void fetch(struct sw_stream *s, enum sw_dtype type, void *here, const void *there,
                  size_t bytes)
{
    if (type == SW_F32) {
        to_host(s, here, there, bytes);
        return;
    }
    uint16_t *halves = get_bytes(bytes);
    to_host(s, halves, there, bytes);
    for (size_t i = 0; i < bytes / sizeof *halves; i++)
        ((float *)here)[i] = type == SW_BF16 ? sw_bf16_value(halves[i]) : sw_fp16_value(halves[i]);
    free(halves);
}

static int call_inner(struct sw_plan *p, const struct sw_plan_args *a, pass_fn *run,
                      struct sw_err *err)
{
    struct sw_plan *inner = ((struct wrapped_plan *)(void *)p)->inner;
    size_t bytes[SW_PLAN_ARRAYS];
    void *here[SW_PLAN_ARRAYS], *there[SW_PLAN_ARRAYS] = {NULL};
    sw_plan_bytes(inner, bytes);
    sw_plan_list(a, here);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        if (here[i] && bytes[i])
            there[i] = send(inner->stream, type_of(inner, i), here[i], bytes[i]);
    const struct sw_plan_args b = sw_plan_args_of(there);
    int rc = run(inner, &b, err);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++) {
        if (there[i] && rc == SW_OK)
            fetch(inner->stream, type_of(inner, i), here[i], there[i], bytes[i]);
        sw_device_free(inner->stream->dev, there[i], bytes[i]);
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

/* One rounding to the type, of the largest value. */
static double rounding(enum sw_dtype type)
{
    return type == SW_BF16 ? 8e-3 : 1e-3;
}

/* Both round the same operands and accumulate floats. But libraries round to tf32 differently, and
 * a convolution may have no engine that writes floats. */
static double limit_of(const struct problem *p, enum sw_dtype type)
{
    static const double rounded[] = {1e-4, 2e-3, 8e-3, 1e-3};
    if (type != SW_F32)
        return rounding(type);
    return precision == SW_PRECISION_TF32 || convolves(p) ? rounded[precision] : 1e-4;
}

static void compare(const struct problem *p, int block, const char *what, const float *a,
                    const float *b, int64_t n, double limit)
{
    char text[128];
    double *wanted = get_doubles(n);
    snprintf(text, sizeof text, "%s, %s, block %d: %s", sw_precision_name(precision), p->name,
             block, what);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = (double)b[i];
    assert_near(text, a, wanted, n, limit);
    free(wanted);
}

static void compare_all(const struct problem *p, int block, const struct sw_plan *plan,
                        const struct tensors *a, const struct tensors *b)
{
    double params = limit_of(p, SW_F32);
    compare(p, block, "dst", a->dst, b->dst, a->dst_count, limit_of(p, plan->dst.dtype));
    compare(p, block, "diff_src", a->diff_src, b->diff_src, a->src_count,
            limit_of(p, plan->src.dtype));
    if (has_weights(p))
        compare(p, block, "diff_weight", a->diff_weight, b->diff_weight, a->weight_count, params);
    if (has_bias(p))
        compare(p, block, "diff_bias", a->diff_bias, b->diff_bias, a->bias_count, params);
}

/* Runs the plan on random floats. */
static struct tensors run_wrapped(const struct problem *p, struct sw_plan *plan)
{
    struct wrapped_plan c = {.base = *plan, .inner = plan};
    c.base.ops = &carried_ops;
    c.base.src.dtype = c.base.dst.dtype = SW_F32;
    struct tensors t = random_tensors(p, &c.base, 7);
    run_plan(p, &c.base, &t);
    return t;
}

static void check_types(const struct problem *p, int block, enum sw_dtype from, enum sw_dtype to,
                        struct fixture *cpu)
{
    const struct sw_plan_passes all = {true, has_weights(p), true};
    struct sw_plan *here, *there;
    struct sw_err err;
    struct sw_desc plain = layout_of(p, 0), src = layout_of(p, block);
    plain.dtype = src.dtype = from;
    ASSERT_OK(make_plan_to(p, &plain, to, cpu->stream, all, &here, &err));
    ASSERT_OK(make_plan_to(p, &src, to, gpu, all, &there, &err));
    assert_int_equal(there->dst.dtype, to);
    struct tensors a = run_wrapped(p, there), b = run_wrapped(p, here);
    compare_all(p, block, there, &a, &b);
    sw_plan_free(here);
    sw_plan_free(there);
    free_tensors(&a);
    free_tensors(&b);
}

static void check_problem(const struct problem *p, int block, struct fixture *cpu)
{
    check_types(p, block, SW_F32, SW_F32, cpu);
}

/* The type of activations: that of the precision, or one that no product has. */
static enum sw_dtype half_type(void)
{
    return precision == SW_PRECISION_FP16 ? SW_F16 : SW_BF16;
}

static void check_table(const struct problem *p, size_t count)
{
    static const int blocks[] = {0, 8, 16, CHANNELS_LAST};
    struct fixture cpu = open_cpu_as(true, precision, 1);
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (int types = 0; types < 4; types++)
                if (types % 3 == 0 || blocks[b] == CHANNELS_LAST)
                    check_types(&p[i], blocks[b], types & 1 ? half_type() : SW_F32,
                                types & 2 ? half_type() : SW_F32, &cpu);
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
        conv_problem("relu in no graph", 2, 4, 6, 6, 14, 3, 1, 1, 1),
    };
    p[4].conv.dilation_h = p[4].conv.dilation_w = 2;
    p[4].conv.out_h = p[4].conv.out_w = conv_out(12, 3, 1, 2, 2);
    p[6].conv.bias = false;
    p[7].conv.fuse_relu = p[9].conv.fuse_relu = true;
    p[8].conv.out_h = p[8].conv.out_w = 7;
    check_table(p, sizeof p / sizeof *p);
}

static void deconvolutions_agree(void **state)
{
    const struct problem p[] = {
        deconv_problem("stride 2", 2, 16, 5, 5, 8, 4, 2, 1, 1),
        deconv_problem("groups", 3, 6, 4, 5, 9, 3, 1, 0, 3),
    };
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
        pool_problem("max, pad, vectors of channels", true, 2, 24, 8, 6, 3, 2, 1),
        pool_problem("average, pad, vectors of channels", false, 2, 24, 8, 6, 3, 2, 1),
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

/* Activations of the type and layout of the precision are read and written where they are, and a
 * convolution adds the bias if the library has an engine for that. */
static void no_activation_of_the_precision_is_copied(void **state)
{
    const int block = precision == SW_PRECISION_FP32 ? 0 : CHANNELS_LAST;
    const struct sw_plan_passes all = {true, true, true};
    struct problem p[] = {conv_problem("fused", 4, 16, 24, 24, 16, 3, 1, 1, 1),
                          conv_problem("not fused", 4, 16, 24, 24, 14, 3, 1, 1, 1),
                          pool_problem("maximum", true, 4, 16, 24, 24, 3, 2, 0),
                          ip_problem("product", 512, 64, 0, 0, 16)};
    p[0].conv.fuse_relu = true;
    for (int i = 0; i < 4; i++) {
        struct sw_plan *plan;
        struct sw_err err;
        struct sw_desc src = layout_of(&p[i], block);
        src.dtype = sw_precision_is_half(precision) ? half_type() : SW_F32;
        ASSERT_OK(make_plan_from(&p[i], &src, gpu, all, &plan, &err));
        assert_true(plan->scratch_bytes < sw_desc_bytes(&src) / 2);
        if (convolves(&p[i]) && getenv("SINGA_CUDA_MODULE"))
            assert_int_equal(strstr(plan->algorithm, ":fused") != NULL, i == 0);
        if (convolves(&p[i]) && block == CHANNELS_LAST)
            assert_int_equal(plan->dst.stride[1], 1);
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
        cmocka_unit_test(deconvolutions_agree),
        cmocka_unit_test(arrays_of_2_to_the_31_are_refused),
        cmocka_unit_test(poolings_agree),
        cmocka_unit_test(lrn_agrees),
        cmocka_unit_test(inner_products_agree),
        cmocka_unit_test(conversions_agree),
        cmocka_unit_test(measured_engines_match_the_reference),
        cmocka_unit_test(measured_products_match_the_reference),
        cmocka_unit_test(no_activation_of_the_precision_is_copied),
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
