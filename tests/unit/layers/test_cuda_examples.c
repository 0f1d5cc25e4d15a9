/* ctest-labels: gpu
 * Every example of every layer type on a GPU, and in lower precisions those of layers with
 * products, against the CPU reference: outputs, gradients, buffers and results in plain order,
 * whatever layouts the two devices chose. Skipped without a GPU. */
#include "device_examples.h"

#include "unit/device/cuda_support.h"

/* Relative to the largest element: fp32 sums in another order, and Winograd's transforms. In lower
 * precisions both round the same factors, except that earlier differences may round to the adjacent
 * value. */
static const double limits[] = {1e-4, 2e-2, 2e-2, 4e-3};
static double limit;
static uint64_t bridged; /* operations without a CUDA kernel */

static void compare_plain(const char *what, const struct sw_desc *da, const void *a,
                          const struct sw_desc *db, const void *b)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", where, what);
    int64_t n = sw_desc_count(db);
    if (!a || !b || n == 0)
        return;
    float *x = get_floats(n), *y = get_floats(n);
    double *wanted = get_doubles(n);
    if (db->dtype == SW_I32) {
        sw_desc_to_plain(da, a, x);
        sw_desc_to_plain(db, b, y);
        assert_same_bits(text, x, y, (size_t)n * sizeof *x);
    } else {
        read_plain(text, da, a, x);
        read_plain(text, db, b, y);
        for (int64_t i = 0; i < n; i++)
            wanted[i] = (double)y[i];
        assert_near(text, x, wanted, n, limit);
    }
    free(x);
    free(y);
    free(wanted);
}

static void compare_results(const struct sw_layer *x, const struct sw_layer *y)
{
    int pairs = x->pair_count > 0 ? x->pair_count : 1;
    for (int i = 0; i < pairs; i++) {
        double a = x->result[i].sum, b = y->result[i].sum;
        if (!(fabs(a - b) <= limit * (fabs(b) + 1e-3)) ||
            x->result[i].weight != y->result[i].weight)
            fail_msg("%s: result %d is %.9g of %.9g, should be %.9g of %.9g", where, i, a,
                     x->result[i].weight, b, y->result[i].weight);
    }
}

static void compare_layers(const struct rig *a, const struct rig *b)
{
    const struct sw_layer *x = &a->layer, *y = &b->layer;
    enum sw_layer_role role = x->type->role;
    if (role == SW_ROLE_LOSS || role == SW_ROLE_METRIC)
        compare_results(x, y);
    if (role != SW_ROLE_METRIC && role != SW_ROLE_OUTPUT)
        compare_plain("output", &x->dst.desc, x->dst.data, &y->dst.desc, y->dst.data);
    for (int k = 0; k < x->src_count; k++)
        compare_plain("source gradient", &a->src[k].desc, x->src_grad[k], &b->src[k].desc,
                      y->src_grad[k]);
    for (int i = 0; i < x->param_count && x->type->backward; i++)
        compare_plain("parameter gradient", &x->param[i].layout, x->param[i].grad,
                      &y->param[i].layout, y->param[i].grad);
    for (int i = 0; i < x->keep_count; i++)
        compare_plain("state", &x->keeps[i].layout, x->keeps[i].value, &y->keeps[i].layout,
                      y->keeps[i].value);
}

static void examples_match_the_cpu_reference(void **state)
{
    for (enum sw_precision p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++) {
        if (p == SW_PRECISION_TF32) /* tf32 uses the code paths of fp32; test_cuda_plans tests it */
            continue;
        struct fixture cpu = open_cpu_as(true, p, 1);
        struct sw_device *dev = open_gpu_as(0, p);
        struct sw_stream *gpu = new_stream(dev);
        limit = limits[p];
        if (p == SW_PRECISION_FP32)
            check_all_examples(cpu.stream, gpu, compare_layers);
        else
            check_learning_examples(cpu.stream, gpu, compare_layers);
        if (sw_precision_is_half(p))
            check_half_examples(p == SW_PRECISION_BF16 ? SW_BF16 : SW_F16, cpu.stream, gpu,
                                compare_layers);
        bridged += sw_device_bytes_of(dev).bridged;
        sw_stream_free(gpu);
        sw_device_close(dev);
        close_cpu(&cpu);
    }
}

/* Must run after the test above, which counts bridged operations. */
static void every_operation_has_a_kernel(void **state)
{
    assert_int_equal(bridged, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_match_the_cpu_reference),
        cmocka_unit_test(every_operation_has_a_kernel),
    };
    return has_gpu() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
