/* The nearest plan that is possible, for messages: the same search with fewer wishes. */
#include "planner/search_space.h"

#include "base/os.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>

struct wishes {
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_search_limits *limits;
};

/* Searches with other limits; if there is a plan, writes `what` and its cost. Errors end it without
 * a plan: this only adds to a message. */
static bool describe_with(const struct wishes *s, const struct sw_search_limits *limits,
                          const char *what, char out[256])
{
    struct sw_search_result result;
    struct sw_err err;
    int blocked;
    const int rc = sw_search_best(s->net, s->machine, limits, &result, &blocked, &err);
    const bool found = rc == SW_OK && result.count > 0;

    if (found) {
        const struct sw_plan_shape *shape = &result.plan[0].shape;
        snprintf(out, 256, "%s: %d worker group%s of %d, %.3g ms per step", what, shape->groups,
                 shape->groups == 1 ? "" : "s", shape->group_size, 1e3 * result.plan[0].additive_s);
    }

    sw_search_fini(&result);
    return found;
}

/* Copies of wishes by layer, without that of one layer. NULL: there are none, or no memory. */
static int *wishes_without(const struct wishes *s, const int *wish, int layer)
{
    int *copy = wish ? sw_calloc((size_t)s->net->count, sizeof *copy) : NULL;

    for (int i = 0; i < s->net->count && copy; i++)
        copy[i] = i == layer ? -1 : wish[i];
    return copy;
}

/* The nearest plan if the limits leave layer `blocked` no option. */
static void find_unblocked(const struct wishes *s, int blocked, char out[256])
{
    struct sw_search_limits limits = *s->limits;
    int *partition = wishes_without(s, limits.partition, blocked);
    int *location = wishes_without(s, limits.location, blocked);
    int *comm = wishes_without(s, limits.comm, blocked);
    char what[96];

    limits.partition = partition;
    limits.location = location;
    limits.comm = comm;
    snprintf(what, sizeof what, "without that key of layer %.48s", s->net->layer[blocked].name);
    if (!describe_with(s, &limits, what, out)) {
        limits.partition = limits.location = limits.comm = NULL;
        if (!describe_with(s, &limits, "without keys of layers", out))
            snprintf(out, 256, "none");
    }

    sw_free(partition);
    sw_free(location);
    sw_free(comm);
}

/* How full a plan makes the fullest memory, as a part of its capacity, if every layer in turn takes
 * the option that fills the fullest one least; *worker and *bytes get that memory. */
static double find_smallest(const struct sw_search_space *s, int *worker, int64_t *bytes)
{
    double fullest = 0;
    int64_t *used = sw_calloc((size_t)s->memories + 1, sizeof *used);

    for (int m = 0; m < s->memories && used; m++)
        used[m] = s->memory[m].workers * s->cost.net->fixed_bytes;

    for (int i = 0; i < s->cost.net->count && used && s->blocked < 0; i++) {
        const struct sw_search_layer *l = &s->layer[i];
        double least = (double)INFINITY;
        int best = 0;

        for (int k = 0; k < l->options; k++) {
            double most = 0;
            for (int m = 0; m < s->memories; m++)
                most = fmax(most, (double)(used[m] + l->option[k].bytes[m]) /
                                      (double)s->memory[m].capacity);
            best = most < least ? k : best;
            least = fmin(most, least);
        }

        for (int m = 0; m < s->memories; m++)
            used[m] += l->option[best].bytes[m];
    }

    for (int m = 0; m < s->memories && used; m++) {
        const double full = (double)used[m] / (double)s->memory[m].capacity;
        if (full <= fullest)
            continue;
        fullest = full;
        *worker = s->memory[m].worker;
        *bytes = used[m];
    }

    sw_free(used);
    return s->blocked < 0 && fullest > 0 ? fullest : (double)INFINITY;
}

/* The smallest plan found in any shape, in one of which all layers have options. */
static void describe_smallest(const struct wishes *s, char out[256])
{
    const struct sw_device_model *device = s->machine->device;
    struct sw_plan_shape *shape = NULL, best = {.groups = 1, .group_size = 1};
    struct sw_err err;
    double smallest = (double)INFINITY;
    int64_t bytes = 0;
    int worker = 0, shapes = 0, skipped;
    int rc = sw_search_list_shapes(s->net, s->machine, s->limits, &shape, &shapes, &skipped, &err);

    for (int i = 0; i < shapes && rc == SW_OK; i++) {
        struct sw_search_space *space = NULL;
        int w = 0;
        int64_t b = 0;

        rc = sw_search_space_new(s->net, s->machine, &shape[i], s->limits, &space, &err);
        const double full = rc == SW_OK ? find_smallest(space, &w, &b) : (double)INFINITY;
        sw_search_space_free(space);
        if (full >= smallest)
            continue;

        smallest = full;
        worker = w;
        bytes = b;
        best = shape[i];
    }

    char needs[32], has[32];
    sw_human_bytes(needs, (double)bytes);
    sw_human_bytes(has, (double)device[worker].memory_bytes);
    snprintf(
        out, 256,
        "no plan fits into memory: the smallest one found, %d x %d workers, needs %s on %.48s, "
        "which has %s; use a smaller batch, or devices with more memory",
        best.groups, best.group_size, needs, device[worker].name, has);
    sw_free(shape);
}

/* Why no plan fits into memory, and the nearest one that does. */
static void find_fitting(const struct wishes *s, char out[256])
{
    struct sw_search_limits limits = *s->limits;
    const char *refused = "no plan with these limits fits into memory; nearest is, ";
    char what[128];

    limits.groups = limits.group_size = limits.most_workers = limits.servers = 0;
    snprintf(what, sizeof what, "%swith other numbers of workers", refused);
    if (describe_with(s, &limits, what, out))
        return;

    limits.partition = limits.location = limits.comm = NULL;
    limits.net_comm = SW_EXCHANGE_AUTO;
    snprintf(what, sizeof what, "%swithout keys of layers", refused);
    if (!describe_with(s, &limits, what, out))
        describe_smallest(s, out);
}

void sw_search_find_nearest(const struct sw_net_model *net, const struct sw_machine_model *machine,
                            const struct sw_search_limits *limits, int blocked, char out[256])
{
    const struct wishes s = {net, machine, limits};

    if (blocked >= 0)
        find_unblocked(&s, blocked, out);
    else
        find_fitting(&s, out);
}
