/* Events of the sim device. Functions without a comment are entries of the device's table,
 * described in device/device.h. */
#pragma once

#include "device/sim/sim_private.h"

/* What sw_event is on sim; reference-counted by its owner and all queued operations. */
struct sw_sim_event {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    int owners;
    uint64_t queued_records,
        done; /* number of records queued so far; number of the latest that happened */
    struct sw_sim_clock clock; /* operations that come before the latest record */
    uint64_t captured;         /* number of the capture in which it was recorded last; 0: none; */
    int mark;                  /* index of its mark in that capture */
    struct sw_err err;         /* of the latest record: why it failed; code SW_OK: it did not */
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
/* For events that no stream records: sw_sim_event_happen completes record `number` and all before
 * it, with an error if `why` is set; sw_sim_event_block waits for that on a stream's thread, or
 * until the stream is cancelled. */
void sw_sim_event_happen(struct sw_sim_event *e, uint64_t number, const struct sw_err *why);
int sw_sim_event_block(struct sw_sim_stream *s, struct sw_sim_event *e, uint64_t number,
                       struct sw_err *err) SW_MUST_CHECK;
