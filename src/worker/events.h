/* Events of a job for its main thread, its history and its log. Posting never blocks: a stopped
 * terminal must not stop training. Any thread. */
#pragma once

#include "history/history.h"
#include "history/snapshot.h"
#include "thread/queue.h"
#include "worker/observer.h"

/* An event with copies of its texts, in the queue for the main thread. */
struct sw_queued_event {
    struct sw_job_event event;
    bool wake;                  /* a worker has ended: only wakes the main thread */
    char source[32], text[512]; /* copies: the sender may have ended when the event is delivered */
};

enum { SW_EVENTS_QUEUED = 1024 }; /* capacity of the queue */

struct sw_events {
    struct sw_log *log;           /* borrowed */
    struct sw_history *history;   /* owned by the run; NULL: none is written */
    struct sw_snapshot *snapshot; /* owned by the run: the live slots of all threads */
    const int64_t *step;          /* borrowed: the number of updates of the leader */
    const int64_t *steps;         /* borrowed: the last step of the run */
    struct sw_queue queue;        /* struct sw_queued_event */
    bool ready;                   /* the queue is initialized */
    int bad_records_logged;       /* atomic */
    int ended;                    /* atomic: workers that have ended */
};

/* Posts an event to the main thread. It is dropped when the queue is full. text may be NULL. */
void sw_events_post(struct sw_events *e, const struct sw_job_event *event, const char *text);
void sw_events_post_ended(struct sw_events *e);
/* Records an event in the history and the log, and posts it to the observer. */
void sw_events_report(struct sw_events *e, enum sw_log_level level, const char *source,
                      const char *fmt, ...) SW_PRINTF(4, 5);
/* sw_events_report with an explicit step, for threads other than the leader's. */
void sw_events_report_at(struct sw_events *e, int64_t step, enum sw_log_level level,
                         const char *source, const char *fmt, ...) SW_PRINTF(5, 6);
/* Posts an event of another host, which its history has already, to the observer. */
void sw_events_forward(struct sw_events *e, enum sw_log_level level, const char *source,
                       const char *text);
/* Reports a skipped record: the report_bad callback of a data source, with `events` as its user.
 * Without a history it goes to the log. Any thread. */
void sw_events_report_bad_record(void *events, const char *text);
