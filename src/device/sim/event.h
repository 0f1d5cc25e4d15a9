/* Events of the sim device. Functions without a word are rows of the device's table:
 * device/device.h. */
#pragma once

#include "device/sim/sim_private.h"

/* What sw_event is on sim; on the heap until the owner and all queued operations have let go. */
struct sw_sim_event {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    int owners;
    uint64_t queued_records, done; /* records queued so far; the latest that happened */
    struct sw_sim_clock clock;     /* what the latest record stands behind */
    uint64_t captured;             /* the number of the capture that it was in; 0: of none, and */
    int mark;                      /* which of its marks it is */
    struct sw_err err;             /* of that one: why it could not happen; code SW_OK else */
};

static inline struct sw_sim_event *sw_sim_event_of(struct sw_event *e)
{
    return (struct sw_sim_event *)(void *)e;
}

int sw_sim_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err);
void sw_sim_event_free(struct sw_event *e);
int sw_sim_event_record(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_sim_event_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_sim_event_host_wait(struct sw_event *e, struct sw_err *err);
void sw_sim_event_wake(struct sw_sim_event *e);
/* For events that no stream records: record `number`, and all before it, has happened or, with a
 * reason, never will; and on a stream's thread, waits for that, or until the stream is cancelled.
 */
void sw_sim_event_happen(struct sw_sim_event *e, uint64_t number, const struct sw_err *why);
int sw_sim_event_stand(struct sw_sim_stream *s, struct sw_sim_event *e, uint64_t number,
                       struct sw_err *err) SW_MUST_CHECK;
