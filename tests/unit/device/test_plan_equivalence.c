/* The default plans of the CPU against the reference plans, over the layers of the recipes. */
#include "plan_support.h"

/* Both implementations compute in float; Winograd's transforms lose about two more digits. */
static const double limit = 1e-4;

static double *doubles_of(const float *x, int64_t n)
{
    double *d = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

static void compare(const struct problem *p, const char *what, const float *a, const float *b,
                    int64_t n)
{
    char text[128];
    double *want = doubles_of(b, n);
    snprintf(text, sizeof text, "%s: %s", p->name, what);
    assert_near(text, a, want, n, limit);
    free(want);
}

static bool is_reference(const struct fixture *f)
{
    struct fixture reference = open_cpu(true, 1);
    bool same = f->dev->ops->plans == reference.dev->ops->plans;
    close_cpu(&reference);
    return same;
}

static void skip_without_a_library(struct fixture *f)
{
    if (!is_reference(f))
        return;
    close_cpu(f);
    print_message("skipped: this build has the reference plans only\n");
    skip();
}

/* One problem on both devices, with the same plain tensors. */
static void check_problem(const struct problem *p, struct fixture *f, struct fixture *reference,
                          uint64_t seed)
{
    struct tensors a = run_problem(p, f->stream, seed);
    struct tensors b = run_problem(p, reference->stream, seed);
    compare(p, "dst", a.dst, b.dst, a.dst_count);
    compare(p, "diff_src", a.diff_src, b.diff_src, a.src_count);
    if (has_weights(p))
        compare(p, "diff_weight", a.diff_weight, b.diff_weight, a.weight_count);
    if (has_bias(p))
        compare(p, "diff_bias", a.diff_bias, b.diff_bias, a.bias_count);
    free_tensors(&a);
    free_tensors(&b);
}

/* With plain sources, and with blocked ones as the previous layer would produce. */
static void check_table(const struct problem *problems, size_t count, int threads)
{
    struct fixture f = open_cpu(false, threads);
    skip_without_a_library(&f);
    struct fixture reference = open_cpu(true, threads);
    for (size_t i = 0; i < count; i++)
        for (int block = 0; block <= 16; block += 8) {
            struct problem p = problems[i];
            p.channel_block = block;
            check_problem(&p, &f, &reference, 200 + i);
        }
    close_cpu(&reference);
    close_cpu(&f);
}

static void convolutions_of_alexnet_agree(void **state)
{
    const struct problem p[] = {
        conv_problem("conv1", 2, 3, 227, 227, 96, 11, 4, 0, 1),
        conv_problem("conv2", 2, 96, 27, 27, 256, 5, 1, 2, 2),
        conv_problem("conv3", 2, 256, 13, 13, 384, 3, 1, 1, 1),
        conv_problem("conv4", 2, 384, 13, 13, 384, 3, 1, 1, 2),
        conv_problem("conv5", 2, 384, 13, 13, 256, 3, 1, 1, 2),
    };
    check_table(p, sizeof p / sizeof *p, 2);
}

static void layers_of_cifar10_quick_agree(void **state)
{
    const struct problem p[] = {
        conv_problem("conv1", 4, 3, 32, 32, 32, 5, 1, 2, 1),
        pool_problem("pool1", true, 4, 32, 32, 32, 3, 2, 0),
        conv_problem("conv2", 4, 32, 16, 16, 32, 5, 1, 2, 1),
        pool_problem("pool2", false, 4, 32, 16, 16, 3, 2, 0),
        conv_problem("conv3", 4, 32, 8, 8, 64, 5, 1, 2, 1),
        pool_problem("pool3", false, 4, 64, 8, 8, 3, 2, 0),
        ip_problem("ip1", 4, 64, 4, 4, 64),
        ip_problem("ip2", 4, 64, 0, 0, 10),
    };
    check_table(p, sizeof p / sizeof *p, 2);
}

static void layers_of_lenet_agree(void **state)
{
    const struct problem p[] = {
        conv_problem("conv1", 4, 1, 28, 28, 20, 5, 1, 0, 1),
        pool_problem("pool1", true, 4, 20, 24, 24, 2, 2, 0),
        conv_problem("conv2", 4, 20, 12, 12, 50, 5, 1, 0, 1),
        pool_problem("pool2", true, 4, 50, 8, 8, 2, 2, 0),
        ip_problem("fc1", 4, 50, 4, 4, 500),
        ip_problem("fc2", 4, 500, 0, 0, 10),
    };
    check_table(p, sizeof p / sizeof *p, 1);
}

static void other_convolutions_agree(void **state)
{
    struct problem p[] = {
        conv_problem("groups of channels that are no block", 3, 12, 9, 10, 18, 3, 1, 1, 3),
        conv_problem("groups of one channel", 2, 16, 9, 9, 16, 3, 1, 1, 16),
        conv_problem("groups of whole blocks", 2, 32, 8, 8, 32, 3, 2, 1, 2),
        conv_problem("1x1", 2, 32, 7, 7, 48, 1, 1, 0, 1),
        conv_problem("dilated", 2, 16, 12, 12, 16, 3, 1, 2, 1),
        conv_problem("last pixels unseen", 2, 16, 11, 11, 16, 3, 3, 0, 1),
        conv_problem("no bias", 2, 17, 9, 9, 20, 5, 1, 0, 1),
        conv_problem("relu", 2, 16, 10, 10, 32, 3, 1, 1, 1),
        conv_problem("relu without bias, groups", 2, 32, 10, 10, 32, 5, 1, 2, 2),
        conv_problem("relu after Winograd's shape", 4, 64, 28, 28, 64, 3, 1, 1, 1),
        conv_problem("one row, one channel", 1, 1, 6, 6, 1, 3, 1, 0, 1),
    };
    p[4].conv.dilation_h = p[4].conv.dilation_w = 2;
    p[4].conv.out_h = p[4].conv.out_w = conv_out(12, 3, 1, 2, 2);
    p[6].conv.bias = p[8].conv.bias = false;
    p[7].conv.fuse_relu = p[8].conv.fuse_relu = p[9].conv.fuse_relu = true;
    check_table(p, sizeof p / sizeof *p, 2);
}

static void other_poolings_agree(void **state)
{
    const struct problem p[] = {
        pool_problem("max, pad, windows over the border", true, 2, 16, 8, 6, 3, 2, 1),
        pool_problem("average, windows over the border", false, 2, 16, 8, 6, 3, 2, 0),
        pool_problem("average, pad, windows over the border", false, 2, 20, 8, 8, 3, 2, 1),
        pool_problem("max, overlapping", true, 2, 20, 9, 9, 3, 1, 1),
        pool_problem("pool5 of AlexNet", true, 2, 256, 13, 13, 3, 2, 0),
        pool_problem("average of a whole image", false, 2, 33, 7, 7, 7, 1, 0),
        pool_problem("gaps between windows", true, 2, 16, 11, 11, 2, 4, 0),
    };
    check_table(p, sizeof p / sizeof *p, 2);
}

static void lrn_agrees(void **state)
{
    const struct problem p[] = {
        lrn_problem("norm1 of AlexNet", 2, 96, 27, 27, 5, 1e-4f, 0.75f, 1),
        lrn_problem("strong", 2, 16, 9, 9, 5, 1, 0.75f, 1),
        lrn_problem("another power, three channels", 3, 20, 5, 6, 3, 0.5f, 0.5f, 2),
    };
    check_table(p, sizeof p / sizeof *p, 2);
}

static void inner_products_agree(void **state)
{
    struct problem p[] = {
        ip_problem("relu", 5, 40, 0, 0, 33),
        ip_problem("relu without bias, image", 3, 24, 3, 5, 16),
        ip_problem("fc6 of AlexNet, narrower", 4, 256, 6, 6, 512),
        ip_problem("one output", 7, 100, 0, 0, 1),
    };
    p[0].ip.fuse_relu = p[1].ip.fuse_relu = true;
    p[1].ip.bias = false;
    check_table(p, sizeof p / sizeof *p, 2);
}

/* Values from a few levels, zeros above all, as after a relu: gradients go where the definition
 * says only if both take the first maximum in row-major order. */
static void max_pooling_agrees_on_ties(void **state)
{
    const struct sw_plan_passes passes = {.backward_data = true, .training = true};
    struct problem p = pool_problem("ties", true, 2, 32, 13, 13, 3, 2, 0);
    struct fixture f = open_cpu(false, 1);
    skip_without_a_library(&f);
    struct fixture reference = open_cpu(true, 1);
    for (p.channel_block = 0; p.channel_block <= 16; p.channel_block += 8) {
        struct sw_plan *plan[2];
        struct sw_err err;
        ASSERT_OK(make_plan(&p, f.stream, passes, &plan[0], &err));
        ASSERT_OK(make_plan(&p, reference.stream, passes, &plan[1], &err));
        struct tensors a = random_tensors(&p, plan[0], 300), b = random_tensors(&p, plan[1], 300);
        for (int64_t i = 0; i < a.src_count; i++)
            a.src[i] = b.src[i] = fmaxf(0, (float)((int)(a.src[i] * 64) * 7 % 5) - 2);
        run_plan(&p, plan[0], &a);
        run_plan(&p, plan[1], &b);
        compare(&p, "dst", a.dst, b.dst, a.dst_count);
        compare(&p, "diff_src", a.diff_src, b.diff_src, a.src_count);
        free_tensors(&a);
        free_tensors(&b);
        sw_plan_free(plan[0]);
        sw_plan_free(plan[1]);
    }
    close_cpu(&reference);
    close_cpu(&f);
}

/* A second plan for another number of rows must read the layout that the first one chose, since the
 * evaluation net shares the parameters of the training net. */
static void a_plan_reads_the_weight_layout_of_another(void **state)
{
    struct problem p[] = {
        conv_problem("conv", 8, 64, 14, 14, 64, 3, 1, 1, 1),
        conv_problem("conv, groups", 8, 96, 13, 13, 64, 5, 1, 2, 2),
        conv_problem("first conv", 8, 3, 32, 32, 32, 5, 1, 2, 1),
        ip_problem("fc of an image", 8, 50, 4, 4, 500),
        ip_problem("fc", 8, 500, 0, 0, 10),
    };
    struct fixture f = open_cpu(false, 2);
    skip_without_a_library(&f);
    struct fixture reference = open_cpu(true, 2);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        const struct sw_plan_passes all = {true, true, true};
        struct sw_plan *first, *second;
        struct sw_err err;
        ASSERT_OK(make_plan(&p[i], f.stream, all, &first, &err));
        p[i].dim[0] = 3;
        p[i].conv.weight_layout = p[i].ip.weight_layout = &first->weight;
        ASSERT_OK(make_plan(&p[i], f.stream, all, &second, &err));
        assert_true(sw_desc_equal(&first->weight, &second->weight));
        struct tensors a = random_tensors(&p[i], second, 400 + i);
        run_plan(&p[i], second, &a);
        p[i].conv.weight_layout = p[i].ip.weight_layout = NULL;
        struct tensors b = run_problem(&p[i], reference.stream, 400 + i);
        compare(&p[i], "dst", a.dst, b.dst, a.dst_count);
        compare(&p[i], "diff_src", a.diff_src, b.diff_src, a.src_count);
        compare(&p[i], "diff_weight", a.diff_weight, b.diff_weight, a.weight_count);
        compare(&p[i], "diff_bias", a.diff_bias, b.diff_bias, a.bias_count);
        free_tensors(&a);
        free_tensors(&b);
        sw_plan_free(first);
        sw_plan_free(second);
    }
    close_cpu(&reference);
    close_cpu(&f);
}

