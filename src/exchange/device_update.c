/* Updates on the device: value and updater state live there, and an update is an operation of the
 * compute stream (exchange/update_op.h), with the same constants and so the same bits as a
 * server's. The values are copied to the table when somebody is about to read them. */
#include "exchange/exchange_private.h"

void sw_device_update_number(struct sw_port *p, uint64_t version, uint64_t before,
                             struct sw_update_numbers *out)
{
    *out = (struct sw_update_numbers){.first = p->first,
                                      .count = (int64_t)(p->bytes / sizeof(float)),
                                      .first_chunk = p->first_chunk,
                                      .first_square = sw_device_control_first_square(p),
                                      .total = p->param};
    p->formula = sw_table_update_numbers(sw_port_table(p), p->param, version, before, out);
}

/* Computes the constants of the update. */
static void number(struct sw_port *p, uint64_t version)
{
    sw_device_update_number(p, version, SW_UPDATES_OF_ONE_GROUP,
                            sw_device_report_on_host(&p->x->report, p->at.numbers, 0));
    p->constants_version = (int64_t)version;
}

static int send_numbers(struct sw_exchange *x, int first, int count, struct sw_err *err)
{
    const struct sw_device_report *r = &x->report;

    return sw_copy(x->args.stream, r->numbers + first,
                   sw_device_report_on_host(r, r->numbers + first, 0),
                   (size_t)count * sizeof *r->numbers, err);
}

/* Uploads the constants of updates (rate, bias corrections) in one copy. Routes that pull a sum
 * make update version - 1 in this step, when the layer is pulled; local ones, and all under joint
 * control, make update `version`. */
int sw_device_update_begin(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    if (!x->report.numbers)
        return SW_OK;

    for (int i = 0; i < x->count; i++) {
        struct sw_port *p = &x->ports[i];
        uint64_t next = x->control->two_phase || p->route->device_only ? version : version - 1;
        if (p->route->updates_on_device && next > 0)
            number(p, next);
    }

    return send_numbers(x, 0, x->count, err);
}

int sw_device_update_queue(struct sw_exchange *x, const struct sw_update_list *list,
                           struct sw_err *err)
{
    return sw_table_update_on_device(x->args.table, sw_exchange_listed(x, list, 0)->formula, list,
                                     x->args.stream, err);
}

int sw_device_update(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    struct sw_exchange *x = p->x;
    const struct sw_update_list *list = p->list;
    bool sends = p->constants_version != (int64_t)version;

    for (int i = 0; i < list->count; i++) {
        struct sw_port *q = sw_exchange_listed(x, list, i);
        q->version = (int64_t)version;
        if (sends)
            number(q, version);
    }

    int rc = sends ? send_numbers(x, list->first, list->count, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    return sw_device_update_queue(x, list, err);
}

/* ---- Between table and device ---- */

/* Copies value and updater state on the compute stream, in order with what is queued there. */
static int move(const struct sw_port *p, bool to_device, struct sw_err *err)
{
    const struct sw_param *home = sw_table_param(sw_port_table(p), p->param);
    struct sw_stream *s = p->x->args.stream;

    int rc = to_device ? sw_copy(s, p->at.value, home->value, p->bytes, err)
                       : sw_copy(s, home->value, p->at.value, p->bytes, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < SW_UPDATER_SLOTS && p->at.slot[i]; i++) {
        rc = to_device ? sw_copy(s, p->at.slot[i], home->slot[i], p->bytes, err)
                       : sw_copy(s, home->slot[i], p->at.slot[i], p->bytes, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_device_update_load(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    if (p->version != SW_NEVER)
        return SW_OK;

    p->fetched = p->version = (int64_t)version;
    if (p->x->start == SW_NEVER)
        p->x->start = (int64_t)version;

    return move(p, true, err);
}

/* Does this worker write the parameter back? Its owner does or, for a replicated parameter, the
 * worker that passes `all`. */
static bool speaks_for(const struct sw_port *p, bool all)
{
    int owner = sw_table_param(sw_port_table(p), p->param)->owner;

    return owner < 0 ? all : owner == p->x->args.worker;
}

int sw_exchange_sync_to_host(struct sw_exchange *x, uint64_t version, bool all, struct sw_err *err)
{
    int rc;

    for (int i = 0; i < x->count; i++) {
        const struct sw_port *p = &x->ports[i];
        if (!p->route->updates_on_device || p->version == SW_NEVER || !speaks_for(p, all))
            continue;
        rc = move(p, false, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_exchange_queue_report(x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(x->args.stream, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_check_finite(x, 0, err);
    if (rc != SW_OK)
        return rc;

    /* Ports with `fetch` are skipped: the servers have advanced their versions in the table. */
    for (int i = 0; i < x->count; i++) {
        const struct sw_port *p = &x->ports[i];
        if (p->route->updates_on_device && !p->route->fetch && (p->route->device_only || all))
            sw_table_put_param(x->args.table, p->param, version);
    }

    return SW_OK;
}
