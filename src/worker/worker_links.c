/* A worker's handles in the history: of its curves, and of the links over which it exchanges
 * gradients, values, deltas and activations with others. All of them are made before it runs, so
 * that a step looks up no name. */
#include "worker/worker_links.h"
#include "base/os.h"
#include "net/transfer.h"
#include "worker/worker.h"

static struct sw_history *history(const struct sw_worker *w)
{
    return w->shared.events->history;
}

static int name_series(struct sw_history *h, const char *split, struct sw_series *s,
                       struct sw_err *err)
{
    for (int i = 0; i < s->count; i++) {
        int rc = sw_history_series(h, split, s->name[i], &s->handle[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Links for gradients and values, which are shared in place, or copied between the device and the
 * host. */
static int open_param_link(struct sw_worker *w, int server, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    const char *role = sw_worker_servers(w)[server].role;
    bool moves = !w->device->host_memory;

    if (sw_table_link_bytes(w->table, w->rank->table_rank, server) == 0)
        return SW_OK;

    int rc = sw_history_link(history(w), w->role, role, moves ? "d2h" : "shared",
                             &l->to_server[server], err);
    if (rc != SW_OK || !moves)
        return rc;

    return sw_history_link(history(w), role, w->role, "h2d", &l->from_server[server], err);
}

static int open_param_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    int servers = w->topology->servers_per_group;

    l->to_server = sw_calloc((size_t)servers, sizeof *l->to_server);
    l->from_server = sw_calloc((size_t)servers, sizeof *l->from_server);
    if (!l->to_server || !l->from_server)
        return sw_err_nomem(err, "a worker", (size_t)servers * sizeof *l->to_server);

    for (int s = 0; s < servers; s++) {
        int rc = open_param_link(w, s, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Links from this worker to every other one; *out stays NULL if `any` is false. */
static int open_worker_links(struct sw_worker *w, bool any, const char *kind, int **out,
                             struct sw_err *err)
{
    int workers = w->topology->workers, rc = SW_OK;

    if (!any)
        return SW_OK;

    *out = sw_calloc((size_t)workers, sizeof **out);
    if (!*out)
        return sw_err_nomem(err, "a worker", (size_t)workers * sizeof **out);

    for (int i = 0; i < workers; i++) {
        if (i != w->rank->global_rank)
            rc = sw_history_link(history(w), w->role, w->shared.workers[i].role, kind, &(*out)[i],
                                 err);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Links for deltas, from every server to the one that owns the same slices in another group. */
static int open_sync_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    const struct sw_server *servers = w->shared.servers, *own = sw_worker_servers(w);
    int count = w->topology->servers, rc = SW_OK;

    if (!w->shared.params->sync || w->topology->server_groups == 1 || w->rank->table_rank != 0)
        return SW_OK;

    l->sync = sw_calloc((size_t)count, sizeof *l->sync);
    l->sync_recorded_bytes = sw_calloc((size_t)count, sizeof *l->sync_recorded_bytes);
    if (!l->sync || !l->sync_recorded_bytes)
        return sw_err_nomem(err, "a worker", (size_t)count * sizeof *l->sync_recorded_bytes);

    for (int i = 0; i < count; i++) {
        if (servers[i].table != w->table)
            rc = sw_history_link(history(w), own[servers[i].place->server_rank].role,
                                 servers[i].role, "sync", &l->sync[i], err);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int open_activation_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    int workers = w->topology->group_size, rc = SW_OK;
    const struct sw_worker *group = &w->shared.workers[w->rank->group * workers];

    l->activations = sw_calloc((size_t)workers, sizeof *l->activations);
    l->activations_recorded_ns = sw_calloc((size_t)workers, sizeof *l->activations_recorded_ns);
    if (!l->activations || !l->activations_recorded_ns)
        return sw_err_nomem(err, "a worker", (size_t)workers * sizeof *l->activations);

    for (int i = 0; i < workers; i++) {
        l->activations[i] = -1;
        if (sw_net_moved_bytes(w->train, w->rank->rank, i) > 0)
            rc = sw_history_link(history(w), w->role, group[i].role, "feature", &l->activations[i],
                                 err);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Opens the curves in the order in which the history numbers them. */
static int open_curves(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_curves *c = &w->record.curves;
    struct sw_history *h = history(w);

    c->norm = c->scale = -1;

    int rc = name_series(h, "train", &w->record.series[SW_SPLIT_TRAIN], err);
    if (rc != SW_OK)
        return rc;

    if (w->eval)
        rc = name_series(h, w->shared.data->section[SW_SPLIT_EVAL]->name,
                         &w->record.series[SW_SPLIT_EVAL], err);

    if (rc != SW_OK)
        return rc;

    rc = sw_history_series(h, "train", "lr", &c->rate, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_history_series(h, "train", "samples_per_s", &c->speed, err);
    if (rc != SW_OK)
        return rc;

    if (sw_table_has_phases(w->shared.params->table))
        rc = sw_history_series(h, "train", "grad_norm", &c->norm, err);
    if (rc != SW_OK)
        return rc;

    if (w->shared.conf->loss_scale > 0)
        rc = sw_history_series(h, "train", "loss_scale", &c->scale, err);
    return rc;
}

static int open_links(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_exchange_plan *p = w->shared.exchange_plan;
    struct sw_worker_links *l = &w->record.links;

    int rc = open_param_links(w, err);
    if (rc != SW_OK)
        return rc;
    rc = open_worker_links(w, p->sums.all_reduce, "allreduce", &l->sums, err);
    if (rc != SW_OK)
        return rc;
    rc = open_worker_links(w, p->comm.factors, "factor", &l->factors, err);
    if (rc != SW_OK)
        return rc;
    rc = open_sync_links(w, err);
    if (rc != SW_OK)
        return rc;

    return open_activation_links(w, err);
}

int sw_worker_open_history(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_history_producer_new(history(w), &w->record.curves.producer, err);
    if (rc != SW_OK)
        return rc;
    rc = open_curves(w, err);
    if (rc != SW_OK)
        return rc;

    return open_links(w, err);
}
