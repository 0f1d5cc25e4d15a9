/* Events go into a queue that the main thread empties, and into history and log. */
#include "worker/events.h"

#include <stdarg.h>
#include <stdio.h>

static void push(struct sw_events *e, const struct sw_note *note)
{
    /* What finds the queue full is dropped: displays and evaluations are in the history all the
     * same. */
    int rc = sw_queue_try_push(&e->notes, note);
    (void)rc;
}

void sw_events_tell(struct sw_events *e, const struct sw_job_event *event, const char *text)
{
    struct sw_note note = {.event = *event};
    if (text)
        snprintf(note.text, sizeof note.text, "%s", text);
    push(e, &note);
}

void sw_events_tell_ended(struct sw_events *e)
{
    struct sw_note note = {.wake = true};
    __atomic_add_fetch(&e->ended, 1, __ATOMIC_RELEASE);
    push(e, &note);
}

static void say(struct sw_events *e, int64_t step, enum sw_log_level level, const char *source,
                const char *text)
{
    struct sw_note note = {
        .event = {.type = SW_JOB_EVENT, .level = level, .step = step, .steps = *e->steps}};

    snprintf(note.source, sizeof note.source, "%s", source);
    snprintf(note.text, sizeof note.text, "%.*s", (int)sizeof note.text - 1, text);
    sw_history_event(e->history, level, source, "%s", text);
    push(e, &note);
}

void sw_events_say(struct sw_events *e, enum sw_log_level level, const char *source,
                   const char *fmt, ...)
{
    char text[sizeof((struct sw_note *)0)->text];

    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(e, *e->step, level, source, text);
}

void sw_events_say_at(struct sw_events *e, int64_t step, enum sw_log_level level,
                      const char *source, const char *fmt, ...)
{
    char text[sizeof((struct sw_note *)0)->text];

    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(e, step, level, source, text);
}

/* Where thousands are damaged, the first ones say what is wrong. */
enum { MOST_BAD_RECORDS_TOLD = 20 };

void sw_events_say_bad_record(void *events, const char *text)
{
    struct sw_events *e = events;
    struct sw_slot_state s = {0};
    const int met = __atomic_add_fetch(&e->bad_records_told, 1, __ATOMIC_RELAXED);
    struct sw_err line;

    if (met > MOST_BAD_RECORDS_TOLD)
        return;
    sw_err_set(&line, SW_ERR_FORMAT, "%s; skipped%s", text,
               met == MOST_BAD_RECORDS_TOLD ? ", as further ones will be, which are only counted"
                                            : "");
    /* An evaluation alone has no history, and its snapshot may be of no step. */
    if (!e->history) {
        sw_log_write(e->log, SW_LOG_WARN, "data", "%s", line.text);
        return;
    }

    /* From the slot: the worker's own step belongs to its thread. */
    if (!sw_snapshot_read_slot(e->snapshot, 0, &s))
        s.step = 0;
    say(e, s.step, SW_LOG_WARN, "data", line.text);
}
