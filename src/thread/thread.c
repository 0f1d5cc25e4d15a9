/* Threads, mutexes and condition variables as thin wrappers of pthreads. New threads block all
 * signals except SIGBUS, and timed waits use the monotonic clock. The contract is in
 * thread/thread.h. */
#include "thread/thread.h"
#include "base/os.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* pthread calls below fail only for objects that were never initialised or locks that are not held:
 * our own bugs, which the sanitizers report. Their results are ignored. */

static void *run_thread(void *arg)
{
    struct sw_thread *t = arg;

    /* The thread names itself, so that threads it starts, such as those of OpenMP, inherit the
     * name. */
    pthread_setname_np(pthread_self(), t->name);
    t->main(t->arg);
    return NULL;
}

int sw_thread_start(struct sw_thread *t, const char *name, void (*main)(void *), void *arg,
                    struct sw_err *err)
{
    *t = (struct sw_thread){.main = main, .arg = arg};
    strncpy(t->name, name, sizeof t->name - 1);

    /* A new thread inherits the mask, so signals are blocked from its first instruction: they go to
     * the main thread, which alone decides what a Ctrl-C means. SIGBUS is the exception, since a
     * thread causes it itself (base/mapped.h), and the kernel kills a process that blocks it. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    int reason = pthread_create(&t->handle, NULL, run_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    char limit[96];
    if (reason)
        return sw_err_set(err, SW_ERR_NOMEM, "cannot start thread %s: %s%s", name,
                          reason == EAGAIN ? "too many threads (ulimit -u) or no memory for a stack"
                                           : "refused",
                          sw_memory_limit(limit, sizeof limit));

    t->running = true;
    return SW_OK;
}

void sw_thread_join(struct sw_thread *t)
{
    if (t->running)
        pthread_join(t->handle, NULL);
    t->running = false;
}

static struct timespec deadline(clockid_t clock, int timeout_ms)
{
    struct timespec t;

    clock_gettime(clock, &t);

    if (timeout_ms > 0) {
        t.tv_sec += timeout_ms / 1000;
        t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    }

    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }

    return t;
}

bool sw_thread_join_timed(struct sw_thread *t, int timeout_ms)
{
    if (!t->running)
        return true;

    /* The timeout uses the wall clock; setting the clock meanwhile shortens or lengthens the grace
     * period of a shutdown, which is harmless. */
    struct timespec until = deadline(CLOCK_REALTIME, timeout_ms);
    if (pthread_timedjoin_np(t->handle, NULL, &until) != 0)
        return false;

    t->running = false;
    return true;
}

void sw_thread_yield(void)
{
    sched_yield();
}

void sw_thread_nap(int64_t ns)
{
    enum { SLACK_NS = 1000 };

    prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK_NS, 0, 0, 0); /* on failure naps are longer */
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

void sw_mutex_init(struct sw_mutex *m)
{
    pthread_mutex_init(&m->handle, NULL);
}

void sw_mutex_fini(struct sw_mutex *m)
{
    pthread_mutex_destroy(&m->handle);
}

void sw_mutex_lock(struct sw_mutex *m)
{
    pthread_mutex_lock(&m->handle);
}

bool sw_mutex_trylock(struct sw_mutex *m)
{
    return pthread_mutex_trylock(&m->handle) == 0;
}

void sw_mutex_unlock(struct sw_mutex *m)
{
    pthread_mutex_unlock(&m->handle);
}

void sw_cond_init(struct sw_cond *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->handle, &attr);
    pthread_condattr_destroy(&attr);
}

void sw_cond_fini(struct sw_cond *c)
{
    pthread_cond_destroy(&c->handle);
}

void sw_cond_wait(struct sw_cond *c, struct sw_mutex *m)
{
    pthread_cond_wait(&c->handle, &m->handle);
}

bool sw_cond_wait_ms(struct sw_cond *c, struct sw_mutex *m, int timeout_ms)
{
    struct timespec until = deadline(CLOCK_MONOTONIC, timeout_ms);
    return pthread_cond_timedwait(&c->handle, &m->handle, &until) != ETIMEDOUT;
}

bool sw_cond_wait_until(struct sw_cond *c, struct sw_mutex *m, int64_t until_ns)
{
    enum { PER_S = 1000000000 };
    struct timespec until = {.tv_sec = until_ns / PER_S, .tv_nsec = until_ns % PER_S};
    return pthread_cond_timedwait(&c->handle, &m->handle, &until) != ETIMEDOUT;
}

void sw_cond_signal(struct sw_cond *c)
{
    pthread_cond_signal(&c->handle);
}

void sw_cond_broadcast(struct sw_cond *c)
{
    pthread_cond_broadcast(&c->handle);
}
