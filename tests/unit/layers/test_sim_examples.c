/* ctest-labels: threads
 * Every example of every layer type on a simulated GPU: the same bits as on the CPU, in every
 * precision. */
#include "device_examples.h"

static void compare(const char *what, const void *a, const void *b, size_t bytes)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", where, what);
    if (a && b)
        assert_same_bits(text, a, b, bytes);
}

static void compare_layers(const struct rig *a, const struct rig *b)
{
    const struct sw_layer *x = &a->layer, *y = &b->layer;
    enum sw_layer_role role = x->type->role;
    int pairs = x->pair_count > 0 ? x->pair_count : 1;
    if (role == SW_ROLE_LOSS || role == SW_ROLE_METRIC)
        compare("result", a->result, b->result, (size_t)pairs * sizeof *a->result);
    if (role != SW_ROLE_METRIC)
        compare("output", x->dst.data, y->dst.data, sw_desc_bytes(&x->dst.desc));
    for (int k = 0; k < x->src_count; k++)
        compare("source gradient", x->src_grad[k], y->src_grad[k], sw_desc_bytes(&a->src[k].desc));
    for (int i = 0; i < x->param_count && x->type->backward; i++)
        compare("parameter gradient", x->param[i].grad, y->param[i].grad,
                sw_desc_bytes(&x->param[i].layout));
    for (int i = 0; i < x->keep_count; i++)
        compare("state", x->keeps[i].value, y->keeps[i].value, sw_desc_bytes(&x->keeps[i].layout));
}

static void examples_have_the_bits_of_the_cpu(void **state)
{
    struct fixture cpu = open_cpu(false, 1);
    struct sw_device *dev = open_sim(0);
    struct sw_stream *sim = new_stream(dev);
    check_all_examples(cpu.stream, sim, compare_layers);
    sw_stream_free(sim);
    sw_device_close(dev);
    close_cpu(&cpu);
}

static void lower_precisions_have_the_bits_of_the_cpu(void **state)
{
    for (enum sw_precision p = SW_PRECISION_TF32; p <= SW_PRECISION_FP16; p++) {
        struct fixture cpu = open_cpu_as(false, p, 1);
        struct sw_sim_conf conf = small_conf();
        conf.precision = p;
        struct sw_device *dev = open_sim_with(0, conf);
        struct sw_stream *sim = new_stream(dev);
        check_learning_examples(cpu.stream, sim, compare_layers);
        if (sw_precision_is_half(p))
            check_half_examples(p == SW_PRECISION_BF16 ? SW_BF16 : SW_F16, cpu.stream, sim,
                                compare_layers);
        sw_stream_free(sim);
        sw_device_close(dev);
        close_cpu(&cpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_have_the_bits_of_the_cpu),
        cmocka_unit_test(lower_precisions_have_the_bits_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
