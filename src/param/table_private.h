/* What table.c (building) and serve.c (running) share. */
#ifndef SW_PARAM_TABLE_PRIVATE_H
#define SW_PARAM_TABLE_PRIVATE_H

#include "param/table.h"

/* One server's side; only its shell touches it, but for served_ns. */
struct sw_server_state {
    struct sw_channel inbox;
    bool inbox_open;
    int *slices; /* owned: indices of its slices, ascending */
    int slice_count;
    int *first;  /* owned [params + 1]: its slices of a parameter are slices[first[p] .. first[p+1])
                  */
    bool *heard; /* owned [params][workers]: who has contributed to the coming version */
    struct sw_message *early; /* owned [capacity]: updates whose turn has not come */
    int early_count, early_capacity;
    int64_t served_ns; /* atomic */
};

struct sw_table {
    struct sw_table_args args;
    struct sw_param *params; /* owned */
    int param_count, param_capacity;
    struct sw_slice *slices; /* owned */
    int slice_count;
    struct sw_server_state *servers; /* owned [args.servers] */
    int slots;
    void *values, *state; /* owned device memory */
    size_t value_bytes, state_bytes;
    sw_table_watch *watch;
    void *watch_user;
    struct sw_mutex lock; /* guards closed; taken to wait for a version */
    struct sw_cond changed;
    bool closed;
    int waiters; /* atomic: who sleeps on changed */
};

#endif
