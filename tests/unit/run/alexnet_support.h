/* recipes/alexnet.ini as hybrid parallelism has it (SINGA, TOMM, 5.4.1; Krizhevsky 2014): layers
 * below the first fully-connected one by rows, those above by columns; or all by rows, and factors
 * in place of the gradients of fc6 to fc8 (Poseidon, 4.3). Pictures, batch and widths
 * are the caller's. Include once per program. */
#pragma once

#include "workers_support.h"

struct alexnet {
    int side, batch, steps, width; /* of pictures; of fc6 and fc7, 0: theirs */
    /* How far parameters and momentum may differ, relatively. The more maxima and relus there are,
     * the more of them a rounding lets fall on the other side. */
    double limit;
};

/* The recipe's layers behind a job and data of our own; owned by the caller (sw_free). */
static inline char *alexnet_recipe(const struct alexnet *a)
{
    struct sw_bytes text = {0};
    size_t size = 1 << 16;
    char *file = sw_calloc(1, size);
    FILE *f = fopen(SW_SOURCE_DIR "/recipes/alexnet.ini", "r");
    assert_non_null(file);
    assert_non_null(f);
    assert_true(fread(file, 1, size - 1, f) < size - 1);
    fclose(f);
    const char *layers = strstr(file, "\n[layer ");
    assert_non_null(layers);
    sw_bytes_printf(&text,
                    "[job]\nsteps = %d\nbatch = %d\neval_batch = %d\nkeep_checkpoints = 1\n"
                    "[data train]\nformat = synthetic\nclasses = 10\nrecords = 64\nheight = %d\n"
                    "width = %d\nchannels = 3\nmean = 127\nstd = 64\ncrop = %d\nmirror = yes\n"
                    "[data test]\nformat = synthetic\nclasses = 10\nrecords = 8\nheight = %d\n"
                    "width = %d\nchannels = 3\nmean = 127\nstd = 64\n"
                    "[updater]\ntype = sgd\nlr = 0.001\nmomentum = 0.9\nweight_decay = 0.0005\n%s",
                    a->steps, a->batch, a->batch, a->side + 5, a->side + 5, a->side, a->side,
                    a->side, layers);
    sw_free(file);
    return sw_bytes_take(&text);
}

/* Trains it in one way; sets: further ones, up to NULL. */
static inline void alexnet_train(const struct alexnet *a, const char *name, const char *device,
                                 const char *const *sets)
{
    char width[2][48];
    char *recipe = alexnet_recipe(a);
    struct trial t = {
        .recipe = recipe, .name = name, .device = device, .steps = a->steps, .oversubscribe = true};
    int n = 0;
    for (int i = 0; i < 2 && a->width > 0; i++) {
        snprintf(width[i], sizeof width[i], "layer.fc%d.outputs=%d", 6 + i, a->width);
        t.sets[n++] = width[i];
    }
    for (; *sets; sets++)
        t.sets[n++] = *sets;
    if (trial_go(&t) != SW_OK)
        fail_msg("%s: %s", name, t.err.text);
    sw_free(recipe);
}

#define ALEXNET_ABOVE(key)                                                                         \
    "layer.fc6." key, "layer.relu6." key, "layer.drop6." key, "layer.fc7." key,                    \
        "layer.relu7." key, "layer.drop7." key, "layer.fc8." key

#define ALEXNET_SFB "layer.fc6.comm=sfb", "layer.fc7.comm=sfb", "layer.fc8.comm=sfb"

/* On 2 and 4 simulated GPUs; and with the grouped convolutions by columns, whose halves stay on
 * two GPUs as they did on the authors' two. */
static inline void alexnet_compare(const struct alexnet *a)
{
    static const struct {
        const char *name, *device, *sets[12];
    } ways[] = {
        {"two",
         "sim:gpus=2,mem=1GiB,peer=no",
         {"cluster.workers_per_group=2", ALEXNET_ABOVE("partition=1")}},
        {"four",
         "sim:gpus=4,mem=1GiB,peer=no",
         {"cluster.workers_per_group=4", ALEXNET_ABOVE("partition=1")}},
        {"unsplit",
         "sim:gpus=2,mem=2GiB",
         {"cluster.workers_per_group=2", ALEXNET_ABOVE("location=1")}},
        {"groups",
         "sim:gpus=2,mem=1GiB",
         {"cluster.workers_per_group=2", "layer.conv4.partition=1", "layer.relu4.partition=1",
          "layer.conv5.partition=1", ALEXNET_ABOVE("partition=1")}},
        {"sfb two", "sim:gpus=2,mem=1GiB,peer=no", {"cluster.workers_per_group=2", ALEXNET_SFB}},
        {"sfb four", "sim:gpus=4,mem=1GiB,peer=no", {"cluster.workers_per_group=4", ALEXNET_SFB}},
        {"adam four",
         "sim:gpus=4,mem=1GiB,peer=no",
         {"cluster.workers_per_group=4", SANDBLASTER, "cluster.comm=adam"}},
        {"cpu", "cpu", {"cluster.workers_per_group=4", ALEXNET_SFB}},
    };
    alexnet_train(a, "one", "cpu", (const char *const[]){NULL});
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char where[256] = "";
        alexnet_train(a, ways[i].name, ways[i].device, ways[i].sets);
        double d = difference_at(checkpoint_path("one", a->steps),
                                 checkpoint_path(ways[i].name, a->steps), where);
        if (!(d <= a->limit))
            fail_msg("%s differs from one worker by %.3g in %s", ways[i].name, d, where);
    }
}
