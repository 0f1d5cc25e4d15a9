/* Events go into a queue that the main thread empties, and into the history and the log. */
#include "worker/events.h"

#include <stdarg.h>
#include <stdio.h>

static void push(struct sw_events *e, const struct sw_queued_event *queued)
{
    /* Dropped when the queue is full: displays and evaluations are also in the history. */
    int rc = e->ready ? sw_queue_try_push(&e->queue, queued) : SW_OK;
    (void)rc;
}

void sw_events_post(struct sw_events *e, const struct sw_job_event *event, const char *text)
{
    struct sw_queued_event queued = {.event = *event};
    if (text)
        snprintf(queued.text, sizeof queued.text, "%s", text);
    push(e, &queued);
}

void sw_events_post_ended(struct sw_events *e)
{
    struct sw_queued_event queued = {.wake = true};
    __atomic_add_fetch(&e->ended, 1, __ATOMIC_RELEASE);
    push(e, &queued);
}

static void push_event(struct sw_events *e, int64_t step, enum sw_log_level level,
                       const char *source, const char *text)
{
    struct sw_queued_event queued = {
        .event = {.type = SW_JOB_EVENT, .level = level, .step = step, .steps = *e->steps}};

    snprintf(queued.source, sizeof queued.source, "%s", source);
    snprintf(queued.text, sizeof queued.text, "%.*s", (int)sizeof queued.text - 1, text);
    push(e, &queued);
}

static void report(struct sw_events *e, int64_t step, enum sw_log_level level, const char *source,
                   const char *text)
{
    sw_history_event(e->history, level, source, "%s", text);
    push_event(e, step, level, source, text);
}

void sw_events_forward(struct sw_events *e, enum sw_log_level level, const char *source,
                       const char *text)
{
    struct sw_slot_state s;
    bool known = sw_snapshot_read_slot(e->snapshot, 0, &s) && s.step > 0;

    push_event(e, known ? s.step : 0, level, source, text);
}

void sw_events_report(struct sw_events *e, enum sw_log_level level, const char *source,
                      const char *fmt, ...)
{
    char text[sizeof((struct sw_queued_event *)0)->text];

    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    report(e, *e->step, level, source, text);
}

void sw_events_report_at(struct sw_events *e, int64_t step, enum sw_log_level level,
                         const char *source, const char *fmt, ...)
{
    char text[sizeof((struct sw_queued_event *)0)->text];

    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    report(e, step, level, source, text);
}

/* If thousands of records are damaged, only the first ones are reported. */
enum { MAX_BAD_RECORDS_LOGGED = 20 };

void sw_events_report_bad_record(void *events, const char *text)
{
    struct sw_events *e = events;
    struct sw_slot_state s = {0};
    const int number = __atomic_add_fetch(&e->bad_records_logged, 1, __ATOMIC_RELAXED);
    struct sw_err line;

    if (number > MAX_BAD_RECORDS_LOGGED)
        return;

    sw_err_set(&line, SW_ERR_FORMAT, "%s; skipped%s", text,
               number == MAX_BAD_RECORDS_LOGGED ? "; further bad records are only counted" : "");

    /* An evaluation outside of a run has no history, and perhaps no step in its snapshot. */
    if (!e->history) {
        sw_log_write(e->log, SW_LOG_WARN, "data", "%s", line.text);
        return;
    }

    /* Read from the slot, because the worker's own step belongs to its thread; -1: none yet. */
    if (!sw_snapshot_read_slot(e->snapshot, 0, &s) || s.step < 0)
        s.step = 0;
    report(e, s.step, SW_LOG_WARN, "data", line.text);
}
