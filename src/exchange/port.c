/* Ports: the parameters of a worker and their memory on its device. One block holds for every
 * parameter its value, arrays for gradients and the updater's state, as its route requires. */
#include "base/os.h"
#include "exchange/exchange_private.h"
#include <stdio.h>

enum { ALIGN = 64 };

static size_t array_bytes(const struct sw_table *t, int param)
{
    return (sw_desc_bytes(&sw_table_param(t, param)->layout) + ALIGN - 1) / ALIGN * ALIGN;
}

static struct sw_route_query query_of(const struct sw_exchange_args *a, int param)
{
    return (struct sw_route_query){.table = a->table,
                                   .worker = a->worker,
                                   .param = param,
                                   .copy = a->copy,
                                   .own_memory = a->own_memory};
}

static int arrays_of(const struct sw_route *route, const struct sw_route_query *q)
{
    return route->arrays ? route->arrays(q) : 0;
}

static size_t port_bytes(const struct sw_route *route, const struct sw_route_query *q)
{
    int slots = route->updates_on_device ? sw_table_param_slots(q->table, q->param) : 0;

    return (size_t)(1 + arrays_of(route, q) + slots) * array_bytes(q->table, q->param);
}

bool sw_exchange_updates(const struct sw_exchange_args *a)
{
    for (int p = 0; p < sw_table_count(a->table); p++) {
        const struct sw_route_query q = query_of(a, p);
        if (sw_route_choose(&q)->updates_on_device)
            return true;
    }

    return false;
}

/* Does the list name params[i] before position i? Several layers may share a parameter. */
static bool is_repeated(const struct sw_exchange_args *a, int i)
{
    for (int k = 0; k < i; k++)
        if (a->params[k] == a->params[i])
            return true;
    return false;
}

struct sw_exchange_bytes sw_exchange_bytes(const struct sw_exchange_args *a)
{
    struct sw_exchange_bytes sum = {0};
    bool attached[SW_MOST_ROUTES] = {false};
    int ports = 0;

    if (!a->own_memory)
        return sum;

    for (int i = 0; i < a->count; i++) {
        if (is_repeated(a, i))
            continue;

        ports++;

        const struct sw_route_query q = query_of(a, a->params[i]);
        const struct sw_route *route = sw_route_choose(&q);
        sum.device += port_bytes(route, &q);

        int row = 0;
        while (sw_route_at(row) != route)
            row++;
        if (route->bytes && !attached[row])
            sum.device += route->bytes(a);
        attached[row] = true;
    }

    const struct sw_exchange_bytes control = sw_device_control_bytes(a);
    size_t report = sw_device_report_bytes(ports, sw_exchange_updates(a), control.device > 0);
    sum.device += report + control.device;
    sum.host += 2 * report + control.host;

    return sum;
}

/* ---- Making them ---- */

static int take_memory(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_exchange_args *a = &x->args;
    size_t params = (size_t)sw_table_count(a->table);

    x->ports = sw_calloc((size_t)a->count + 1, sizeof *x->ports);
    x->port_of = sw_calloc(params + 1, sizeof *x->port_of);
    if (!x->ports || !x->port_of)
        return sw_err_nomem(err, "parameters of a worker", params * sizeof *x->ports);

    for (size_t p = 0; p < params; p++)
        x->port_of[p] = -1;

    for (int i = 0; i < a->count; i++) {
        int param = a->params[i];
        if (x->port_of[param] >= 0)
            continue;

        const struct sw_route_query q = query_of(a, param);
        struct sw_port *p = &x->ports[x->count];
        *p = (struct sw_port){.x = x,
                              .route = sw_route_choose(&q),
                              .param = param,
                              .priority = x->count,
                              .bytes = sw_desc_bytes(&sw_table_param(a->table, param)->layout),
                              .version = SW_NEVER,
                              .constants_version = SW_NEVER,
                              .fetched = SW_NEVER};
        x->bytes += port_bytes(p->route, &q);
        x->port_of[param] = x->count++;
    }

    if (!a->own_memory || x->bytes == 0)
        return SW_OK;

    return sw_device_alloc(a->device, x->bytes, "parameters and gradients", &x->memory, err);
}

static int attach_route(struct sw_port *p, struct sw_err *err)
{
    int row = 0;

    while (sw_route_at(row) != p->route)
        row++;

    void **state = &p->x->state[row];
    int rc = *state || !p->route->attach ? SW_OK : p->route->attach(p->x, state, err);
    p->state = *state;

    return rc;
}

