/* Chooses the reducer of the gradients of several devices: servers, or an all-reduce of the devices
 * by their library or by copies over sound peer links; and partitions gradients into buckets. */
#include "base/os.h"
#include "device/driver.h"
#include "plan/choices.h"
#include "plan/peer_links.h"
#include "plan/usual_rates.h"
#include "thread/fault.h"
#include <stdio.h>
#include <string.h>

_Static_assert(SW_ALLREDUCE_RANKS == 16, "sw_reduce_why_servers says so");
enum {
    ALIGN = 16, /* elements */
    TOGETHER_MS = 60000,
    /* The loss of a host may be an error of the library before the fabric names the host. */
    LOSS_MS = 8000,
};

/* ---- Servers or devices ---- */

const char *sw_reduce_why_servers(const struct sw_topology *t)
{
    return !t->binds_servers  ? "servers that are not bound to workers reduce gradients"
           : t->is_async      ? "asynchronous groups update values on the host"
           : t->splits_layers ? "servers reduce gradients across groups that split layers"
           : t->workers > SW_ALLREDUCE_RANKS ? "servers reduce gradients of more than 16 devices"
                                             : NULL;
}

/* Can devices reduce? A single device does with those of other hosts, or with library requested,
 * which then runs as for several. */
static bool has_sums(const struct sw_exchange_plan *p, enum sw_all_reduce requested)
{
    const struct sw_topology *t = p->args.topology;
    int fewest = requested == SW_ALL_REDUCE_LIBRARY || t->hosts > 1 ? 1 : 2;

    return sw_devices_update(p) && t->workers >= fewest && !sw_reduce_why_servers(t);
}

/* A device with two workers, or NULL: a library needs one device per member. */
static const char *shared_device(const struct sw_exchange_plan *p)
{
    for (int i = 0; i < p->args.topology->workers; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(p->devices[i]->name, p->devices[k]->name) == 0)
                return p->devices[i]->name;

    return NULL;
}

/* ---- Peer links ---- */

/* Lists the distinct devices of workers: out gets their numbers, place the position of each
 * worker's device; returns the count. */
static int list_devices(const struct sw_exchange_plan *p, int *out, int *place)
{
    int count = 0;

    for (int i = 0; i < p->args.topology->workers; i++) {
        int k = 0;

        while (k < count && out[k] != p->devices[i]->index)
            k++;
        out[k] = p->devices[i]->index;
        count += k == count;
        place[i] = k;
    }

    return count;
}

/* Warns about every faulty link at each start. */
static void warn(const struct sw_exchange_plan *p)
{
    const struct sw_peer_links *w = p->peer_links;

    for (int i = 0; i < w->count * w->count; i++)
        if (w->direct[i].state >= SW_PEER_LINK_DAMAGED)
            sw_log_write(p->args.log, SW_LOG_WARN, "devices",
                         "direct copies from %s to %s are not sound (%s): they go through the "
                         "host; run doctor to test them again",
                         w->name[i / w->count], w->name[i % w->count], w->direct[i].why);
}

static int enable_peer_access(const struct sw_exchange_plan *p, const int *place,
                              struct sw_err *err)
{
    int workers = p->args.topology->workers, rc = SW_OK;

    for (int i = 0; i < workers && rc == SW_OK; i++)
        for (int k = 0; k < workers && rc == SW_OK; k++)
            if (place[i] != place[k] && sw_peer_links_reach(p->peer_links, place[i], place[k]))
                rc = sw_device_reach(p->devices[i], p->devices[k], err);

    return rc;
}

static int find_links(struct sw_exchange_plan *p, bool sums, bool saved_only, struct sw_err *err)
{
    int indices[SW_ALLREDUCE_RANKS], place[SW_ALLREDUCE_RANKS];
    struct sw_peer_links_args args = {.driver = p->args.request->driver,
                                      .options = p->args.request->options,
                                      .machine = p->args.machine,
                                      .indices = indices,
                                      .count = list_devices(p, indices, place),
                                      .sums = sums,
                                      .saved_only = saved_only};

    if (args.count < 2 && !sums)
        return SW_OK;

    int rc = sw_peer_links_find(&args, &p->peer_links, err);
    if (rc != SW_OK || saved_only)
        return rc;

    warn(p);
    return enable_peer_access(p, place, err);
}

/* ---- Library or copies ---- */

