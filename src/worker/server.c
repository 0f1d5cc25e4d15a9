/* The server role: the loop that waits for messages and calls sw_table_serve.
 *
 * Messages in: updates of workers and, with update control, decisions, in its inbox. Messages out:
 * none; the table's versions advance, and threads that wait for one are woken. A server with cores
 * of its own is a thread that sleeps on its inbox. One that shares its worker's cores has no
 * thread: the worker empties the inbox between two layers, with its whole team, so that nothing is
 * oversubscribed and an update still runs before the backward passes of the layers below. Where
 * several workers may run a server, one does at a time; the others continue. The inbox is closed at
 * the end of the job or by its fault, which ends the thread; an error of the table becomes the
 * job's fault under the server's name. */
#include "worker/server.h"
#include "base/os.h"
#include "machine/bind.h"
#include "thread/tasks.h"
#include "worker/worker.h"
#include <string.h>

/* Shows in the live snapshot which parameter's update the server works on; the layer is the
 * parameter. */
static void show_serving(const struct sw_server *s, const struct sw_message *m)
{
    bool one = m->kind == SW_MSG_UPDATE || m->kind == SW_MSG_VALUES;
    sw_slot_phase(s->slot, SW_PHASE_UPDATE, (int64_t)m->version, one ? m->param : -1,
                  one ? sw_table_param(s->table, m->param)->name : NULL, sw_os()->monotonic_ns());
}

static int poll_one(struct sw_worker *host, struct sw_server *s, struct sw_err *err)
{
    struct sw_message m;
    struct sw_table *t = s->table;
    bool served = false;
    int rc, nobody = 0;

    /* Acquires what the previous runner did to the server, which it releases below. */
    if (!__atomic_compare_exchange_n(&s->runner, &nobody, host->rank->global_rank + 1, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        sw_thread_yield(); /* a waiting worker retries at once while there are messages */
        return SW_OK;
    }

    while ((rc = sw_queue_try_pop(sw_table_inbox(t, s->place->server_rank), &m)) == SW_OK) {
        served = true;
        show_serving(s, &m);

        rc = sw_table_serve(t, s->place->server_rank, &m, err);
        if (rc != SW_OK) {
            sw_fault_set(s->fault, s->role, err);
            break;
        }
    }

    if (served)
        sw_slot_phase(s->slot, SW_PHASE_IDLE, -1, -1, NULL, sw_os()->monotonic_ns());
    __atomic_store_n(&s->runner, 0, __ATOMIC_RELEASE);
    if (rc == SW_ERR_BUSY)
        return SW_OK;

    return rc == SW_ERR_CANCELLED ? sw_err_set(err, rc, "the job is ending") : rc;
}

struct sw_server *sw_worker_servers(const struct sw_worker *w)
{
    return &w->shared.servers[w->topology->server_group[w->rank->server_group].first_server];
}

int sw_server_poll(struct sw_worker *host, struct sw_err *err)
{
    struct sw_server *own = sw_worker_servers(host);

    for (int i = 0; i < host->served.count; i++) {
        int rc = poll_one(host, &own[host->served.ranks[i]], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Serves until the inbox is closed and returns SW_ERR_CANCELLED: the job has ended, or failed
 * elsewhere. */
static int serve_inbox(struct sw_server *s, struct sw_err *err)
{
    struct sw_message m;
    int rc = SW_OK;

    while (rc == SW_OK) {
        sw_slot_phase(s->slot, SW_PHASE_IDLE, -1, -1, NULL, sw_os()->monotonic_ns());
        rc = sw_queue_pop(sw_table_inbox(s->table, s->place->server_rank), &m);
        if (rc != SW_OK)
            return rc;

        show_serving(s, &m);
        rc = sw_table_serve(s->table, s->place->server_rank, &m, err);
    }

    return rc;
}

void sw_server_main(void *server)
{
    struct sw_server *s = server;
    const struct sw_job_place *hardware = s->hardware;
    const struct sw_placement_row *row =
        sw_placement_server(hardware->placement, s->place->global_rank);
    struct sw_stream *stream = NULL; /* only sets the number of math threads */
    struct sw_err err = {0};

    sw_slot_set_thread(s->slot, sw_task_self());

    int rc = sw_bind_thread(hardware->machine, &row->cores, &err);
    if (rc != SW_OK)
        goto out;
    rc = sw_stream_new(hardware->host, row->threads, &stream, &err);
    if (rc != SW_OK)
        goto out;
    rc = sw_driver_host()->start_team(row->threads, &err);
    if (rc != SW_OK)
        goto out;

    rc = serve_inbox(s, &err);

out:
    sw_stream_free(stream);
    if (rc != SW_ERR_CANCELLED)
        sw_fault_set(s->fault, s->role, &err);
}

static bool shares_cores(const struct sw_placement *p, int worker, int server)
{
    const struct sw_placement_row *w = sw_placement_worker(p, worker);
    const struct sw_placement_row *s = sw_placement_server(p, server);
    return sw_core_set_overlaps(&w->cores, &s->cores);
}

static int serve(struct sw_worker *w, struct sw_server *s, struct sw_err *err)
{
    int servers = w->topology->servers_per_group;

    if (!w->served.ranks)
        w->served.ranks = sw_calloc((size_t)servers, sizeof *w->served.ranks);
    if (!w->served.ranks)
        return sw_err_nomem(err, "a worker", (size_t)servers * sizeof *w->served.ranks);

    w->served.ranks[w->served.count++] = s->place->server_rank;
    s->hosted = true;
    return SW_OK;
}

/* Chooses who runs a server. A server that shares a worker's cores is run by that worker,
 * preferably the one it is bound to. With asynchronous groups no worker can rely on another one to
 * run the server in time, so every worker of the table runs it when needed. A server with cores of
 * its own is a thread. */
static int settle(struct sw_server *s, struct sw_worker *workers, const struct sw_topology *t,
                  struct sw_err *err)
{
    int bound = s->place->global_rank % t->workers, host = -1;

    for (int i = 0; i < t->workers && host < 0; i++)
        if (shares_cores(s->hardware->placement, (bound + i) % t->workers, s->place->global_rank))
            host = (bound + i) % t->workers;

    if (host < 0)
        return SW_OK;
    if (!t->is_async)
        return serve(&workers[host], s, err);

    for (int i = 0; i < t->workers; i++) {
        int rc = workers[i].table == s->table ? serve(&workers[i], s, err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_servers_settle(const struct sw_worker_shared *job, const struct sw_topology *t,
                      struct sw_err *err)
{
    for (int i = 0; i < t->servers; i++) {
        struct sw_server *s = &job->servers[i];
        const struct sw_placement_row *row = sw_placement_server(job->place->placement, i);

        *s = (struct sw_server){.fault = job->fault,
                                .hardware = job->place,
                                .table = job->params->copies[i / t->servers_per_group].table,
                                .place = &t->server[i]};
        memcpy(s->role, row->role, sizeof row->role);

        int rc = settle(s, job->workers, t, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
