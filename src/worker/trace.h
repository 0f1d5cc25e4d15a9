/* A trace records what each role did when, for tests and debugging. Roles append without locks;
 * when the memory is full further events are only counted. Read it after the roles have ended. */
#pragma once

#include "thread/atomic.h"
#include <stddef.h>
#include <stdint.h>

enum sw_trace_what { SW_TRACE_FORWARD, SW_TRACE_BACKWARD, SW_TRACE_COLLECT, SW_TRACE_UPDATE };

struct sw_trace_event {
    int64_t begin_ns, end_ns; /* monotonic */
    int64_t step;
    enum sw_trace_what what;
    int role;  /* the role: workers count from 0, servers from 1000 */
    int index; /* layer, or for updates and collects the parameter */
};

struct sw_trace {
    struct sw_trace_event *events; /* owned */
    size_t capacity;
    atomic_size_t count; /* events so far; min(count, capacity) are stored */
};

struct sw_trace *sw_trace_new(size_t capacity); /* NULL when memory is exhausted */
void sw_trace_free(struct sw_trace *t);
/* Appends an event. t may be NULL. Any thread. */
void sw_trace_add(struct sw_trace *t, const struct sw_trace_event *e);
