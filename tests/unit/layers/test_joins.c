/* Layers that combine, slice or reshape their sources or work along one dimension, against formulas
 * in double: eltwise, concat, slice, flatten, reshape, softmax, layer_norm, sparsity. */
#include "formula_support.h"

/* ---- eltwise ---- */

static void weighted_sum(const void *shape, const struct values *v, struct exact *e)
{
    const double *factor = shape;
    for (int64_t i = 0; i < v->dst_n; i++) {
        for (int k = 0; k < v->src_count; k++)
            e->dst[i] += factor[k] * (double)v->src[k][i];
        e->src_grad[i] = factor[0] * (double)v->dst_grad[i];
    }
}

static void product(const void *shape, const struct values *v, struct exact *e)
{
    for (int64_t i = 0; i < v->dst_n; i++) {
        double others = (double)v->src[1][i] * (double)v->src[2][i];
        e->dst[i] = (double)v->src[0][i] * others;
        e->src_grad[i] = (double)v->dst_grad[i] * others;
    }
}

static void maximum(const void *shape, const struct values *v, struct exact *e)
{
    for (int64_t i = 0; i < v->dst_n; i++) {
        double x = (double)v->src[0][i], z = (double)v->src[1][i];
        e->dst[i] = x >= z ? x : z;
        e->src_grad[i] = x >= z ? (double)v->dst_grad[i] : 0;
    }
}

static const struct sw_layer_example three = {
    .recipe = "operation = sum\ncoefficients = 1, -0.5, 2\n",
    .src = {{4, {2, 21, 3, 4}, 0}, {4, {2, 21, 3, 4}, 0}, {4, {2, 21, 3, 4}, 0}}};

static void eltwise_matches_its_formula(void **state)
{
    const double ones[] = {1, 1, 1}, factor[] = {1, -0.5, 2};
    struct sw_layer_example ex = three;
    check("eltwise", &ex, weighted_sum, factor, false);
    ex.recipe = "operation = sum\n";
    check("eltwise", &ex, weighted_sum, ones, false);
    ex.recipe = "operation = product\n";
    check("eltwise", &ex, product, NULL, false);
    ex.recipe = "operation = max\n";
    ex.src[2].ndim = 0;
    check("eltwise", &ex, maximum, NULL, false);
}