/* Finds the all-reduce library of the devices. Errors say why none can be used. */
static int find_library(struct sw_exchange_plan *p, struct sw_err *err)
{
    const char *shared = shared_device(p);

    if (p->cluster->bandwidth > 0 && p->args.topology->workers * p->args.topology->hosts > 1)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "cluster.bandwidth limits what devices send, which a library does not "
                          "heed");
    if (shared)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "several workers share %s", shared);
    return sw_device_collectives(p->devices[0], &p->sums.library, err);
}

/* Checks the tested all-reduce of the library. */
static int check_library(const struct sw_peer_link *sum, bool saved_only, struct sw_err *err)
{
    if (sum->state == SW_PEER_LINK_SOUND || (saved_only && sum->state == SW_PEER_LINK_UNKNOWN))
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "its all-reduce is not sound: %s", sum->why);
}

/* Describes how copies go: direct or through the host, all or some, or untested. */
static void describe_copies(const struct sw_peer_links *w, char *out, size_t bytes)
{
    int direct = 0, staged = 0, unknown = 0;

    for (int a = 0; w && a < w->count; a++)
        for (int b = 0; b < a; b++) {
            bool reach = sw_peer_links_reach(w, a, b);
            direct += reach;
            staged += !reach;
            unknown += sw_peer_links_direct(w, a, b)->state == SW_PEER_LINK_UNKNOWN;
        }

    const struct sw_peer_link *bad = w ? sw_peer_links_worst(w) : NULL;
    const char *how = !w            ? "on one device"
                      : unknown > 0 ? "not verified"
                      : staged == 0 ? "direct, verified"
                      : direct == 0 ? "through the host"
                                    : "some direct, some through the host";

    snprintf(out, bytes, "%s%s%.100s", how, bad ? ": " : "", bad ? bad->why : "");
}

/* A faulty link through the host: no other path exists. NULL: none. */
static const struct sw_peer_link *faulty_staged_link(const struct sw_peer_links *w)
{
    for (int i = 0; w && i < w->count * w->count; i++)
        if (w->staged[i].state >= SW_PEER_LINK_DAMAGED)
            return &w->staged[i];
    return NULL;
}

static void use_library(struct sw_exchange_plan *p)
{
    struct sw_sums *d = &p->sums;
    const int hosts = p->args.topology->hosts;
    char name[160], over[64] = "";

    if (hosts > 1)
        snprintf(over, sizeof over, " over the devices of %d hosts", hosts);

    d->reducer = SW_REDUCER_LIBRARY;
    snprintf(d->why, sizeof d->why,
             "%s%s, in its own summation order, which depends on the number of devices%s",
             d->library->name(name, sizeof name), over,
             hosts > 1 && !d->library->secure
                 ? "; it neither encrypts nor authenticates (network = trusted)"
                 : "");
}

/* Chooses copies between devices, or servers if these are not sound. no_library: why no library is
 * used, "" if none was requested. */
static void use_copies(struct sw_exchange_plan *p, const char *no_library)
{
    struct sw_sums *d = &p->sums;
    const struct sw_peer_link *bad = faulty_staged_link(p->peer_links);
    char how[160];

    if (bad) {
        snprintf(d->why, sizeof d->why, "servers, because copies between devices are not sound: %s",
                 bad->why);

        if (p->cluster->copy == SW_COPY_AUTO) { /* `none` has no advantage any more */
            p->copy = SW_COPY_ASYNC;
            snprintf(p->copy_why, sizeof p->copy_why, "copies between devices are not sound");
        }

        return;
    }

    d->reducer = SW_REDUCER_COPIES;
    describe_copies(p->peer_links, how, sizeof how);
    snprintf(d->why, sizeof d->why,
             "copies between devices (%.140s), in the summation order of servers%s%.90s", how,
             *no_library ? "; no library: " : "", no_library);
}

/* Chooses the library if it is requested and usable. */
static int choose(struct sw_exchange_plan *p, enum sw_all_reduce requested, bool saved_only,
                  struct sw_err *err)
{
    struct sw_err why = {.code = SW_OK};
    bool wanted = requested == SW_ALL_REDUCE_LIBRARY ||
                  (requested == SW_ALL_REDUCE_AUTO && p->args.request->driver->caps.own_processor);
    int library = wanted ? find_library(p, &why) : SW_ERR_UNSUPPORTED;

    int rc = find_links(p, library == SW_OK, saved_only, err);
    if (rc != SW_OK)
        return rc;

    if (library == SW_OK)
        library = check_library(&p->peer_links->sum, saved_only, &why);
    if (library != SW_OK && requested == SW_ALL_REDUCE_LIBRARY)
        return sw_err_set(err, library, "all_reduce = library: %s; try all_reduce = copies",
                          why.text);

