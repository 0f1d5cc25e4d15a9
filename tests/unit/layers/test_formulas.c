/* inner_product and activation against their formulas. */
#include "formula_support.h"

/* ---- inner_product ---- */

struct inner {
    int64_t rows, features, outputs;
    bool bias;
};

static void multiply(const void *shape, const struct values *v, struct exact *e)
{
    const struct inner *s = shape;
    for (int64_t o = 0; o < s->rows * s->outputs; o++) {
        int64_t n = o / s->outputs, m = o % s->outputs;
        double dy = (double)v->dst_grad[o];
        e->dst[o] = s->bias ? (double)v->param[1][m] : 0;
        if (s->bias)
            e->bias_grad[m] += dy;
        for (int64_t f = 0; f < s->features; f++) {
            int64_t p = n * s->features + f, k = m * s->features + f;
            e->dst[o] += (double)v->src[0][p] * (double)v->param[0][k];
            e->src_grad[p] += dy * (double)v->param[0][k];
            e->weight_grad[k] += dy * (double)v->src[0][p];
        }
    }
}

static void inner_product_multiplies_flattened_features(void **state)
{
    struct rng r = rng_of(8);
    for (int i = 0; i < 12; i++) {
        int64_t c = rng_int(&r, 1, 40), h = rng_int(&r, 1, 4), w = rng_int(&r, 1, 4);
        struct inner s = {.rows = rng_int(&r, 1, 9), .outputs = rng_int(&r, 1, 40), .bias = i % 2};
        char text[128];
        snprintf(text, sizeof text, "outputs = %d\nbias = %s\n", (int)s.outputs,
                 s.bias ? "yes" : "no");
        struct sw_layer_example ex = {.recipe = text, .src = {{4, {s.rows, c, h, w}, 0}}};
        s.features = c * h * w;
        if (i % 3 == 0) {
            ex.src[0].ndim = 2;
            ex.src[0].dim[2] = ex.src[0].dim[3] = 0;
            s.features = c;
        }
        check("inner_product", &ex, multiply, &s, false);
    }
}

/* ---- activation ---- */

struct function {
    const char *recipe;
    double (*value)(double x);
    double (*slope)(double x);
};

static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double relu_slope(double x)
{
    return x > 0;
}
static double leaky(double x)
{
    return x > 0 ? x : 0.2 * x;
}
static double leaky_slope(double x)
{
    return x > 0 ? 1 : 0.2;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double sigmoid_slope(double x)
{
    return sigmoid(x) * sigmoid(-x);
}
static double tanh_slope(double x)
{
    return 1 / (cosh(x) * cosh(x));
}
static double stanh(double x)
{
    return 1.7159047 * tanh(0.66666667 * x);
}
static double stanh_slope(double x)
{
    return 1.7159047 * 0.66666667 * tanh_slope(0.66666667 * x);
}
static double softplus(double x)
{
    return log1p(exp(x));
}
static double gelu(double x)
{
    return x * erfc(-x * M_SQRT1_2) / 2;
}
static double gelu_slope(double x)
{
    return erfc(-x * M_SQRT1_2) / 2 + x * exp(-x * x / 2) * M_2_SQRTPI * M_SQRT1_2 / 2;
}

static void apply(const void *shape, const struct values *v, struct exact *e)
{
    const struct function *f = shape;
    for (int64_t i = 0; i < v->dst_n; i++) {
        e->dst[i] = f->value((double)v->src[0][i]);
        e->src_grad[i] = (double)v->dst_grad[i] * f->slope((double)v->src[0][i]);
    }
}

static void activations_match_their_formulas(void **state)
{
    const struct function functions[] = {
        {"function = relu\n", relu, relu_slope},
        {"function = leaky_relu\nslope = 0.2\n", leaky, leaky_slope},
        {"function = sigmoid\n", sigmoid, sigmoid_slope},
        {"function = tanh\n", tanh, tanh_slope},
        {"function = stanh\n", stanh, stanh_slope},
        {"function = softplus\n", softplus, sigmoid},
        {"function = gelu\n", gelu, gelu_slope},
    };
    assert_int_equal(sizeof functions / sizeof *functions, SW_ACT_COUNT);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct sw_layer_example image = {.recipe = functions[i].recipe,
                                         .src = {{4, {3, 21, 5, 3}, 0}}};
        struct sw_layer_example flat = {.recipe = functions[i].recipe, .src = {{2, {4, 333}, 0}}};
        check("activation", &image, apply, &functions[i], false);
        check("activation", &flat, apply, &functions[i], false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_product_multiplies_flattened_features),
        cmocka_unit_test(activations_match_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
