#include "plan_support.h"

/* ---- Against formulas ---- */

static double *doubles_of(const float *x, int64_t n)
{
    double *d = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

static double dot(const double *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * (double)b[i];
    return sum;
}

/* The exact forward pass of a problem at some inputs. */
struct exact {
    const struct problem *problem;
    double *src, *weight, *bias, *dst;
    const float *diff_dst;
    int64_t dst_count;
};

static double objective(struct exact *e)
{
    exact_forward(e->problem, e->src, e->weight, e->bias, e->dst);
    return dot(e->dst, e->diff_dst, e->dst_count);
}

/* Compares a gradient with central differences of <dst, diff_dst> in double. */
static void check_gradient(struct exact *e, const char *what, double *x, const float *gradient,
                           int64_t n)
{
    const double h = 1e-4;
    double *want = get_doubles(n);
    for (int64_t i = 0; i < n; i++) {
        double kept = x[i], up;
        x[i] = kept + h;
        up = objective(e);
        x[i] = kept - h;
        want[i] = (up - objective(e)) / (2 * h);
        x[i] = kept;
    }
    assert_near(what, gradient, want, n, 3e-6);
    free(want);
}

static void check_against_formula(const struct problem *p, struct sw_stream *s, uint64_t seed)
{
    struct tensors t = run_problem(p, s, seed);
    struct exact e = {.problem = p,
                      .src = doubles_of(t.src, t.src_count),
                      .weight = doubles_of(t.weight, t.weight_count),
                      .bias = has_bias(p) ? doubles_of(t.bias, t.bias_count) : NULL,
                      .dst = get_doubles(t.dst_count),
                      .diff_dst = t.diff_dst,
                      .dst_count = t.dst_count};
    print_message("    %s\n", p->name);
    exact_forward(p, e.src, e.weight, e.bias, e.dst);
    for (int64_t i = 0; has_relu(p) && i < t.dst_count; i++)
        e.dst[i] = e.dst[i] > 0 ? e.dst[i] : 0;
    assert_near("dst", t.dst, e.dst, t.dst_count, 2e-6);
    check_gradient(&e, "diff_src", e.src, t.diff_src, t.src_count);
    if (has_weights(p))
        check_gradient(&e, "diff_weight", e.weight, t.diff_weight, t.weight_count);
    if (has_bias(p))
        check_gradient(&e, "diff_bias", e.bias, t.diff_bias, t.bias_count);
    free(e.src);
    free(e.weight);
    free(e.bias);
    free(e.dst);
    free_tensors(&t);
}

/* On plain sources and on blocked ones, which the plan must reorder. */
static void check_all(const struct problem *problems, size_t count)
{
    struct fixture f = open_cpu(true, 2);
    for (size_t i = 0; i < count; i++)
        for (int block = 0; block <= 16; block += 8) {
            struct problem p = problems[i];
            p.channel_block = block;
            check_against_formula(&p, f.stream, 100 + i);
        }
    close_cpu(&f);
}

static void convolution_matches_its_formula(void **state)
{
    struct problem p[] = {
        conv_problem("1x1, the image is the matrix", 2, 3, 4, 5, 4, 1, 1, 0, 1),
        conv_problem("3x3", 2, 3, 6, 5, 4, 3, 1, 0, 1),
        conv_problem("5x5 stride 2 pad 2", 1, 2, 8, 7, 3, 5, 2, 2, 1),
        conv_problem("groups", 2, 6, 5, 5, 4, 3, 1, 1, 2),
        conv_problem("depthwise", 2, 4, 5, 4, 4, 3, 1, 1, 4),
        conv_problem("dilated", 1, 2, 8, 9, 3, 3, 1, 2, 1),
        conv_problem("oblong kernel, strides and pads", 2, 2, 7, 6, 3, 3, 1, 0, 1),
        conv_problem("more padding after than before", 1, 2, 5, 5, 2, 3, 2, 1, 1),
        conv_problem("last pixels unseen", 1, 2, 8, 8, 2, 3, 3, 0, 1),
        conv_problem("kernel as large as the image", 3, 2, 4, 4, 5, 4, 1, 0, 1),
        conv_problem("padding wider than the image", 1, 1, 2, 2, 2, 3, 1, 4, 1),
        conv_problem("relu, no bias", 2, 3, 5, 5, 4, 3, 1, 1, 1),
        conv_problem("1x1 with stride", 2, 3, 5, 5, 4, 1, 2, 0, 1),
        conv_problem("more channels than a slice", 1, 70, 3, 3, 2, 2, 1, 0, 1),
        conv_problem("1x1 with another output size", 1, 2, 4, 4, 3, 1, 1, 0, 1),
    };
    p[5].conv.dilation_h = p[5].conv.dilation_w = 2;
    p[5].conv.out_h = conv_out(8, 3, 1, 2, 2);
    p[5].conv.out_w = conv_out(9, 3, 1, 2, 2);
    p[6].conv.kernel_w = 4;
    p[6].conv.stride_h = 2;
    p[6].conv.pad_w = 2;
    p[6].conv.dilation_h = 2;
    p[6].conv.out_h = conv_out(7, 3, 2, 0, 2);
    p[6].conv.out_w = conv_out(6, 4, 1, 2, 1);
    p[7].conv.out_h = 4;
    p[7].conv.out_w = 5;
    p[11].conv.bias = false;
    p[11].conv.fuse_relu = true;
    p[14].conv.out_h = 3;
    p[14].conv.out_w = 5;
    check_all(p, sizeof p / sizeof *p);
}

static void convolution_of_random_shapes_matches_its_formula(void **state)
{
    struct rng r = rng_of(20);
    struct problem p[12];
    for (int i = 0; i < 12; i++) {
        int64_t groups = rng_int(&r, 1, 2), kernel = rng_int(&r, 1, 3);
        p[i] = conv_problem("random", rng_int(&r, 1, 3), groups * rng_int(&r, 1, 3),
                            rng_int(&r, 5, 8), rng_int(&r, 5, 8), groups * rng_int(&r, 1, 3),
                            kernel, rng_int(&r, 1, 3), rng_int(&r, 0, 2), groups);
        struct sw_conv_shape *c = &p[i].conv;
        c->kernel_w = rng_int(&r, 1, 3);
        c->stride_w = rng_int(&r, 1, 3);
        c->dilation_h = rng_int(&r, 1, 2);
        c->out_h = conv_out(p[i].dim[2], kernel, c->stride_h, c->pad_h, c->dilation_h);
        c->out_w = conv_out(p[i].dim[3], c->kernel_w, c->stride_w, c->pad_w, 1);
        c->bias = rng_int(&r, 0, 1);
        c->fuse_relu = rng_int(&r, 0, 1);
    }
    check_all(p, 12);
}

static void pooling_matches_its_formula(void **state)
{
    struct problem p[] = {
        pool_problem("max 2 stride 2", true, 2, 3, 6, 4, 2, 2, 0),
        pool_problem("max 3 stride 2, windows over the border", true, 2, 3, 8, 6, 3, 2, 0),
        pool_problem("max 3 stride 2 pad 1", true, 1, 2, 7, 8, 3, 2, 1),
        pool_problem("max 3 stride 1, overlapping", true, 1, 2, 5, 5, 3, 1, 0),
        pool_problem("average 3 stride 2, windows over the border", false, 2, 3, 8, 6, 3, 2, 0),
        pool_problem("average 3 stride 2 pad 1", false, 2, 3, 8, 7, 3, 2, 1),
        pool_problem("average of everything", false, 2, 5, 4, 3, 4, 1, 0),
        pool_problem("average 2 stride 3, gaps", false, 1, 2, 8, 8, 2, 3, 0),
        pool_problem("max of a kernel larger than the image", true, 1, 2, 3, 3, 5, 4, 2),
        pool_problem("more columns than a piece", true, 1, 1, 4, 140, 3, 1, 1),
    };
    p[6].pool.kernel_w = 3;
    p[6].pool.out_h = p[6].pool.out_w = 1;
    check_all(p, sizeof p / sizeof *p);
}

static void lrn_matches_its_formula(void **state)
{
    const struct problem p[] = {
        lrn_problem("AlexNet's", 2, 7, 3, 2, 5, 1e-4f, 0.75f, 1),
        lrn_problem("strong", 2, 6, 3, 3, 3, 2, 0.75f, 1),
        lrn_problem("other power", 1, 5, 2, 4, 5, 1, 0.5f, 2),
        lrn_problem("window wider than the channels", 1, 3, 2, 2, 9, 1, 1.25f, 1),
        lrn_problem("one channel", 2, 1, 2, 3, 1, 3, 0.75f, 0.5f),
        lrn_problem("more pixels than a piece", 1, 2, 13, 23, 3, 1, 0.75f, 1),
    };
    check_all(p, sizeof p / sizeof *p);
}

static void inner_product_matches_its_formula(void **state)
{
    struct problem p[] = {
        ip_problem("vectors", 3, 7, 0, 0, 5),
        ip_problem("images", 2, 3, 2, 4, 6),
        ip_problem("one of everything", 1, 1, 0, 0, 1),
        ip_problem("relu, no bias", 4, 9, 0, 0, 8),
        ip_problem("two output tiles", 2, 3, 0, 0, 131),
        ip_problem("many rows", 260, 2, 0, 0, 3),
    };
    p[3].ip.bias = false;
    p[3].ip.fuse_relu = true;
    check_all(p, sizeof p / sizeof *p);
}

/* ---- Properties ---- */

/* With weight and source exchanged for the other's gradient: <A x, y> = <x, A' y>, in shapes for
 * which differences would take too long. */
static void check_adjoint(const struct problem *p, struct sw_stream *s)
{
    struct tensors t = run_problem(p, s, 30);
    double *src = doubles_of(t.src, t.src_count), *weight = doubles_of(t.weight, t.weight_count);
    double *dst = doubles_of(t.dst, t.dst_count);
    double forward = dot(dst, t.diff_dst, t.dst_count), size = 0;
    double by_src = dot(src, t.diff_src, t.src_count);
    double by_weight = dot(weight, t.diff_weight, t.weight_count);
    for (int64_t i = 0; i < t.dst_count; i++)
        size += fabs(dst[i] * (double)t.diff_dst[i]);
    if (!(fabs(forward - by_src) <= 1e-6 * size) || !(fabs(forward - by_weight) <= 1e-6 * size))
        fail_msg("%s: <Ax, y> = %.9g, <x, A'y> = %.9g, <w, dw> = %.9g", p->name, forward, by_src,
                 by_weight);
    free(src);
    free(weight);
    free(dst);
    free_tensors(&t);
}

static void gradients_are_the_adjoint_maps(void **state)
{
    struct problem p[] = {
        conv_problem("conv1 of AlexNet", 1, 3, 115, 115, 96, 11, 4, 0, 1),
        conv_problem("conv2 of AlexNet", 3, 96, 27, 27, 256, 5, 1, 2, 2),
        conv_problem("conv of a batch", 9, 16, 14, 15, 24, 3, 2, 1, 1),
        ip_problem("fc", 33, 32, 6, 6, 300),
    };
    struct fixture f = open_cpu(true, 2);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        p[i].conv.bias = p[i].ip.bias = false;
        check_adjoint(&p[i], f.stream);
    }
    close_cpu(&f);
}

