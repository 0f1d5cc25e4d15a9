/* ctest-labels: threads
 * ctest-timeout: 120
 * Layers that the other tests of training do not use compute on several workers, and on simulated
 * devices whose memory the host cannot reach, what they compute on one. */
#include "workers_support.h"

enum { STEPS = 20 };

/* Pictures go down and up again; labels go in as vectors beside them, in a net of their own. */
static const char kinds_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\n"
    "dilation_x = 2\npad_x = 1\n"
    "[layer act]\ntype = activation\nsrc = conv\nfunction = tanh\n"
    "[layer norm]\ntype = lrn\nsrc = act\nregion = within_channel\nsize = 3\nalpha = 2\n"
    "[layer pool]\ntype = pooling\nsrc = norm\nmethod = avg\nkernel = 3\nstride = 2\npad = 1\n"
    "divide_by = inside\n"
    "[layer up]\ntype = deconvolution\nsrc = pool\noutputs = 6\nkernel = 4\nstride = 2\npad = 1\n"
    "groups = 2\n"
    "[layer act2]\ntype = activation\nsrc = up\nfunction = tanh\n"
    "[layer fc]\ntype = inner_product\nsrc = act2\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
    "[layer words]\ntype = embedding\nsrc = label\nvocabulary = 4\noutputs = 7\n"
    "[layer fc2]\ntype = inner_product\nsrc = words\noutputs = 4\ntranspose = yes\n"
    "[layer loss2]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer ones]\ntype = onehot\nsrc = label\nclasses = 4\n"
    "[layer fc3]\ntype = inner_product\nsrc = ones\noutputs = 4\n"
    "[layer loss3]\ntype = softmax_loss\nsrc = fc3, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc, label\ninclude = eval\n";

#define kinds(...) train(.recipe = kinds_recipe, .oversubscribe = true, __VA_ARGS__)

static void workers_and_devices_make_no_difference(void **state)
{
    (void)state;
    kinds(.name = "one");
    kinds(.name = "two", .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    kinds(.name = "columns", .sets = {ALLREDUCE, "cluster.workers_per_group=3", "job.partition=1"});
    kinds(.name = "sim", .device = "sim:gpus=2,mem=64MiB",
          .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    assert_equal_runs("one", "two", STEPS);
    assert_equal_runs("one", "columns", STEPS);
    assert_equal_runs("one", "sim", STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_and_devices_make_no_difference),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
