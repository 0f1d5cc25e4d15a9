/* ctest-labels: threads
 * ctest-timeout: 120
 * Nets whose branches split and join, like residual nets and inception, with layers that need whole
 * rows or the whole batch: several workers under any partition, on cpu and on sim, train what one
 * worker trains. */
#include "workers_support.h"

enum { STEPS = 8 };

static const char *const sims[] = {NULL, "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB"};

#define INPUTS                                                                                     \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
#define CONV(name, src, outputs)                                                                   \
    "[layer " name "]\ntype = convolution\nkernel = 3\npad = 1\nsrc = " src "\noutputs = " outputs \
    "\n"
#define LAYER(name, type, src) "[layer " name "]\ntype = " type "\nsrc = " src "\n"
#define ACT(name, function, src) LAYER(name, "activation", src) "function = " function "\n"

static const char recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS INPUTS
    /* A residual block, a shortcut by convolution, and one without. */
    CONV("conv1", "image", "16") ACT("act1", "tanh", "conv1")
        CONV("conv2", "act1", "16") "bias = no\n" LAYER("bn2", "batch_norm", "conv2")
            LAYER("sum2", "eltwise", "bn2, act1") ACT("act2", "tanh", "sum2")
                CONV("conv3", "act2", "24") CONV("conv4", "act2", "24")
                    LAYER("sum3", "eltwise", "conv3, conv4") "coefficients = 1, 0.5\n"
    /* An inception: two branches beside each other, and parts of them. */
    CONV("conv5", "sum3", "16") ACT("act5", "sigmoid", "conv5") LAYER(
        "sparse", "sparsity", "act5") "rho = 0.3\nbeta = 0.1\n" CONV("conv6", "sum3",
                                                                     "8") LAYER("both", "concat",
                                                                                "sparse, conv6")
        LAYER("low", "slice", "both") "parts = 2\npart = 0\n" LAYER(
            "high",
            "slice",
            "both") "parts = 2\npart = 1\n" LAYER("product", "eltwise",
                                                  "low, high") "operation = product\n" LAYER("n"
                                                                                             "a"
                                                                                             "m"
                                                                                             "e",
                                                                                             "s"
                                                                                             "p"
                                                                                             "l"
                                                                                             "i"
                                                                                             "t",
                                                                                             "p"
                                                                                             "r"
                                                                                             "o"
                                                                                             "d"
                                                                                             "u"
                                                                                             "c"
                                                                                             "t")
            LAYER("pool", "pooling", "name") "method = avg\nkernel = 2\nstride = 2\n" LAYER(
                "shares", "softmax", "pool") LAYER("beside", "concat", "shares, pool")
                LAYER("noise", "noise",
                      "beside") "method = gaussian\nstd = 0.05\n" LAYER("flat", "flatten", "noise")
                    LAYER("shape", "reshape", "flat") "shape = 24, -1\n" LAYER(
                        "fc1", "inner_product", "shape") "outputs = 24\n" LAYER("norm",
                                                                                "layer_norm", "fc1")
                        ACT("act7", "tanh", "norm")
                            LAYER("fc2", "inner_product", "act7") "outputs = 4\n" LAYER(
                                "loss", "softmax_loss", "fc2, label");

/* With relus that other layers take over, which flip sooner or later: for one step. */
static const char relus[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS INPUTS CONV(
    "conv1", "image", "16") "bias = no\n" LAYER("bn1", "batch_norm", "conv1")
    ACT("relu1", "relu", "bn1")
        CONV("conv2", "relu1", "16") "bias = no\n" LAYER("bn2", "batch_norm", "conv2")
            ACT("relu2", "relu", "bn2")
                CONV("conv3", "relu2", "16") "bias = no\n" LAYER("bn3", "batch_norm", "conv3")
                    LAYER("sum", "eltwise", "bn3, relu1") ACT("relu3", "relu", "sum")
                        LAYER("fc", "inner_product",
                              "relu3") "outputs = 4\n" LAYER("loss", "softmax_loss", "fc, label")
                            LAYER("pool", "pooling", "relu1") "method = avg\nglobal = yes\n" LAYER(
                                "fc2", "inner_product",
                                "pool") "outputs = 4\n" LAYER("loss2", "softmax_loss",
                                                              "fc2, label") "weight = 0.3\n";

static void a_residual_net_of_several_workers_equals_one(void **state)
{
    train(.recipe = relus, .name = "one", .steps = 1);
    train(.recipe = relus, .name = "sim", .steps = 1, .device = sims[1]);
    assert_equal_runs("one", "sim", 1);
    for (int workers = 2; workers <= 3; workers++) {
        char name[32];
        snprintf(name, sizeof name, "workers-%d", workers);
        train(.recipe = relus, .name = name, .steps = 1, .oversubscribe = true,
              .device = workers == 2 ? sims[2] : NULL, .sets = {workers_set[workers]});
        assert_equal_runs("one", name, 1);
    }
}

static void any_partition_equals_one_worker(void **state)
{
    static const char *const sets[][3] = {
        {"job.partition=0"},
        {"job.partition=1"},
        {"job.partition=none"},
        {"layer.sum2.partition=1", "layer.product.partition=1", "layer.noise.partition=1"},
        {"layer.both.partition=none", "layer.conv4.partition=1", "layer.name.partition=1"}};
    train(.recipe = recipe, .name = "one", .steps = STEPS);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int workers = 2; workers <= 3; workers++) {
            char name[32];
            snprintf(name, sizeof name, "sets-%zu-%d", i, workers);
            train(.recipe = recipe, .name = name, .steps = STEPS, .oversubscribe = true,
                  .device = workers == 2 && i < 3 ? sims[2] : NULL,
                  .sets = {workers_set[workers], sets[i][0], sets[i][1], sets[i][2]});
            assert_equal_runs("one", name, STEPS);
        }
}

static void one_simulated_gpu_equals_the_cpu(void **state)
{
    train(.recipe = recipe, .name = "cpu", .steps = STEPS);
    train(.recipe = recipe, .name = "sim", .steps = STEPS, .device = sims[1]);
    assert_equal_runs("cpu", "sim", STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_partition_equals_one_worker, home_begin, home_end),
        cmocka_unit_test_setup_teardown(a_residual_net_of_several_workers_equals_one, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(one_simulated_gpu_equals_the_cpu, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