static void max_pooling_sends_ties_to_the_first_pixel(void **state)
{
    const struct problem p = pool_problem("ties", true, 1, 1, 4, 5, 3, 2, 0);
    const struct sw_plan_passes passes = {.backward_data = true, .training = true};
    /* Windows at columns 0, 2 (and 4 would start outside): the gradients show which maxima came
     * first. */
    static const float src[] = {1,      1, 1, 1, 1, /**/ 1, 2, 1, 2, 2,
                                /**/ 0, 2, 2, 2, 0, /**/ 0, 0, 0, 0, 2};
    static const float diff_dst[] = {1, 10, 100, 1000};
    static const float want[] = {0,      0,   0,    0, 0, /**/ 0, 1, 0, 10, 0,
                                 /**/ 0, 100, 1000, 0, 0, /**/ 0, 0, 0, 0,  0};
    struct fixture f = open_cpu(true, 1);
    struct sw_plan *plan;
    struct sw_err err;
    float dst[4], diff_src[20];
    int32_t saved[4];
    ASSERT_OK(make_plan(&p, f.stream, passes, &plan, &err));
    assert_int_equal(plan->saved_bytes, sizeof saved);
    assert_int_equal(plan->scratch_bytes, 0);
    struct sw_plan_args a = {.src = src, .dst = dst, .saved = saved};
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    a = (struct sw_plan_args){.diff_dst = diff_dst, .diff_src = diff_src, .saved = saved};
    ASSERT_OK(sw_plan_backward_data(plan, &a, &err));
    for (int i = 0; i < 20; i++)
        assert_true(diff_src[i] == want[i]);
    sw_plan_free(plan);
    close_cpu(&f);
}

