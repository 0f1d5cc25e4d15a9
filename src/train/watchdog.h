/* The watchdog's judgement: has a role of the job stalled, and which one is to blame? A role that
 * works or waits gives signs of life in its slot of the live snapshot; one that gives none for
 * longer than the limit stands still. Who stands because it waits for another is not to blame: the
 * waits are followed to the one that waits for nobody, and only if that one stands still too, it is
 * a stall. An idle role never is one.
 *
 * The limit is a setting, or follows the job: at least 5 s, and 4 times the longest time that a
 * role has worked in silence so far; before the first step, where values are made or read, a
 * minute. Where neither warning nor stopping is asked for, a stall is told, and is to end the run
 * when it has lasted 12 times the limit (of a minute, where a checkpoint is written). Time is
 * counted from look to look, half a second at most for each, so that a process that was stopped or
 * a machine that slept wakes up without a stall.
 *
 * No thread, no clock, no job: slots and the time are handed in, so tests can play any run. One
 * owner. */
#ifndef SW_TRAIN_WATCHDOG_H
#define SW_TRAIN_WATCHDOG_H

#include "base/err.h"
#include "cluster/conf.h"
#include "history/snapshot.h"

struct sw_watchdog;

struct sw_watchdog_args {
    int units;
    int64_t stall_ns; /* 0: it follows the job */
    enum sw_on_stall on_stall;
    /* On whom `unit` waits, so that it cannot go on before that one does; -1: on nobody. */
    int (*blocker)(void *user, const struct sw_slot_state *slots, int unit);
    void *user;
};

enum sw_stall_news {
    SW_STALL_NONE,
    SW_STALL_BEGINS, /* told once */
    SW_STALL_LASTS,  /* so long that the run is to end */
    SW_STALL_ENDS,   /* the culprit goes on */
};

struct sw_stall {
    int culprit;
    int victim;       /* who waits for it, if anybody does, through others perhaps; else itself */
    int64_t quiet_ns; /* without a sign of life from the culprit */
    bool stop;        /* the run is to end */
};

/* Errors: SW_ERR_NOMEM. */
int sw_watchdog_new(const struct sw_watchdog_args *args, struct sw_watchdog **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_watchdog_free(struct sw_watchdog *d); /* NULL is accepted */

/* One look at all slots [units]. *stall is filled unless the answer is NONE. */
enum sw_stall_news sw_watchdog_look(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                    int64_t now_ns, struct sw_stall *stall);

#endif
