/* Arrays in 16 bits: reorder plans that convert, and plans on 16-bit sources and results, which are
 * the fp32 plan on the converted source with its results rounded once, bit by bit, on the CPU and
 * on sim. */
#include "plan_support.h"
#include "sim_support.h"

#include "kernels/half.h"

static const enum sw_dtype types[] = {SW_BF16, SW_F16};

static uint16_t half_of(enum sw_dtype t, float x)
{
    return t == SW_BF16 ? sw_bf16_of(x) : sw_fp16_of(x);
}

static void round_floats(enum sw_dtype t, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = t == SW_BF16 ? sw_round_bf16(x[i]) : sw_round_fp16(x[i]);
}

/* Returns plain floats as they are stored in 16 bits; the caller frees them. */
static uint16_t *stored_halves(const struct sw_desc *d, const float *plain)
{
    int64_t n = sw_desc_count(d);
    uint16_t *halves = get_bytes((size_t)n * sizeof *halves);
    uint16_t *stored = get_bytes(sw_desc_bytes(d));
    for (int64_t i = 0; i < n; i++)
        halves[i] = half_of(d->dtype, plain[i]);
    sw_desc_from_plain(d, halves, stored);
    free(halves);
    return stored;
}

/* ---- Reorder ---- */

static void convert(struct sw_stream *s, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, const void *want)
{
    struct sw_plan *plan;
    struct sw_err err;
    ASSERT_OK(make_reorder(s, from, to, &plan, &err));
    void *there = to_device(s, src, sw_desc_bytes(from)), *got = unwritten(to);
    void *dst = to_device(s, got, sw_desc_bytes(to));
    struct sw_plan_args a = {.src = there, .dst = dst};
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    to_host(s, got, dst, sw_desc_bytes(to));
    assert_same_bits("reorder", got, want, sw_desc_bytes(to));
    sw_device_free(s->dev, there, sw_desc_bytes(from));
    sw_device_free(s->dev, dst, sw_desc_bytes(to));
    free(got);
    sw_plan_free(plan);
}

static void check_reorders(struct sw_stream *s)
{
    const int64_t dim[] = {2, 20, 5, 7};
    const struct sw_desc layout[] = {sw_desc_plain(SW_F32, 4, dim),
                                     sw_desc_blocked(SW_F32, 4, dim, 1, 8),
                                     sw_desc_blocked(SW_F32, 4, dim, 0, 4)};
    struct rng r = rng_of(7);
    float *plain = random_floats(&r, sw_desc_count(&layout[0]), -3, 3);
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            for (int t = 0; t < 2; t++) {
                float *rounded = get_floats(sw_desc_count(&layout[0]));
                memcpy(rounded, plain, (size_t)sw_desc_count(&layout[0]) * sizeof *rounded);
                round_floats(types[t], rounded, sw_desc_count(&layout[0]));
                struct sw_desc halves = sw_desc_as(&layout[to], types[t]);
                struct sw_desc other = sw_desc_as(&layout[from], types[t]);
                float *floats = stored_of(&layout[from], plain);
                float *back = stored_of(&layout[from], rounded);
                uint16_t *stored = stored_halves(&halves, plain);
                uint16_t *moved = stored_halves(&other, plain);
                convert(s, &layout[from], floats, &halves, stored);
                convert(s, &halves, stored, &layout[from], back);
                convert(s, &halves, stored, &other, moved);
                free(rounded);
                free(floats);
                free(back);
                free(stored);
                free(moved);
            }
    free(plain);
}

/* ---- Plans ---- */

static void *floats_there(struct sw_stream *s, const struct sw_desc *d, const float *plain)
{
    float *stored = stored_of(d, plain);
    void *there = to_device(s, stored, sw_desc_bytes(d));
    free(stored);
    return there;
}

static void *halves_there(struct sw_stream *s, const struct sw_desc *d, const float *plain)
{
    uint16_t *stored = stored_halves(d, plain);
    void *there = to_device(s, stored, sw_desc_bytes(d));
    free(stored);
    return there;
}

static void expect_halves(const char *what, struct sw_stream *s, const struct sw_desc *d,
                          const void *there, const float *plain)
{
    uint16_t *want = stored_halves(d, plain), *got = get_bytes(sw_desc_bytes(d));
    to_host(s, got, there, sw_desc_bytes(d));
    assert_same_bits(what, got, want, sw_desc_bytes(d));
    free(want);
    free(got);
}

static void expect_floats(const char *what, struct sw_stream *s, const struct sw_desc *d,
                          const void *there, const float *plain)
{
    float *want = stored_of(d, plain), *got = get_bytes(sw_desc_bytes(d));
    to_host(s, got, there, sw_desc_bytes(d));
    assert_same_bits(what, got, want, sw_desc_bytes(d));
    free(want);
    free(got);
}