static void average_divides_by_the_window_clipped_to_the_padded_input(void **state)
{
    /* 4 x 4 ones, kernel 3, stride 2, pad 1: the windows of the last row and column reach one pixel
     * beyond the padded input. */
    const struct problem p = pool_problem("ones", false, 1, 1, 4, 4, 3, 2, 1);
    static const float want[] = {4 / 9.0f, 6 / 9.0f, 2 / 6.0f, 6 / 9.0f, 1,
                                 3 / 6.0f, 2 / 6.0f, 3 / 6.0f, 1 / 4.0f};
    struct fixture f = open_cpu(true, 1);
    struct sw_plan *plan;
    struct sw_err err;
    float src[16], dst[9];
    for (int i = 0; i < 16; i++)
        src[i] = 1;
    assert_int_equal(p.pool.out_h, 3);
    ASSERT_OK(make_plan(&p, f.stream, (struct sw_plan_passes){0}, &plan, &err));
    ASSERT_OK(sw_plan_forward(plan, &(struct sw_plan_args){.src = src, .dst = dst}, &err));
    for (int i = 0; i < 9; i++)
        assert_true(fabsf(dst[i] - want[i]) < 1e-6f);
    sw_plan_free(plan);
    close_cpu(&f);
}

static void nan_in_the_source_propagates(void **state)
{
    const struct problem p[] = {pool_problem("max", true, 1, 1, 4, 4, 2, 2, 0),
                                conv_problem("relu", 1, 1, 4, 4, 1, 1, 1, 0, 1)};
    struct fixture f = open_cpu(true, 1);
    for (int k = 0; k < 2; k++) {
        struct problem q = p[k];
        struct sw_plan *plan;
        struct sw_err err;
        q.conv.fuse_relu = true;
        ASSERT_OK(make_plan(&q, f.stream, (struct sw_plan_passes){0}, &plan, &err));
        float *scratch = get_bytes(plan->scratch_bytes);
        for (int i = 0; i < 16; i++) {
            float src[16] = {0}, dst[16] = {0}, one = 1;
            src[i] = NAN;
            struct sw_plan_args a = {
                .src = src, .dst = dst, .weight = &one, .bias = &one, .scratch = scratch};
            ASSERT_OK(sw_plan_forward(plan, &a, &err));
            int nans = 0;
            for (int j = 0; j < 16; j++)
                nans += isnan(dst[j]);
            assert_int_equal(nans, 1);
        }
        free(scratch);
        sw_plan_free(plan);
    }
    close_cpu(&f);
}

