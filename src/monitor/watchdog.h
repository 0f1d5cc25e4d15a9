/* The watchdog's judgement: has a role of the job stalled, and which one is to blame? A role gives
 * signs of life in its slot of the live snapshot, and the system says what its thread does
 * (worker/threads.h). In this order:
 *
 * 1. A thread that is stopped is to blame, at once when it has been for 2 s, whatever its slot says
 *    and whoever waits for it. While one is stopped, nobody else is.
 * 2. A role that is silent for longer than the limit stalls. The waits are followed from it to the
 *    one that waits for nobody; that one is to blame if its thread has ended, or if it is silent
 *    for as long, too.
 * 3. A role that is found there though it waits itself, since what it waits for has come or nobody
 *    is known to keep it waiting, is blamed only after twice the limit. So is a server or reader
 * that sleeps and says that it is idle, when somebody has waited for it for so long.
 *
 * An idle role never stalls, and one that computes is not silent. The silence of one that is ready
 * to run while others have the cores does not grow.
 *
 * The limit is a setting, or 4 s. Where work is silent by its nature (a disk or a device is waited
 * for, or the system does not say what the thread does), it is at least 4 times the longest silence
 * that such a phase has had so far; before the first step, where values are made or read, a minute.
 * Where neither warning nor stopping is asked for, a stall is told, and is to end the run when
 * it has lasted 12 times the limit, and a minute at least (12, where a checkpoint is written). Time
 * is counted from look to look, half a second at most for each, so that a process that was stopped
 * or a machine that slept wakes up without a stall.
 *
 * No thread, no clock, no job: slots, threads and the time are handed in, so tests can play any
 * run. One owner. */
#pragma once

#include "base/err.h"
#include "history/snapshot.h"
#include "plan/conf.h"
#include "worker/threads.h"

struct sw_watchdog;

struct sw_watchdog_args {
    int units;
    int workers; /* the first so many; servers and readers follow, and may be called idle by mistake
                  */
    int others;  /* the last so many stand for threads that are no unit's */
    int64_t stall_ns; /* 0: it follows the job */
    enum sw_on_stall on_stall;
    /* On whom `unit` waits, so that it cannot go on before that one does; -1: on nobody. */
    int (*blocker)(void *user, const struct sw_slot_state *slots, int unit);
    void *user;
};

enum sw_stall_news {
    SW_STALL_NONE,
    SW_STALL_BEGINS, /* told once; a surer one takes the place of what was told before */
    SW_STALL_LASTS,  /* so long that the run is to end */
    SW_STALL_ENDS,   /* the culprit goes on */
};

struct sw_stall {
    int culprit;
    int victim;       /* the role that waits for it, directly or through others; else itself */
    int64_t quiet_ns; /* without a sign of life from the culprit, or since its thread was stopped */
    bool stop;        /* the run is to end */
};

/* Errors: SW_ERR_NOMEM. */
int sw_watchdog_new(const struct sw_watchdog_args *args, struct sw_watchdog **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_watchdog_free(struct sw_watchdog *d); /* NULL is accepted */

/* One look at all slots [units] and their threads [units]. *stall is filled unless the answer is
 * NONE. */
enum sw_stall_news sw_watchdog_look(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                    const struct sw_thread_state *threads, int64_t now_ns,
                                    struct sw_stall *stall);
