/* The time that each layer takes. Where operations run synchronously, it is the time of the
 * worker's thread for a pass of the layer, in every step. A device with its own memory executes
 * queued operations later, so readings of its clock are queued before and after every pass, in some
 * steps only: in the second one, when libraries are initialized, and in every 32nd from there, as
 * long as these are queued operation by operation. A graph has no such readings, which would cost
 * something in every step. Where layers run concurrently, on streams of their own, a layer has no
 * time of its own, and none is reported. */
#include "worker/layer_clock.h"
#include "base/os.h"
#include "device/op.h"
#include "kernels/ops/clock.h"
#include "worker/events.h"
#include "worker/segments.h"
#include "worker/worker.h"

enum { EVERY = 32 };

struct sw_layer_clock {
    int64_t *marks;      /* owned device memory [room][2]: device time at begin and end of a pass */
    int64_t *host_marks; /* owned host memory: copy of marks */
    struct sw_layer_pass {
        int layer;
        bool backward;
    } * passes;   /* owned [room]: passes of the current step */
    size_t bytes; /* of marks, and of host_marks */
    int room, count;
    bool runs; /* measures the current step */
};

/* Passes of a step: two per layer, and two per layer and turn of a chain. */
static int room_of(const struct sw_worker *w)
{
    bool host_marks =
        !w->device->host_memory && !w->shared.one_worker && sw_net_stream_count(w->train) == 1;
    return host_marks ? 2 * sw_net_layer_count(w->train) * (1 + sw_net_chain_steps(w->train)) : 0;
}

size_t sw_layer_clock_bytes(const struct sw_worker *w)
{
    return (size_t)room_of(w) * 2 * sizeof(int64_t);
}

int sw_layer_clock_new(struct sw_worker *w, struct sw_err *err)
{
    size_t bytes = sw_layer_clock_bytes(w);
    void *marks = NULL, *host_marks = NULL;

    if (bytes == 0)
        return SW_OK;

    struct sw_layer_clock *c = w->timer.layers = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "times of layers", sizeof *c);

    c->bytes = bytes;
    c->room = room_of(w);

    c->passes = sw_calloc((size_t)c->room, sizeof *c->passes);
    if (!c->passes)
        return sw_err_nomem(err, "times of layers", (size_t)c->room * sizeof *c->passes);

    int rc = sw_device_alloc(w->device, bytes, "times of layers", &marks, err);
    if (rc != SW_OK)
        return rc;

    c->marks = marks;
    rc = sw_device_host_alloc(w->device, bytes, "times of layers", &host_marks, err);
    if (rc != SW_OK)
        return rc;

    c->host_marks = host_marks;
    return SW_OK;
}

void sw_layer_clock_report(const struct sw_worker *w)
{
    if (!w->device->host_memory && sw_net_stream_count(w->train) > 1)
        sw_history_event(w->shared.events->history, SW_LOG_INFO, w->role,
                         "layers have no times of their own, since up to %d run at the same time; "
                         "--set job.streams=1 runs them one by one, and measures them",
                         sw_net_stream_count(w->train));
}

void sw_layer_clock_free(struct sw_worker *w)
{
    struct sw_layer_clock *c = w->timer.layers;

    if (!c)
        return;

    sw_device_free(w->device, c->marks, c->bytes);
    if (c->host_marks)
        sw_device_host_free(w->device, c->host_marks, c->bytes);
    sw_free(c->passes);
    sw_free(c);
    w->timer.layers = NULL;
}

void sw_layer_clock_step(struct sw_worker *w, int64_t t)
{
    struct sw_layer_clock *c = w->timer.layers;
    if (!c)
        return;

    c->count = 0;
    c->runs = (t - 1 - w->record.first_step) % EVERY == 1 && sw_segments_are_queued(w->segments);
}

int sw_layer_clock_begin(struct sw_worker *w, int layer, bool backward, struct sw_err *err)
{
    struct sw_layer_clock *c = w->timer.layers;
    double *total_ms = backward ? &w->timer.backward_ms[layer] : &w->timer.forward_ms[layer];

    w->timer.pass_ms = backward ? &w->timer.ledger.backward_ms : &w->timer.ledger.forward_ms;
    w->timer.pass_total_ms = w->device->host_memory ? total_ms : NULL;
    if (!c || !c->runs || c->count == c->room)
        return SW_OK;

    c->passes[c->count] = (struct sw_layer_pass){layer, backward};
    return sw_op_run(w->stream, &sw_op_clock,
                     &(const struct sw_clock_args){.ns = &c->marks[2 * c->count]}, err);
}

int sw_layer_clock_end(struct sw_worker *w, struct sw_err *err)
{
    struct sw_layer_clock *c = w->timer.layers;
    int rc = SW_OK;

    if (c && c->runs && c->count < c->room) {
        rc = sw_op_run(w->stream, &sw_op_clock,
                       &(const struct sw_clock_args){.ns = &c->marks[2 * c->count + 1]}, err);
        c->count++;
    }

    sw_step_timer_charge(w, w->timer.pass_ms, w->timer.pass_total_ms);
    return rc;
}

int sw_layer_clock_queue_read(struct sw_worker *w, struct sw_err *err)
{
    struct sw_layer_clock *c = w->timer.layers;
    if (!c || !c->runs)
        return SW_OK;

    return sw_copy(w->stream, c->host_marks, c->marks, (size_t)c->count * 2 * sizeof *c->host_marks,
                   err);
}

bool sw_layer_clock_runs(const struct sw_worker *w)
{
    return w->timer.layers && w->timer.layers->runs;
}

void sw_layer_clock_take(struct sw_worker *w)
{
    struct sw_layer_clock *c = w->timer.layers;

    w->timer.steps += w->device->host_memory || (c && c->runs);
    if (!c || !c->runs)
        return;

    w->timer.computed_ms = 0;
    for (int i = 0; i < c->count; i++) {
        const struct sw_layer_pass *p = &c->passes[i];
        const double ms = (double)(c->host_marks[2 * i + 1] - c->host_marks[2 * i]) * 1e-6;

        *(p->backward ? &w->timer.backward_ms[p->layer] : &w->timer.forward_ms[p->layer]) += ms;
        w->timer.computed_ms += ms;
    }

    c->runs = false;
}
