/* Floats rounded to 16 bits and to tf32: to the nearest, ties to even, subnormal numbers kept; and
 * products with rounded operands on the CPU, which equal products of rounded floats. */
#include "device/op.h"
#include "kernels/ops/gemm.h"
#include "plan_support.h"

#include "kernels/cpu/kernels.h"
#include "kernels/half.h"

struct kind_of_half {
    const char *name;
    uint16_t (*of)(float x);
    float (*value)(uint16_t h);
    uint16_t infinity;
};

static uint16_t bf16_of(float x)
{
    return sw_bf16_of(x);
}
static float bf16_value(uint16_t h)
{
    return sw_bf16_value(h);
}
static uint16_t fp16_of(float x)
{
    return sw_fp16_of(x);
}
static float fp16_value(uint16_t h)
{
    return sw_fp16_value(h);
}

static const struct kind_of_half kinds[2] = {
    {"bf16", bf16_of, bf16_value, 0x7f80},
    {"fp16", fp16_of, fp16_value, 0x7c00},
};

/* ---- Numbers ---- */

/* By the definition of IEEE 754: sign, exponent, mantissa. */
static double fp16_by_definition(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h & 0x8000 ? -size : size;
}

static void every_16_bit_value_survives_conversion_to_float(void **state)
{
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h <= 0xffff; h++) {
            float x = kinds[k].value((uint16_t)h);
            bool nan = (h & 0x7fff) > kinds[k].infinity;
            assert_true(nan == (bool)isnan(x));
            assert_true(((h & 0x7fff) == kinds[k].infinity) == (bool)isinf(x));
            if (!nan && kinds[k].of(x) != h)
                fail_msg("%s: %04x is %.9g and comes back as %04x", kinds[k].name, h, (double)x,
                         kinds[k].of(x));
            if (k == 1 && isfinite(x))
                assert_true((double)x == fp16_by_definition((uint16_t)h));
            if (nan)
                assert_true(isnan(kinds[k].value(kinds[k].of(x))));
        }
}

static void assert_becomes(const struct kind_of_half *k, float x, uint16_t want)
{
    if (k->of(x) != want || k->of(-x) != (want | 0x8000u))
        fail_msg("%s: %.9g becomes %04x, not %04x", k->name, (double)x, k->of(x), want);
}

/* The midpoint between two neighbors is a float; beyond the largest value the next one would be
 * infinity. */
static void floats_round_to_the_nearest_and_ties_to_even(void **state)
{
    for (int k = 0; k < 2; k++)
        for (uint16_t h = 0; h < kinds[k].infinity; h++) {
            double low = (double)kinds[k].value(h), high;
            high = h + 1 < kinds[k].infinity ? (double)kinds[k].value((uint16_t)(h + 1))
                                             : 2 * low - (double)kinds[k].value((uint16_t)(h - 1));
            float middle = (float)((low + high) / 2);
            assert_true((double)middle == (low + high) / 2);
            assert_becomes(&kinds[k], middle, h & 1 ? (uint16_t)(h + 1) : h);
            assert_becomes(&kinds[k], nextafterf(middle, INFINITY), (uint16_t)(h + 1));
            assert_becomes(&kinds[k], nextafterf(middle, 0), h);
        }
    assert_becomes(&kinds[1], 65519.99609375f, 0x7bff);
    assert_becomes(&kinds[1], 65520, 0x7c00);
    assert_becomes(&kinds[1], ldexpf(1, -25), 0); /* half of the smallest subnormal number */
    assert_becomes(&kinds[1], ldexpf(1.0009765625f, -25), 1);
    assert_becomes(&kinds[0], ldexpf(1, -133), 1); /* the smallest subnormal number */
}

static void non_finite_values_stay_non_finite(void **state)
{
    float nans[] = {NAN, -NAN, sw_bits_float(0x7f800001), sw_bits_float(0x7fffffff),
                    sw_bits_float(0xffffffff)};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        assert_true(isnan(sw_round_bf16(nans[i])) && isnan(sw_round_fp16(nans[i])) &&
                    isnan(sw_round_tf32(nans[i])));
    }
    assert_true(isinf(sw_round_tf32(INFINITY)) && sw_round_tf32(-INFINITY) < 0);
    assert_true(isinf(sw_round_tf32(sw_bits_float(0x7f7fffff))));
    for (int k = 0; k < 2; k++) {
        assert_becomes(&kinds[k], INFINITY, kinds[k].infinity);
        assert_becomes(&kinds[k], sw_bits_float(0x7f7fffff), kinds[k].infinity);
    }
}

