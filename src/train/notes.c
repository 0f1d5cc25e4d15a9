/* From the threads of a job to its main thread. Nobody ever waits here: a terminal that is stopped
 * must not stop training. */
#include "base/os.h"
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

void sw_job_say(struct sw_job *job, enum sw_log_level level, const char *source, const char *fmt,
                ...)
{
    struct sw_note note = {
        .event = {.type = SW_JOB_EVENT, .level = level, .source = source, .steps = job->steps}};
    note.event.step = job->workers[0].step;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(note.text, sizeof note.text, fmt, ap);
    va_end(ap);
    sw_history_event(job->history, level, source, "%s", note.text);
    push(job, &note);
}
