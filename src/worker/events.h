/* Events: what the threads of a job tell its main thread, its history and its log. Nobody ever
 * waits here: a terminal that is stopped must not stop training. Any thread. */
#pragma once

#include "history/history.h"
#include "history/snapshot.h"
#include "thread/queue.h"
#include "worker/observer.h"

/* An event with its texts, on its way to the main thread. */
struct sw_note {
    struct sw_job_event event;
    bool wake;                  /* only wakes the main thread: the worker has ended */
    char source[32], text[512]; /* whoever said it may be gone when it is told */
};

struct sw_events {
    struct sw_log *log;           /* borrowed */
    struct sw_history *history;   /* owned by the run; NULL: none is written */
    struct sw_snapshot *snapshot; /* owned by the run: the live slots of all threads */
    const int64_t *step;          /* borrowed: the leader's updates, */
    const int64_t *steps;         /* and where the run ends */
    struct sw_queue notes;        /* struct sw_note */
    bool ready;                   /* there is a queue */
    int bad_records_told;         /* atomic */
    int ended;                    /* atomic: workers that have ended */
};

/* Hands an event to the main thread; a display is dropped when it is slow. text may be NULL. */
void sw_events_tell(struct sw_events *e, const struct sw_job_event *event, const char *text);
void sw_events_tell_ended(struct sw_events *e);
/* An event for the history, the log and the observer. */
void sw_events_say(struct sw_events *e, enum sw_log_level level, const char *source,
                   const char *fmt, ...) SW_PRINTF(4, 5);
/* The same from a thread that knows the step only from the live snapshot. */
void sw_events_say_at(struct sw_events *e, int64_t step, enum sw_log_level level,
                      const char *source, const char *fmt, ...) SW_PRINTF(5, 6);
/* The same for a record that is passed over (a source's report_bad; user is the events), from any
 * thread. Without history it goes to the log. */
void sw_events_say_bad_record(void *events, const char *text);