/* Of equal values only that of the first source gets the gradient. */
static void gradient_of_equal_maxima_goes_to_the_first(void **state)
{
    struct sw_layer_example ex = three;
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    ex.recipe = "operation = max\n";
    rig_setup(&g, sw_layer_type_find("eltwise"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 1);
    memcpy(v.src[1], v.src[0], (size_t)v.src_n[0] * sizeof(float));
    memcpy(v.src[2], v.src[0], (size_t)v.src_n[0] * sizeof(float));
    rig_pass(&g, &v);
    for (int64_t i = 0; i < v.dst_n; i++) {
        assert_true(v.src_grad[0][i] == v.dst_grad[i]);
        assert_true(v.src_grad[1][i] == 0 && v.src_grad[2][i] == 0);
    }
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* The gradient of a product must not be computed by division. */
static void zeros_in_a_product_have_gradients(void **state)
{
    struct sw_layer_example ex = three;
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    ex.recipe = "operation = product\n";
    rig_setup(&g, sw_layer_type_find("eltwise"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 1);
    memset(v.src[0], 0, (size_t)v.src_n[0] * sizeof(float));
    rig_pass(&g, &v);
    for (int64_t i = 0; i < v.dst_n; i++) {
        double want = (double)v.dst_grad[i] * (double)v.src[1][i] * (double)v.src[2][i];
        assert_true(fabs((double)v.src_grad[0][i] - want) <= 1e-6);
        assert_true(v.src_grad[1][i] == 0 && v.dst[i] == 0);
    }
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* ---- concat, slice ---- */

/* An array as [outer, along, inner]. */
struct cut {
    int64_t outer, inner, whole, first, count;
};

/* Source 0 of a concat is its first part. */
static void joined(const void *shape, const struct values *v, struct exact *e)
{
    const struct cut *c = shape;
    int64_t first = 0;
    for (int k = 0; k < v->src_count; k++) {
        int64_t along = v->src_n[k] / c->outer / c->inner;
        for (int64_t i = 0; i < v->src_n[k]; i++) {
            int64_t o = i / (along * c->inner),
                    at = o * c->whole * c->inner + first * c->inner + i % (along * c->inner);
            e->dst[at] = (double)v->src[k][i];
            if (k == 0)
                e->src_grad[i] = (double)v->dst_grad[at];
        }
        first += along;
    }
}

static void concat_matches_its_formula(void **state)
{
    static const struct {
        struct sw_layer_example ex;
        struct cut cut;
    } cases[] = {
        {{.recipe = "",
          .src = {{4, {3, 16, 2, 3}, 0}, {4, {3, 32, 2, 3}, 0}, {4, {3, 16, 2, 3}, 0}}},
         {3, 6, 64, 0, 0}},
        {{.recipe = "", .src = {{4, {3, 5, 2, 3}, 0}, {4, {3, 20, 2, 3}, 0}}}, {3, 6, 25, 0, 0}},
        {{.recipe = "axis = 2\n", .src = {{4, {3, 5, 2, 3}, 0}, {4, {3, 5, 4, 3}, 0}}},
         {15, 3, 6, 0, 0}},
        {{.recipe = "axis = 3\n", .src = {{4, {3, 5, 2, 3}, 0}, {4, {3, 5, 2, 1}, 0}}},
         {30, 1, 4, 0, 0}},
        {{.recipe = "", .src = {{2, {3, 5}, 0}, {2, {3, 7}, 0}}}, {3, 1, 12, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check("concat", &cases[i].ex, joined, &cases[i].cut, false);
}

static void sliced(const void *shape, const struct values *v, struct exact *e)
{
    const struct cut *c = shape;
    for (int64_t i = 0; i < v->dst_n; i++) {
        int64_t o = i / (c->count * c->inner), rest = i % (c->count * c->inner);
        int64_t at = (o * c->whole + c->first) * c->inner + rest;
        e->dst[i] = (double)v->src[0][at];
        e->src_grad[at] = (double)v->dst_grad[i];
    }
}

static void slice_matches_its_formula(void **state)
{
    static const struct {
        struct sw_layer_example ex;
        struct cut cut;
    } cases[] = {
        {{.recipe = "from = 16\nto = 48\n", .src = {{4, {3, 50, 2, 3}, 0}}}, {3, 6, 50, 16, 32}},
        {{.recipe = "from = 7\nto = 30\n", .src = {{4, {3, 50, 2, 3}, 0}}}, {3, 6, 50, 7, 23}},
        {{.recipe = "from = 48\n", .src = {{4, {3, 50, 2, 3}, 0}}}, {3, 6, 50, 48, 2}},
        {{.recipe = "parts = 3\npart = 0\n", .src = {{4, {3, 50, 2, 3}, 0}}}, {3, 6, 50, 0, 17}},
        {{.recipe = "parts = 3\npart = 2\n", .src = {{4, {3, 50, 2, 3}, 0}}}, {3, 6, 50, 34, 16}},
        {{.recipe = "axis = 2\nfrom = 1\n", .src = {{4, {2, 5, 4, 3}, 0}}}, {10, 3, 4, 1, 3}},
        {{.recipe = "axis = 3\nto = 2\n", .src = {{4, {2, 5, 4, 3}, 0}}}, {40, 1, 3, 0, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check("slice", &cases[i].ex, sliced, &cases[i].cut, false);
}

/* ---- flatten, reshape ---- */

static void unchanged(const void *shape, const struct values *v, struct exact *e)
{
    for (int64_t i = 0; i < v->dst_n; i++) {
        e->dst[i] = (double)v->src[0][i];
        e->src_grad[i] = (double)v->dst_grad[i];
    }
}

static void flatten_and_reshape_keep_the_order(void **state)
{
    const struct sw_layer_example flat = {.recipe = "", .src = {{4, {2, 21, 3, 4}, 0}}},
                                  shape = {.recipe = "shape = 3, 0, -1\n",
                                           .src = {{4, {2, 21, 3, 4}, 0}}};
    check("flatten", &flat, unchanged, NULL, false);
    check("reshape", &shape, unchanged, NULL, false);
}

/* ---- softmax, layer_norm ---- */

static void softmax(const void *shape, const struct values *v, struct exact *e)
{
    const struct cut *c = shape;
    for (int64_t o = 0; o < c->outer * c->inner; o++) {
        int64_t at = o / c->inner * c->whole * c->inner + o % c->inner;
        double sum = 0, dot = 0;
        for (int64_t j = 0; j < c->whole; j++)
            sum += exp((double)v->src[0][at + j * c->inner]);
        for (int64_t j = 0; j < c->whole; j++) {
            int64_t i = at + j * c->inner;
            e->dst[i] = exp((double)v->src[0][i]) / sum;
            dot += e->dst[i] * (double)v->dst_grad[i];
        }
        for (int64_t j = 0; j < c->whole; j++) {
            int64_t i = at + j * c->inner;
            e->src_grad[i] = e->dst[i] * ((double)v->dst_grad[i] - dot);
        }
    }
}

static void softmax_matches_its_formula(void **state)
{
    static const struct {
        struct sw_layer_example ex;
        struct cut cut;
    } cases[] = {
        {{.recipe = "", .src = {{2, {3, 37}, 0}}}, {3, 1, 37, 0, 0}},
        {{.recipe = "", .src = {{4, {2, 18, 9, 8}, 0}}}, {2, 72, 18, 0, 0}},
        {{.recipe = "axis = 3\n", .src = {{4, {2, 5, 3, 6}, 0}}}, {30, 1, 6, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check("softmax", &cases[i].ex, softmax, &cases[i].cut, false);
}

/* Scores beyond the range of exp. */
static void softmax_of_large_scores_is_finite(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{4, {1, 3, 1, 2}, 0}}};
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    rig_setup(&g, sw_layer_type_find("softmax"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 1);
    const float x[] = {1000, -1000, 1000, -1000, -1000, -1002};
    const double want[] = {0.5, 0.468310796, 0.5, 0.468310796, 0, 0.063378408};
    memcpy(v.src[0], x, sizeof x);
    rig_pass(&g, &v);
    for (int i = 0; i < 6; i++)
        assert_true(fabs((double)v.dst[i] - want[i]) < 1e-6 && isfinite(v.src_grad[0][i]));
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* whole: elements normalized together. */
static void layer_norm(const void *shape, const struct values *v, struct exact *e)
{
    const struct cut *c = shape;
    for (int64_t o = 0; o < c->outer; o++) {
        const float *x = v->src[0] + o * c->whole, *dy = v->dst_grad + o * c->whole;
        double n = (double)c->whole, mean = 0, variance = 0, of_g = 0, of_x = 0;
        for (int64_t i = 0; i < c->whole; i++)
            mean += (double)x[i] / n;
        for (int64_t i = 0; i < c->whole; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
        double std = sqrt(variance + 0.01);
        for (int64_t i = 0; i < c->whole; i++) {
            double xhat = ((double)x[i] - mean) / std, g = (double)v->param[0][i] * (double)dy[i];
            e->dst[o * c->whole + i] = (double)v->param[0][i] * xhat + (double)v->param[1][i];
            e->weight_grad[i] += (double)dy[i] * xhat;
            e->bias_grad[i] += (double)dy[i];
            of_g += g / n;
            of_x += g * xhat / n;
        }
        for (int64_t i = 0; i < c->whole; i++) {
            double xhat = ((double)x[i] - mean) / std, g = (double)v->param[0][i] * (double)dy[i];
            e->src_grad[o * c->whole + i] = (g - of_g - xhat * of_x) / std;
        }
    }
}

static void layer_norm_matches_its_formula(void **state)
{
    static const struct {
        struct sw_layer_example ex;
        struct cut cut;
    } cases[] = {
        {{.recipe = "eps = 0.01\n", .src = {{2, {5, 133}, 0}}}, {5, 1, 133, 0, 0}},
        {{.recipe = "eps = 0.01\n", .src = {{4, {3, 18, 2, 3}, 0}}}, {3, 1, 108, 0, 0}},
        {{.recipe = "eps = 0.01\naxis = 3\n", .src = {{4, {2, 5, 3, 9}, 0}}}, {30, 1, 9, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check("layer_norm", &cases[i].ex, layer_norm, &cases[i].cut, false);
}

/* ---- sparsity ---- */

enum { UNITS = 5, ROWS = 6, PIXELS = 4 };

static void sparsity(const void *shape, const struct values *v, struct exact *e)
{
    const double *conf = shape, rho = conf[0], beta = conf[1], scale = 0.375;
    double penalty = 0;
    for (int64_t c = 0; c < UNITS; c++) {
        double mean = 0;
        for (int64_t i = 0; i < ROWS * PIXELS; i++)
            mean +=
                (double)v->src[0][(i / PIXELS * UNITS + c) * PIXELS + i % PIXELS] / (ROWS * PIXELS);
        penalty += beta * (rho * log(rho / mean) + (1 - rho) * log((1 - rho) / (1 - mean)));
        for (int64_t i = 0; i < ROWS * PIXELS; i++) {
            int64_t at = (i / PIXELS * UNITS + c) * PIXELS + i % PIXELS;
            e->dst[at] = (double)v->src[0][at];
            e->src_grad[at] = (double)v->dst_grad[at] +
                              scale * beta * ((1 - rho) / (1 - mean) - rho / mean) / PIXELS;
        }
    }
    assert_true(fabs(v->result.sum / v->result.weight - penalty) < 1e-5 * (1 + penalty));
}

static void sparsity_matches_its_formula(void **state)
{
    const double conf[] = {0.2, 3};
    const struct sw_layer_example ex = {.recipe = "rho = 0.2\nbeta = 3\n",
                                        .src = {{4, {ROWS, UNITS, 2, 2}, 0}},
                                        .range = {{0.05, 0.95}}};
    check("sparsity", &ex, sparsity, conf, false);
}

/* ---- Errors in recipes ---- */

static void wrong_keys_are_refused_with_a_reason(void **state)
{
    assert_refused("slice", "from = 3\nto = 7\n", "must select a range of 0..6");
    assert_refused("slice", "from = 3\nto = 3\n", "must select a range of 0..6");
    assert_refused("slice", "parts = 2\npart = 2\n", "part = 2: must be below parts = 2");
    assert_refused("slice", "parts = 2\nto = 2\n", "cannot be combined with from or to");
    assert_refused("slice", "parts = 7\n", "only 6");
    assert_refused("slice", "axis = 4\n", "its dimensions are 0..3");
    assert_refused("flatten", "axis = 5\n", "its dimensions are 0..3");
    assert_refused("softmax", "axis = 4\n", "its dimensions are 0..3");
    assert_refused("layer_norm", "axis = 4\n", "its dimensions are 0..3");
    assert_refused("reshape", "shape = 7, -1\n", "120 elements");
    assert_refused("reshape", "shape = -1, -1\n", "only one dimension");
    assert_refused("reshape", "shape = 2.5, -1\n", "not a whole number");
    assert_refused("reshape", "shape = 1, 2, 3, 0\n", "no dimension 4");
    assert_refused("reshape", "shape = 1, 2, 3, 4, 5, 1\n", "at most 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eltwise_matches_its_formula),
        cmocka_unit_test(gradient_of_equal_maxima_goes_to_the_first),
        cmocka_unit_test(zeros_in_a_product_have_gradients),
        cmocka_unit_test(concat_matches_its_formula),
        cmocka_unit_test(slice_matches_its_formula),
        cmocka_unit_test(flatten_and_reshape_keep_the_order),
        cmocka_unit_test(softmax_matches_its_formula),
        cmocka_unit_test(softmax_of_large_scores_is_finite),
        cmocka_unit_test(layer_norm_matches_its_formula),
        cmocka_unit_test(sparsity_matches_its_formula),
        cmocka_unit_test(wrong_keys_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