static void results_do_not_depend_on_the_thread_count(void **state)
{
    const struct problem p[] = {
        conv_problem("groups, several pieces and chunks", 5, 8, 40, 41, 12, 5, 1, 2, 2),
        conv_problem("strided", 3, 3, 63, 63, 32, 7, 2, 3, 1),
        pool_problem("max", true, 4, 16, 31, 31, 3, 2, 0),
        pool_problem("average", false, 4, 16, 31, 31, 3, 2, 1),
        lrn_problem("lrn", 4, 16, 27, 27, 5, 1e-2f, 0.75f, 1),
        ip_problem("fc", 40, 64, 5, 5, 300),
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        struct fixture one = open_cpu(true, 1);
        struct tensors a = run_problem(&p[i], one.stream, 40 + i);
        close_cpu(&one);
        for (int threads = 2; threads <= 3; threads++) {
            struct fixture more = open_cpu(true, threads);
            struct tensors b = run_problem(&p[i], more.stream, 40 + i);
            assert_same_bits("dst", a.dst, b.dst, (size_t)a.dst_count * 4);
            assert_same_bits("diff_src", a.diff_src, b.diff_src, (size_t)a.src_count * 4);
            if (has_weights(&p[i])) {
                assert_same_bits("diff_weight", a.diff_weight, b.diff_weight,
                                 (size_t)a.weight_count * 4);
                assert_same_bits("diff_bias", a.diff_bias, b.diff_bias, (size_t)a.bias_count * 4);
            }
            free_tensors(&b);
            close_cpu(&more);
        }
        free_tensors(&a);
    }
}

/* ---- Reorder ---- */

