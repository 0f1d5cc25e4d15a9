/* Layers with several phases in a net: sums over the group between two phases, and the buffers of
 * layers. */
#include "net_support.h"

static const char text[] =
    WORLD_INPUTS "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 6\nkernel = 3\n"
                 "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
                 "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
                 "[layer fc1]\ntype = inner_product\nsrc = act1\noutputs = 9\n"
                 "[layer bn2]\ntype = batch_norm\nsrc = fc1\nmomentum = 0.5\n"
                 "[layer bn3]\ntype = batch_norm\nsrc = bn2\nsync = no\n"
                 "[layer fc2]\ntype = inner_product\nsrc = bn3\noutputs = 4\n"
                 "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n";

static const struct plan_of_world shape = {
    .rows = 7, .channels = 3, .height = 6, .width = 5, .classes = 4};

/* A group of workers that all have the same rows: between two phases the sums are those of all. */
struct echo {
    int workers, calls;
    int counts[16];
};

static void pass_together(struct world *w, int layer, bool backward, struct echo *e)
{
    struct sw_err err;
    for (int p = 0; p < sw_net_phases(w->net, layer, backward); p++) {
        int count;
        double *sums = sw_net_sums(w->net, layer, &count);
        for (int i = 0; i < count && p > 0; i++)
            sums[i] *= e->workers;
        if (p > 0 && count > 0)
            e->counts[e->calls++] = count;
        ASSERT_OK(sw_net_run_phase(w->net, layer, backward, p, &err));
    }
}

static struct world run(const struct plan_of_world *plan, struct echo *e)
{
    struct world w = world_new(text, plan);
    struct sw_err err;
    if (!e) {
        world_forward(&w);
        world_backward(&w);
        return w;
    }
    ASSERT_OK(sw_net_set_step(w.net, &w.step, &err));
    for (int i = 0; i < sw_net_layer_count(w.net); i++)
        pass_together(&w, i, false, e);
    ASSERT_OK(sw_net_fetch(w.net, &err));
    for (int i = sw_net_layer_count(w.net) - 1; i >= 0; i--)
        if (sw_net_has_backward(w.net, i))
            pass_together(&w, i, true, e);
    return w;
}

static void assert_same_gradients(const struct world *a, const struct world *b)
{
    for (int p = 0; p < sw_net_param_count(a->net); p++)
        assert_same_bits(sw_net_param(a->net, p)->name, a->grad[p], b->grad[p],
                         sw_desc_bytes(&world_layer_param(a, p)->layout));
}

/* Twice the rows with the same values have the same moments, to the bit. */
static void layer_receives_sums_of_the_group(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        struct plan_of_world plan = shape;
        struct echo e = {.workers = 2};
        plan.apart = apart;
        struct world alone = run(&plan, NULL), together = run(&plan, &e);
        assert_int_equal(e.calls, 4); /* bn1 and bn2 forward, then backward */
        assert_int_equal(e.counts[0], 2 * 6 + 1);
        assert_int_equal(e.counts[1], 2 * 9 + 1);
        assert_int_equal(e.counts[2], 2 * 9 + 1);
        assert_int_equal(e.counts[3], 2 * 6 + 1);
        assert_int_equal(sw_net_sum_count(together.net), 2 * 9 + 1);
        assert_true(world_loss(&alone) == world_loss(&together));
        assert_same_gradients(&alone, &together);
        /* But an unbiased variance of more values is smaller: the answer did arrive. */
        assert_true(alone.kept[1][0] > together.kept[1][0]);
        world_free(&alone);
        world_free(&together);
    }
}

/* Evaluation of the values that training used gives the same only when the running statistics are
 * those of the batch. */
static void training_updates_buffers_and_evaluation_reads_them(void **state)
{
    struct world train = run(&shape, NULL);
    assert_int_equal(sw_net_buffer_count(train.net), 6);
    assert_string_equal(sw_net_buffer(train.net, 0)->name, "bn1.mean");
    assert_string_equal(sw_net_buffer(train.net, 5)->name, "bn3.variance");
    struct plan_of_world plan = shape;
    plan.evaluation = true;
    plan.shares = &train;
    struct world eval = world_new(text, &plan);
    assert_int_equal(sw_net_buffer_count(eval.net), 6);
    assert_int_equal(sw_net_sum_count(eval.net), 0);
    float kept = train.kept[0][0];
    world_forward(&eval);
    double before = world_loss(&eval);
    assert_true(train.kept[0][0] == kept); /* evaluation does not write */
    assert_true(fabs(before - world_loss(&train)) > 1e-3);
    for (int step = 0; step < 200; step++)
        world_forward(&train);
    world_forward(&eval);
    /* The unbiased variance is larger than the batch's by 1/6 where a channel has seven values. */
    assert_true(fabs(world_loss(&eval) - world_loss(&train)) < 0.1);
    assert_true(fabs(world_loss(&eval) - before) > 1e-3);
    world_free(&eval);
    world_free(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_receives_sums_of_the_group),
        cmocka_unit_test(training_updates_buffers_and_evaluation_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
