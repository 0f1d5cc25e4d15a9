/* What the user has decided: the shapes that it leaves, and why it leaves none. */
#include "planner/search_space.h"

#include "base/os.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- Shapes ---- */

struct listing {
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_search_limits *limits;
    int most; /* workers */
    struct sw_plan_shape *shape;
    int count, skipped;
};

static bool is_asynchronous(const struct sw_search_limits *l)
{
    return l->consistency == SW_CONSISTENCY_SSP || l->consistency == SW_CONSISTENCY_ASYNC ||
           l->consistency == SW_CONSISTENCY_HOGWILD || l->framework == SW_FRAMEWORK_DOWNPOUR ||
           l->framework == SW_FRAMEWORK_HOGWILD;
}

static enum sw_consistency consistency_of(const struct sw_search_limits *l)
{
    if (l->consistency != SW_CONSISTENCY_AUTO)
        return l->consistency;
    if (l->framework == SW_FRAMEWORK_HOGWILD)
        return SW_CONSISTENCY_HOGWILD;
    if (l->framework == SW_FRAMEWORK_DOWNPOUR)
        return l->staleness < 0 ? SW_CONSISTENCY_ASYNC : SW_CONSISTENCY_SSP;
    return SW_CONSISTENCY_BSP;
}

/* Is the framework one that the limits allow for so many groups? */
static bool suits(const struct listing *x, enum sw_framework f, int groups, int size)
{
    const struct sw_search_limits *l = x->limits;
    const bool has_one = f == SW_FRAMEWORK_ALLREDUCE || f == SW_FRAMEWORK_SANDBLASTER;

    if ((groups > 1 && has_one) || (is_asynchronous(l) && has_one))
        return false;
    if (l->framework != SW_FRAMEWORK_AUTO)
        return l->framework == f;
    if (is_asynchronous(l))
        return f == (l->consistency == SW_CONSISTENCY_HOGWILD ? SW_FRAMEWORK_HOGWILD
                                                              : SW_FRAMEWORK_DOWNPOUR);

    /* In one memory servers cost the same wherever they run. Synchronous groups of one worker are
     * one group in rows. */
    return f == SW_FRAMEWORK_ALLREDUCE ||
           (f == SW_FRAMEWORK_SANDBLASTER && size > 1 && !x->machine->device[0].host_memory) ||
           (f == SW_FRAMEWORK_CUSTOM && groups > 1 && (size > 1 || l->groups > 0));
}

static int add_shape(struct listing *x, enum sw_framework f, int groups, int size,
                     struct sw_err *err)
{
    const int64_t parts = is_asynchronous(x->limits) ? size : (int64_t)groups * size;
    const int wish = x->limits->servers;
    if (!suits(x, f, groups, size) || parts > x->net->batch ||
        groups * size < x->limits->fewest_workers ||
        (f == SW_FRAMEWORK_ALLREDUCE && wish > 0 && wish != size))
        return SW_OK;

    struct sw_plan_shape *shape = sw_array_add(&x->shape, &x->count, sizeof *shape);
    if (!shape)
        return sw_err_nomem(err, "the shapes of a plan", sizeof *shape);

    /* Servers of hogwild are in the memory of its workers. */
    const bool in_memory = consistency_of(x->limits) == SW_CONSISTENCY_HOGWILD;
    const int remote = in_memory ? 0 : x->machine->server_hosts;
    const int threads = x->machine->server_threads > 1 ? x->machine->server_threads : 1;
    *shape = (struct sw_plan_shape){.framework = f,
                                    .consistency = consistency_of(x->limits),
                                    .staleness = x->limits->staleness,
                                    .groups = groups,
                                    .group_size = size,
                                    .servers = remote > 0                    ? remote
                                               : f == SW_FRAMEWORK_ALLREDUCE ? size
                                               : wish > 0                    ? wish
                                                                             : threads,
                                    .threads = x->machine->threads_per_worker};
    return SW_OK;
}

/* On large machines not every number of workers or groups is tried. */
static bool is_tried(int number, int most)
{
    return most <= SW_SEARCH_PLACES || most % number == 0 || (number & (number - 1)) == 0;
}

static int fewer_workers(const void *a, const void *b)
{
    const struct sw_plan_shape *x = a, *y = b;
    const int more = y->groups * y->group_size - x->groups * x->group_size;
    return more                     ? more
           : x->groups != y->groups ? x->groups - y->groups
                                    : (int)x->framework - (int)y->framework;
}

