/* Asynchronous hosts. Everything that all must agree on goes through host 0: requests
 * (hosts_steps.h), sums of evaluations (hosts_lead.h), the values where hosts meet (hosts_merge.h).
 * So a host that is lost is left out in the same way everywhere. */
#include "run/hosts_async.h"

#include "exchange/table/sync.h"
#include "run/job_private.h"
#include "worker/worker.h"
#include <stdio.h>
#include <string.h>

enum { STATE_PIECE = 256 }; /* floats of the layers' state that are shared at once */

static const struct sw_hosts *hosts_of(const struct sw_job *job)
{
    return job->options.hosts->list;
}

static bool has_remotes(const struct sw_job *job)
{
    return job->topology->servers_on_first_host;
}

static void set_table(struct sw_job *job, struct sw_table_args *args)
{
    const struct sw_topology *t = job->topology;

    if (!has_remotes(job))
        return;

    args->outer = sw_table_remotes_outer(&job->hosts.async.remotes, hosts_of(job));
    args->updates_outside = t->host != 0;
    args->remote_groups = t->host == 0 ? t->all_update_groups - t->update_groups : 0;
}

size_t sw_hosts_async_bytes(const struct sw_job *job)
{
    const struct sw_topology *t = job->topology;

    return t->is_async && t->hosts > 1 && !has_remotes(job)
               ? sw_sync_remote_bytes(job->params.table, t->hosts)
               : 0;
}

static void set_sync(struct sw_job *job, struct sw_sync_args *args)
{
    args->outer = sw_table_deltas_outer(&job->hosts.async.deltas);
}

/* ---- The values of host 0 ---- */

static float *value_of(void *user, int item)
{
    const struct sw_job *job = user;
    const struct sw_slice *s = sw_table_slice(job->params.table, item);

    return sw_table_param(job->params.table, s->param)->value + s->from;
}

static int make_merge(struct sw_job *job, struct sw_err *err)
{
    const struct sw_table *t = job->params.table;
    const int count = sw_table_slices(t);
    struct sw_hosts_merge_item *items = sw_calloc((size_t)count + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "the values of host 0", (size_t)count * sizeof *items);

    for (int i = 0; i < count; i++)
        items[i] = (struct sw_hosts_merge_item){.elements = sw_table_slice(t, i)->count};

    const struct sw_hosts_merge_args args = {.hosts = job->topology->hosts,
                                             .own = job->topology->host,
                                             .items = items,
                                             .count = count,
                                             .value = value_of,
                                             .user = job};
    int rc = sw_hosts_merge_new(&args, &job->hosts.async.merge, err);
    sw_free(items);
    return rc;
}

/* ---- Life ---- */

/* With a limit of what hosts send, and of staleness. */
static bool goes_by_change(const struct sw_job *job)
{
    return job->exchange.cluster->bandwidth > 0 && job->topology->staleness > 0;
}

static void wake_workers(void *user, int64_t step)
{
    struct sw_job *job = user;

    sw_group_wake(&job->groups.all, step);
}

static int init(struct sw_job *job, int small_most, struct sw_err *err)
{
    struct sw_hosts_async *a = &job->hosts.async;
    const struct sw_topology *t = job->topology;
    const struct sw_hosts_lead_args lead = {.hosts = t->hosts,
                                            .own = t->host,
                                            .small_most = small_most > STATE_PIECE ? small_most
                                                                                   : STATE_PIECE};
    const struct sw_hosts_steps_args steps = {.hosts = t->hosts,
                                              .own = t->host,
                                              .first = job->span.first_step,
                                              .woken = wake_workers,
                                              .user = job};

    if (job->stops.uses_training)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "asynchronous hosts are not at the same step, so they cannot stop by what "
            "training measures: use stop_at with a metric of the evaluation");
    if (sw_table_count(job->params.table) == 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "asynchronous hosts exchange parameters, and the net has none: train on "
                          "one host");

    int rc = sw_hosts_lead_new(&lead, &a->lead, err);
    if (rc == SW_OK)
        rc = sw_hosts_steps_new(&steps, &a->steps, err);
    if (rc != SW_OK)
        return rc;
    if (!has_remotes(job)) {
        rc = sw_job_make_sync(job, err);
        return rc == SW_OK ? sw_table_deltas_init(&a->deltas, job->params.sync, hosts_of(job), err)
                           : rc;
    }

    sw_job_put_step(job, 0, job->span.first_step, 0, 0);
    rc = sw_table_remotes_init(&a->remotes,
                               &(struct sw_table_remotes_args){.table = job->params.table,
                                                               .hosts = hosts_of(job),
                                                               .groups = t->update_groups,
                                                               .by_change = goes_by_change(job),
                                                               .fault = &job->fault},
                               err);
    return rc == SW_OK ? make_merge(job, err) : rc;
}

