/* Copies between a device and the table: partial sums of gradients to the host, values or sums to
 * the device. They run on the worker's copy queue, ordered with the compute stream by events, while
 * the device computes; the most urgent, of the lowest layers, first. */
#include "exchange/exchange_private.h"

int sw_partials_of_port(const struct sw_route_query *q)
{
    return sw_table_partials(q->table, q->worker);
}

int sw_copies_of_port(const struct sw_route_query *q)
{
    return 1 + sw_table_partials(q->table, q->worker);
}

int sw_wait_for_table(const struct sw_port *p, uint64_t version, int timeout_ms)
{
    const struct sw_exchange_args *a = &p->x->args;
    int group = sw_table_update_group(a->table, a->worker);

    if (sw_table_ready(a->table, group, p->param, version))
        return SW_OK;
    if (timeout_ms == 0)
        return SW_ERR_BUSY;

    return sw_table_wait(a->table, group, p->param, version, a->hooks.served, a->hooks.served_count,
                         timeout_ms);
}

int sw_copies_settle(struct sw_exchange *x, struct sw_err *err)
{
    return x->args.copy == SW_COPY_SYNC ? sw_copy_queue_wait(x->queue, err) : SW_OK;
}

/* ---- To the host ---- */

/* Runs on a thread of the device when a partial sum has reached the host; the last one completes
 * the gradient. The caller that met a failed copy reports its error to the worker. */
static void on_pushed(void *user, int rc)
{
    struct sw_port *p = user;
    const struct sw_exchange_args *a = &p->x->args;
    struct sw_err err;

    /* Acquires the bytes that other copy threads wrote. */
    if (rc != SW_OK || __atomic_sub_fetch(&p->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    rc = sw_table_update(a->table, a->worker, p->param, p->sending, &err);
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_fault_set(a->fault, a->role, &err);
}

int sw_push_partials(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    int partials = sw_table_partials(a->table, a->worker);

    int rc = sw_event_record(a->stream, p->made, err);
    if (rc != SW_OK)
        return rc;

    p->sending = version;
    __atomic_store_n(&p->missing, partials, __ATOMIC_RELAXED);

    for (int k = 0; k < partials; k++) {
        const struct sw_copy_event e = {
            .direction = SW_COPY_TO_HOST,
            .dst = sw_table_partial(a->table, a->worker, p->param, k).gradient,
            .src = sw_port_partial(p, k),
            .bytes = p->bytes,
            .priority = p->priority,
            .after = p->made,
            .then = p->sent,
            .done = on_pushed,
            .user = p};

        rc = sw_copy_queue_push(p->x->queue, &e, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_copy_queue_drain(p->x->queue, err);
    if (rc != SW_OK)
        return rc;

    return sw_copies_settle(p->x, err);
}

/* ---- To the device ---- */

/* Starts the copy of a version that the table has and that was not yet sent to the device. */
static int start_fetch(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    struct sw_copy_event e = {.direction = SW_COPY_TO_DEVICE,
                              .bytes = p->bytes,
                              .priority = p->priority,
                              .then = p->arrived};

    if (p->fetched >= (int64_t)version || sw_wait_for_table(p, version, 0) != SW_OK)
        return SW_OK;

    p->route->fetch(p, &e);

    int rc = sw_copy_queue_push(p->x->queue, &e, err);
    if (rc != SW_OK)
        return rc;

    p->fetched = (int64_t)version;
    return SW_OK;
}

/* A sum is fetched only if the device has a value, and that value is older than `version`. */
static bool may_fetch(const struct sw_port *p, uint64_t version)
{
    if (!p->route->fetch)
        return false;
    return !p->route->updates_on_device ||
           (p->version != SW_NEVER && p->version < (int64_t)version);
}

static int fetch_all(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    int rc;

    for (int i = 0; i < x->count; i++) {
        rc = may_fetch(&x->ports[i], version) ? start_fetch(&x->ports[i], version, err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_copy_queue_drain(x->queue, err);
    if (rc != SW_OK)
        return rc;

    return sw_copies_settle(x, err);
}

int sw_fetch(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    struct sw_stream *s = p->x->args.stream;

    int rc = p->fetched < (int64_t)version ? fetch_all(p->x, version, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_event_wait(s, p->arrived, err);
    if (rc != SW_OK)
        return rc;

    /* Backward will overwrite the gradient, or x and dy: the compute stream first waits until the
     * previous one has left the device. */
    return sw_event_wait(s, p->lead->sent, err);
}
