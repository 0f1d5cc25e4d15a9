/* The parameters of a job: from the nets into the table, with the settings of the recipe; and the
 * exchange of activations between the nets of a group. */
#include "run/job_params.h"
#include "base/os.h"
#include "exchange/table/sync.h"
#include "machine/bind.h"
#include "net/transfer.h"
#include "plan/choices.h"
#include "plan/params.h"
#include "run/job_private.h"
#include "worker/sums.h"
#include "worker/worker.h"

/* Adds the factors of layer i, if it has any; *number is for the specs of its parameters. */
static int add_factors(struct sw_job *job, struct sw_worker *w, int i, int *number,
                       struct sw_err *err)
{
    struct sw_table_factors f;
    int64_t rows = sw_worker_rows(w, SW_SPLIT_TRAIN);

    return sw_exchange_modes_factors(&job->exchange, w->train, i, rows, &f)
               ? sw_table_add_factors(w->table, &f, number, err)
               : SW_OK;
}

int sw_job_map_params(struct sw_job *job, struct sw_worker *w, int split, struct sw_err *err)
{
    const struct sw_net *net = split == SW_SPLIT_TRAIN ? w->train : w->eval;

    w->param_of[split] = sw_calloc((size_t)sw_net_param_count(net) + 1, sizeof(int));
    if (!w->param_of[split])
        return sw_err_nomem(err, "the parameter table", 0);

    int rc = SW_OK, factors = 0;
    for (int p = 0; p < sw_net_param_count(net); p++) {
        const struct sw_net_param *np = sw_net_param(net, p);
        int64_t first = sw_net_layer(net, np->layer)->param[np->index].part_first;
        int index = sw_table_find(w->table, np->name, first);
        if (index < 0 && split == SW_SPLIT_EVAL)
            return sw_err_set(
                err, SW_ERR_INVALID,
                "parameter %s exists only in the evaluation net: it would not be trained",
                np->name);

        if (np->index == 0)
            factors = 0; /* a layer that shares another one's weight has no factors */
        if (index < 0 && np->index == 0)
            rc = add_factors(job, w, np->layer, &factors, err);
        if (rc != SW_OK)
            return rc;

        if (index < 0)
            rc = sw_params_add(job->recipe, w->table, net, p, factors, &index, err);
        if (rc != SW_OK)
            return rc;

        w->param_of[split][p] = index;
    }

    return SW_OK;
}

/* user: the first worker of the group. */
static int wait_for_activations(void *user, int worker, bool (*over)(const void *what),
                                const void *what)
{
    struct sw_worker *group = user;
    return sw_worker_wait_in_group(&group[worker], "the activations of the other workers", over,
                                   what);
}

static void notify_group(void *user)
{
    struct sw_worker *group = user;
    sw_group_notify(group->group);
}

int sw_job_connect(struct sw_job *job, int split, struct sw_err *err)
{
    int workers = job->topology->group_size, rc = SW_OK;
    struct sw_net **nets = sw_calloc((size_t)workers, sizeof(void *));

    job->groups.transfers[split] = sw_calloc((size_t)job->topology->worker_groups, sizeof(void *));
    if (!nets || !job->groups.transfers[split]) {
        sw_free(nets);
        return sw_err_nomem(err, "the exchange of activations", (size_t)workers * sizeof(void *));
    }

    for (int g = 0; g < job->topology->worker_groups && rc == SW_OK; g++) {
        struct sw_worker *group = &job->workers[g * workers];

        for (int i = 0; i < workers; i++)
            nets[i] = split == SW_SPLIT_TRAIN ? group[i].train : group[i].eval;
        rc = sw_transfer_new(nets, workers, job->place.host,
                             &(struct sw_transfer_waits){wait_for_activations, notify_group, group},
                             &job->groups.transfers[split][g], err);
    }

    sw_free(nets);
    return rc;
}

static uint64_t server_nodes(void *user, int server)
{
    const struct sw_server_group *copy = user;
    const struct sw_job_place *hardware = copy->hardware;
    const struct sw_placement_row *row =
        sw_placement_server(hardware->placement, copy->place->first_server + server);

    return sw_machine_os_nodes(hardware->machine, row->node_mask);
}

