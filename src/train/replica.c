#include "train/replica.h"

#include "base/os.h"
#include <stdio.h>

enum { ALIGN = 64, NEVER = -1 };

struct item {
    struct sw_replica *owner;
    int param;
    float *value, *gradient; /* device memory */
    size_t bytes;
    int64_t asked;          /* the newest version whose copy was started */
    struct sw_event *here;  /* owned: happens when that copy is done */
    struct sw_event *made;  /* owned: happens when the gradient is, and the value is read no more */
    struct sw_event *given; /* owned: happens when the gradient is on the host */
    uint64_t gives;         /* the version that is on its way to the host */
};

struct sw_replica {
    struct sw_replica_args args;
    struct sw_copy_queue *queue; /* owned */
    struct item *items;          /* owned [count] */
    int count;                   /* parameters; args.params may name one more than once */
    int *item_of;                /* owned [parameters of the table]: or -1 */
    void *memory;                /* owned device memory */
    size_t bytes;
    int under_way; /* atomic: gradients */
};

static size_t array_bytes(const struct sw_param *p)
{
    return (sw_desc_bytes(&p->layout) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Value and gradient; what is frozen has none of the latter. */
static size_t item_bytes(const struct sw_param *p)
{
    return (p->frozen ? 1 : 2) * array_bytes(p);
}

/* What messages of the device call it: "conv1.weight (value)". */
static void name_item(const struct sw_replica *r, const struct item *item)
{
    const char *name = sw_table_param(r->args.table, item->param)->name;
    char text[128];
    snprintf(text, sizeof text, "%s (value)", name);
    sw_device_name(r->args.device, item->value, item->bytes, text);
    snprintf(text, sizeof text, "%s (gradient)", name);
    sw_device_name(r->args.device, item->gradient, item->bytes, text);
}

static int make_items(struct sw_replica *r, struct sw_err *err)
{
    int rc = SW_OK;
    size_t at = 0;
    for (int i = 0; i < r->count && rc == SW_OK; i++) {
        struct item *item = &r->items[i];
        const struct sw_param *p = sw_table_param(r->args.table, item->param);
        size_t room = array_bytes(p);
        *item = (struct item){.owner = r,
                              .param = item->param,
                              .value = (float *)(void *)((char *)r->memory + at),
                              .gradient = (float *)(void *)((char *)r->memory + at + room),
                              .bytes = sw_desc_bytes(&p->layout),
                              .asked = NEVER};
        if (p->frozen)
            item->gradient = NULL;
        at += item_bytes(p);
        rc = sw_event_new(r->args.device, &item->here, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->args.device, &item->made, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->args.device, &item->given, err);
        name_item(r, item);
    }
    return rc;
}

static int take_memory(struct sw_replica *r, struct sw_err *err)
{
    int params = sw_table_count(r->args.table);
    r->items = sw_calloc((size_t)r->args.count + 1, sizeof *r->items);
    r->item_of = sw_calloc((size_t)params + 1, sizeof *r->item_of);
    if (!r->items || !r->item_of)
        return sw_err_nomem(err, "a replica", (size_t)params * sizeof *r->items);
    for (int i = 0; i < params; i++)
        r->item_of[i] = NEVER;
    for (int i = 0; i < r->args.count; i++) {
        int param = r->args.params[i];
        if (r->item_of[param] != NEVER)
            continue; /* several layers share it */
        r->item_of[param] = r->count;
        r->items[r->count++].param = param;
        r->bytes += item_bytes(sw_table_param(r->args.table, param));
    }
    return r->bytes ? sw_device_alloc(r->args.device, r->bytes, "parameters and gradients",
                                      &r->memory, err)
                    : SW_OK;
}

int sw_replica_new(const struct sw_replica_args *args, struct sw_replica **out, struct sw_err *err)
{
    struct sw_replica *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "a replica", sizeof *r);
    r->args = *args;
    int rc = take_memory(r, err);
    if (rc == SW_OK)
        rc = make_items(r, err);
    /* At most one copy each way of every parameter is under way. */
    if (rc == SW_OK)
        rc = sw_copy_queue_new(args->device, 2 * args->count + 2, &r->queue, err);
    if (rc != SW_OK) {
        sw_replica_free(r);
        return rc;
    }
    *out = r;
    return SW_OK;
}

void sw_replica_free(struct sw_replica *r)
{
    if (!r)
        return;
    sw_copy_queue_free(r->queue);
    for (int i = 0; r->items && i < r->count; i++) {
        sw_event_free(r->args.device, r->items[i].here);
        sw_event_free(r->args.device, r->items[i].made);
        sw_event_free(r->args.device, r->items[i].given);
    }
    sw_device_free(r->args.device, r->memory, r->bytes);
    sw_free(r->items);
    sw_free(r->item_of);
    sw_free(r);
}

size_t sw_replica_bytes(const struct sw_replica *r)
{
    return r->bytes;
}

static struct item *find(const struct sw_replica *r, int param)
{
    return r->item_of[param] == NEVER ? NULL : &r->items[r->item_of[param]];
}

float *sw_replica_value(const struct sw_replica *r, int param)
{
    const struct item *item = find(r, param);
    return item ? item->value : NULL;
}

float *sw_replica_gradient(const struct sw_replica *r, int param)
{
    const struct item *item = find(r, param);
    return item ? item->gradient : NULL;
}

/* Starts the copy of a version that the table has and the device has not been sent. */
static int ask(struct sw_replica *r, int i, uint64_t version, struct sw_err *err)
{
    struct item *item = &r->items[i];
    bool settled = item->asked >= 0 && sw_table_param(r->args.table, item->param)->frozen;
    if (settled || item->asked >= (int64_t)version ||
        !sw_table_ready(r->args.table, item->param, version))
        return SW_OK;
    struct sw_copy_event e = {.direction = SW_COPY_TO_DEVICE,
                              .dst = item->value,
                              .src = sw_table_param(r->args.table, item->param)->value,
                              .bytes = item->bytes,
                              .priority = i,
                              .after = item->made,
                              .then = item->here};
    int rc = sw_copy_queue_push(r->queue, &e, err);
    if (rc == SW_OK)
        item->asked = (int64_t)version;
    return rc;
}

int sw_replica_need(struct sw_replica *r, int param, uint64_t version, struct sw_err *err)
{
    struct item *item = find(r, param);
    if (item->asked < (int64_t)version) {
        int rc = SW_OK;
        for (int i = 0; i < r->count && rc == SW_OK; i++)
            rc = ask(r, i, version, err);
        if (rc == SW_OK)
            rc = sw_copy_queue_drain(r->queue, err);
        if (rc != SW_OK)
            return rc;
    }
    /* What is queued now will also write the gradient anew. */
    int rc = sw_event_wait(r->args.stream, item->here, err);
    return rc == SW_OK ? sw_event_wait(r->args.stream, item->given, err) : rc;
}

int sw_replica_check(struct sw_replica *r, struct sw_err *err)
{
    return sw_copy_queue_check(r->queue, err);
}

int sw_replica_under_way(const struct sw_replica *r)
{
    return __atomic_load_n(&r->under_way, __ATOMIC_RELAXED);
}

/* On a thread of the device: the gradient is on the host. */
static void on_given(void *user, int rc)
{
    struct item *item = user;
    struct sw_replica *r = item->owner;
    __atomic_sub_fetch(&r->under_way, 1, __ATOMIC_RELAXED);
    if (rc == SW_OK)
        rc = sw_table_update(r->args.table, r->args.worker, item->param, item->gives);
    if (rc == SW_OK || rc == SW_ERR_CANCELLED)
        return;
    struct sw_err err;
    sw_err_set(&err, rc, "%s: the gradient of %s did not reach the host", r->args.device->name,
               sw_table_param(r->args.table, item->param)->name);
    sw_fault_set(r->args.fault, r->args.unit, &err);
}

int sw_replica_give(struct sw_replica *r, int param, uint64_t version, struct sw_err *err)
{
    struct item *item = find(r, param);
    int rc = sw_event_record(r->args.stream, item->made, err);
    if (rc != SW_OK)
        return rc;
    item->gives = version;
    __atomic_add_fetch(&r->under_way, 1, __ATOMIC_RELAXED);
    struct sw_copy_event e = {.direction = SW_COPY_TO_HOST,
                              .dst = sw_table_param(r->args.table, param)->gradient[r->args.worker],
                              .src = item->gradient,
                              .bytes = item->bytes,
                              .priority = r->item_of[param],
                              .after = item->made,
                              .then = item->given,
                              .done = on_given,
                              .user = item};
    rc = sw_copy_queue_push(r->queue, &e, err);
    return rc == SW_OK ? sw_copy_queue_drain(r->queue, err) : rc;
}
