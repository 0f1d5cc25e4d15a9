/* A worker's end of the exchange: creation, and the calls of a step in their order. Differences
 * between parameters are in their routes (route.h), differences between ways to control updates in
 * the update controller (exchange_private.h). wait_for is the only loop that waits; it runs the
 * servers that this worker hosts meanwhile. By the worker's thread. */
#include "exchange/exchange.h"

#include "base/os.h"
#include "device/op.h"
#include "exchange/exchange_private.h"
#include "kernels/ops/clock.h"
#include <stdio.h>

enum { WAIT_MS = 1000, SERVE_MS = 1 };

/* ---- Life ---- */

static const struct sw_update_controller *choose_control(const struct sw_exchange_args *a)
{
    static const struct sw_update_controller *const controls[] = {
        &sw_control_whole, &sw_control_each, &sw_control_host, &sw_control_device};
    int i = 0;

    while (!controls[i]->takes(a))
        i++;
    return controls[i];
}

int sw_exchange_new(const struct sw_exchange_args *args, struct sw_exchange **out,
                    struct sw_err *err)
{
    struct sw_exchange *x = sw_calloc(1, sizeof *x);
    if (!x)
        return sw_err_nomem(err, "a worker's exchange", sizeof *x);

    x->args = *args;
    x->start = x->last_step = SW_NEVER;
    x->control = choose_control(args);
    x->keeps_values = sw_exchange_updates(args);

    int rc = x->control->attach ? x->control->attach(x, err) : SW_OK;
    if (rc != SW_OK)
        goto out;
    rc = sw_ports_make(x, err);
    if (rc == SW_OK && args->whole_steps)
        rc = sw_event_new(args->device, &x->updated, err);
    if (rc != SW_OK)
        goto out;

    if (args->own_memory)
        sw_table_pin(args->table, args->device, true);
    *out = x;
    return SW_OK;

out:
    sw_exchange_free(x);
    return rc;
}

void sw_exchange_free(struct sw_exchange *x)
{
    if (!x)
        return;

    sw_ports_free(x);
    sw_event_free(x->args.device, x->updated);
    if (x->args.own_memory)
        sw_table_pin(x->args.table, x->args.device, false);
    if (x->control->detach)
        x->control->detach(x);
    sw_device_report_free(x);
    sw_free(x);
}

void sw_exchange_set_rows(struct sw_exchange *x, int64_t first, int64_t rows)
{
    x->first_row = first;
    x->rows = rows;
}

void sw_exchange_refresh(struct sw_exchange *x)
{
    for (int i = 0; i < x->count; i++) {
        struct sw_port *p = &x->ports[i];

        if (p->route->fetch && !p->route->updates_on_device)
            p->fetched = SW_NEVER;
        if (p->route->refresh)
            p->route->refresh(p);
    }
}

void sw_exchange_bind(const struct sw_exchange *x, int param, struct sw_exchange_binding *out)
{
    const struct sw_port *p = sw_exchange_port(x, param);

    *out = (struct sw_exchange_binding){
        .value = p->at.value, .partials = sw_table_partials(x->args.table, x->args.worker)};

    if (p->route->bind)
        p->route->bind(p, out);
    else
        for (int k = 0; k < out->partials; k++)
            out->partial[k] = sw_port_partial(p, k);
}

/* ---- Waiting ---- */

static void charge(const struct sw_exchange *x, enum sw_exchange_time part)
{
    x->args.hooks.charge(x->args.hooks.user, part);
}

/* The target of a wait: what the pull of a port needs, or its route's wait for all update groups;
 * or a version in the table. */
struct awaited {
    const struct sw_port *port; /* NULL: */
    int group, param;           /* the version of a parameter, of an update group or SW_TABLE_ALL */
    bool all;
};

