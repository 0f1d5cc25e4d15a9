/* Counts contributions under one lock. The rank that completes an item puts it into a ring and
 * calls the owner's function for all items in there, unless another rank does so already. Waits are
 * on one condition that every completed round and the end of the job signal. */
#include "exchange/reduce/rounds.h"

#include "base/os.h"

int sw_rounds_init(struct sw_rounds *r, const char *what, int count, int ranks, struct sw_err *err)
{
    *r = (struct sw_rounds){.what = what, .count = count, .ranks = ranks};
    sw_mutex_init(&r->lock);
    sw_cond_init(&r->changed);

    size_t items = (size_t)count + 1;
    r->item = sw_calloc(items, sizeof *r->item);
    r->complete = sw_calloc(items, sizeof *r->complete);
    return r->item && r->complete ? SW_OK : sw_err_nomem(err, what, items * sizeof *r->item);
}

void sw_rounds_fini(struct sw_rounds *r)
{
    sw_free(r->item);
    sw_free(r->complete);
    sw_cond_fini(&r->changed);
    sw_mutex_fini(&r->lock);
}

/* Queues all complete items; called with the lock, which it releases while it queues. An item is in
 * the ring at most once, since its next round begins after this one is queued. */
static int queue_complete(struct sw_rounds *r,
                          int (*queue)(void *owner, int item, struct sw_err *err), void *owner,
                          struct sw_err *err)
{
    int rc = SW_OK;

    r->queueing = true;

    while (r->waiting > 0 && !r->closed && rc == SW_OK) {
        int item = r->complete[r->first];
        r->first = (r->first + 1) % r->count;
        r->waiting--;

        sw_mutex_unlock(&r->lock);
        rc = queue(owner, item, err);
        sw_mutex_lock(&r->lock);
    }

    r->queueing = false;
    return rc;
}

int sw_rounds_arrive(struct sw_rounds *r, int item, uint64_t round,
                     int (*queue)(void *owner, int item, struct sw_err *err), void *owner,
                     struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&r->lock);

    struct sw_round *i = &r->item[item];
    if (r->closed)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    else if (i->done + 1 != round)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s %d: contribution to round %llu, but %llu rounds are done", r->what,
                        item, (unsigned long long)round, (unsigned long long)i->done);
    else if (++i->arrived == r->ranks)
        r->complete[(r->first + r->waiting++) % r->count] = item;

    if (rc == SW_OK && !r->queueing)
        rc = queue_complete(r, queue, owner, err);

    sw_mutex_unlock(&r->lock);
    return rc;
}

void sw_rounds_next(struct sw_rounds *r, int item)
{
    sw_mutex_lock(&r->lock);
    r->item[item].arrived = 0;
    r->item[item].done++;
    sw_cond_broadcast(&r->changed);
    sw_mutex_unlock(&r->lock);
}

int sw_rounds_wait(struct sw_rounds *r, int item, uint64_t round, int timeout_ms)
{
    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&r->lock);

    const struct sw_round *i = &r->item[item];
    while (i->done < round && !r->closed) {
        int64_t left_ns = deadline_ns - sw_os()->monotonic_ns();
        if (left_ns <= 0 ||
            !sw_cond_wait_ms(&r->changed, &r->lock, (int)((left_ns + 999999) / 1000000)))
            break;
    }

    int rc = i->done >= round ? SW_OK : r->closed ? SW_ERR_CANCELLED : SW_ERR_BUSY;
    sw_mutex_unlock(&r->lock);
    return rc;
}

bool sw_rounds_wait_closed(struct sw_rounds *r, int timeout_ms)
{
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&r->lock);
    while (!r->closed && sw_cond_wait_until(&r->changed, &r->lock, until_ns))
        ;
    bool closed = r->closed;
    sw_mutex_unlock(&r->lock);

    return closed;
}

bool sw_rounds_is_closed(struct sw_rounds *r)
{
    sw_mutex_lock(&r->lock);
    bool closed = r->closed;
    sw_mutex_unlock(&r->lock);
    return closed;
}

void sw_rounds_close(struct sw_rounds *r)
{
    sw_mutex_lock(&r->lock);
    r->closed = true;
    sw_cond_broadcast(&r->changed);
    sw_mutex_unlock(&r->lock);
}