/* Plans of an evaluation net: created without backward passes and without saved memory. */
static void plans_for_evaluation_agree(void **state)
{
    const struct problem p[] = {
        conv_problem("conv", 2, 32, 14, 14, 32, 3, 1, 1, 1),
        pool_problem("max", true, 2, 32, 13, 13, 3, 2, 0),
        lrn_problem("lrn", 2, 32, 9, 9, 5, 1e-2f, 0.75f, 1),
        ip_problem("fc", 5, 32, 3, 3, 20),
    };
    struct fixture device[2] = {open_cpu(false, 1), {0}};
    skip_without_a_library(&device[0]);
    device[1] = open_cpu(true, 1);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        float *result[2];
        int64_t count = 0;
        for (int k = 0; k < 2; k++) {
            struct sw_plan *plan;
            struct sw_err err;
            ASSERT_OK(make_plan(&p[i], device[k].stream, (struct sw_plan_passes){0}, &plan, &err));
            assert_int_equal(plan->saved_bytes, 0);
            struct tensors t = random_tensors(&p[i], plan, 500 + i);
            float *src = stored_of(&plan->src, t.src), *dst = unwritten(&plan->dst);
            float *weight = has_weights(&p[i]) ? stored_of(&plan->weight, t.weight) : NULL;
            void *scratch = get_bytes(plan->scratch_bytes);
            struct sw_plan_args a = {
                .src = src, .weight = weight, .bias = t.bias, .dst = dst, .scratch = scratch};
            ASSERT_OK(sw_plan_forward(plan, &a, &err));
            result[k] = plain_of("dst", &plan->dst, dst);
            count = t.dst_count;
            free(src);
            free(weight);
            free(scratch);
            free_tensors(&t);
            sw_plan_free(plan);
        }
        compare(&p[i], "dst", result[0], result[1], count);
        free(result[0]);
        free(result[1]);
    }
    close_cpu(&device[0]);
    close_cpu(&device[1]);
}

