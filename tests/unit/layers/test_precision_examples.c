/* Every example of layers with parameters, on the CPU in every precision: close to fp32 within the
 * rounding of factors, and different from fp32 if the layer has products. */
#include "device_examples.h"

/* Relative to the largest element. The rounding error of a factor is at most half a unit in the
 * last place, 2^-9 with bf16 and 2^-11 otherwise; in a recurrent cell errors accumulate over the
 * steps. */
static const double limits[] = {0, 8 * 0x1p-11, 8 * 0x1p-9, 8 * 0x1p-11};
static double limit;
static bool differs;

static void compare_plain(const char *what, const struct sw_desc *da, const void *a,
                          const struct sw_desc *db, const void *b)
{
    char text[512];
    int64_t n = sw_desc_count(db);
    if (!a || !b || n == 0 || db->dtype != SW_F32)
        return;
    float *x = get_floats(n), *y = get_floats(n);
    double *wanted = get_doubles(n);
    snprintf(text, sizeof text, "%s: %s", where, what);
    sw_desc_to_plain(da, a, x);
    sw_desc_to_plain(db, b, y);
    for (int64_t i = 0; i < n; i++) {
        wanted[i] = (double)y[i];
        differs = differs || fabs(wanted[i] - (double)x[i]) > 1e-5;
    }
    assert_near(text, x, wanted, n, limit);
    free(x), free(y), free(wanted);
}

static void compare_layers(const struct rig *a, const struct rig *b)
{
    const struct sw_layer *x = &a->layer, *y = &b->layer;
    compare_plain("output", &x->dst.desc, x->dst.data, &y->dst.desc, y->dst.data);
    for (int k = 0; k < x->src_count; k++)
        compare_plain("source gradient", &a->src[k].desc, x->src_grad[k], &b->src[k].desc,
                      y->src_grad[k]);
    for (int i = 0; i < x->param_count; i++)
        compare_plain("parameter gradient", &x->param[i].layout, x->param[i].grad,
                      &y->param[i].layout, y->param[i].grad);
}

static bool multiplies(const char *name)
{
    static const char *const names[] = {"convolution", "deconvolution", "inner_product",
                                        "rnn",         "gru",           "lstm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_recurrent(const char *name)
{
    return strcmp(name, "rnn") == 0 || strcmp(name, "gru") == 0 || strcmp(name, "lstm") == 0;
}

static void examples_are_near_fp32(void **state)
{
    for (int reference = 0; reference < 2; reference++)
        for (enum sw_precision p = SW_PRECISION_TF32; p <= SW_PRECISION_FP16; p++) {
            struct fixture exact = open_cpu(true, 1), rounded = open_cpu_as(reference, p, 1);
            for (int t = 0; sw_layer_types[t]; t++) {
                const struct sw_layer_type *type = sw_layer_types[t];
                if (!multiplies(type->base.name))
                    continue;
                differs = false;
                limit = limits[p] * (is_recurrent(type->base.name) ? 16 : 1);
                check_examples(type, exact.stream, rounded.stream, compare_layers);
                assert_true(differs);
            }
            close_cpu(&rounded), close_cpu(&exact);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_near_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
