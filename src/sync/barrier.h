/* A closeable reusable barrier for `parties` threads. */
#ifndef SW_SYNC_BARRIER_H
#define SW_SYNC_BARRIER_H

#include "sync/thread.h"

struct sw_barrier {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    int parties, waiting;
    unsigned generation;
    bool closed;
};

/* parties: how many calls of sw_barrier_wait make a generation. */
void sw_barrier_init(struct sw_barrier *b, int parties);
void sw_barrier_fini(struct sw_barrier *b);
/* Waits for all parties. SW_OK for everyone of a full generation, SW_ERR_CANCELLED once closed. */
int sw_barrier_wait(struct sw_barrier *b) SW_MUST_CHECK;
void sw_barrier_close(struct sw_barrier *b);
void sw_barrier_close_v(void *barrier);

#endif
