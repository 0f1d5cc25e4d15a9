/* What a worker tells the history, by handles that are made before it runs: curves, and who hands
 * it what. */
#include "train/worker_links.h"
#include "base/os.h"
#include "net/transfer.h"
#include "train/job_private.h"
#include "train/server.h"
#include "train/worker.h"

static int name_series(struct sw_history *h, const char *split, struct sw_series *s,
                       struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < s->count && rc == SW_OK; i++)
        rc = sw_history_series(h, split, s->name[i], &s->handle[i], err);
    return rc;
}

/* Gradients and values: handed over in place, or copied between the device and the host. */
static int open_param_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    struct sw_job *job = w->job;
    int servers = job->topology->servers_per_group, rc = SW_OK;
    const struct sw_server *own = sw_job_servers(job, w->table);
    bool moves = !w->device->host_memory;
    l->to_server = sw_calloc((size_t)servers, sizeof *l->to_server);
    l->from_server = sw_calloc((size_t)servers, sizeof *l->from_server);
    if (!l->to_server || !l->from_server)
        return sw_err_nomem(err, "a worker", (size_t)servers * sizeof *l->to_server);
    for (int s = 0; s < servers && rc == SW_OK; s++) {
        const char *server = own[s].unit;
        if (sw_table_link_bytes(w->table, w->rank->table_rank, s) == 0)
            continue;
        rc = sw_history_link(job->events.history, w->unit, server, moves ? "d2h" : "shared",
                             &l->to_server[s], err);
        if (rc == SW_OK && moves)
            rc = sw_history_link(job->events.history, server, w->unit, "h2d", &l->from_server[s],
                                 err);
    }
    return rc;
}

/* From this worker to every other one; *out stays NULL where nothing goes. */
static int open_worker_links(struct sw_worker *w, bool any, const char *kind, int **out,
                             struct sw_err *err)
{
    struct sw_job *job = w->job;
    int workers = job->topology->workers, rc = SW_OK;
    if (!any)
        return SW_OK;
    *out = sw_calloc((size_t)workers, sizeof **out);
    if (!*out)
        return sw_err_nomem(err, "a worker", (size_t)workers * sizeof **out);
    for (int i = 0; i < workers && rc == SW_OK; i++)
        if (i != w->rank->global_rank)
            rc = sw_history_link(job->events.history, w->unit, job->workers[i].unit, kind,
                                 &(*out)[i], err);
    return rc;
}

/* Deltas, from every server to the one that owns the same slices in another group. */
static int open_sync_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    struct sw_job *job = w->job;
    int count = job->topology->servers, rc = SW_OK;
    const struct sw_server *own = sw_job_servers(job, w->table);
    if (!job->params.sync || w->rank->table_rank != 0)
        return SW_OK;
    l->sync = sw_calloc((size_t)count, sizeof *l->sync);
    l->sync_told = sw_calloc((size_t)count, sizeof *l->sync_told);
    if (!l->sync || !l->sync_told)
        return sw_err_nomem(err, "a worker", (size_t)count * sizeof *l->sync_told);
    for (int i = 0; i < count && rc == SW_OK; i++)
        if (job->servers[i].table != w->table)
            rc = sw_history_link(job->events.history, own[job->servers[i].place->server_rank].unit,
                                 job->servers[i].unit, "sync", &l->sync[i], err);
    return rc;
}

static int open_feature_links(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_links *l = &w->record.links;
    struct sw_job *job = w->job;
    int workers = job->topology->group_size, rc = SW_OK;
    const struct sw_worker *group = &job->workers[w->rank->group * job->topology->group_size];
    l->activations = sw_calloc((size_t)workers, sizeof *l->activations);
    l->activations_told = sw_calloc((size_t)workers, sizeof *l->activations_told);
    if (!l->activations || !l->activations_told)
        return sw_err_nomem(err, "a worker", (size_t)workers * sizeof *l->activations);
    for (int i = 0; i < workers && rc == SW_OK; i++) {
        l->activations[i] = -1;
        if (sw_net_moved_bytes(w->train, w->rank->rank, i) > 0)
            rc = sw_history_link(job->events.history, w->unit, group[i].unit, "feature",
                                 &l->activations[i], err);
    }
    return rc;
}

int sw_worker_open_history(struct sw_worker *w, struct sw_err *err)
{
    struct sw_worker_curves *c = &w->record.curves;
    struct sw_job *job = w->job;
    int rc = sw_history_producer_new(job->events.history, &c->producer, err);
    if (rc == SW_OK)
        rc = name_series(job->events.history, "train", &w->record.series[SW_SPLIT_TRAIN], err);
    if (rc == SW_OK && w->eval)
        rc = name_series(job->events.history, job->data.section[SW_SPLIT_EVAL]->name,
                         &w->record.series[SW_SPLIT_EVAL], err);
    if (rc == SW_OK)
        rc = sw_history_series(job->events.history, "train", "lr", &c->rate, err);
    if (rc == SW_OK)
        rc = sw_history_series(job->events.history, "train", "samples_per_s", &c->speed, err);
    c->norm = c->scale = -1;
    if (rc == SW_OK && sw_table_has_phases(job->params.table))
        rc = sw_history_series(job->events.history, "train", "grad_norm", &c->norm, err);
    if (rc == SW_OK && job->conf->loss_scale > 0)
        rc = sw_history_series(job->events.history, "train", "loss_scale", &c->scale, err);
    if (rc == SW_OK)
        rc = open_param_links(w, err);
    if (rc == SW_OK)
        rc = open_worker_links(w, job->exchange.sums.all_reduce, "allreduce", &w->record.links.sums,
                               err);
    if (rc == SW_OK)
        rc = open_worker_links(w, job->exchange.comm.factors, "factor", &w->record.links.factors,
                               err);
    if (rc == SW_OK)
        rc = open_sync_links(w, err);
    return rc == SW_OK ? open_feature_links(w, err) : rc;
}