/* The others end where host 0 is lost, because it leads, and where a host ends by an error of its
 * own: of values that are not finite all have some, or will. */
static void on_lost(void *user, int host, const struct sw_err *why)
{
    struct sw_job *job = user;
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;

    const bool failed = why->code != SW_ERR_LOST;

    if (host == 0 || failed || c->on_host_loss == SW_ON_HOST_LOSS_STOP) {
        sw_fault_set(&job->fault, "hosts", why);
        return;
    }

    struct sw_hosts_async *a = &job->hosts.async;
    struct sw_mutex *lock = &job->hosts.notices.lock;

    sw_mutex_lock(lock);
    snprintf(a->why, sizeof a->why, "%.*s", (int)sizeof a->why - 1, why->text);
    __atomic_fetch_or(&a->left_out, (uint64_t)1 << host, __ATOMIC_ACQ_REL);
    sw_mutex_unlock(lock);

    if (job->topology->host == 0 && c->on_host_loss == SW_ON_HOST_LOSS_SAVE)
        sw_requests_set(&job->requests, SW_JOB_STOP);
}

static void name_hosts(const struct sw_job *job, uint64_t bits, char *out, size_t bytes)
{
    size_t n = 0;

    out[0] = 0;
    for (int i = 0; i < job->topology->hosts && n < bytes; i++)
        if (bits >> i & 1)
            n += (size_t)snprintf(out + n, bytes - n, "%s%s", n > 0 ? ", " : "",
                                  hosts_of(job)->host[i].name);
}

/* By a worker of host 0, because the fabric may lose a host before there is a history, or when all
 * have ended. */
static void report_lost(struct sw_job *job)
{
    struct sw_hosts_async *a = &job->hosts.async;
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    const uint64_t fresh = __atomic_load_n(&a->left_out, __ATOMIC_ACQUIRE) & ~a->reported;
    char names[160], why[sizeof a->why];

    if (!fresh || job->topology->host != 0)
        return;

    sw_mutex_lock(&job->hosts.notices.lock);
    memcpy(why, a->why, sizeof why);
    sw_mutex_unlock(&job->hosts.notices.lock);

    a->reported |= fresh;
    name_hosts(job, fresh, names, sizeof names);
    sw_events_report(&job->events, SW_LOG_WARN, "hosts", "host %s is lost (%s); the others %s",
                     names, why,
                     c->on_host_loss == SW_ON_HOST_LOSS_SAVE ? "write a checkpoint and end"
                                                             : "go on without it");
}

static void receive(struct sw_job *job, struct sw_fabric_router *router)
{
    struct sw_hosts_async *a = &job->hosts.async;

    sw_fabric_router_add(router, 0, 0, (struct sw_fabric_sink){.lost = on_lost, .user = job});
    sw_fabric_router_add(router, SW_HOSTS_LEAD, 1, sw_hosts_lead_sink(a->lead));
    sw_fabric_router_add(router, SW_HOSTS_STEPS, 1, sw_hosts_steps_sink(a->steps));
    if (!has_remotes(job)) {
        sw_table_deltas_receive(&a->deltas, router);
        return;
    }

    sw_table_remotes_receive(&a->remotes, router);
    sw_fabric_router_add(router, SW_HOSTS_CHANGE, 2, sw_hosts_merge_sink(a->merge));
}

