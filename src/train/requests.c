/* What others ask of a running job, but for signals: the lines of the control socket, and the pause
 * that one of them asks for. A request is a bit (sw_job_request) that the workers' common decision
 * after a step looks at, so all of them do the same at the same step. */
#include "base/stop.h"
#include "base/str.h"
#include "train/job_private.h"
#include "train/watch.h"
#include <stdio.h>
#include <string.h>

/* ---- requests ---- */

int sw_job_requests(const struct sw_job *job)
{
    const int stops = sw_stop_requests();
    const int of_process = stops == 0 ? 0 : stops == 1 ? SW_JOB_STOP : SW_JOB_STOP | SW_JOB_ABORT;
    return __atomic_load_n(&job->requests.bits, __ATOMIC_RELAXED) | of_process;
}

void sw_job_request(struct sw_job *job, enum sw_job_request_kind what)
{
    if (what == SW_JOB_CONTINUE)
        __atomic_fetch_and(&job->requests.bits, ~SW_JOB_PAUSE, __ATOMIC_RELAXED);
    else
        __atomic_fetch_or(&job->requests.bits, (int)what, __ATOMIC_RELAXED);
}

/* ---- lines ---- */

static const struct request {
    const char *word, *answer;
    enum sw_job_request_kind what;
} requests[] = {
    {"pause", "ok: it will pause after the step under way", SW_JOB_PAUSE},
    {"continue", "ok: it goes on", SW_JOB_CONTINUE},
    {"checkpoint", "ok: a checkpoint will be written after the step under way",
     SW_JOB_CHECKPOINT_NOW},
    {"stop", "ok: it will stop after the step under way, with a checkpoint", SW_JOB_STOP},
};

static void take_note(struct sw_job *job, const char *text, char *answer, size_t bytes)
{
    struct sw_slot_state s = {0};
    text += strspn(text, " ");
    if (!*text) {
        snprintf(answer, bytes, "error: note needs a text");
        return;
    }
    if (!sw_snapshot_read_slot(job->events.snapshot, 0, &s))
        s.step = 0;
    sw_events_say_at(&job->events, s.step, SW_LOG_INFO, "note", "%s", text);
    snprintf(answer, bytes, "ok: noted");
}

/* How many bytes of a line are worth repeating: whole characters only. */
static int shown(const char *line)
{
    enum { SHOWN = 60 };
    size_t n = 0, next;
    while (line[n] && (next = sw_utf8_length(line + n, strnlen(line + n, 4))) && n + next <= SHOWN)
        n += next;
    return (int)n;
}

void sw_request_answer(void *user, const char *line, char *answer, size_t bytes)
{
    struct sw_job *job = user;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (sw_str_eq(line, requests[i].word)) {
            sw_job_request(job, requests[i].what);
            snprintf(answer, bytes, "%s", requests[i].answer);
            return;
        }
    if (strncmp(line, "note", 4) == 0 && (line[4] == ' ' || !line[4]))
        take_note(job, line + 4, answer, bytes);
    else
        snprintf(answer, bytes,
                 "error: '%.*s' is no request; there are pause, continue, checkpoint, stop, note "
                 "TEXT",
                 shown(line), line);
}

/* ---- pausing ---- */

/* Requests come from signal handlers, too, which cannot wake anybody. */
enum { LOOK_MS = 50 };

static void close_gate(void *gate)
{
    struct sw_gate *g = gate;
    sw_mutex_lock(&g->lock);
    g->closed = true;
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

int sw_gate_init(struct sw_job *job, struct sw_err *err)
{
    job->requests.gate = (struct sw_gate){.through = -1, .eval_step = -1};
    sw_mutex_init(&job->requests.gate.lock);
    sw_cond_init(&job->requests.gate.changed);
    return sw_fault_attach(&job->fault, close_gate, &job->requests.gate, err);
}

void sw_gate_fini(struct sw_job *job)
{
    sw_fault_detach(&job->fault, &job->requests.gate);
    sw_cond_fini(&job->requests.gate.changed);
    sw_mutex_fini(&job->requests.gate.lock);
}

/* The lock is held. Who finds the reason gone ends the pause for all, so that all leave it with the
 * same answer, also one that comes when the others have left. */
static void look(struct sw_job *job, int64_t t)
{
    struct sw_gate *g = &job->requests.gate;
    int asked = sw_job_requests(job);
    if (g->through >= t || ((asked & SW_JOB_PAUSE) && !(asked & SW_JOB_STOP)))
        return;
    g->through = t;
    g->stop = asked & SW_JOB_STOP;
    sw_cond_broadcast(&g->changed);
}

/* In a round workers may wait for each other, so all of them make the last one that any has begun.
 */
bool sw_gate_begin_round(struct sw_worker *w, int64_t n)
{
    struct sw_gate *g = &w->job->requests.gate;
    const bool stop = sw_job_requests(w->job) & SW_JOB_STOP;
    sw_mutex_lock(&g->lock);
    if (g->eval_step != w->step) {
        g->eval_step = w->step;
        g->eval_begun = 0;
        g->eval_rounds = INT64_MAX;
    }
    if (stop && g->eval_rounds > g->eval_begun)
        g->eval_rounds = g->eval_begun;
    const bool begins = n < g->eval_rounds;
    if (begins && n >= g->eval_begun)
        g->eval_begun = n + 1;
    sw_mutex_unlock(&g->lock);
    return begins;
}

int sw_gate_wait(struct sw_worker *w, bool *over, bool *checkpoint, bool *stop, struct sw_err *err)
{
    struct sw_job *job = w->job;
    struct sw_gate *g = &job->requests.gate;
    bool leads = w->rank->global_rank == 0;
    *checkpoint = false;
    sw_mutex_lock(&g->lock);
    for (look(job, w->step); g->through < w->step && !g->closed && !*checkpoint;
         look(job, w->step)) {
        *checkpoint = leads && (__atomic_fetch_and(&job->requests.bits, ~SW_JOB_CHECKPOINT_NOW,
                                                   __ATOMIC_RELAXED) &
                                SW_JOB_CHECKPOINT_NOW);
        if (!*checkpoint)
            sw_cond_wait_ms(&g->changed, &g->lock, LOOK_MS);
    }
    *over = g->through >= w->step;
    *stop = *over && g->stop;
    bool closed = g->closed;
    sw_mutex_unlock(&g->lock);
    return closed ? sw_err_set(err, SW_ERR_CANCELLED, "the job is ending") : SW_OK;
}
