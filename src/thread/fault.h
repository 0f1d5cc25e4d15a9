/* One fault per job: the first error wins and everything closes. Queues, barriers and other waits
 * are attached as closers; setting the fault calls each once, after which every wait returns
 * SW_ERR_CANCELLED. Any thread may call. */
#pragma once

#include "base/err.h"
#include "thread/atomic.h"
#include "thread/thread.h"

struct sw_fault_closer {
    void (*close)(void *object);
    void *object; /* borrowed */
};

struct sw_fault {
    atomic_int code;      /* 0 while healthy; read without the lock */
    struct sw_mutex lock; /* guards all below */
    struct sw_err first;
    char source[64];
    struct sw_fault_closer *closers; /* owned [closer_count] */
    int closer_count;
};

/* Before fini, everything must be detached and no thread may wait any more. */
void sw_fault_init(struct sw_fault *f);
void sw_fault_fini(struct sw_fault *f);

/* Attaches an object to close (borrowed until detached). Closes it at once when the fault is set.
 * Errors: SW_ERR_NOMEM. */
int sw_fault_attach(struct sw_fault *f, void (*close)(void *object), void *object,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_fault_detach(struct sw_fault *f, void *object);

/* Records the first error and closes everything. Later errors are dropped, and SW_ERR_CANCELLED
 * does nothing: it results from a fault or an orderly stop and is never the cause. source names the
 * thread role: "worker0.0". */
void sw_fault_set(struct sw_fault *f, const char *source, const struct sw_err *e);
/* Ends the job like sw_fault_set after a stop request (base/stop.h) that a role noticed before its
 * work could be ended in order: here SW_ERR_CANCELLED is the cause. */
void sw_fault_stop(struct sw_fault *f, const char *source, const struct sw_err *e);
static inline bool sw_fault_is_set(const struct sw_fault *f)
{
    return atomic_load_explicit(&f->code, memory_order_acquire) != 0;
}
/* The code of the first error; 0 when healthy. A closer may call it. */
static inline int sw_fault_code(const struct sw_fault *f)
{
    return atomic_load_explicit(&f->code, memory_order_acquire);
}
/* Copies the first error as "SOURCE: message" and returns its code; SW_OK when healthy. */
int sw_fault_get(struct sw_fault *f, struct sw_err *err);
