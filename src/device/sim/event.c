/* Events of sim: a count of records that were asked for, and the latest that happened. A wait is
 * for the count at the time of the call, so that recording an event again disturbs nobody who
 * waits. */
#include "base/os.h"
#include "device/sim/sim_private.h"

static struct sw_sim_event *event_of(struct sw_event *e)
{
    return (struct sw_sim_event *)(void *)e;
}

int sw_sim_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err)
{
    struct sw_sim_event *e = sw_calloc(1, sizeof *e);
    (void)dev;
    if (!e)
        return sw_err_nomem(err, "sim event", sizeof *e);
    sw_mutex_init(&e->lock);
    sw_cond_init(&e->changed);
    e->owners = 1;
    *out = (struct sw_event *)(void *)e;
    return SW_OK;
}

static void let_go(struct sw_sim_event *e)
{
    sw_mutex_lock(&e->lock);
    bool last = --e->owners == 0;
    sw_mutex_unlock(&e->lock);
    if (!last)
        return;
    sw_cond_fini(&e->changed);
    sw_mutex_fini(&e->lock);
    sw_sim_clock_fini(&e->clock);
    sw_free(e);
}

void sw_sim_event_free(struct sw_event *e)
{
    let_go(event_of(e));
}

void sw_sim_event_wake(struct sw_sim_event *e)
{
    sw_mutex_lock(&e->lock);
    sw_cond_broadcast(&e->changed);
    sw_mutex_unlock(&e->lock);
}

void sw_sim_event_happen(struct sw_sim_event *e, uint64_t number, const struct sw_err *why)
{
    sw_mutex_lock(&e->lock);
    if (number > e->done) {
        e->done = number;
        if (why)
            e->err = *why;
        else
            e->err.code = SW_OK;
        sw_cond_broadcast(&e->changed);
    }
    sw_mutex_unlock(&e->lock);
}

/* A record that was queued. */
static void happen(struct sw_sim_event *e, uint64_t number, const struct sw_err *why)
{
    sw_sim_event_happen(e, number, why);
    let_go(e);
}

/* e->lock is held. */
static int outcome(const struct sw_sim_event *e, struct sw_err *err)
{
    if (e->err.code != SW_OK && err)
        *err = e->err;
    return e->err.code;
}

/* ---- Record ---- */

static int run_record(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    (void)s, (void)err;
    happen(op->u.event.event, op->u.event.number, NULL);
    return SW_OK;
}

static void skip_record(struct sw_sim_op *op, const struct sw_err *why)
{
    happen(op->u.event.event, op->u.event.number, why);
}

static const struct sw_sim_op_type record_type = {
    .name = "event_record", .run = run_record, .skip = skip_record};

/* e->lock is held. The event stands behind all that the stream has queued. */
static int set_clock(struct sw_sim_event *e, const struct sw_sim_stream *s, struct sw_err *err)
{
    sw_sim_clock_clear(&e->clock);
    int rc = sw_sim_clock_merge(&e->clock, &s->clock, err);
    return rc == SW_OK ? sw_sim_clock_add(&e->clock, s->lane, s->queued, err) : rc;
}

int sw_sim_event_record(struct sw_stream *s, struct sw_event *event, struct sw_err *err)
{
    struct sw_err mine;
    struct sw_sim_op op = {.type = &record_type, .u.event.event = event_of(event)};
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
    op.u.event.number = ++e->asked;
    sw_mutex_unlock(&e->lock);
    rc = sw_sim_push(s, &op, &mine);
    if (rc != SW_OK) {
        happen(e, op.u.event.number, &mine);
        if (err)
            *err = mine;
    }
    return rc;
}

/* ---- Wait ---- */

static void set_waiting(struct sw_sim_stream *s, struct sw_sim_event *e)
{
    sw_mutex_lock(&s->lock);
    s->waiting = e;
    sw_mutex_unlock(&s->lock);
}

/* Cancelling first sets the flag and then wakes, under the event's lock: no wake-up is missed. */
int sw_sim_event_stand(struct sw_sim_stream *s, struct sw_sim_event *e, uint64_t number,
                       struct sw_err *err)
{
    int rc = SW_OK;
    set_waiting(s, e);
    sw_mutex_lock(&e->lock);
    while (e->done < number && !atomic_load(&s->cancelled))
        sw_cond_wait(&e->changed, &e->lock);
    if (e->done < number)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "cancelled");
    else
        rc = outcome(e, err);
    sw_mutex_unlock(&e->lock);
    set_waiting(s, NULL);
    return rc;
}

static int run_wait(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    int rc = sw_sim_event_stand(s, op->u.event.event, op->u.event.number, err);
    let_go(op->u.event.event);
    return rc;
}

static void skip_wait(struct sw_sim_op *op, const struct sw_err *why)
{
    (void)why;
    let_go(op->u.event.event);
}

static const struct sw_sim_op_type wait_type = {
    .name = "event_wait", .run = run_wait, .skip = skip_wait};

int sw_sim_event_wait(struct sw_stream *s, struct sw_event *event, struct sw_err *err)
{
    struct sw_sim_op op = {.type = &wait_type, .u.event.event = event_of(event)};
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
    op.u.event.number = e->asked;
    sw_mutex_unlock(&e->lock);
    rc = sw_sim_push(s, &op, err);
    if (rc != SW_OK)
        let_go(e);
    return rc;
}

int sw_sim_event_host_wait(struct sw_event *event, struct sw_err *err)
{
    struct sw_sim_event *e = event_of(event);
    struct sw_sim_clock passed = {.count = 0}; /* the event may be recorded again meanwhile */
    sw_mutex_lock(&e->lock);
    int rc = e->captured ? sw_err_set(err, SW_ERR_UNSUPPORTED,
                                      "the host cannot wait for an event of a graph")
                         : sw_sim_clock_merge(&passed, &e->clock, err);
    e->owners++;
    for (uint64_t number = e->asked; rc == SW_OK && e->done < number;)
        sw_cond_wait(&e->changed, &e->lock);
    if (rc == SW_OK)
        rc = outcome(e, err);
    sw_mutex_unlock(&e->lock);
    let_go(e);
    if (rc == SW_OK)
        sw_sim_clock_know(&passed);
    sw_sim_clock_fini(&passed);
    return rc;
}