static uint64_t worker_nodes(void *user, int worker)
{
    const struct sw_server_group *copy = user;
    const struct sw_job_place *hardware = copy->hardware;
    const struct sw_placement_row *row =
        sw_placement_worker(hardware->placement, copy->place->first_worker + worker);

    return sw_machine_os_nodes(hardware->machine, row->node_mask);
}

static const struct sw_table_rule *rule_of(const struct sw_job *job)
{
    static const struct sw_table_rule *const rules[] = {
        [SW_CONSISTENCY_BSP] = &sw_table_bsp,
        [SW_CONSISTENCY_SSP] = &sw_table_async,
        [SW_CONSISTENCY_ASYNC] = &sw_table_async,
        [SW_CONSISTENCY_HOGWILD] = &sw_table_hogwild,
    };
    return rules[job->topology->consistency];
}

/* Server groups that exchange changes, of all hosts. */
static int all_server_groups(const struct sw_topology *t)
{
    return t->is_async && t->hosts > 1 && !t->servers_on_first_host ? t->hosts : t->server_groups;
}

static int check_topology(struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "cluster", NULL);
    bool neighbours[SW_MAX_SERVER_GROUPS * SW_MAX_SERVER_GROUPS];
    struct sw_err why;

    if (all_server_groups(job->topology) > 1 &&
        sw_cluster_neighbours(s->common, all_server_groups(job->topology), neighbours, &why) !=
            SW_OK)
        sw_recipe_error(job->recipe, s, "sync_topology", "%s", why.text);

    return sw_recipe_status(job->recipe, err);
}