static void tf32_keeps_ten_bits_of_mantissa(void **state)
{
    struct rng r = rng_of(1);
    for (int i = 0; i < 100000; i++) {
        float x = sw_bits_float(rng_word(&r));
        int exponent;
        if (!isfinite(x) || x == 0 || fabsf(x) < ldexpf(1, -126))
            continue;
        (void)frexp((double)x, &exponent);
        double step = ldexp(1, exponent - 11);
        assert_true((double)sw_round_tf32(x) == rint((double)x / step) * step ||
                    isinf(sw_round_tf32(x)));
    }
}

static float round_one(enum sw_precision p, float x)
{
    return p == SW_PRECISION_TF32   ? sw_round_tf32(x)
           : p == SW_PRECISION_BF16 ? sw_round_bf16(x)
           : p == SW_PRECISION_FP16 ? sw_round_fp16(x)
                                    : x;
}

/* All sizes, including those that are not multiples of a vector. */
static void arrays_are_rounded_like_single_values(void **state)
{
    for (int64_t n = 1; n < 100000; n = n * 7 + 2) {
        struct rng r = rng_of((uint64_t)n);
        float *x = get_floats(n), *y = get_floats(n), *z = get_floats(n);
        for (int64_t i = 0; i < n; i++)
            x[i] = sw_bits_float(rng_word(&r));
        for (int to = SW_PRECISION_TF32; to <= SW_PRECISION_FP16; to++) {
            sw_kernel_round(to, x, y, n);
            sw_kernel_round_all(3, to, x, z, n);
            assert_same_bits("threads", y, z, (size_t)n * sizeof *y);
            for (int64_t i = 0; i < n; i++) {
                float want = round_one(to, x[i]);
                if (sw_float_bits(want) != sw_float_bits(y[i]) && !(isnan(want) && isnan(y[i])))
                    fail_msg("%.9g becomes %.9g, not %.9g", (double)x[i], (double)y[i],
                             (double)want);
            }
        }
        free(x), free(y), free(z);
    }
}

/* ---- Products ---- */

static void round_them(enum sw_precision p, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = round_one(p, x[i]);
}

/* Sizes above and below the blocks that are rounded together. */
static void check_gemm(struct fixture *f, enum sw_precision p, bool trans_a, bool trans_b,
                       int64_t m, int64_t n, int64_t k)
{
    struct rng r = rng_of((uint64_t)(m + 10 * n + 100 * k));
    float *a = random_floats(&r, m * k, -1, 1), *b = random_floats(&r, k * n, -1, 1);
    float *c = random_floats(&r, m * n, -1, 1);
    double *want = get_doubles(m * n);
    struct sw_err err;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < k; q++)
                sum += (double)round_one(p, trans_a ? a[q * m + i] : a[i * k + q]) *
                       (double)round_one(p, trans_b ? b[j * k + q] : b[q * n + j]);
            want[i * n + j] = 0.5 * sum + 2 * (double)c[i * n + j];
        }
    struct sw_gemm_args g = {.trans_a = trans_a,
                             .trans_b = trans_b,
                             .m = m,
                             .n = n,
                             .k = k,
                             .alpha = 0.5f,
                             .beta = 2,
                             .a = a,
                             .b = b,
                             .c = c};
    ASSERT_OK(sw_op_run(f->stream, &sw_op_gemm, &g, &err));
    assert_near("gemm", c, want, m * n, 2e-6);
    free(a), free(b), free(c), free(want);
}

/* Counts beyond what 16 bits hold. */
static void exact_products_are_not_rounded(void **state)
{
    float a[2] = {70001, 3}, b[2] = {1, 1e-9f}, c;
    struct sw_gemm_args g = {
        .m = 1, .n = 1, .k = 2, .alpha = 1, .a = a, .b = b, .c = &c, .exact = true};
    struct sw_err err;
    for (int p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++) {
        struct fixture f = open_cpu_as(false, p, 1);
        ASSERT_OK(sw_op_run(f.stream, &sw_op_gemm, &g, &err));
        assert_true(c == 70001);
        close_cpu(&f);
    }
}

static void products_read_rounded_operands(void **state)
{
    for (int p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++)
        for (int threads = 1; threads <= 2; threads++) {
            struct fixture f = open_cpu_as(false, p, threads);
            for (int t = 0; t < 4; t++) {
                check_gemm(&f, p, t & 1, t & 2, 3, 5, 7);
                check_gemm(&f, p, t & 1, t & 2, 130, 300, 129);
            }
            close_cpu(&f);
        }
}