    if (library == SW_OK)
        use_library(p);
    else
        use_copies(p, why.text);

    return SW_OK;
}

/* On several hosts: the library, or servers and sums in host memory. */
static int choose_over_hosts(struct sw_exchange_plan *p, bool saved_only, struct sw_err *err)
{
    struct sw_err why = {.code = SW_OK};

    int library = sw_reduce_may_cross_hosts(p, &why);
    if (library == SW_OK)
        library = find_library(p, &why);
    if (library == SW_OK)
        library = sw_reduce_check_network(p, &why);

    int rc = library == SW_OK ? find_links(p, true, saved_only, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (library == SW_OK)
        library = check_library(&p->peer_links->sum, saved_only, &why);
    if (library == SW_OK) {
        use_library(p);
        return SW_OK;
    }

    sw_reduce_through_hosts(p, why.text);
    if (p->cluster->copy == SW_COPY_AUTO && p->args.topology->workers > 1) {
        p->copy = SW_COPY_ASYNC;
        snprintf(p->copy_why, sizeof p->copy_why, "servers sum the gradients of hosts");
    }

    return SW_OK;
}

int sw_reduce_choose(struct sw_exchange_plan *p, bool saved_only, struct sw_err *err)
{
    enum sw_all_reduce requested = (enum sw_all_reduce)p->cluster->all_reduce;
    if (!has_sums(p, requested))
        return SW_OK;
    if (!p->args.conf->repeat_exact)
        return p->args.topology->hosts > 1 ? choose_over_hosts(p, saved_only, err)
                                           : choose(p, requested, saved_only, err);

    snprintf(p->sums.why, sizeof p->sums.why,
             "servers, in one order for any number of devices (repeat_exact)");
    return SW_OK;
}

/* ---- Buckets ---- */

static int64_t elements_of(const struct sw_param *p)
{
    return (sw_desc_storage(&p->layout) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Lists gradients in the order in which the first worker completes them; listed gets their table
 * indices. Returns the count. A tied parameter's gradient is complete only after its root's
 * backward. */
static int list_items(const struct sw_table *table, const struct sw_net *net, const int *params,
                      double flops_per_s, struct sw_bucket_item *items, int *listed)
{
    double ready_s = 0;
    int n = 0;

    for (int i = sw_net_layer_count(net) - 1; i >= 0; i--) {
        int first, count = sw_net_layer_params(net, i, &first);

        if (sw_net_has_backward(net, i))
            ready_s += sw_net_layer(net, i)->flops_backward / flops_per_s;

        for (int q = first; q < first + count; q++) {
            if (sw_net_param(net, q)->root >= 0 ||
                sw_table_reduction(table, params[q]) != SW_REDUCTION_DEVICES)
                continue;

            listed[n] = params[q];
            items[n++] =
                (struct sw_bucket_item){elements_of(sw_table_param(table, params[q])), i, ready_s};
        }
    }

    return n;
}

static int allocate_buckets(struct sw_sums *d, int params, struct sw_err *err)
{
    size_t n = (size_t)params + 1;

    d->buckets = sw_calloc(n, sizeof *d->buckets);
    d->elements = sw_calloc(n, sizeof *d->elements);
    d->order = sw_calloc(n, sizeof *d->order);
    d->bucket_of = sw_calloc(n, sizeof *d->bucket_of);
    d->at_of = sw_calloc(n, sizeof *d->at_of);

    for (int p = 0; d->bucket_of && p < params; p++)
        d->bucket_of[p] = -1;

    return d->buckets && d->elements && d->order && d->bucket_of && d->at_of
               ? SW_OK
               : sw_err_nomem(err, "buckets of gradients", n * sizeof *d->buckets);
}

static void set_offsets(struct sw_sums *d, const struct sw_bucket_item *items, const int *params,
                        double link_bytes_per_s)
{
    for (int b = 0; b < d->count; b++) {
        int64_t at = 0;

        d->elements[b] = d->buckets[b].elements;
        for (int i = d->buckets[b].first; i < d->buckets[b].first + d->buckets[b].count; i++) {
            d->bucket_of[params[i]] = b;
            d->at_of[params[i]] = at;
            at += items[i].elements;
        }
    }

    sw_buckets_order(d->buckets, d->count, link_bytes_per_s, d->order);
}

int sw_reduce_plan(struct sw_exchange_plan *p, const struct sw_net *net, const int *params,
                   struct sw_err *err)
{
    struct sw_sums *d = &p->sums;
    int most = sw_table_count(p->table);

    if (!sw_reduces(p))
        return SW_OK;

    d->first_ms = TOGETHER_MS;

    struct sw_bucket_item *items = sw_calloc((size_t)most + 1, sizeof *items);
    int *list = sw_calloc((size_t)most + 1, sizeof *list);

    int rc = items && list ? allocate_buckets(d, most, err)
                           : sw_err_nomem(err, "buckets of gradients", sizeof *items);
    if (rc == SW_OK) {
        const struct sw_throughputs usual =
            sw_usual_throughputs(&p->args.request->driver->caps, 1, 0);
        int count = list_items(p->table, net, params, usual.worker_flops_per_s, items, list);
        d->count = sw_buckets_split(items, count, p->cluster->bucket_size, d->buckets);
        set_offsets(d, items, list, usual.link_bytes_per_s);
    }

    sw_free(items);
    sw_free(list);
    return rc;
}

size_t sw_reduce_bytes(const struct sw_exchange_plan *p)
{
    const struct sw_sums *d = &p->sums;
    return d->count ? sw_allreduce_bytes(d->elements, d->count, p->args.topology->workers,
                                         d->reducer == SW_REDUCER_LIBRARY)
                    : 0;
}

static bool is_ending(void *fault)
{
    return sw_fault_is_set(fault);
}

static void abort_v(void *members)
{
    sw_collective_abort(members);
}

static int open_members(struct sw_exchange_plan *p, struct sw_err *err)
{
    struct sw_sums *d = &p->sums;
    const struct sw_sums_members *m = &d->over_hosts;
    const struct sw_collective_args args = {.devices = p->devices,
                                            .ranks = p->args.topology->workers,
                                            .members = m->all,
                                            .first = m->first,
                                            .id = m->all ? &m->id : NULL,
                                            .timeout_ms = d->first_ms,
                                            .cancelled = is_ending,
                                            .user = p->args.fault};

    int rc = sw_collective_open(d->library, &args, &d->members, err);
    return rc == SW_OK ? sw_fault_attach(p->args.fault, abort_v, d->members, err) : rc;
}

static int make(struct sw_exchange_plan *p, struct sw_err *err)
{
    struct sw_sums *d = &p->sums;

    int rc = d->reducer == SW_REDUCER_LIBRARY ? open_members(p, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    const struct sw_allreduce_args args = {.devices = p->devices,
                                           .ranks = p->args.topology->workers,
                                           .library = d->members,
                                           .elements = d->elements,
                                           .order = d->order,
                                           .buckets = d->count,
                                           .first_ms = d->first_ms,
                                           .loss_ms = d->over_hosts.all ? LOSS_MS : 0};
    rc = sw_allreduce_new(&args, &d->all_reduce, err);
    if (rc == SW_OK)
        rc = sw_fault_attach(p->args.fault, sw_allreduce_close_v, d->all_reduce, err);
    if (rc == SW_OK && d->members) /* which closes, and then aborts */
        sw_fault_detach(p->args.fault, d->members);
    return rc;
}

/* Errors of the library may come before the fault that they are the consequence of. */
static bool await_fault(const struct sw_exchange_plan *p)
{
    enum { NAP_MS = 50 };

    for (int ms = 0; p->sums.over_hosts.all && ms < LOSS_MS; ms += NAP_MS) {
        if (sw_fault_is_set(p->args.fault))
            break;
        sw_thread_nap((int64_t)NAP_MS * 1000000);
    }

    return sw_fault_is_set(p->args.fault);
}

int sw_reduce_make(struct sw_exchange_plan *p, struct sw_err *err)
{
    int rc = p->sums.count > 0 ? make(p, err) : SW_OK;
    return rc != SW_OK && await_fault(p) ? sw_fault_get(p->args.fault, err) : rc;
}

bool sw_reduce_hangs(const struct sw_sums *d)
{
    return d->members && d->members->hanging;
}

bool sw_reduce_ends(const struct sw_sums *d, int timeout_ms)
{
    return !d->members || sw_collective_abort_ends(d->members, timeout_ms);
}

void sw_reduce_check(struct sw_exchange_plan *p)
{
    struct sw_err err;
    if (p->sums.all_reduce && sw_allreduce_check(p->sums.all_reduce, &err) != SW_OK)
        sw_fault_set(p->args.fault, "all-reduce", &err);
}
