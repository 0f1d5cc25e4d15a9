/* Operations, and records and waits of events: each is queued by value and run asynchronously. */
#include "device/sim/capture.h"
#include "device/sim/memory.h"
#include <string.h>

/* Defines the type of an operation that its function queues and run_NAME runs. */
#define POINTERS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OP_TYPE(id, ...)                                                                           \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = POINTERS(__VA_ARGS__), .counted = true, .run = run_##id}

/* ---- Operations of kernels/op.h ---- */

/* Whether the operation accesses memory. An operation on 0 rows accesses none, whatever its
 * pointers are. */
static bool touches(const struct sw_op_arrays *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->array[i].bytes)
            return true;
    return false;
}

static int resolve_args(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
                        struct sw_err *err)
{
    struct sw_op_arrays list;

    sw_op_list(op->u.run.op, op->u.run.args, &list);

    for (int i = 0; i < list.count; i++) {
        const char *name = list.array[i].name;

        if (!on_thread && op->p[i] && !op->bytes[i] && touches(&list))
            return sw_err_set(err, SW_ERR_INVALID,
                              "%s (%p) is set, but the operation declares that it does not use it",
                              name, op->p[i]);

        int rc =
            sw_sim_reach(s->device, name, op->p[i], op->bytes[i], &op->block[i], &where[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int run_args(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_run *r = &op->u.run;
    struct sw_op_arrays list;

    sw_op_list(r->op, r->args, &list);
    for (int i = 0; i < list.count; i++)
        memcpy((char *)r->args + list.array[i].offset, &op->p[i], sizeof op->p[i]);

    return sw_op_run(s->cpu, r->op, r->args, err);
}

static const struct sw_sim_op_type run_type = {
    .counted = true, .resolve = resolve_args, .run = run_args}; /* its name is the subject */

int sw_sim_run(struct sw_stream *s, const struct sw_op *what, const void *args, struct sw_err *err)
{
    struct sw_sim_op op = {.type = &run_type, .subject = what->name, .u.run.op = what};
    struct sw_op_arrays list;

    memcpy(op.u.run.args, args, what->args_bytes);
    sw_op_list(what, args, &list);

    for (int i = 0; i < list.count; i++) {
        memcpy(&op.p[i], (const char *)args + list.array[i].offset, sizeof op.p[i]);
        op.bytes[i] = list.array[i].bytes;
        op.written |= (uint32_t)list.array[i].written << i;
    }

    return sw_sim_push(s, &op, err);
}

/* ---- Zero ---- */

static int run_fill_zero(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_fill_zero(s->cpu, op->p[0], op->bytes[0], err);
}
OP_TYPE(fill_zero, "dst");

int sw_sim_fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err)
{
    const struct sw_sim_op op = {
        .type = &fill_zero_type, .p = {dst}, .bytes = {bytes}, .written = 1};
    return sw_sim_push(s, &op, err);
}

/* ---- An operation with a result ---- */

static int run_all_finite(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_all_finite(s->cpu, op->p[0], op->u.n, &s->finite, err);
}
OP_TYPE(all_finite, "x");

int sw_sim_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err)
{
    const struct sw_sim_op op = {
        .type = &all_finite_type, .p = {(void *)x}, .bytes = {sw_sim_floats(n)}, .u.n = n};

    int rc = sw_sim_push(s, &op, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(s, err);
    if (rc != SW_OK)
        return rc;

    *finite = sw_sim_stream_of(s)->finite;
    return SW_OK;
}

/* ---- Records and waits ---- */

static void release_event(const struct sw_sim_op *op)
{
    sw_sim_event_free((struct sw_event *)(void *)op->u.event.event);
}

static void complete(struct sw_sim_op *op, const struct sw_err *why)
{
    sw_sim_event_happen(op->u.event.event, op->u.event.number, why);
    release_event(op);
}

static int run_record(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    complete(op, NULL);
    return SW_OK;
}

static const struct sw_sim_op_type record_type = {
    .name = "event_record", .run = run_record, .skip = complete};

/* e->lock is held. The event comes after all operations queued on the stream. */
static int set_clock(struct sw_sim_event *e, const struct sw_sim_stream *s, struct sw_err *err)
{
    sw_sim_clock_clear(&e->clock);

    int rc = sw_sim_clock_merge(&e->clock, &s->clock, err);
    if (rc != SW_OK)
        return rc;

    return sw_sim_clock_add(&e->clock, s->lane, s->queued, err);
}

int sw_sim_event_record(struct sw_stream *s, struct sw_event *event, struct sw_err *err)
{
    struct sw_err mine;
    struct sw_sim_op op = {.type = &record_type, .u.event.event = sw_sim_event_of(event)};
    struct sw_sim_event *e = op.u.event.event;

    if (sw_sim_stream_of(s)->capture)
        return sw_sim_capture_record(sw_sim_stream_of(s), e, err);

    sw_mutex_lock(&e->lock);
    e->captured = 0;

    int rc = set_clock(e, sw_sim_stream_of(s), err);
    if (rc != SW_OK) {
        sw_mutex_unlock(&e->lock);
        return rc;
    }

    e->owners++;
    op.u.event.number = ++e->queued_records;
    sw_mutex_unlock(&e->lock);

    rc = sw_sim_push(s, &op, &mine);
    if (rc != SW_OK) {
        complete(&op, &mine);
        if (err)
            *err = mine;
    }

    return rc;
}

static int run_wait(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    int rc = sw_sim_event_block(s, op->u.event.event, op->u.event.number, err);
    release_event(op);
    return rc;
}

static void skip_wait(struct sw_sim_op *op, const struct sw_err *why)
{
    release_event(op);
}

static const struct sw_sim_op_type wait_type = {
    .name = "event_wait", .run = run_wait, .skip = skip_wait};

int sw_sim_event_wait(struct sw_stream *s, struct sw_event *event, struct sw_err *err)
{
    struct sw_sim_op op = {.type = &wait_type, .u.event.event = sw_sim_event_of(event)};
    struct sw_sim_event *e = op.u.event.event;

    sw_mutex_lock(&e->lock);

    bool captured = e->captured != 0 || sw_sim_stream_of(s)->capture;
    if (captured) {
        sw_mutex_unlock(&e->lock);
        return sw_sim_capture_wait(sw_sim_stream_of(s), e, err);
    }

    int rc = sw_sim_clock_merge(&sw_sim_stream_of(s)->clock, &e->clock, err);
    if (rc != SW_OK) {
        sw_mutex_unlock(&e->lock);
        return rc;
    }

    e->owners++;
    op.u.event.number = e->queued_records;
    sw_mutex_unlock(&e->lock);
    rc = sw_sim_push(s, &op, err);
    if (rc != SW_OK)
        release_event(&op);

    return rc;
}
