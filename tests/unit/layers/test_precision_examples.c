/* Every example of layers with parameters, on the CPU in every precision: close to fp32 within the
 * rounding of factors, and different from fp32 if the layer has products. And every example of
 * layers that support activations of 16 bits. */
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

/* ---- Activations of 16 bits ---- */

static void round_values(struct values *v, enum sw_dtype type)
{
    for (int k = 0; k < v->src_count; k++)
        for (int64_t i = 0; i < v->src_n[k] && v->src[k]; i++)
            v->src[k][i] = half_value(type, half_of(type, v->src[k][i]));
    for (int64_t i = 0; i < v->dst_n; i++)
        v->dst_grad[i] = half_value(type, half_of(type, v->dst_grad[i]));
}

static void compare_floats(const char *what, const float *x, const float *y, int64_t n)
{
    char text[512];
    double *wanted = get_doubles(n);
    snprintf(text, sizeof text, "%s: %s", where, what);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = (double)y[i];
    assert_near(text, x, wanted, n, limit);
    free(wanted);
}

/* The same layer on the same values in 16 bits and in f32: the output is that of f32, rounded once;
 * gradients differ only where backward reads the rounded output. */
static void check_halves(enum sw_dtype type, const struct sw_layer_type *layer,
                         const struct sw_layer_example *ex, struct how how)
{
    struct rig a, b;
    rig_setup(&b, layer, ex, &how);
    how.type = type;
    rig_setup(&a, layer, ex, &how);
    assert_int_equal(a.layer.dst.desc.dtype, type);
    struct values x = values_new(&a, ex, 1), y = values_new(&b, ex, 1);
    round_values(&x, type);
    round_values(&y, type);
    rig_pass(&a, &x);
    rig_pass(&b, &y);

    char text[512];
    snprintf(text, sizeof text, "%s: output", where);
    for (int64_t i = 0; i < y.dst_n; i++)
        y.dst[i] = half_value(type, half_of(type, y.dst[i]));
    assert_same_bits(text, x.dst, y.dst, (size_t)y.dst_n * sizeof *y.dst);
    for (int k = 0; k < y.src_count; k++)
        if (a.layer.src_grad[k])
            compare_floats("source gradient", x.src_grad[k], y.src_grad[k], y.src_n[k]);
    for (int i = 0; i < y.param_count; i++)
        compare_floats("parameter gradient", x.param_grad[i], y.param_grad[i], y.param_n[i]);
    values_free(&x), values_free(&y);
    rig_close(&a), rig_close(&b);
}

static void outputs_in_16_bits_are_those_of_fp32_rounded_once(void **state)
{
    struct fixture f = open_cpu(true, 2);
    for (int t = 0; sw_layer_types[t]; t++)
        for (int e = 0; sw_layer_types[t]->halves && sw_layer_types[t]->examples[e].recipe; e++)
            for (int k = 0; k < 8; k++) {
                enum sw_dtype type = k & 1 ? SW_BF16 : SW_F16;
                struct how how = {.stream = f.stream, .block = k & 2 ? 16 : 0, .in_place = k & 4};
                snprintf(where, sizeof where, "%s, example %d, %s, block %d%s",
                         sw_layer_types[t]->base.name, e, sw_dtype_name(type), how.block,
                         how.in_place ? ", in place" : "");
                limit = limits[type == SW_BF16 ? SW_PRECISION_BF16 : SW_PRECISION_FP16];
                check_halves(type, sw_layer_types[t], &sw_layer_types[t]->examples[e], how);
            }
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_near_fp32),
        cmocka_unit_test(outputs_in_16_bits_are_those_of_fp32_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
