/* Events of sim: a count of requested records, and the latest record that happened. A wait is for
 * the count at the time of the call, so that recording an event again does not affect threads that
 * already wait. */
#include "base/os.h"
#include "device/sim/stream.h"

int sw_sim_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err)
{
    struct sw_sim_event *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "sim event", sizeof *e);

    sw_mutex_init(&e->lock);
    sw_cond_init(&e->changed);
    e->owners = 1;
    *out = (struct sw_event *)(void *)e;

    return SW_OK;
}

void sw_sim_event_free(struct sw_event *event)
{
    struct sw_sim_event *e = sw_sim_event_of(event);

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

/* e->lock is held. */
static int outcome(const struct sw_sim_event *e, struct sw_err *err)
{
    if (e->err.code != SW_OK && err)
        *err = e->err;
    return e->err.code;
}

/* ---- Waiting ---- */

static void set_waiting(struct sw_sim_stream *s, struct sw_sim_event *e)
{
    sw_mutex_lock(&s->lock);
    s->waiting = e;
    sw_mutex_unlock(&s->lock);
}

/* Cancelling sets the flag and then wakes the waiter under the lock of the event, so no wake-up is
 * missed. */
int sw_sim_event_block(struct sw_sim_stream *s, struct sw_sim_event *e, uint64_t number,
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

int sw_sim_event_host_wait(struct sw_event *event, struct sw_err *err)
{
    struct sw_sim_event *e = sw_sim_event_of(event);
    struct sw_sim_clock passed = {
        .count = 0}; /* a copy, since the event may be recorded again meanwhile */

    sw_mutex_lock(&e->lock);

    int rc = e->captured ? sw_err_set(err, SW_ERR_UNSUPPORTED,
                                      "the host cannot wait for an event of a graph")
                         : sw_sim_clock_merge(&passed, &e->clock, err);
    e->owners++;
    for (uint64_t number = e->queued_records; rc == SW_OK && e->done < number;)
        sw_cond_wait(&e->changed, &e->lock);
    if (rc == SW_OK)
        rc = outcome(e, err);
    sw_mutex_unlock(&e->lock);
    sw_sim_event_free(event);
    if (rc == SW_OK)
        sw_sim_clock_know(&passed);
    sw_sim_clock_fini(&passed);

    return rc;
}
