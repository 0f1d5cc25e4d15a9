/* ctest-labels: threads
 * ctest-timeout: 120
 * A parameter that two layers share is one tensor in checkpoints and gets one update per step, with
 * any workers, servers and devices, and after a resume. */
#include "workers_support.h"

enum { STEPS = 20 };

/* Between code and loss the decoder reads the encoder's weights the other way round. 14 x 14
 * pictures in three colours have 588 values. */
static const char tied_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer enc]\ntype = inner_product\nsrc = image\noutputs = 20\n"
    "[layer code]\ntype = activation\nsrc = enc\nfunction = tanh\n"
    "[layer dec]\ntype = inner_product\nsrc = code\noutputs = 588\ntranspose = yes\n"
    "weight.share = enc.weight\n"
    "[layer act]\ntype = activation\nsrc = dec\nfunction = tanh\n"
    "[layer fc]\ntype = inner_product\nsrc = act\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc, label\ninclude = eval\n";

#define tied(...) train(.recipe = tied_recipe, .oversubscribe = true, __VA_ARGS__)

static void a_shared_parameter_is_one_tensor(void **state)
{
    tied(.name = "alone");
    struct sw_st_file *f = open_tensors(checkpoint_path("alone", STEPS));
    assert_non_null(sw_st_find(f, "enc.weight"));
    assert_non_null(sw_st_find(f, "dec.bias"));
    assert_null(sw_st_find(f, "dec.weight"));
    sw_st_close(f);
    assert_int_equal((int)ask("SELECT params FROM runs WHERE id = %d", run_id("alone")),
                     588 * 20 + 20 + 588 + 588 * 4 + 4);
}

static void workers_servers_and_devices_make_no_difference(void **state)
{
    tied(.name = "one");
    tied(.name = "two", .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    tied(.name = "three",
         .sets = {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2"});
    tied(.name = "columns", .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.partition=1"});
    tied(.name = "sim", .device = "sim:gpus=2,mem=64MiB",
         .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    assert_equal_runs("one", "two", STEPS);
    assert_equal_runs("one", "three", STEPS);
    assert_equal_runs("one", "columns", STEPS);
    assert_equal_runs("one", "sim", STEPS);
}

/* Between the two that share a weight is a layer whose gradient comes together as factors. What is
 * left to the second of them is a bias, whose gradient is whole. */
static void other_layers_may_exchange_factors(void **state)
{
    static const char between[] = "layer.dec.src=mid";
    struct sw_bytes recipe = {0};
    sw_bytes_printf(&recipe, "%s%s", tied_recipe,
                    "[layer mid]\ntype = inner_product\nsrc = code\noutputs = 20\nbias = no\n");
    const char *text = sw_bytes_text(&recipe);
    train(.recipe = text, .name = "whole", .steps = 5, .sets = {between});
    for (int i = 0; i < 2; i++) {
        train(.recipe = text, .name = "factors", .steps = 5, .oversubscribe = true,
              .device = i ? "sim:gpus=2,mem=64MiB" : NULL,
              .sets = {between, ALLREDUCE, "cluster.workers_per_group=2", "cluster.comm=sfb"});
        assert_equal_runs("whole", "factors", 5);
    }
    sw_bytes_fini(&recipe);
}

/* All gradients are needed before the first update, and the norm counts the shared one once. */
static void updates_in_two_phases_see_a_shared_parameter_once(void **state)
{
    tied(.name = "clip1", .sets = {"job.grad_clip=norm:0.5"});
    tied(.name = "clip2",
         .sets = {"job.grad_clip=norm:0.5", ALLREDUCE, "cluster.workers_per_group=2"});
    assert_equal_runs("clip1", "clip2", STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_parameter_is_one_tensor),
        cmocka_unit_test(workers_servers_and_devices_make_no_difference),
        cmocka_unit_test(other_layers_may_exchange_factors),
        cmocka_unit_test(updates_in_two_phases_see_a_shared_parameter_once),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
