/* The watchdog: decides whether a role of the job has stalled, and which role is the culprit.
 * Inputs are the heartbeats in the slots of the live snapshot and the state of each thread as the
 * system reports it (worker/threads.h). In this order:
 *
 * 1. A thread that has been stopped for 2 s is the culprit, whatever its slot says and whoever
 * waits for it. While a thread is stopped, no other role is blamed.
 * 2. A role without a heartbeat for longer than the limit has stalled. The chain of waits is
 * followed from it to a role that no other role blocks; that role is the culprit if its thread has
 * ended, or if it has been silent for as long.
 * 3. If the role at the end of the chain waits itself, because its wait is already satisfied or the
 * blocking role is unknown, it is blamed only after twice the limit. So is a server or reader that
 * sleeps and reports to be idle while another role has waited for it for that long.
 *
 * An idle role never stalls, and a role that computes counts as alive. The silence of a role that
 * is ready to run but gets no core does not grow.
 *
 * The limit is a setting, or 4 s. For work that cannot send heartbeats (waiting for a disk or a
 * device, or thread state unknown), it is at least 4 times the longest silence of such a phase so
 * far; before the first step, when values are initialized or read, at least a minute. By default a
 * stall is reported, and ends the run when it has lasted 12 times the limit and at least a minute
 * (12 minutes while a checkpoint is written). Time is counted between calls, at most half a second
 * each, so a process that was stopped or a machine that slept does not wake up with a stall.
 *
 * It uses no thread, clock or job: slots, threads and time are arguments, so tests can replay any
 * run. One owner. */
#pragma once

#include "base/err.h"
#include "history/snapshot.h"
#include "plan/conf.h"
#include "worker/threads.h"

struct sw_watchdog;

struct sw_watchdog_args {
    int role_count;
    int workers; /* roles [0, workers); servers and readers follow, and may wrongly report to be
                    idle */
    int others;  /* the last roles stand for threads that belong to no role */
    int64_t stall_ns; /* 0: automatic limit */
    enum sw_on_stall on_stall;
    bool shared; /* other hosts train the job, too: a role that waits may wait for one of them,
                    which is reported and ends nothing */
    /* The role that blocks `role`; -1: none. */
    int (*blocker)(void *user, const struct sw_slot_state *slots, int role);
    void *user;
};

enum sw_stall_news {
    SW_STALL_NONE,
    SW_STALL_BEGINS, /* reported once; replaced if a more certain culprit is found */
    SW_STALL_LASTS,  /* it has lasted so long that the run must end */
    SW_STALL_ENDS,   /* the culprit resumed */
};

struct sw_stall {
    int culprit;
    int victim; /* the role that waits for it, directly or indirectly; else the culprit itself */
    int64_t quiet_ns; /* time without a heartbeat of the culprit, or since its thread was stopped */
    bool stop;        /* the run must end */
};

/* Makes a watchdog that has seen nothing yet. Errors: SW_ERR_NOMEM. */
int sw_watchdog_new(const struct sw_watchdog_args *args, struct sw_watchdog **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_watchdog_free(struct sw_watchdog *d); /* NULL is accepted */

/* Evaluates all slots [roles] and their threads [roles]. *stall is set unless the result is NONE.
 */
enum sw_stall_news sw_watchdog_check(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                     const struct sw_thread_state *threads, int64_t now_ns,
                                     struct sw_stall *stall);
