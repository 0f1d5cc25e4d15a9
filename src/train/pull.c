/* How a worker gets the values that its next pass reads: it waits for the version it needs, runs
 * meanwhile the servers that it hosts, and has a device of its own fetch what it lacks. */
#include "train/pull.h"
#include "history/snapshot.h"
#include "train/server.h"
#include "train/worker.h"
#include <stdio.h>

enum { WAIT_MS = 1000, SERVE_MS = 1 };

/* Says in the live snapshot what is waited for. */
static void say_waiting(struct sw_worker *w, int param, uint64_t version)
{
    char what[SW_SNAPSHOT_TEXT];
    struct sw_wait wait = {SW_WAIT_VERSION, param, (int64_t)version};
    snprintf(what, sizeof what, "version %llu of %s", (unsigned long long)version,
             sw_table_param(w->table, param)->name);
    sw_slot_wait_on(w->slot, wait, what, w->timer.lap_ns);
}

/* The table has the version; a device of its own needs a copy. */
static int have(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    if (sw_table_param(w->table, param)->frozen)
        version = 0; /* no other comes */
    return w->replica ? sw_replica_need(w->replica, param, version, err) : SW_OK;
}

/* Waits until the parameter is at `version` for the party. A worker that runs servers itself serves
 * meanwhile: what it waits for may depend on them. */
int sw_pull_wait(struct sw_worker *w, int party, int param, uint64_t version, struct sw_err *err)
{
    struct sw_table *t = w->table;
    int rc = SW_OK;
    if (sw_table_ready(t, party, param, version))
        return SW_OK;
    sw_worker_lap(w, &w->timer.ledger.idle_ms, NULL);
    say_waiting(w, param, version);
    while (rc == SW_OK && !sw_table_ready(t, party, param, version)) {
        rc = sw_server_poll(w, err);
        sw_worker_lap(w, &w->timer.ledger.update_ms, NULL);
        if (rc != SW_OK || sw_table_ready(t, party, param, version))
            break;
        rc = sw_table_wait(t, party, param, version, w->served.ranks, w->served.count, WAIT_MS);
        sw_worker_lap(w, &w->timer.ledger.comm_exposed_ms, NULL);
        if (rc == SW_ERR_CANCELLED)
            return sw_err_set(err, rc, "the job is ending");
        /* Mail, or the time is over: look again. What is waited for may be lost on its way. */
        rc = w->replica ? sw_replica_check(w->replica, err) : SW_OK;
    }
    sw_slot_wait(w->slot, NULL, w->timer.lap_ns);
    return rc;
}

/* Where devices add up gradients, or make them: waits until all workers have queued theirs of step
 * `version`. One of them may be waiting for a server that this worker runs, whose mail does not end
 * the wait for the others: so it looks after that in between. */
static int see_sum(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    int rc = sw_replica_wait_sum(w->replica, param, version, 0);
    if (rc != SW_ERR_BUSY)
        return rc == SW_OK ? rc : sw_err_set(err, rc, "the job is ending");
    sw_worker_lap(w, &w->timer.ledger.idle_ms, NULL);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_GROUP},
                    "the gradients of the other workers", w->timer.lap_ns);
    while (rc == SW_ERR_BUSY) {
        rc = sw_server_poll(w, err);
        sw_worker_lap(w, &w->timer.ledger.update_ms, NULL);
        if (rc != SW_OK)
            break;
        rc = sw_replica_wait_sum(w->replica, param, version,
                                 w->served.count > 0 ? SERVE_MS : WAIT_MS);
        sw_worker_lap(w, &w->timer.ledger.comm_exposed_ms, NULL);
        if (rc == SW_ERR_CANCELLED)
            return sw_err_set(err, rc, "the job is ending");
    }
    sw_slot_wait(w->slot, NULL, w->timer.lap_ns);
    return rc;
}

int sw_pull_param(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    int party = sw_table_party(w->table, w->rank->table_rank);
    bool waits = !w->replica || sw_replica_waits(w->replica, param);
    int rc = waits ? sw_pull_wait(w, party, param, version, err) : see_sum(w, param, version, err);
    return rc == SW_OK ? have(w, param, version, err) : rc;
}

static int see_every_param(struct sw_worker *w, int party, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = 0; p < sw_table_count(w->table) && rc == SW_OK; p++)
        rc = sw_pull_wait(w, party, p, version, err);
    return rc;
}

int sw_pull_wait_all(struct sw_worker *w, uint64_t version, struct sw_err *err)
{
    return see_every_param(w, SW_TABLE_ALL, version, err);
}

int sw_pull_wait_own(struct sw_worker *w, uint64_t version, struct sw_err *err)
{
    if (w->replica && sw_replica_decides(w->replica))
        return SW_OK; /* the device had made them when the step was over */
    return see_every_param(w, sw_table_party(w->table, w->rank->table_rank), version, err);
}

int sw_pull_all(struct sw_worker *w, int split, uint64_t version, struct sw_err *err)
{
    const struct sw_net *net = split == SW_SPLIT_TRAIN ? w->train : w->eval;
    int rc = SW_OK;
    for (int p = 0; p < sw_net_param_count(net) && rc == SW_OK; p++)
        rc = sw_pull_param(w, w->param_of[split][p], version, err);
    return rc;
}
