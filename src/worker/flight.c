/* Steps in flight: see flight.h for what is promised. */
#include "worker/flight.h"
#include "worker/worker.h"
#include "worker/worker_place.h"

#include "base/os.h"

/* Where activations move between workers, the host waits for them in the middle of a step, and
 * counts who has read what. */
static int depth_of(const struct sw_worker *w)
{
    struct sw_transfer *const *transfers = w->shared.groups->transfers[SW_SPLIT_TRAIN];
    bool moves = transfers && transfers[w->rank->group];

    return moves ? 1 : sw_exchange_depth(w->exchange);
}

int sw_flight_init(struct sw_worker *w, struct sw_err *err)
{
    struct sw_flight *f = &w->flight;

    f->depth = depth_of(w);
    for (int i = 0; i < SW_FLIGHT_DEPTH && f->depth > 1; i++) {
        int rc = sw_event_new(w->device, &f->step[i].done, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_flight_fini(struct sw_worker *w)
{
    struct sw_flight *f = &w->flight;
    struct sw_err ignored; /* the run has ended by another error */

    if (f->count > 0) {
        int rc = sw_stream_wait(w->stream, &ignored);
        (void)rc;
    }

    for (int i = 0; i < SW_FLIGHT_DEPTH; i++)
        if (f->step[i].done)
            sw_event_free(w->device, f->step[i].done);
}

int64_t sw_flight_next(const struct sw_worker *w)
{
    return w->step + w->flight.count + 1;
}

int sw_flight_add(struct sw_worker *w, const struct sw_batch *batch, struct sw_err *err)
{
    struct sw_flight *f = &w->flight;
    int at = (int)(sw_flight_next(w) % SW_FLIGHT_DEPTH);

    f->step[at].batch = *batch;
    f->count++;

    return f->step[at].done ? sw_event_record(w->stream, f->step[at].done, err) : SW_OK;
}

int sw_flight_wait(struct sw_worker *w, int behind, struct sw_err *err)
{
    if (behind == 0)
        return sw_worker_wait(w, err);

    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_DEVICE}, "its device",
                    sw_os()->monotonic_ns());

    int rc =
        sw_event_host_wait(w->device, w->flight.step[(w->step + 1) % SW_FLIGHT_DEPTH].done, err);
    sw_slot_wait(w->slot, NULL, sw_os()->monotonic_ns());
    return rc;
}

void sw_flight_remove(struct sw_worker *w)
{
    w->step++;
    w->flight.count--;
    sw_prefetch_release(w->batches.prefetch[SW_SPLIT_TRAIN],
                        &w->flight.step[w->step % SW_FLIGHT_DEPTH].batch);
}
