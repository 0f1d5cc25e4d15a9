/* The events of a simulation, by time and then by the order in which they were made, which makes a
 * simulation deterministic. One thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_plansim_event_kind {
    SW_PLANSIM_WORKER,   /* worker `index` has done what it was busy with */
    SW_PLANSIM_SERVER,   /* servers with threads of their own have done exchange `index` */
    SW_PLANSIM_START,    /* the transfer of owner `index` begins to move bytes */
    SW_PLANSIM_COPY,     /* movement `index` in shared memory is complete */
    SW_PLANSIM_TRANSFER, /* transfer `index` is complete, unless its rate has changed since `stamp`
                          */
};

struct sw_plansim_event {
    double time_s;
    uint64_t order;
    enum sw_plansim_event_kind kind;
    int index;
    uint64_t stamp;
};

struct sw_plansim_events {
    struct sw_plansim_event *heap; /* owned */
    int64_t count, capacity;
    uint64_t made;
};

/* Adds an event; its order is set. Errors: SW_ERR_NOMEM. */
int sw_plansim_events_push(struct sw_plansim_events *e, struct sw_plansim_event event,
                           struct sw_err *err) SW_MUST_CHECK;
/* Takes the first event; there is one. */
struct sw_plansim_event sw_plansim_events_pop(struct sw_plansim_events *e);
void sw_plansim_events_fini(struct sw_plansim_events *e);
