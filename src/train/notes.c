/* From the threads of a job to its main thread. Nobody ever waits here: a terminal that is stopped
 * must not stop training. */
#include "train/job_private.h"
#include <stdarg.h>
#include <stdio.h>

static void push(struct sw_job *job, const struct sw_note *note)
{
    /* What finds the queue full is dropped: displays and evaluations are in the history all the
     * same. */
    int rc = sw_queue_try_push(&job->notes, note);
    (void)rc;
}

void sw_job_note(struct sw_job *job, const struct sw_job_event *e, const char *text)
{
    struct sw_note note = {.event = *e};
    if (text)
        snprintf(note.text, sizeof note.text, "%s", text);
    push(job, &note);
}

void sw_job_note_ended(struct sw_job *job)
{
    struct sw_note note = {.wake = true};
    __atomic_add_fetch(&job->ended, 1, __ATOMIC_RELEASE);
    push(job, &note);
}

static void say(struct sw_job *job, int64_t step, enum sw_log_level level, const char *source,
                const char *text)
{
    struct sw_note note = {
        .event = {.type = SW_JOB_EVENT, .level = level, .step = step, .steps = job->run_steps}};
    snprintf(note.source, sizeof note.source, "%s", source);
    snprintf(note.text, sizeof note.text, "%.*s", (int)sizeof note.text - 1, text);
    sw_history_event(job->history, level, source, "%s", text);
    push(job, &note);
}

void sw_job_say(struct sw_job *job, enum sw_log_level level, const char *source, const char *fmt,
                ...)
{
    char text[sizeof((struct sw_note *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(job, job->workers[0].step, level, source, text);
}

void sw_job_say_at(struct sw_job *job, int64_t step, enum sw_log_level level, const char *source,
                   const char *fmt, ...)
{
    char text[sizeof((struct sw_note *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(job, step, level, source, text);
}

/* Where thousands are damaged, the first ones say what is wrong. */
enum { MOST_BAD_RECORDS_TOLD = 20 };

void sw_job_say_bad_record(void *user, const char *text)
{
    struct sw_job *job = user;
    struct sw_slot_state s = {0};
    const int met = __atomic_add_fetch(&job->bad_records_told, 1, __ATOMIC_RELAXED);
    struct sw_err line;
    if (met > MOST_BAD_RECORDS_TOLD)
        return;
    sw_err_set(&line, SW_ERR_FORMAT, "%s; skipped%s", text,
               met == MOST_BAD_RECORDS_TOLD ? ", as further ones will be, which are only counted"
                                            : "");
    /* An evaluation alone has no history, and its snapshot may be of no step. */
    if (!job->history) {
        sw_log_write(job->log, SW_LOG_WARN, "data", "%s", line.text);
        return;
    }
    /* From the slot: the worker's own step belongs to its thread. */
    if (!sw_snapshot_read_slot(job->snapshot, 0, &s))
        s.step = 0;
    say(job, s.step, SW_LOG_WARN, "data", line.text);
}

int64_t sw_job_skipped(const struct sw_job *job)
{
    int64_t n = 0;
    for (int split = 0; split < SW_SPLITS; split++)
        n += job->source[split] ? sw_source_skipped(job->source[split]) : 0;
    return n;
}