static int room(const struct sw_job *job)
{
    const struct sw_hosts_async *a = &job->hosts.async;

    return sw_hosts_lead_room(a->lead) + SW_HOSTS_STEPS_ROOM +
           (has_remotes(job) ? sw_table_remotes_room(&a->remotes) + sw_hosts_merge_room(a->merge)
                             : sw_table_deltas_room(&a->deltas));
}

static int start(struct sw_job *job, struct sw_err *err)
{
    struct sw_hosts_async *a = &job->hosts.async;
    struct sw_fabric *f = job->hosts.fabric;
    struct sw_fault *fault = &job->fault;

    sw_hosts_lead_start(a->lead, f);
    sw_hosts_steps_start(a->steps, f);
    if (has_remotes(job)) {
        sw_table_remotes_start(&a->remotes, f);
        sw_hosts_merge_start(a->merge, f);
    } else {
        sw_table_deltas_start(&a->deltas, f);
    }

    int rc = sw_fault_attach(fault, sw_hosts_lead_close_v, a->lead, err);
    if (rc == SW_OK)
        rc = sw_fault_attach(fault, sw_hosts_steps_close_v, a->steps, err);
    if (rc != SW_OK)
        return rc;
    return has_remotes(job) ? sw_fault_attach(fault, sw_hosts_merge_close_v, a->merge, err)
                            : sw_fault_attach(fault, sw_table_deltas_close_v, &a->deltas, err);
}

static void fini(struct sw_job *job)
{
    struct sw_hosts_async *a = &job->hosts.async;

    sw_fault_detach(&job->fault, a->lead);
    sw_fault_detach(&job->fault, a->steps);
    sw_fault_detach(&job->fault, a->merge);
    sw_fault_detach(&job->fault, &a->deltas);
    sw_hosts_lead_free(a->lead);
    sw_hosts_steps_free(a->steps);
    sw_hosts_merge_free(a->merge);
    if (has_remotes(job))
        sw_table_remotes_fini(&a->remotes);
    else
        sw_table_deltas_fini(&a->deltas);
    a->lead = NULL;
    a->steps = NULL;
    a->merge = NULL;
}

/* ---- Sums and requests ---- */

static int sum(struct sw_job *job, enum sw_group_channel channel, double *values, int count,
               struct sw_err *err)
{
    /* A step's losses and metrics are those of this host's groups: others are at another step. */
    return channel == SW_GROUP_EVALUATIONS
               ? sw_hosts_lead_sum(job->hosts.async.lead, SW_HOSTS_RESULTS, values, count, err)
               : SW_OK;
}

static uint64_t counted(const struct sw_job *job)
{
    return sw_hosts_lead_counted(job->hosts.async.lead, SW_HOSTS_RESULTS);
}

/* All hosts are in the same pause. */
static int agree_paused(struct sw_job *job, int own)
{
    struct sw_err err;
    double votes[SW_HOSTS_VOTES];

    sw_hosts_vote(own, votes);
    int rc =
        sw_hosts_lead_sum(job->hosts.async.lead, SW_HOSTS_REQUESTS, votes, SW_HOSTS_VOTES, &err);
    rc = sw_hosts_note(job, rc, &err);
    return rc == SW_OK ? sw_hosts_voted(votes) : own;
}

static int agree(struct sw_job *job, int64_t step, int own)
{
    struct sw_err err;
    int bits = 0;

    report_lost(job);
    if (step == SW_GATE_PAUSED)
        return sw_hosts_requests(agree_paused(job, own));

    int rc = sw_hosts_steps_decide(job->hosts.async.steps, step, own, &bits, &err);
    rc = sw_hosts_note(job, rc, &err);
    return rc == SW_OK ? sw_hosts_requests(bits) : 0;
}

