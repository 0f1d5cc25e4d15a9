/* Makes a net stage by stage (net/net_private.h), and frees it. */
#include "net/net_private.h"

#include "base/os.h"

int sw_net_plan_step(struct sw_net *net, const struct sw_device_throughput *throughput,
                     struct sw_err *err)
{
    int rc = SW_OK;

    sw_exec_order_make(&net->exec, throughput);
    if (net->branches)
        rc = sw_branch_order_new(net->branches, &net->exec, net->args.stream, &net->order, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_net_memory_plan(&net->memory, &net->exec, net->order, net->args.separate_scratch, err);
    if (rc != SW_OK)
        return rc;

    sw_exec_order_add_waits(&net->exec, net->memory.written_at);
    return SW_OK;
}

/* Copies the arguments and fills in defaults. */
static void fill_args(struct sw_net_args *to, const struct sw_net_args *args)
{
    *to = *args;
    if (!to->batch_rows)
        to->batch_rows = to->rows;
    if (!to->group_rows)
        to->group_rows = to->batch_rows;
    if (!to->workers)
        to->workers = 1;
}

/* Allocates the host staging buffers: step scalars to the device, results from it. */
static int make_staging(struct sw_net *net, struct sw_err *err)
{
    size_t params = (size_t)net->shapes.param_count + 1;

    net->gradient = sw_calloc(params, sizeof *net->gradient);
    if (!net->gradient)
        return sw_err_nomem(err, "the parameters", params * sizeof *net->gradient);

    void *staging = NULL;
    int rc = sw_device_host_alloc(net->args.stream->dev, sw_net_staging_bytes(net), "the results",
                                  &staging, err);
    net->staging = staging;

    return rc;
}

static int make_shapes(struct sw_net *net, const struct sw_net_args *args, bool alone,
                       struct sw_err *err)
{
    int rc = sw_net_graph_init(&net->graph, args, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_net_sharding_init(&net->sharding, &net->graph, args, alone, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_branches_new(&net->graph, args, &net->branches, err);
    if (rc != SW_OK)
        return rc;

    return sw_net_shapes_init(&net->shapes, &net->graph, &net->sharding, net->branches, args,
                              args->sharing ? &args->sharing->shapes : NULL, err);
}

static int make_memory(struct sw_net *net, struct sw_err *err)
{
    int rc = sw_net_aliases_init(&net->aliases, &net->graph, &net->shapes,
                                 net->args.stream->dev->host_memory, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_exec_order_init(&net->exec, &net->aliases, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_net_memory_init(&net->memory, net->graph.count, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_net_plan_step(net, &(struct sw_device_throughput){0}, err);

out:
    net->kept_bytes = net->memory.arena_bytes;

    return rc;
}

int sw_net_new(const struct sw_net_args *args, struct sw_net **out, struct sw_err *err)
{
    struct sw_net *net = sw_calloc(1, sizeof *net);
    if (!net)
        return sw_err_nomem(err, "a net", sizeof *net);

    fill_args(&net->args, args);

    int rc = make_shapes(net, &net->args, args->workers == 0, err);
    if (rc == SW_OK)
        rc = make_staging(net, err);
    if (rc == SW_OK)
        rc = make_memory(net, err);
    net->args.fields = NULL;
    net->args.field_count = 0;
    net->args.source = net->args.until = NULL;
    net->args.sharing = NULL;
    if (rc != SW_OK) {
        sw_net_free(net);
        return rc;
    }

    *out = net;
    return SW_OK;
}

void sw_net_free(struct sw_net *net)
{
    if (!net)
        return;

    sw_offload_free(net->offload);
    if (net->staging)
        sw_device_host_free(net->args.stream->dev, net->staging, sw_net_staging_bytes(net));
    sw_free(net->gradient);
    sw_net_memory_fini(&net->memory);
    sw_branch_order_free(net->order);
    sw_exec_order_fini(&net->exec);
    sw_net_aliases_fini(&net->aliases);
    sw_net_shapes_fini(&net->shapes);
    sw_branches_free(net->branches); /* plans are freed on its streams */
    sw_net_sharding_fini(&net->sharding);
    sw_net_graph_fini(&net->graph);
    sw_free(net);
}
