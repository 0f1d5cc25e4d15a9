/* What hosts offer each other before the first step; the contract is in job_collective.h. Host 0
 * offers first, because the others have to know its id to say whether they can join. */
#include "run/job_collective.h"

#include "base/os.h"
#include "plan/choices.h"
#include "run/host_loss.h"
#include "run/job_private.h"
#include <stdio.h>
#include <string.h>

enum { CHECK_MS = 100 };

static const struct sw_hosts *hosts_of(const struct sw_job *job)
{
    return job->options.hosts->list;
}

/* ---- What arrives ---- */

/* Each comes once: the main thread reads it when it has been heard. */
static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_job_collective *c = user;

    sw_mutex_lock(&c->lock);
    bool heard = c->heard >> from & 1, ordered = c->ordered;
    sw_mutex_unlock(&c->lock);

    if (tag->kind == SW_HOST_OFFER && !heard && bytes == sizeof *c->offer)
        *to = &c->offer[from];
    else if (tag->kind == SW_HOST_ORDER && from == 0 && c->order && !ordered &&
             bytes == (size_t)c->count * sizeof *c->order)
        *to = c->order;
    else
        return sw_err_set(err, SW_ERR_INVALID,
                          "its offer for sums of devices is not expected, or has another size");

    return SW_OK;
}

static void make_printable(char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static bool is_permutation(const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= count)
            return false;
        for (int k = 0; k < i; k++)
            if (order[k] == order[i])
                return false;
    }

    return true;
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_job_collective *c = user;
    struct sw_host_offer *o = &c->offer[from];
    const bool order = tag->kind == SW_HOST_ORDER;

    if (order && !is_permutation(c->order, c->count))
        return sw_err_set(err, SW_ERR_FORMAT, "it sent an impossible order of buckets");
    if (!order) {
        make_printable(o->library, sizeof o->library);
        make_printable(o->why, sizeof o->why);
        if (o->devices < 0 || o->devices > SW_COLLECTIVE_RANKS)
            return sw_err_set(err, SW_ERR_FORMAT, "it offers %d devices", (int)o->devices);
    }

    sw_mutex_lock(&c->lock);
    c->ordered = c->ordered || order;
    c->heard |= order ? 0 : (uint64_t)1 << from;
    sw_cond_broadcast(&c->changed);
    sw_mutex_unlock(&c->lock);
    return SW_OK;
}

/* ---- Telling and waiting ---- */