/* Layouts that the library chooses, converted from plain and back. */
static void reorders_agree(void **state)
{
    static const int64_t dim[] = {3, 20, 6, 7};
    const struct sw_desc d[] = {sw_desc_plain(SW_F32, 4, dim),
                                sw_desc_blocked(SW_F32, 4, dim, 1, 8),
                                sw_desc_blocked(SW_F32, 4, dim, 1, 16)};
    struct fixture f = open_cpu(false, 2);
    struct rng r = rng_of(600);
    skip_without_a_library(&f);
    float *plain = random_floats(&r, sw_desc_count(&d[0]), 1, 2);
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            struct sw_plan *plan;
            struct sw_err err;
            ASSERT_OK(make_reorder(f.stream, &d[from], &d[to], &plan, &err));
            float *src = stored_of(&d[from], plain), *want = stored_of(&d[to], plain);
            float *dst = unwritten(&d[to]);
            void *scratch = get_bytes(plan->scratch_bytes);
            struct sw_plan_args a = {.src = src, .dst = dst, .scratch = scratch};
            ASSERT_OK(sw_plan_forward(plan, &a, &err));
            assert_same_bits("reorder", dst, want, sw_desc_bytes(&d[to]));
            free(src);
            free(want);
            free(dst);
            free(scratch);
            sw_plan_free(plan);
        }
    free(plain);
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_alexnet_agree),
        cmocka_unit_test(layers_of_cifar10_quick_agree),
        cmocka_unit_test(layers_of_lenet_agree),
        cmocka_unit_test(other_convolutions_agree),
        cmocka_unit_test(other_poolings_agree),
        cmocka_unit_test(lrn_agrees),
        cmocka_unit_test(inner_products_agree),
        cmocka_unit_test(max_pooling_agrees_on_ties),
        cmocka_unit_test(a_plan_reads_the_weight_layout_of_another),
        cmocka_unit_test(plans_for_evaluation_agree),
        cmocka_unit_test(reorders_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