static int wait_or_check(const struct sw_exchange *x, const struct awaited *what, uint64_t version,
                         int timeout_ms)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;
    const struct sw_port *p = what->port;

    if (p && what->all)
        return p->route->wait_all(p, version, timeout_ms);
    if (p)
        return p->route->wait ? p->route->wait(p, version, timeout_ms) : SW_OK;
    if (sw_table_ready(x->args.table, what->group, what->param, version))
        return SW_OK;
    if (timeout_ms == 0)
        return SW_ERR_BUSY;

    return sw_table_wait(x->args.table, what->group, what->param, version, h->served,
                         h->served_count, timeout_ms);
}

static void notify_waiting(const struct sw_exchange *x, int param, bool collective,
                           uint64_t version)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;
    char text[160];

    if (collective) {
        h->waiting(h->user, -1, version, "the gradients of the other workers");
        return;
    }

    snprintf(text, sizeof text, "version %llu of %s", (unsigned long long)version,
             sw_table_param(x->args.table, param)->name);
    h->waiting(h->user, param, version, text);
}

/* The only loop that waits. The target may depend on servers that this worker runs, so it serves
 * meanwhile; where a message to them does not end the wait, it polls their inboxes in between. */
static int wait_for(struct sw_exchange *x, const struct awaited *what, uint64_t version,
                    struct sw_err *err)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;
    bool collective = what->port && what->port->route->is_collective;

    int rc = wait_or_check(x, what, version, 0);
    if (rc == SW_OK)
        return rc;

    charge(x, SW_EXCHANGE_IDLE);
    notify_waiting(x, what->param, collective, version);

    while (rc == SW_ERR_BUSY) {
        rc = h->serve(h->user, err);
        charge(x, SW_EXCHANGE_UPDATE);
        if (rc != SW_OK)
            break;

        rc = wait_or_check(x, what, version, 0);
        if (rc != SW_ERR_BUSY)
            break;

        rc =
            wait_or_check(x, what, version, collective && h->served_count > 0 ? SERVE_MS : WAIT_MS);
        charge(x, SW_EXCHANGE_EXPOSED);

        /* A failed copy never notifies its server: its error is found here. */
        if (rc == SW_ERR_BUSY && x->queue && sw_copy_queue_check(x->queue, err) != SW_OK)
            rc = err->code;
    }

    h->waiting(h->user, -1, version, NULL);
    return rc == SW_ERR_CANCELLED ? sw_err_set(err, rc, "the job is ending") : rc;
}

int sw_exchange_wait_table(struct sw_exchange *x, int group, int param, uint64_t version,
                           struct sw_err *err)
{
    const struct awaited what = {.group = group, .param = param};

    return wait_for(x, &what, version, err);
}