static int tell(struct sw_job *job, int kind, const void *data, size_t bytes, struct sw_err *err)
{
    const struct sw_fabric_tag tag = {.kind = (uint16_t)kind};

    for (int i = 0; i < job->topology->hosts; i++) {
        int rc = i == job->topology->host
                     ? SW_OK
                     : sw_fabric_send(job->hosts.fabric, i, &tag, data, bytes, NULL, NULL, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Waits for the offers of these hosts, or for the order. The loss of a host is a fault. */
static int await(struct sw_job *job, uint64_t offers, bool order, struct sw_err *err)
{
    struct sw_job_collective *c = &job->hosts.collective;
    int rc = SW_OK;

    sw_mutex_lock(&c->lock);
    while (((offers & ~c->heard) || (order && !c->ordered)) && rc == SW_OK) {
        sw_cond_wait_ms(&c->changed, &c->lock, CHECK_MS);
        if (sw_fault_is_set(&job->fault))
            rc = sw_fault_get(&job->fault, err);
    }
    sw_mutex_unlock(&c->lock);

    return rc;
}

/* ---- Offers ---- */

static int make_offer(struct sw_job *job, struct sw_host_offer *o, struct sw_err *err)
{
    const struct sw_exchange_plan *p = &job->exchange;
    const struct sw_sums *d = &p->sums;
    struct sw_err why;

    *o = (struct sw_host_offer){.devices = job->topology->workers, .buckets = sw_reduce_hash(d)};
    if (*sw_reduce_refusal(p, o->why, sizeof o->why))
        return SW_OK;

    d->library->name(o->library, sizeof o->library);
    if (job->topology->host == 0)
        return sw_collective_make_id(d->library, &o->id, err);

    const struct sw_host_offer *first = &job->hosts.collective.offer[0];
    if (*first->library && sw_collective_accepts(d->library, &first->id, &why) != SW_OK) {
        *o->library = 0;
        snprintf(o->why, sizeof o->why, "%.*s", (int)sizeof o->why - 1, why.text);
    }

    return SW_OK;
}

static bool any_library(const struct sw_job *job)
{
    for (int i = 0; i < job->topology->hosts; i++)
        if (*job->hosts.collective.offer[i].library)
            return true;
    return false;
}

/* Can all hosts use the same library? SW_ERR_UNSUPPORTED says why not, and names a host. */
static int judge(const struct sw_job *job, struct sw_err *why)
{
    const struct sw_host_offer *o = job->hosts.collective.offer;
    const struct sw_host *host = hosts_of(job)->host;

    for (int i = 0; i < job->topology->hosts; i++)
        if (!*o[i].library)
            return sw_err_set(why, SW_ERR_UNSUPPORTED, "host %s: %s", host[i].name, o[i].why);

    for (int i = 1; i < job->topology->hosts; i++) {
        if (strcmp(o[i].library, o[0].library) != 0)
            return sw_err_set(why, SW_ERR_UNSUPPORTED, "host %s has %s, and host %s has %s",
                              host[0].name, o[0].library, host[i].name, o[i].library);
        if (o[i].buckets != o[0].buckets)
            return sw_err_set(why, SW_ERR_UNSUPPORTED,
                              "hosts %s and %s have different buckets of gradients", host[0].name,
                              host[i].name);
    }

    return SW_OK;
}

/* Members are numbered from host to host. */
static void join(struct sw_job *job)
{
    struct sw_sums_members *m = &job->exchange.sums.over_hosts;
    const struct sw_host_offer *o = job->hosts.collective.offer;

    *m = (struct sw_sums_members){.id = o[0].id};
    for (int i = 0; i < job->topology->hosts; i++) {
        m->first += i < job->topology->host ? o[i].devices : 0;
        m->all += o[i].devices;
    }
}

/* Buckets become ready at times that depend on the rows of a host: the order is that of host 0. */
static int agree_on_order(struct sw_job *job, struct sw_err *err)
{
    const struct sw_job_collective *c = &job->hosts.collective;

    return job->topology->host == 0
               ? tell(job, SW_HOST_ORDER, c->order, (size_t)c->count * sizeof *c->order, err)
               : await(job, 0, true, err);
}

int sw_job_collective_agree(struct sw_job *job, struct sw_err *err)
{
    struct sw_job_collective *c = &job->hosts.collective;
    const int hosts = job->topology->hosts, own = job->topology->host;
    const uint64_t others = (UINT64_MAX >> (64 - hosts)) & ~((uint64_t)1 << own);
    struct sw_err why;

    if (job->topology->update_hosts == 1)
        return SW_OK; /* asynchronous hosts make updates of their own */

    int rc = own == 0 ? SW_OK : await(job, 1, false, err);
    if (rc == SW_OK)
        rc = make_offer(job, &c->offer[own], err);
    if (rc == SW_OK)
        rc = tell(job, SW_HOST_OFFER, &c->offer[own], sizeof c->offer[own], err);
    if (rc == SW_OK)
        rc = await(job, others, false, err);
    if (rc != SW_OK)
        return rc;

    c->wanted = any_library(job);
    if (judge(job, &why) == SW_OK) {
        join(job);
        sw_job_hosts_keep_devices(job);
        return agree_on_order(job, err);
    }

    if (c->wanted)
        sw_reduce_through_hosts(&job->exchange, why.text);
    sw_table_reduce_on_servers(job->params.table);
    return SW_OK;
}

/* Would this host use a library that it has, or lacks, if it could? */
static bool is_refused(const struct sw_job *job)
{
    struct sw_err ignored;

    return *job->exchange.sums.refusal &&
           sw_reduce_may_cross_hosts(&job->exchange, &ignored) == SW_OK;
}

void sw_job_collective_report(struct sw_job *job)
{
    const struct sw_sums *d = &job->exchange.sums;

    if (!job->hosts.collective.wanted && !is_refused(job))
        return;

    /* Host 0 prints the warnings of the others, too. */
    const bool fine = sw_reduces(&job->exchange) && d->library->secure;
    sw_events_report(&job->events, fine || job->topology->host > 0 ? SW_LOG_INFO : SW_LOG_WARN,
                     "hosts", "gradients are summed by %s", d->why);
}

/* ---- Life ---- */

void sw_job_collective_init(struct sw_job *job, struct sw_fabric_router *router)
{
    struct sw_job_collective *c = &job->hosts.collective;

    *c = (struct sw_job_collective){.order = job->exchange.sums.order,
                                    .count = job->exchange.sums.count};
    sw_mutex_init(&c->lock);
    sw_cond_init(&c->changed);
    sw_fabric_router_add(router, SW_HOST_OFFER, SW_HOST_ORDER - SW_HOST_OFFER + 1,
                         (struct sw_fabric_sink){.place = place, .arrived = arrived, .user = c});
}

void sw_job_collective_fini(struct sw_job *job)
{
    sw_cond_fini(&job->hosts.collective.changed);
    sw_mutex_fini(&job->hosts.collective.lock);
}
