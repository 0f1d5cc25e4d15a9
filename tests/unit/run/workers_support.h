/* Shared by the tests of several workers: a net with every random operation and operations on
 * neighbors, on smooth paths, so that sums in another order never flip a choice; names for the
 * number of workers and servers. Include once per program. */
#pragma once

#include "train_support.h"

/* 25 rows divide by neither 2 nor 3; 53 records to evaluate on in batches of 10. */
#define WORKERS_JOB "[job]\nsteps = 20\nbatch = 25\neval_batch = 10\n"
#define WORKERS_NET                                                                                \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\npad = 1\n"          \
    "[layer act1]\ntype = activation\nsrc = conv1\nfunction = tanh\n"                              \
    "[layer norm1]\ntype = lrn\nsrc = act1\nsize = 3\nalpha = 0.5\n"                               \
    "[layer pool1]\ntype = pooling\nsrc = norm1\nmethod = avg\nkernel = 2\nstride = 2\n"           \
    "[layer conv2]\ntype = convolution\nsrc = pool1\noutputs = 12\nkernel = 3\n"                   \
    "[layer pool2]\ntype = pooling\nsrc = conv2\nmethod = max\nkernel = 2\nstride = 2\n"           \
    "[layer relu2]\ntype = activation\nsrc = pool2\nfunction = relu\n"                             \
    "[layer fc1]\ntype = inner_product\nsrc = relu2\noutputs = 24\n"                               \
    "[layer act3]\ntype = activation\nsrc = fc1\nfunction = stanh\n"                               \
    "[layer drop]\ntype = dropout\nsrc = act3\nratio = 0.3\n"                                      \
    "[layer fc2]\ntype = inner_product\nsrc = drop\noutputs = 4\n"                                 \
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"                                        \
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n"

static const char workers_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS WORKERS_NET;

/* A net whose memory can be lowered, by repeating layers each in their own way, or by swapping. */
#define BUDGET_NET                                                                                 \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\npad = 1\n"          \
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"                                                \
    "[layer relu1]\ntype = activation\nsrc = bn1\nfunction = relu\n"                               \
    "[layer norm1]\ntype = lrn\nsrc = relu1\nsize = 3\nalpha = 0.5\n"                              \
    "[layer conv2]\ntype = convolution\nsrc = norm1\noutputs = 16\nkernel = 3\npad = 1\n"          \
    "[layer act2]\ntype = activation\nsrc = conv2\nfunction = sigmoid\n"                           \
    "[layer mix]\ntype = eltwise\nsrc = act2, norm1\noperation = product\n"                        \
    "[layer both]\ntype = concat\nsrc = mix, act2\n"                                               \
    "[layer drop]\ntype = dropout\nsrc = both\nratio = 0.3\n"                                      \
    "[layer pool]\ntype = pooling\nsrc = drop\nmethod = max\nkernel = 2\nstride = 2\n"             \
    "[layer fc1]\ntype = inner_product\nsrc = pool\noutputs = 24\n"                                \
    "[layer act3]\ntype = activation\nsrc = fc1\nfunction = tanh\n"                                \
    "[layer fc2]\ntype = inner_product\nsrc = act3\noutputs = 4\n"                                 \
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"

static const char budget_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS BUDGET_NET;

/* The least budget, as the refusal of a smaller one says. */
static inline long long least_budget(struct trial like)
{
    long long least = 0;
    like.sets[TRIAL_SETS - 1] = NULL;
    int n = 0;
    while (like.sets[n])
        n++;
    like.sets[n] = "job.memory=fit:1";
    assert_int_equal(trial_open(&like), SW_ERR_NOMEM);
    const char *says = strstr(like.err.text, "budget is memory = fit:");
    if (!says || !strstr(like.err.text, "is too small: layer ") ||
        sscanf(says, "budget is memory = fit:%lld", &least) != 1)
        fail_msg("%s", like.err.text);
    trial_close(&like);
    return least;
}

/* Plants speeds for `rebalance`, so that a busy machine does not change what is fast: the last of
 * two workers takes three times as long for a row. */
static inline double row_ms_of(int worker)
{
    return worker == 0 ? 1 : 3;
}
static inline void plant_speeds(struct trial *t)
{
    t->job->speed.row_ms = row_ms_of;
}

/* More workers than the machine has cores are fine here. */
#define grouped(...) train(.recipe = workers_recipe, .oversubscribe = true, __VA_ARGS__)

static const char *const workers_set[] = {
    "cluster.workers_per_group=0", "cluster.workers_per_group=1", "cluster.workers_per_group=2",
    "cluster.workers_per_group=3", "cluster.workers_per_group=4"};
static const char *const servers_set[] = {"", "cluster.servers_per_group=1",
                                          "cluster.servers_per_group=2"};
#define SANDBLASTER "cluster.framework=sandblaster"
#define ALLREDUCE "cluster.framework=allreduce"
