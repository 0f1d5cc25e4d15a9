/* What the system says of the threads behind the slots of the live snapshot: does each compute,
 * wait for a core, sleep, or is it stopped, or ended? The watchdog needs it to tell a role that
 * hangs from one that a busy machine keeps waiting.
 *
 * A slot's role has its own thread, those that took its thread's name (the OpenMP team that it
 * started), and the queues of its sim device. A stopped thread that is nobody's, such as the main
 * thread or the history's writer, is told as one role more, behind the others.
 *
 * The lists of threads are handed in, so tests can play any. One owner. */
#pragma once

#include "base/err.h"
#include "thread/tasks.h"

enum sw_activity {
    SW_THREAD_UNKNOWN,  /* the system does not say, or it means nothing: a GPU computes */
    SW_THREAD_COMPUTES, /* got CPU time since the list before */
    SW_THREAD_STARVED,  /* could run, but others have the cores */
    SW_THREAD_ASLEEP,   /* waits for something, or is blocked in the kernel */
    SW_THREAD_STOPPED,  /* by a debugger or a signal */
    SW_THREAD_ENDED,
};

struct sw_thread_state {
    enum sw_activity activity;
    int id;            /* of the thread that is meant; 0: unknown */
    char state;        /* as in struct sw_task; 0: unknown */
    int64_t cpu_ticks; /* of that thread so far */
    int64_t for_ns;    /* stopped or ended for so long, as counted from list to list */
};

/* Whose thread it is. */
struct sw_thread_owner {
    int id;                    /* 0: not known yet */
    const char *name;          /* further threads of this name are its own; NULL: none */
    char device[SW_TASK_NAME]; /* and those whose name begins so compute for it; "": none */
    bool far;                  /* what it does on the CPU says nothing of its progress */
};

struct sw_threads;

/* Errors: SW_ERR_NOMEM. */
int sw_threads_new(int owners, struct sw_threads **out, struct sw_err *err) SW_MUST_CHECK;
void sw_threads_free(struct sw_threads *t); /* NULL is accepted */

/* Takes in the next list, passed_ns after the one before; main_id: the process's first thread. */
void sw_threads_look(struct sw_threads *t, const struct sw_thread_owner *owners,
                     const struct sw_task *tasks, int count, int main_id, int64_t passed_ns);

/* [owners + 1]: the last one is the thread that is nobody's, UNKNOWN while none is stopped. */
const struct sw_thread_state *sw_threads_states(const struct sw_threads *t);
/* The name of that thread; "main" for the first one. */
const char *sw_threads_other_name(const struct sw_threads *t);