static int why_no_shape(const struct listing *x, struct sw_err *err)
{
    const struct sw_search_limits *l = x->limits;
    const int groups = l->groups > 0 ? l->groups : 1, size = l->group_size > 0 ? l->group_size : 1;

    if (groups * size > x->most)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%d worker group%s of %d worker%s cannot run on %s, which has %d device%s "
            "for workers: use at most %d worker%s, or describe a larger machine with "
            "--gpus or --hosts",
            groups, groups == 1 ? "" : "s", size, size == 1 ? "" : "s", x->machine->name, x->most,
            x->most == 1 ? "" : "s", x->most, x->most == 1 ? "" : "s");
    if ((int64_t)groups * size > x->net->batch)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a batch of %lld rows cannot be shared by %d workers: use at most %lld, "
                          "or a larger batch",
                          (long long)x->net->batch, groups * size, (long long)x->net->batch);
    if (l->servers > 0 && groups == 1 && l->framework != SW_FRAMEWORK_SANDBLASTER)
        return sw_err_set(err, SW_ERR_INVALID,
                          "servers_per_group = %d is set: allreduce has one server per worker, so "
                          "use as many workers, or framework = sandblaster",
                          l->servers);
    return sw_err_set(err, SW_ERR_INVALID,
                      "no framework suits %d worker groups with this consistency: allreduce and "
                      "sandblaster have one group and are synchronous; use downpour, hogwild or "
                      "custom",
                      groups);
}

int sw_search_list_shapes(const struct sw_net_model *net, const struct sw_machine_model *machine,
                          const struct sw_search_limits *limits, struct sw_plan_shape **out,
                          int *count, int *skipped, struct sw_err *err)
{
    const int wish = limits->most_workers, devices = machine->device_count;
    struct listing x = {net,  machine, limits, wish > 0 && wish < devices ? wish : devices,
                        NULL, 0,       0};
    int rc = SW_OK;

    for (int groups = 1; groups <= x.most; groups++)
        for (int size = 1; groups * size <= x.most; size++) {
            if ((limits->groups > 0 && groups != limits->groups) ||
                (limits->group_size > 0 && size != limits->group_size))
                continue;
            if ((limits->groups <= 0 && !is_tried(groups, x.most)) ||
                (limits->group_size <= 0 && !is_tried(size, x.most))) {
                x.skipped++;
                continue;
            }

            for (enum sw_framework f = SW_FRAMEWORK_SANDBLASTER;
                 f <= SW_FRAMEWORK_CUSTOM && rc == SW_OK; f++)
                rc = add_shape(&x, f, groups, size, err);
        }

    if (rc == SW_OK && x.count == 0)
        rc = why_no_shape(&x, err);
    if (rc != SW_OK) {
        sw_free(x.shape);
        return rc;
    }

    qsort(x.shape, (size_t)x.count, sizeof *x.shape, fewer_workers);
    *out = x.shape;
    *count = x.count;
    *skipped = x.skipped;
    return SW_OK;
}

/* ---- Layers ---- */

const char *sw_search_why_blocked(const struct sw_search_space *s, int layer,
                                  const struct sw_search_limits *limits, char out[256])
{
    const struct sw_net_model *net = s->cost.net;
    const char *name = net->layer[layer].name;
    const int size = s->cost.shape.group_size;
    const int location = limits->location ? limits->location[layer] : -1;
    const int wish = limits->partition ? limits->partition[layer] : -1;
    const enum sw_partition p = location >= 0 ? SW_PARTITION_NONE : (enum sw_partition)wish;
    const char *why = wish < 0 && location < 0     ? NULL
                      : net->layer[layer].is_input ? "every worker reads its rows of the data"
                                                   : net->refuses(net, layer, p, size);

    if (location >= size)
        snprintf(out, 256,
                 "layer %.48s: location = %d, but a group has %d worker%s, counted from 0", name,
                 location, size, size == 1 ? "" : "s");
    else if (p != SW_PARTITION_ROWS && why)
        snprintf(out, 256, "layer %.48s cannot have partition = %s over %d workers: %.120s", name,
                 sw_partition_names[p], size, why);
    else if (limits->comm && limits->comm[layer] == SW_EXCHANGE_SFB && s->cost.why_no_factors &&
             net->layer[layer].steps > 0 && wish <= 0 && location < 0)
        snprintf(out, 256, "layer %.48s cannot exchange its gradients by comm = sfb: %s", name,
                 s->cost.why_no_factors);
    else if (limits->comm && limits->comm[layer] >= 0)
        snprintf(out, 256, "layer %.48s cannot exchange its gradients by comm = %s %s", name,
                 sw_exchange_mode_names[limits->comm[layer]],
                 net->layer[layer].steps <= 0 ? ": it has no factors"
                 : wish > 0 || location >= 0  ? ": it is not split by rows"
                                              : "with these workers and servers");
    else
        snprintf(out, 256, "layer %.48s: its partition and its location contradict each other",
                 name);
    return out;
}