/* The port whose copies carry the gradient: for a bias whose gradient is made of the weight's
 * factors, the port of the weight. */
static struct sw_port *lead_of(struct sw_port *p)
{
    const struct sw_table_factors *f = sw_table_factors_of(sw_port_table(p), p->param);

    return f && f->weight >= 0 ? sw_exchange_port(p->x, f->weight) : p;
}

static void place_port(struct sw_port *p, char *at)
{
    struct sw_exchange *x = p->x;
    const struct sw_route_query q = query_of(&x->args, p->param);
    size_t room = array_bytes(q.table, p->param);
    int arrays = arrays_of(p->route, &q);

    p->at.value = (float *)(void *)at;
    if (p->route->gradient)
        p->at.gradient = p->route->gradient(p);
    else if (arrays > 0)
        p->at.gradient = (float *)(void *)(at + room);

    if (!p->route->updates_on_device)
        return;

    for (int s = 0; s < sw_table_param_slots(q.table, p->param); s++)
        p->at.slot[s] = (float *)(void *)(at + (size_t)(1 + arrays + s) * room);
    p->at.bad = x->report.bad + p->priority;
    p->at.numbers = x->report.numbers + p->priority;
    p->at.control = x->report.control;
}

/* Names the arrays for messages of the device: "conv1.weight (value)". */
static void name_port(const struct sw_port *p)
{
    struct sw_device *dev = p->x->args.device;
    const char *name = sw_table_param(sw_port_table(p), p->param)->name;
    char text[128];

    snprintf(text, sizeof text, "%s (value)", name);
    sw_device_name(dev, p->at.value, p->bytes, text);
    snprintf(text, sizeof text, "%s (gradient)", name);
    for (int k = 0; k < sw_table_partials(sw_port_table(p), p->x->args.worker); k++)
        sw_device_name(dev, sw_port_partial(p, k), p->bytes, text);
    snprintf(text, sizeof text, "%s (updater state)", name);
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        sw_device_name(dev, p->at.slot[s], p->bytes, text);
}

static int make_events(struct sw_port *p, struct sw_err *err)
{
    struct sw_event **const events[] = {&p->arrived, &p->made, &p->sent};

    for (size_t i = 0; p->route->copies && i < sizeof events / sizeof *events; i++) {
        int rc = sw_event_new(p->x->args.device, events[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_ports_make(struct sw_exchange *x, struct sw_err *err)
{
    int rc = take_memory(x, err);
    if (rc != SW_OK)
        return rc;

    if (x->args.own_memory)
        rc = sw_device_report_make(x, err);
    if (rc != SW_OK)
        return rc;

    char *at = x->memory;
    int copies = 2;
    for (int i = 0; i < x->count; i++) {
        struct sw_port *p = &x->ports[i];
        const struct sw_route_query q = query_of(&x->args, p->param);

        p->lead = lead_of(p);
        rc = attach_route(p, err);
        if (rc != SW_OK)
            return rc;
        if (!x->args.own_memory)
            continue;

        place_port(p, at);
        at += port_bytes(p->route, &q);
        name_port(p);
        copies += p->route->copies ? p->route->copies(&q) : 0;

        rc = make_events(p, err);
        if (rc != SW_OK)
            return rc;
    }

    if (!x->args.own_memory)
        return SW_OK;

    return sw_copy_queue_new(x->args.device, copies, &x->queue, err);
}

void sw_ports_free(struct sw_exchange *x)
{
    struct sw_device *dev = x->args.device;

    sw_copy_queue_free(x->queue);

    for (int i = 0; i < x->count; i++) {
        sw_event_free(dev, x->ports[i].arrived);
        sw_event_free(dev, x->ports[i].made);
        sw_event_free(dev, x->ports[i].sent);
    }

    for (int row = 0; sw_route_at(row); row++)
        if (x->state[row])
            sw_route_at(row)->detach(x, x->state[row]);

    sw_device_free(dev, x->memory, x->bytes);
    sw_free(x->ports);
    sw_free(x->port_of);
}

/* NULL for gradients that are made of factors or summed elsewhere: they have no partial sums. */
float *sw_port_partial(const struct sw_port *p, int k)
{
    if (!p->at.gradient || sw_table_factors_of(sw_port_table(p), p->param))
        return NULL;
    return p->at.gradient + (size_t)k * (array_bytes(sw_port_table(p), p->param) / sizeof(float));
}