int sw_exchange_wait_params(struct sw_exchange *x, int group, uint64_t version, struct sw_err *err)
{
    for (int p = 0; p < sw_table_count(x->args.table); p++) {
        int rc = sw_exchange_wait_table(x, group, p, version, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_exchange_wait_all(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;

    for (int p = 0; p < sw_table_count(x->args.table) && rc == SW_OK; p++) {
        const struct sw_port *port = x->port_of[p] < 0 ? NULL : sw_exchange_port(x, p);
        const struct awaited what = {.port = port, .param = p, .all = true};

        rc = port && port->route->wait_all
                 ? wait_for(x, &what, version, err)
                 : sw_exchange_wait_table(x, SW_TABLE_ALL, p, version, err);
    }

    return rc;
}

int sw_exchange_wait_own(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    return x->control->wait_own ? x->control->wait_own(x, version, err) : SW_OK;
}

/* ---- Pull ---- */

int sw_exchange_pull_port(struct sw_exchange *x, struct sw_port *p, uint64_t version,
                          struct sw_err *err)
{
    const struct awaited what = {.port = p, .param = p->param};
    const struct sw_route *route = p->route;

    int rc = wait_for(x, &what, version, err);
    if (rc != SW_OK)
        return rc;

    if (route->updates_on_device)
        rc = sw_device_update_load(p, version, err);
    if (rc != SW_OK || (route->updates_on_device && p->version >= (int64_t)version))
        return rc;

    rc = route->pull ? route->pull(p, version, err) : SW_OK;
    if (rc != SW_OK || !route->updates_on_device || x->control->two_phase ||
        p->version >= (int64_t)version)
        return rc;

    return sw_device_update(p, version, err);
}

int sw_exchange_pull(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err)
{
    const struct sw_table *t = x->args.table;
    int group = sw_table_update_group(t, x->args.worker);

    for (int i = 0; i < list.count; i++) {
        struct sw_port *p = sw_exchange_port(x, list.param[i]);
        int rc = sw_exchange_pull_port(x, p, version, err);
        if (rc != SW_OK)
            return rc;

        int64_t lag =
            p->route->lag ? p->route->lag(p) : sw_table_staleness(t, group, list.param[i], version);
        x->lag = lag > x->lag ? lag : x->lag;
    }

    /* The time of checking values is not charged to the following pass, even if nothing was waited
     * for. */
    if (list.count > 0)
        charge(x, SW_EXCHANGE_IDLE);
    return SW_OK;
}

int64_t sw_exchange_lag(const struct sw_exchange *x)
{
    return x->lag;
}

/* ---- Push ---- */

/* With `copy = sync`: waits for the gradient, its copy, the update, and the copy of the new value.
 * In two phases the update can only be waited for at the end of the step. */
static int push_and_wait(struct sw_exchange *x, struct sw_port *p, uint64_t version,
                         struct sw_err *err)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;

    int rc = x->args.own_memory ? h->finish(h->user, false, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = p->route->push(p, version, err);
    if (rc != SW_OK)
        return rc;

    if (x->args.own_memory)
        charge(x, SW_EXCHANGE_EXPOSED);
    if (rc != SW_OK || x->control->two_phase)
        return rc;

    rc = sw_exchange_pull_port(x, p, version, err);
    if (rc != SW_OK)
        return rc;

    if (x->args.own_memory)
        charge(x, SW_EXCHANGE_EXPOSED);
    return SW_OK;
}

int sw_exchange_push(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err)
{
    bool sync = x->args.copy == SW_COPY_SYNC;

    for (int i = 0; i < list.count; i++) {
        struct sw_port *p = sw_exchange_port(x, list.param[i]);
        int rc = sync ? push_and_wait(x, p, version, err) : p->route->push(p, version, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

bool sw_exchange_needs_host(const struct sw_exchange *x, int param)
{
    return !sw_exchange_port(x, param)->route->device_only;
}

int sw_exchange_bucket(const struct sw_exchange *x, int param)
{
    const struct sw_port *p = sw_exchange_port(x, param);

    return p->route->bucket ? p->route->bucket(p) : -1;
}

/* ---- The step's begin and end ---- */

int sw_exchange_begin(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err)
{
    x->lag = 0;
    x->report.turn ^= 1;
    return x->control->begin(x, version, scale, err);
}

bool sw_exchange_queues_updates(const struct sw_exchange *x)
{
    return x->control->is_queued && x->control->is_queued(x);
}

int sw_exchange_queue_updates(struct sw_exchange *x, struct sw_err *err)
{
    return x->control->queue(x, err);
}

int sw_exchange_end(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    return x->control->end ? x->control->end(x, version, err) : SW_OK;
}

int sw_exchange_finish(struct sw_exchange *x, uint64_t version, int behind, struct sw_err *err)
{
    return x->control->finish ? x->control->finish(x, version, behind, err) : SW_OK;
}

int sw_exchange_depth(const struct sw_exchange *x)
{
    if (!x->args.own_memory || (x->control->waits && x->control->waits(x)))
        return 1;

    for (int i = 0; i < x->count; i++)
        if (!x->ports[i].route->device_only && !x->ports[i].route->is_collective)
            return 1;

    return 2;
}

bool sw_exchange_updates_at_end(const struct sw_exchange *x)
{
    return x->control->at_end;
}

bool sw_exchange_keeps_values(const struct sw_exchange *x)
{
    return x->keeps_values;
}

/* ---- Whole steps ---- */

/* An abort of the library ends sums without an error of the stream, so that is asked for last. */
static int verify_sums(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;

    int rc = h->finish(h->user, false, err);
    if (rc != SW_OK)
        return rc;

    return sw_allreduce_verify(x->args.sums->all_reduce, err);
}

int sw_exchange_gather(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    for (int i = 0; i < x->count; i++) {
        int rc = sw_exchange_pull_port(x, &x->ports[i], version, err);
        if (rc != SW_OK)
            return rc;
    }

    return x->args.whole_steps ? verify_sums(x, err) : SW_OK;
}

void sw_exchange_begin_updates(struct sw_exchange *x)
{
    x->torn = true;
}

int sw_exchange_end_updates(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    for (int i = 0; i < x->count; i++)
        if (x->ports[i].route->updates_on_device)
            x->ports[i].version = (int64_t)version;

    int rc = x->updated ? sw_event_record(x->args.stream, x->updated, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    x->last_step = (int64_t)version;
    x->torn = false;
    return SW_OK;
}

int64_t sw_exchange_last_step(const struct sw_exchange *x)
{
    return x->torn ? SW_NEVER : x->last_step;
}

int sw_exchange_rescue(struct sw_exchange *x, struct sw_stream *stream, struct sw_err *err)
{
    struct sw_stream *own = x->args.stream;

    if (x->torn || x->last_step == SW_NEVER)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s has no complete step", x->args.device->name);

    int rc = sw_event_host_wait(x->args.device, x->updated, err);
    if (rc != SW_OK)
        return rc;

    x->args.stream = stream;
    rc = sw_exchange_sync_to_host(x, (uint64_t)x->last_step, true, err);
    x->args.stream = own;
    return rc == SW_OK ? sw_exchange_finish(x, (uint64_t)x->last_step, 0, err) : rc;
}

/* ---- What the device reports ---- */

int sw_exchange_mark(struct sw_exchange *x, enum sw_mark mark, struct sw_err *err)
{
    if (!x->report.marks)
        return SW_OK;
    const struct sw_clock_args a = {.ns = x->report.marks + mark};
    return sw_op_run(x->args.stream, &sw_op_clock, &a, err);
}

int sw_exchange_queue_report(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_device_report *r = &x->report;

    if (!r->marks)
        return SW_OK;

    for (int i = 0; i < x->count; i++)
        r->versions[r->turn * x->count + i] = x->ports[i].version;

    return sw_copy(x->args.stream, sw_device_report_on_host(r, r->marks, 0), r->marks, r->ask_bytes,
                   err);
}

const int64_t *sw_exchange_marks(const struct sw_exchange *x, int behind)
{
    const struct sw_device_report *r = &x->report;

    return r->marks ? sw_device_report_on_host(r, r->marks, behind) : NULL;
}

int sw_exchange_check_finite(const struct sw_exchange *x, int behind, struct sw_err *err)
{
    const struct sw_device_report *r = &x->report;

    if (!r->bad)
        return SW_OK;

    const bool *bad = sw_device_report_on_host(r, r->bad, behind);
    const int64_t *version = r->versions + (r->turn ^ behind) * x->count;

    for (int i = 0; i < x->count; i++)
        if (bad[x->ports[i].place])
            return sw_table_report_nonfinite(x->args.table, x->ports[i].param, (uint64_t)version[i],
                                             err);

    return SW_OK;
}

int64_t sw_exchange_copied_ns(const struct sw_exchange *x, enum sw_copy_direction d)
{
    return x->queue ? sw_copy_queue_busy_ns(x->queue, d) : 0;
}

int sw_exchange_copies_in_flight(const struct sw_exchange *x)
{
    return x && x->queue ? sw_copy_queue_in_flight(x->queue, SW_COPY_TO_HOST) : 0;
}
