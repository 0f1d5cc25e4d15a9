/* Threads, mutexes and condition variables: thin wrappers of pthreads. Only this folder includes
 * pthread.h. Any thread may call. */
#pragma once

#include "base/err.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct sw_thread {
    pthread_t handle;
    bool running;
    char name[16];
    void (*main)(void *arg);
    void *arg; /* borrowed until joined */
};

/* Starts main(arg) on a new thread with all signals but SIGBUS blocked; name (15 characters) shows
 * in top and gdb. Errors: SW_ERR_NOMEM. */
int sw_thread_start(struct sw_thread *t, const char *name, void (*main)(void *), void *arg,
                    struct sw_err *err) SW_MUST_CHECK;
/* Waits for the end; does nothing on a thread that never started. */
void sw_thread_join(struct sw_thread *t);
/* Joins the thread if it ends within timeout_ms; returns false when it still runs. */
bool sw_thread_join_timed(struct sw_thread *t, int timeout_ms);

/* Lets another runnable thread run. */
void sw_thread_yield(void);
/* Sleeps for about so long, between two polls of something that nobody announces. From then on the
 * system delays this thread's timers by at most 1 us, not by 50 us as others', so that naps of some
 * 50 us are not twice as long. */
void sw_thread_nap(int64_t ns);

struct sw_mutex {
    pthread_mutex_t handle;
};
#define SW_MUTEX_INITIALIZER {PTHREAD_MUTEX_INITIALIZER} /* of a static mutex */
struct sw_cond {
    pthread_cond_t handle; /* on CLOCK_MONOTONIC */
};

void sw_mutex_init(struct sw_mutex *m);
void sw_mutex_fini(struct sw_mutex *m);
void sw_mutex_lock(struct sw_mutex *m);
/* False when another thread holds it. */
bool sw_mutex_trylock(struct sw_mutex *m) SW_MUST_CHECK;
void sw_mutex_unlock(struct sw_mutex *m);
void sw_cond_init(struct sw_cond *c);
void sw_cond_fini(struct sw_cond *c);
void sw_cond_wait(struct sw_cond *c, struct sw_mutex *m);
/* False on timeout. */
bool sw_cond_wait_ms(struct sw_cond *c, struct sw_mutex *m, int timeout_ms);
/* sw_cond_wait_ms with an absolute time of CLOCK_MONOTONIC. */
bool sw_cond_wait_until(struct sw_cond *c, struct sw_mutex *m, int64_t until_ns);
void sw_cond_signal(struct sw_cond *c);
void sw_cond_broadcast(struct sw_cond *c);