/* A library with 16-bit products adds in a different order. */
static void assert_agree(const struct problem *p, const float *a, const float *b, int64_t n,
                         bool same_bits)
{
    double *want = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        want[i] = (double)b[i];
    if (same_bits)
        assert_same_bits(p->name, a, b, (size_t)n * sizeof *a);
    else
        assert_near(p->name, a, want, n, 2e-6);
    free(want);
}

/* A plan's results equal those of the fp32 plan on rounded tensors, but the gradient of the bias is
 * a sum of values that were not rounded. */
static void check_plan(const struct problem *p, enum sw_precision precision, bool reference,
                       int threads)
{
    const struct sw_plan_passes all = {true, true, true};
    struct fixture f = open_cpu_as(reference, precision, threads);
    struct fixture exact = open_cpu(reference, threads);
    struct sw_plan *rounded, *plain;
    struct sw_err err;
    ASSERT_OK(make_plan(p, f.stream, all, &rounded, &err));
    ASSERT_OK(make_plan(p, exact.stream, all, &plain, &err));
    struct tensors a = random_tensors(p, rounded, 5), b = random_tensors(p, plain, 5);
    run_plan(p, rounded, &a);
    double *bias = get_doubles(b.bias_count);
    int64_t pixels = p->kind == CONVOLUTION ? p->conv.out_h * p->conv.out_w : 1;
    memset(bias, 0, (size_t)b.bias_count * sizeof *bias);
    for (int64_t i = 0; i < b.dst_count; i++)
        bias[i / pixels % b.bias_count] += (double)b.diff_dst[i];
    assert_near("the gradient of the bias", a.diff_bias, bias, b.bias_count, 1e-6);
    free(bias);
    round_them(precision, b.src, b.src_count);
    round_them(precision, b.weight, b.weight_count);
    round_them(precision, b.diff_dst, b.dst_count);
    run_plan(p, plain, &b);
    bool same = reference || precision != SW_PRECISION_BF16;
    assert_agree(p, a.dst, b.dst, a.dst_count, same);
    assert_agree(p, a.diff_src, b.diff_src, a.src_count, same);
    assert_agree(p, a.diff_weight, b.diff_weight, a.weight_count, same);
    assert_true(strncmp(rounded->algorithm, sw_precision_name(precision), 4) == 0);
    free_tensors(&a), free_tensors(&b);
    sw_plan_free(rounded), sw_plan_free(plain);
    close_cpu(&f), close_cpu(&exact);
}

static void plans_compute_with_rounded_tensors(void **state)
{
    const struct problem problems[] = {
        conv_problem("grouped", 2, 8, 9, 9, 16, 3, 1, 1, 2),
        conv_problem("strided", 3, 3, 11, 10, 7, 5, 2, 2, 1),
        conv_problem("3 x 3", 2, 32, 14, 14, 32, 3, 1, 1, 1),
        ip_problem("images", 5, 6, 4, 4, 33),
        ip_problem("matrix", 7, 70, 0, 0, 10),
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int p = SW_PRECISION_TF32; p <= SW_PRECISION_FP16; p++)
            for (int way = 0; way < 4; way++)
                check_plan(&problems[i], p, way & 1, 1 + (way >> 1));
}

/* Pooling has no products, so nothing is rounded. */
static void plans_without_products_stay_fp32(void **state)
{
    const struct problem p = pool_problem("pool", true, 2, 4, 7, 7, 3, 2, 0);
    struct fixture f = open_cpu_as(true, SW_PRECISION_BF16, 1), exact = open_cpu(true, 1);
    struct tensors a = run_problem(&p, f.stream, 3), b = run_problem(&p, exact.stream, 3);
    assert_same_bits("pool", a.dst, b.dst, (size_t)a.dst_count * sizeof *a.dst);
    free_tensors(&a), free_tensors(&b);
    close_cpu(&f), close_cpu(&exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_16_bit_value_survives_conversion_to_float),
        cmocka_unit_test(floats_round_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(non_finite_values_stay_non_finite),
        cmocka_unit_test(tf32_keeps_ten_bits_of_mantissa),
        cmocka_unit_test(arrays_are_rounded_like_single_values),
        cmocka_unit_test(products_read_rounded_operands),
        cmocka_unit_test(exact_products_are_not_rounded),
        cmocka_unit_test(plans_compute_with_rounded_tensors),
        cmocka_unit_test(plans_without_products_stay_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
