/* Plans that treat all layers alike: what users try first, and what a plan is compared with. The
 * contract is in planner/planned_private.h. */
#include "planner/planned_private.h"
#include <math.h>

/* Such a plan. */
struct uniform {
    struct sw_plan_shape shape;
    enum sw_partition partition; /* where a layer allows it */
    enum sw_exchange_mode comm;  /* where the workers of a layer can exchange factors */
};

static int make_uniform(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                        const struct uniform *u, struct sw_parallel_plan *p, struct sw_err *err)
{
    const struct sw_net_model *net = args->net;
    struct sw_cost_model cost;

    int rc = sw_parallel_plan_init(p, &u->shape, net->count, err);
    if (rc != SW_OK)
        return rc;

    sw_cost_model_init(&cost, net, machine, &u->shape);
    for (int i = 0; i < net->count; i++) {
        const bool by_rows = u->partition == SW_PARTITION_ROWS || u->shape.group_size == 1 ||
                             net->layer[i].is_input ||
                             net->refuses(net, i, u->partition, u->shape.group_size);
        const bool exchanges =
            by_rows && net->layer[i].params > 0 && sw_search_may_exchange(&cost, i, u->comm, false);

        p->choice[i] =
            (struct sw_layer_choice){.partition = by_rows ? SW_PARTITION_ROWS : u->partition,
                                     .comm = exchanges ? u->comm : SW_EXCHANGE_PS};
    }

    p->additive_s = sw_cost_plan(&cost, p, NULL);
    return sw_planned_time(args, machine, p, err);
}

static bool obeys(const struct sw_search_limits *l, const struct sw_parallel_plan *p,
                  const struct sw_net_model *net)
{
    for (int i = 0; i < p->layers; i++)
        if (!sw_planned_obeys(l, p, net, i))
            return false;

    return true;
}

int sw_planned_add_uniforms(struct sw_planned_making *m, const struct sw_machine_model *machine,
                            const struct sw_search_limits *limits,
                            const struct sw_plan_shape *shape, struct sw_err *err)
{
    static const struct {
        const char *what;
        enum sw_partition partition;
        enum sw_exchange_mode comm;
    } rows[] = {
        {"all layers by rows, whole gradients (ps)", SW_PARTITION_ROWS, SW_EXCHANGE_PS},
        {"all layers by rows, factors (sfb)", SW_PARTITION_ROWS, SW_EXCHANGE_SFB},
        {"columns where possible", SW_PARTITION_COLUMNS, SW_EXCHANGE_PS},
    };
    int rc = SW_OK;

    for (size_t i = 0;
         i < sizeof rows / sizeof *rows && rc == SW_OK && shape->groups * shape->group_size > 1;
         i++) {
        const struct uniform u = {*shape, rows[i].partition, rows[i].comm};
        struct sw_parallel_plan p = {0};

        rc = make_uniform(m->args, machine, &u, &p, err);
        if (rc == SW_OK && obeys(limits, &p, m->args->net))
            rc = sw_planned_add(m, machine, &p, rows[i].what, err);
        sw_parallel_plan_fini(&p);
    }

    return rc;
}

int sw_planned_one_worker(const struct sw_planned_args *args, double *seconds, struct sw_err *err)
{
    /* A device that sends gradients to the host may wait for one server, or for one on each core.
     */
    const int cores = args->machine[0]->server_threads;
    const struct {
        enum sw_framework framework;
        int servers;
    } placed[] = {{SW_FRAMEWORK_ALLREDUCE, 1}, {SW_FRAMEWORK_SANDBLASTER, cores > 1 ? cores : 1}};
    int rc = SW_OK;

    *seconds = INFINITY;
    for (size_t i = 0; rc == SW_OK && i < sizeof placed / sizeof *placed; i++) {
        const struct uniform rows = {.shape = {.framework = placed[i].framework,
                                               .consistency = SW_CONSISTENCY_BSP,
                                               .staleness = -1,
                                               .groups = 1,
                                               .group_size = 1,
                                               .servers = placed[i].servers},
                                     .partition = SW_PARTITION_ROWS};
        struct sw_parallel_plan p = {0};

        rc = make_uniform(args, args->machine[0], &rows, &p, err);
        if (rc == SW_OK)
            *seconds = fmin(*seconds, p.time.step_s);
        sw_parallel_plan_fini(&p);
    }

    return rc;
}
