/* Memory and comparison of parallel plans. */
#include "planner/parallel_plan.h"

#include "base/os.h"
#include <string.h>

const char *const sw_plan_residency_names[] = {[SW_PLAN_KEPT] = "kept",
                                               [SW_PLAN_RECOMPUTED] = "recomputed",
                                               [SW_PLAN_OFFLOADED] = "offloaded"};

int sw_parallel_plan_init(struct sw_parallel_plan *p, const struct sw_plan_shape *shape, int layers,
                          struct sw_err *err)
{
    const int workers = shape->groups * shape->group_size;
    struct sw_layer_choice *choice = sw_calloc((size_t)layers + 1, sizeof *choice);
    int64_t *bytes = sw_calloc((size_t)workers, sizeof *bytes);
    if (!choice || !bytes) {
        sw_free(choice);
        sw_free(bytes);
        return sw_err_nomem(err, "a parallel plan", (size_t)layers * sizeof *choice);
    }

    *p = (struct sw_parallel_plan){.shape = *shape,
                                   .choice = choice,
                                   .layers = layers,
                                   .device_bytes = bytes,
                                   .workers = workers};
    return SW_OK;
}

int sw_parallel_plan_copy(struct sw_parallel_plan *to, const struct sw_parallel_plan *from,
                          struct sw_err *err)
{
    struct sw_parallel_plan copy;
    int rc = sw_parallel_plan_init(&copy, &from->shape, from->layers, err);
    if (rc != SW_OK)
        return rc;

    memcpy(copy.choice, from->choice, (size_t)from->layers * sizeof *copy.choice);
    memcpy(copy.device_bytes, from->device_bytes,
           (size_t)from->workers * sizeof *copy.device_bytes);
    copy.additive_s = from->additive_s;
    copy.time = from->time;
    copy.fit = from->fit;

    *to = copy;
    return SW_OK;
}

void sw_parallel_plan_fini(struct sw_parallel_plan *p)
{
    sw_free(p->choice);
    sw_free(p->device_bytes);
    *p = (struct sw_parallel_plan){.choice = NULL};
}

bool sw_plan_shape_equal(const struct sw_plan_shape *a, const struct sw_plan_shape *b)
{
    return a->framework == b->framework && a->consistency == b->consistency &&
           a->staleness == b->staleness && a->groups == b->groups &&
           a->group_size == b->group_size && a->servers == b->servers && a->threads == b->threads;
}

bool sw_parallel_plan_equal(const struct sw_parallel_plan *a, const struct sw_parallel_plan *b)
{
    bool equal = a->layers == b->layers && sw_plan_shape_equal(&a->shape, &b->shape);

    for (int i = 0; i < a->layers && equal; i++)
        equal = a->choice[i].partition == b->choice[i].partition &&
                a->choice[i].location == b->choice[i].location &&
                a->choice[i].comm == b->choice[i].comm &&
                a->choice[i].residency == b->choice[i].residency;

    return equal;
}