static void reorder_moves_every_element_and_zeroes_padding(void **state)
{
    static const int64_t dims[][4] = {{2, 20, 5, 7}, {3, 16, 9, 9}, {1, 3, 2, 2}, {5, 40, 1, 1}};
    struct rng r = rng_of(50);
    for (int threads = 1; threads <= 2; threads++) {
        struct fixture f = open_cpu(true, threads);
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
            const struct sw_desc d[] = {sw_desc_plain(SW_F32, 4, dims[i]),
                                        sw_desc_blocked(SW_F32, 4, dims[i], 1, 8),
                                        sw_desc_blocked(SW_F32, 4, dims[i], 1, 16),
                                        sw_desc_blocked(SW_F32, 4, dims[i], 0, 4)};
            int64_t count = sw_desc_count(&d[0]);
            float *plain = random_floats(&r, count, 1, 2);
            for (int from = 0; from < 4; from++)
                for (int to = 0; to < 4; to++) {
                    struct sw_plan *plan;
                    struct sw_err err;
                    ASSERT_OK(make_reorder(f.stream, &d[from], &d[to], &plan, &err));
                    float *src = stored_of(&d[from], plain), *want = stored_of(&d[to], plain);
                    float *dst = unwritten(&d[to]), *back = unwritten(&d[from]);
                    struct sw_plan_args a = {.src = src, .dst = dst};
                    ASSERT_OK(sw_plan_forward(plan, &a, &err));
                    assert_same_bits("there", dst, want, sw_desc_bytes(&d[to]));
                    a = (struct sw_plan_args){.diff_dst = dst, .diff_src = back};
                    ASSERT_OK(sw_plan_backward_data(plan, &a, &err));
                    assert_same_bits("back", back, src, sw_desc_bytes(&d[from]));
                    free(src);
                    free(want);
                    free(dst);
                    free(back);
                    sw_plan_free(plan);
                }
            free(plain);
        }
        close_cpu(&f);
    }
}

/* ---- Refusals ---- */

static void expect_refusal(struct fixture *f, const struct problem *p, int code, const char *part)
{
    struct sw_plan *plan = NULL;
    struct sw_err err;
    int rc = make_plan(p, f->stream, (struct sw_plan_passes){0}, &plan, &err);
    assert_int_equal(rc, code);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" lacks \"%s\"", err.text, part);
    assert_null(plan);
}

static void makers_name_the_wrong_shape(void **state)
{
    const int64_t other[] = {4, 3, 2, 2}, same[] = {4, 3, 3, 3};
    struct sw_desc wrong = sw_desc_plain(SW_F32, 4, other);
    struct sw_desc blocked = sw_desc_blocked(SW_F32, 4, same, 0, 16);
    struct fixture f = open_cpu(true, 1);
    struct problem p = conv_problem("", 2, 3, 6, 6, 4, 3, 1, 0, 1);
    p.conv.groups = 2;
    expect_refusal(&f, &p, SW_ERR_INVALID, "groups 2");
    p.conv.groups = 1;
    p.conv.stride_w = 0;
    expect_refusal(&f, &p, SW_ERR_INVALID, "stride_w 0");
    p.conv.stride_w = 1;
    p.conv.weight_layout = &wrong;
    expect_refusal(&f, &p, SW_ERR_INVALID, "4x3x2x2");
    p.conv.weight_layout = &blocked;
    expect_refusal(&f, &p, SW_ERR_UNSUPPORTED, "plain");
    p = ip_problem("", 2, 3, 0, 0, 0);
    expect_refusal(&f, &p, SW_ERR_INVALID, "outputs 0");
    p = conv_problem("", 2, 3, 0, 0, 4, 1, 1, 0, 1);
    expect_refusal(&f, &p, SW_ERR_INVALID, "4-D");
    p = pool_problem("", true, 1, 1, 4, 4, 2, 2, 0);
    p.pool.out_w = 3;
    expect_refusal(&f, &p, SW_ERR_INVALID, "out_w 3");
    p = pool_problem("", true, 1, 1, 4, 4, 2, 2, 0);
    p.pool.pad_h = 2;
    expect_refusal(&f, &p, SW_ERR_INVALID, "pad_h 2");
    p = lrn_problem("", 1, 4, 2, 2, 4, 1, 0.75f, 1);
    expect_refusal(&f, &p, SW_ERR_INVALID, "size 4");
    struct sw_plan *plan;
    struct sw_err err;
    assert_int_equal(make_reorder(f.stream, &wrong, &blocked, &plan, &err), SW_ERR_INVALID);
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_matches_its_formula),
        cmocka_unit_test(convolution_of_random_shapes_matches_its_formula),
        cmocka_unit_test(pooling_matches_its_formula),
        cmocka_unit_test(lrn_matches_its_formula),
        cmocka_unit_test(inner_product_matches_its_formula),
        cmocka_unit_test(gradients_are_the_adjoint_maps),
        cmocka_unit_test(max_pooling_sends_ties_to_the_first_pixel),
        cmocka_unit_test(average_divides_by_the_window_clipped_to_the_padded_input),
        cmocka_unit_test(nan_in_the_source_propagates),
        cmocka_unit_test(results_do_not_depend_on_the_thread_count),
        cmocka_unit_test(reorder_moves_every_element_and_zeroes_padding),
        cmocka_unit_test(makers_name_the_wrong_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
