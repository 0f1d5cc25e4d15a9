/* Executes the lines of the control socket: requests to a running job. worker/gate.h has their
 * effect. */
#include "monitor/requests.h"
#include "base/str.h"
#include "worker/events.h"
#include "worker/gate.h"
#include <stdio.h>
#include <string.h>

static const struct request {
    const char *word, *answer;
    enum sw_job_request_kind what;
} requests[] = {
    {"pause", "ok: the run will pause after the current step", SW_JOB_PAUSE},
    {"continue", "ok: the run continues", SW_JOB_CONTINUE},
    {"pause release",
     "ok: the run will write a checkpoint after the current step and give back its memory, cores "
     "and GPUs until it continues",
     SW_JOB_RELEASE},
    {"checkpoint", "ok: a checkpoint will be written after the current step",
     SW_JOB_CHECKPOINT_NOW},
    {"stop", "ok: the run will stop after the current step and write a checkpoint", SW_JOB_STOP},
};

static void take_request(struct sw_events *events, const char *text, char *answer, size_t bytes)
{
    struct sw_slot_state s = {0};

    text += strspn(text, " ");
    if (!*text) {
        snprintf(answer, bytes, "error: note needs text");
        return;
    }

    if (!sw_snapshot_read_slot(events->snapshot, 0, &s))
        s.step = 0;
    sw_events_report_at(events, s.step, SW_LOG_INFO, "note", "%s", text);
    snprintf(answer, bytes, "ok: noted");
}

/* Number of bytes of a line to repeat in an error: whole characters only. */
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
    struct sw_requests *r = user;

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (sw_str_eq(line, requests[i].word)) {
            bool refused = requests[i].what == SW_JOB_RELEASE && !r->can_release;
            if (!refused)
                sw_requests_set(r, requests[i].what);
            snprintf(answer, bytes, "%s",
                     refused ? "error: this program cannot release the memory of its runs"
                             : requests[i].answer);
            return;
        }

    if (strncmp(line, "note", 4) == 0 && (line[4] == ' ' || !line[4]))
        take_request(r->events, line + 4, answer, bytes);
    else
        snprintf(
            answer, bytes,
            "error: unknown request '%.*s'; use pause, continue, checkpoint, stop or note TEXT",
            shown(line), line);
}