static void ask(struct sw_job *job, int own)
{
    sw_hosts_steps_ask(job->hosts.async.steps, own);
}

static void wake(struct sw_job *job, int64_t step)
{
    if (job->topology->host == 0)
        sw_hosts_steps_wake(job->hosts.async.steps, step);
}

/* ---- Merging ---- */

static bool is_quiet(struct sw_job *job)
{
    struct sw_hosts_async *a = &job->hosts.async;
    struct sw_err err;

    if (!has_remotes(job))
        return sw_table_deltas_is_quiet(&a->deltas);

    int rc = sw_hosts_merge_offer(a->merge, &err);
    return sw_hosts_note(job, rc, &err) == SW_OK && sw_hosts_merge_is_agreed(a->merge);
}

static int merge(struct sw_job *job, int64_t step, struct sw_err *err)
{
    struct sw_hosts_async *a = &job->hosts.async;

    return has_remotes(job) ? sw_hosts_merge(a->merge, NULL, err)
                            : sw_table_deltas_merge(&a->deltas, (uint64_t)step, NULL, err);
}

/* A host that went on before host 0 has written its checkpoint would change what is in it. */
static int resume(struct sw_job *job, struct sw_err *err)
{
    double one = 1;

    int rc = sw_hosts_lead_sum(job->hosts.async.lead, SW_HOSTS_PASSES, &one, 1, err);
    if (rc == SW_OK && !has_remotes(job))
        sw_table_deltas_resume(&job->hosts.async.deltas);
    return rc;
}

/* Floats are exact in the doubles of a sum to which only host 0 contributes. */
static int share_floats(struct sw_job *job, float *x, int64_t n, struct sw_err *err)
{
    double values[STATE_PIECE];

    for (int64_t from = 0; from < n; from += STATE_PIECE) {
        const int count = (int)(n - from < STATE_PIECE ? n - from : STATE_PIECE);

        for (int i = 0; i < count; i++)
            values[i] = job->topology->host == 0 ? (double)x[from + i] : 0;
        int rc = sw_hosts_lead_sum(job->hosts.async.lead, SW_HOSTS_PASSES, values, count, err);
        if (rc != SW_OK)
            return rc;
        for (int i = 0; i < count; i++)
            x[from + i] = (float)values[i];
    }

    return SW_OK;
}

static int share_state(struct sw_job *job, struct sw_err *err)
{
    const struct sw_buffers *s = &job->state.buffers;
    int rc = SW_OK;

    for (int i = 0; i < s->count && rc == SW_OK; i++)
        rc = share_floats(job, s->items[i].value, sw_desc_storage(&s->items[i].layout), err);
    return rc;
}

/* ---- The end ---- */

static int end(struct sw_job *job, int rc, struct sw_err *err)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    const uint64_t lost = __atomic_load_n(&job->hosts.async.left_out, __ATOMIC_ACQUIRE);
    char names[160];

    report_lost(job);
    if (rc != SW_ERR_CANCELLED || lost == 0 || c->on_host_loss != SW_ON_HOST_LOSS_SAVE)
        return rc;

    job->hosts.lost = lost;
    name_hosts(job, lost, names, sizeof names);
    return sw_err_set(err, SW_ERR_CANCELLED,
                      "host %s is lost; the others wrote a checkpoint of step %lld", names,
                      (long long)job->workers[0].step);
}

const struct sw_hosts_mode sw_hosts_async = {.set_table = set_table,
                                             .set_sync = set_sync,
                                             .init = init,
                                             .receive = receive,
                                             .room = room,
                                             .start = start,
                                             .fini = fini,
                                             .sum = sum,
                                             .counted = counted,
                                             .agree = agree,
                                             .ask = ask,
                                             .wake = wake,
                                             .is_quiet = is_quiet,
                                             .merge = merge,
                                             .resume = resume,
                                             .share_state = share_state,
                                             .end = end};