static int make_table(struct sw_job *job, struct sw_server_group *copy, struct sw_err *err)
{
    const struct sw_section *u = sw_recipe_find(job->recipe, "updater", NULL);
    const struct sw_cluster_conf *cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    struct sw_table_args args = {
        .device = job->place.host,
        .precision = (enum sw_precision)job->conf->precision,
        .seed = (uint64_t)job->conf->seed,
        .updater = (const struct sw_updater *)(const void *)u->type[0],
        .updater_conf = u->conf[0],
        .common = u->common,
        .schedule = u->type[1],
        .schedule_conf = u->conf[1],
        .horizon_steps = (uint64_t)job->span.horizon,
        .schedule_from = (uint64_t)job->span.stage_from,
        .slice_elements = cluster->slice_size,
        .workers = copy->place->workers,
        .servers = job->topology->servers_per_group,
        .groups = copy->place->workers / job->topology->group_size,
        .leaves = job->conf->repeat_exact ? job->topology->microbatches : 0,
        .updates_on_device = sw_devices_update(&job->exchange) && !job->topology->is_async,
        .sums_on_device = sw_reduces(&job->exchange),
        .others = all_server_groups(job->topology) > 1 ? all_server_groups(job->topology) : 0,
        .rule = rule_of(job),
        .staleness = job->topology->staleness,
        .server_nodes = server_nodes,
        .worker_nodes = worker_nodes,
        .nodes_user = copy,
        .two_phases = sw_stop_needs_norm(job->conf) || sw_job_hosts_return(job),
        .loss_scale = job->conf->loss_scale,
        .loss_scale_every = job->conf->loss_scale_every,
        .clip_value = job->conf->clip.value,
        .clip_norm = job->conf->clip.norm,
        .bad = job->conf->on_nan == SW_ON_NAN_SKIP       ? SW_BAD_DROPS
               : job->conf->on_nan == SW_ON_NAN_ROLLBACK ? SW_BAD_TELLS
                                                         : SW_BAD_STOPS,
    };

    sw_job_hosts_set_table(job, &args);

    int rc = sw_table_new(&args, &copy->table, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < copy->place->workers; i++) {
        struct sw_worker *w = &job->workers[copy->place->first_worker + i];
        w->table = copy->table;
        rc = sw_job_map_params(job, w, SW_SPLIT_TRAIN, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_table_freeze(copy->table, err);
}

/* Finds the layer whose backward completes each of the worker's gradients. */
static int find_completions(struct sw_worker *w, struct sw_err *err)
{
    size_t params = (size_t)sw_table_count(w->table) + 1;

    w->completed_by = sw_calloc(params, sizeof *w->completed_by);
    if (!w->completed_by)
        return sw_err_nomem(err, "a worker", params * sizeof *w->completed_by);

    for (size_t p = 0; p < params; p++)
        w->completed_by[p] = -1;

    for (int p = 0; p < sw_net_param_count(w->train); p++)
        if (sw_net_param(w->train, p)->root < 0)
            w->completed_by[w->param_of[SW_SPLIT_TRAIN][p]] = sw_net_param(w->train, p)->layer;

    return SW_OK;
}

int sw_job_make_table(struct sw_job *job, struct sw_err *err)
{
    int rc;

    for (int i = 0; i < job->topology->server_groups; i++) {
        rc = make_table(job, &job->params.copies[i], err);
        if (rc != SW_OK)
            return rc;
    }

    job->params.table = job->params.copies[0].table;

    job->exchange.table = job->params.table;
    for (int i = 0; i < job->topology->workers; i++) {
        rc = find_completions(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_params_check_patterns(job->recipe, job->params.table, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_params_check_freeze(job->recipe, &job->conf->freeze, job->params.table, err);
    if (rc != SW_OK)
        return rc;
    rc = check_topology(job, err);
    if (rc != SW_OK)
        return rc;

    return sw_copy_check(&job->exchange, job->report.framework.name, err);
}

int sw_job_make_sync(struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "cluster", NULL);
    const struct sw_topology *t = job->topology;
    int count = all_server_groups(t), rc = SW_OK;
    struct sw_sync_args args = {.count = count, .period = t->sync_period, .after = t->warmup_steps};
    if (count == 1 || job->params.sync)
        return SW_OK;

    bool *neighbours = sw_calloc((size_t)count * (size_t)count, sizeof *neighbours);
    struct sw_table **tables = sw_calloc((size_t)count, sizeof(void *));
    if (!neighbours || !tables) {
        rc = sw_err_nomem(err, "server groups", (size_t)count * sizeof(void *));
        goto out;
    }

    for (int i = 0; i < t->server_groups; i++)
        tables[t->hosts > 1 ? t->host : i] = job->params.copies[i].table;
    sw_job_hosts_set_sync(job, &args);
    rc = sw_cluster_neighbours(section->common, count, neighbours, err);
    if (rc != SW_OK)
        goto out;

    args.tables = tables;
    args.neighbours = neighbours;
    rc = sw_sync_new(&args, &job->params.sync, err);

out:
    sw_free(tables);
    sw_free(neighbours);

    return rc;
}

/* Groups that sleep during the warm-up get the version with which they will begin. */
void sw_job_put_step(struct sw_job *job, int copy, int64_t step, uint64_t updates, uint64_t dropped)
{
    struct sw_table *t = job->params.copies[copy].table;
    int first_group = job->params.copies[copy].place->first_worker / job->topology->group_size;

    sw_table_put_version(t, (uint64_t)step, updates, dropped);

    for (int r = 0; r < sw_table_update_groups(t); r++)
        if (sw_topology_sleeps(job->topology, first_group + r, step))
            sw_table_put_group(t, r, (uint64_t)job->topology->warmup_steps);
}

void sw_job_join(struct sw_job *job)
{
    if (!job->params.sync)
        return;

    sw_sync_broadcast(job->params.sync, (uint64_t)job->topology->warmup_steps, true);
    if (job->topology->host > 0) /* the updater of this host has made no update yet */
        sw_job_put_step(job, 0, job->topology->warmup_steps, 0, 0);
    for (int i = 1; i < job->topology->server_groups; i++)
        sw_job_put_step(job, i, job->topology->warmup_steps, sw_table_updates(job->params.table),
                        sw_table_dropped(job->params.table));
}