/* All passes of the plan on 16 bits, compared with the results of the fp32 plan in t. */
static void check_passes(const struct problem *p, struct sw_plan *plan, const struct tensors *t,
                         struct sw_stream *s)
{
    bool weights = has_weights(p);
    struct sw_err err;
    struct sw_plan_args a = {
        .src = halves_there(s, &plan->src, t->src),
        .weight = weights ? floats_there(s, &plan->weight, t->weight) : NULL,
        .bias = has_bias(p) ? floats_there(s, &plan->bias, t->bias) : NULL,
        .dst = device_bytes(s->dev, sw_desc_bytes(&plan->dst)),
        .diff_dst = halves_there(s, &plan->dst, t->diff_dst),
        .diff_src = device_bytes(s->dev, sw_desc_bytes(&plan->src)),
        .diff_weight = weights ? floats_there(s, &plan->weight, t->weight) : NULL,
        .diff_bias = has_bias(p) ? floats_there(s, &plan->bias, t->bias) : NULL,
        .saved = plan->saved_bytes ? device_bytes(s->dev, plan->saved_bytes) : NULL,
        .scratch = plan->scratch_bytes ? device_bytes(s->dev, plan->scratch_bytes) : NULL};

    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    expect_halves(p->name, s, &plan->dst, a.dst, t->dst);
    if (weights) {
        ASSERT_OK(sw_plan_backward_weights(plan, &a, &err));
        a.diff_again = true;
    }
    ASSERT_OK(sw_plan_backward_data(plan, &a, &err));
    expect_halves(p->name, s, &plan->src, a.diff_src, t->diff_src);
    if (weights)
        expect_floats(p->name, s, &plan->weight, a.diff_weight, t->diff_weight);
    if (has_bias(p))
        expect_floats(p->name, s, &plan->bias, a.diff_bias, t->diff_bias);

    void *const all[] = {(void *)(uintptr_t)a.src,
                         (void *)(uintptr_t)a.weight,
                         (void *)(uintptr_t)a.bias,
                         a.dst,
                         (void *)(uintptr_t)a.diff_dst,
                         a.diff_src,
                         a.diff_weight,
                         a.diff_bias,
                         a.saved,
                         a.scratch};
    size_t bytes[SW_PLAN_ARRAYS];
    sw_plan_bytes(plan, bytes);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        if (all[i])
            sw_device_free(s->dev, all[i], bytes[i]);
}

static void check_plans(struct sw_stream *s)
{
    struct problem p[] = {
        conv_problem("convolution", 2, 16, 9, 9, 32, 3, 1, 1, 1),
        conv_problem("groups", 2, 12, 7, 8, 18, 3, 2, 1, 3),
        pool_problem("maximum", true, 2, 16, 9, 9, 3, 2, 0),
        pool_problem("average", false, 2, 16, 9, 9, 3, 2, 1),
        lrn_problem("lrn", 2, 16, 5, 5, 5, 1e-2f, 0.75f, 1),
        ip_problem("inner product", 4, 16, 3, 3, 10),
    };
    struct fixture cpu = open_cpu(true, 1);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        for (int k = 0; k < 4; k++) {
            const struct sw_plan_passes passes = {true, has_weights(&p[i]), true};
            struct sw_plan *floats, *halves;
            struct sw_err err;
            p[i].channel_block = k / 2 * 8;
            struct sw_desc src = source_desc(&p[i]);
            ASSERT_OK(make_plan_from(&p[i], &src, cpu.stream, passes, &floats, &err));
            src.dtype = types[k % 2];
            ASSERT_OK(make_plan_from(&p[i], &src, s, passes, &halves, &err));
            assert_int_equal(halves->dst.dtype, src.dtype);
            assert_int_equal(2 * sw_desc_bytes(&halves->dst), sw_desc_bytes(&floats->dst));

            struct tensors t = random_tensors(&p[i], floats, 60 + i);
            round_floats(src.dtype, t.src, t.src_count);
            round_floats(src.dtype, t.diff_dst, t.dst_count);
            run_plan(&p[i], floats, &t);
            check_passes(&p[i], halves, &t, s);
            free_tensors(&t);
            sw_plan_free(floats);
            sw_plan_free(halves);
        }
    close_cpu(&cpu);
}

static void the_cpu_rounds_each_result_once(void **state)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct fixture f = open_cpu(true, threads);
        check_reorders(f.stream);
        check_plans(f.stream);
        close_cpu(&f);
    }
}

static void onednn_converts_to_the_same_bits(void **state)
{
    struct fixture f = open_cpu(false, 1);
    check_reorders(f.stream);
    close_cpu(&f);
}

static void sim_rounds_like_the_cpu(void **state)
{
    struct sw_sim_conf conf = small_conf();
    conf.reference = true;
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_stream *s = new_stream(dev);
    check_reorders(s);
    check_plans(s);
    sw_stream_free(s);
    sw_device_close(dev);
}

static void one_16_bit_type_does_not_become_the_other(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_desc a = sw_desc_plain(SW_BF16, 2, (int64_t[]){2, 3});
    struct sw_desc b = sw_desc_as(&a, SW_F16), c = sw_desc_as(&a, SW_I32);
    struct sw_plan *plan;
    struct sw_err err;
    assert_int_equal(make_reorder(f.stream, &a, &b, &plan, &err), SW_ERR_INVALID);
    assert_int_equal(make_reorder(f.stream, &a, &c, &plan, &err), SW_ERR_INVALID);
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_rounds_each_result_once),
        cmocka_unit_test(onednn_converts_to_the_same_bits),
        cmocka_unit_test(sim_rounds_like_the_cpu),
        cmocka_unit_test(one_16_bit_type_does_not_become_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
