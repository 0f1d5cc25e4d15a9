/* Ports: the parameters of a worker and their memory on its device. Parameters that are updated
 * together form a list. One block holds for every list its values, arrays for gradients and the
 * updater's state, as its route requires: first the values of all its parameters, then their
 * gradients, so that one operation updates them. */
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

/* ---- Lists ---- */

static bool is_together(const struct sw_port *p, const struct sw_port *q)
{
    const struct sw_route *route = p->route;

    return route == q->route && route->updates_together &&
           (!route->bucket || route->bucket(p) == route->bucket(q));
}

/* Adds the port to a list, and gives it the next place. */
static void list_port(struct sw_exchange *x, struct sw_update_list *list, int port)
{
    struct sw_port *p = &x->ports[port];

    p->list = list;
    p->place = list->first + list->count++;
    p->first = list->elements;
    p->first_chunk = list->chunks;
    x->port_at[p->place] = port;
    list->elements += (int64_t)(array_bytes(sw_port_table(p), p->param) / sizeof(float));
    list->chunks += sw_update_chunks((int64_t)(p->bytes / sizeof(float)));
}

static int make_lists(struct sw_exchange *x, struct sw_err *err)
{
    size_t ports = (size_t)x->count + 1;

    x->lists = sw_calloc(ports, sizeof *x->lists);
    x->port_at = sw_calloc(ports, sizeof *x->port_at);
    if (!x->lists || !x->port_at)
        return sw_err_nomem(err, "parameters of a worker", ports * sizeof *x->lists);

    for (int i = 0, listed = 0; i < x->count; i++) {
        if (x->ports[i].list)
            continue;

        struct sw_update_list *list = &x->lists[x->list_count++];
        list->first = listed;
        for (int k = i; k < x->count; k++)
            if (k == i || is_together(&x->ports[i], &x->ports[k]))
                list_port(x, list, k);
        listed += list->count;
    }

    return SW_OK;
}

/* The lowest gradient of the list. */
static float *first_gradient(const struct sw_exchange *x, const struct sw_update_list *list)
{
    float *lowest = NULL;

    for (int i = 0; i < list->count; i++) {
        const struct sw_port *p = sw_exchange_listed(x, list, i);
        float *gradient = p->route->gradient(p);
        lowest = !lowest || gradient < lowest ? gradient : lowest;
    }

    return lowest;
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

    int rc = make_lists(x, err);
    if (rc != SW_OK)
        return rc;

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

/* Gives memory to a list, and returns its end. Gradients that the route has elsewhere, in the order
 * of their pushes, set the order of all arrays. */
static float *place_list(struct sw_exchange *x, struct sw_update_list *list, float *at)
{
    const struct sw_port *first = sw_exchange_listed(x, list, 0);
    const struct sw_route_query q = query_of(&x->args, first->param);
    int arrays = arrays_of(first->route, &q);

    list->at.value = at;
    at += list->elements;

    if (first->route->gradient)
        list->at.gradient = first_gradient(x, list);
    else if (arrays > 0)
        list->at.gradient = at;
    at += arrays * list->elements;

    if (!first->route->updates_on_device)
        return at;

    for (int s = 0; s < sw_table_param_slots(q.table, first->param); s++, at += list->elements)
        list->at.slot[s] = at;
    list->at.bad = x->report.bad + list->first;
    list->at.numbers = x->report.numbers + list->first;
    list->at.control = x->report.control;

    return at;
}

static float *part(float *array, int64_t first)
{
    return array ? array + first : NULL;
}

static void place_port(struct sw_port *p)
{
    const struct sw_param_place *list = &p->list->at;

    if (p->route->gradient)
        p->first = p->route->gradient(p) - list->gradient;

    p->at.value = part(list->value, p->first);
    p->at.gradient = part(list->gradient, p->first);
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        p->at.slot[s] = part(list->slot[s], p->first);

    if (!p->route->updates_on_device)
        return;

    p->at.bad = p->x->report.bad + p->place;
    p->at.numbers = p->x->report.numbers + p->place;
    p->at.control = p->x->report.control;
}

/* Attaches the routes first: they say where gradients are. */
static int place_ports(struct sw_exchange *x, struct sw_err *err)
{
    float *at = x->memory;

    for (int i = 0; i < x->count; i++) {
        x->ports[i].lead = lead_of(&x->ports[i]);
        int rc = attach_route(&x->ports[i], err);
        if (rc != SW_OK)
            return rc;
    }

    if (!x->args.own_memory)
        return SW_OK;

    for (int i = 0; i < x->list_count; i++)
        at = place_list(x, &x->lists[i], at);
    for (int i = 0; i < x->count; i++)
        place_port(&x->ports[i]);
    return SW_OK;
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

    rc = place_ports(x, err);
    if (rc != SW_OK || !x->args.own_memory)
        return rc;

    int copies = 2;
    for (int i = 0; i < x->count; i++) {
        struct sw_port *p = &x->ports[i];
        const struct sw_route_query q = query_of(&x->args, p->param);

        name_port(p);
        copies += p->route->copies ? p->route->copies(&q) : 0;

        rc = make_events(p, err);
        if (rc != SW_OK)
            return rc;
    }

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
    sw_free(x->lists);
    sw_free(x->port_at);
    sw_free(x->port_of);
}

/* NULL for gradients that are made of factors or summed elsewhere: they have no partial sums. */
float *sw_port_partial(const struct sw_port *p, int k)
{
    if (!p->at.gradient || sw_table_factors_of(sw_port_table(p), p->param))
        return NULL;
    return p->at.gradient + k * p->list->elements;
}
