/* The state of the threads behind the slots of the live snapshot, from the operating system:
 * computing, waiting for a core, asleep, stopped, or ended. The watchdog needs it to distinguish a
 * role that hangs from one that a busy machine delays.
 *
 * A slot's role has its own thread, threads that inherited its thread's name (its OpenMP team), and
 * the queues of its sim device. A stopped thread that belongs to no role, such as the main thread
 * or the history's writer, is reported as one more role, after the others.
 *
 * The lists of threads are arguments, so tests can supply any. One owner. */
#pragma once

#include "base/err.h"
#include "thread/tasks.h"

enum sw_activity {
    SW_THREAD_UNKNOWN,  /* the system does not tell, or a GPU computes */
    SW_THREAD_COMPUTES, /* got CPU time since the previous list */
    SW_THREAD_STARVED,  /* runnable, but others have the cores */
    SW_THREAD_ASLEEP,   /* waits for something, or is blocked in the kernel */
    SW_THREAD_STOPPED,  /* by a debugger or a signal */
    SW_THREAD_ENDED,
};

struct sw_thread_state {
    enum sw_activity activity;
    int id;            /* thread that determines the state; 0: unknown */
    char state;        /* as in struct sw_task; 0: unknown */
    int64_t cpu_ticks; /* CPU time of that thread so far */
    int64_t for_ns;    /* time since it stopped or ended, counted over the lists */
};

/* The threads of a role. */
struct sw_thread_owner {
    int id;                    /* 0: not known yet */
    const char *name;          /* other threads with this name belong to it; NULL: none */
    char device[SW_TASK_NAME]; /* threads whose name begins with this compute for it; "": none */
    bool far;                  /* its CPU time says nothing about its progress */
};

struct sw_threads;

/* Makes the states of `owners` roles, all unknown. Errors: SW_ERR_NOMEM. */
int sw_threads_new(int owners, struct sw_threads **out, struct sw_err *err) SW_MUST_CHECK;
void sw_threads_free(struct sw_threads *t); /* NULL is accepted */

/* Processes the next list, passed_ns after the previous one; main_id: the process's first thread.
 */
void sw_threads_check(struct sw_threads *t, const struct sw_thread_owner *owners,
                      const struct sw_task *tasks, int count, int main_id, int64_t passed_ns);

/* [owners + 1]: the last one is the thread without an owner, UNKNOWN while none is stopped. */
const struct sw_thread_state *sw_threads_states(const struct sw_threads *t);
/* The name of that thread; "main" for the process's first one. */
const char *sw_threads_other_name(const struct sw_threads *t);
