/* The watch thread: looks at the slots of the live snapshot several times a second, asks the
 * watchdog (watchdog.h), and tells. It takes no lock that a role of the job holds while it works,
 * and neither the terminal nor the history can hold it up for long, so it sees a job that stands.
 *
 * Messages in: the slots; lines on the control socket (history/control.h). Messages out: events,
 * requests, and as its last resort the fault. Ended by sw_watch_end, after all other roles.
 *
 * A stall is told as one warning with the culprit and who waits for it, and the history gets the
 * position of every unit. Where the run is to end, the fault is set in the culprit's name. */
#include "train/watch.h"
#include "base/os.h"
#include "history/control.h"
#include "train/choices.h"
#include "train/job_private.h"
#include "train/run.h"
#include "train/watchdog.h"
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 200, STALL_TEXT = 400 };

struct sw_watch {
    struct sw_job *job;
    struct sw_watchdog *dog;
    struct sw_slot_state *slots; /* owned [units]; as of the last look */
    int units;
    struct sw_control *control; /* owned; the thread's while it runs, but for waking */
    struct sw_thread thread;
    int over; /* atomic */
};

static int blocker(void *user, const struct sw_slot_state *slots, int unit)
{
    return sw_waits_on(user, slots, unit, NULL, 0);
}

static double seconds_since(int64_t then_ns)
{
    return then_ns > 0 ? (double)(sw_os()->monotonic_ns() - then_ns) * 1e-9 : 0;
}

/* ", waits for a batch of train"; "" for one that does not. */
static void say_waiting(const struct sw_slot_state *s, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s%s", s->waiting_for[0] ? ", waits for " : "", s->waiting_for);
}

/* "no progress for 6.2 s in backward of conv2, step 7; worker0.1 waits for version 7 of fc6.weight
 * for 6.1 s: server0.0 has no gradient of worker0.0". */
static void describe(const struct sw_watch *w, const struct sw_stall *stall, char *out,
                     size_t bytes)
{
    char place[160], waits[96], why[128];
    const struct sw_slot_state *s = &w->slots[stall->culprit];
    sw_waits_place(w->job, w->slots, stall->culprit, place, sizeof place);
    say_waiting(s, waits, sizeof waits);
    snprintf(out, bytes, "no progress for %.1f s in %s%s", seconds_since(s->heartbeat_ns), place,
             waits);
    for (int u = stall->victim, hops = 0; u != stall->culprit && hops < w->units; hops++) {
        int next = sw_waits_on(w->job, w->slots, u, why, sizeof why);
        size_t n = strlen(out);
        if (next < 0)
            break;
        s = &w->slots[u];
        snprintf(out + n, bytes - n, "; %s waits for %s for %.1f s: %s", s->name,
                 s->waiting_for[0] ? s->waiting_for : sw_phase_name(s->phase),
                 seconds_since(s->since_ns), why);
        u = next;
    }
}

/* Where everybody is. */
static void dump(const struct sw_watch *w)
{
    char place[160], waits[96];
    for (int u = 0; u < w->units; u++) {
        const struct sw_slot_state *s = &w->slots[u];
        sw_waits_place(w->job, w->slots, u, place, sizeof place);
        say_waiting(s, waits, sizeof waits);
        sw_history_event(w->job->history, SW_LOG_INFO, s->name, "position: %s for %.1f s%s", place,
                         seconds_since(s->since_ns), waits);
    }
}

static void end_job(const struct sw_watch *w, const struct sw_stall *stall)
{
    char text[STALL_TEXT];
    struct sw_err err;
    int64_t saved = __atomic_load_n(&w->job->saved_step, __ATOMIC_RELAXED);
    describe(w, stall, text, sizeof text);
    if (saved >= 0)
        sw_err_set(&err, SW_ERR_LIBRARY,
                   "%s; the last checkpoint stands: %s/checkpoint-%lld.safetensors", text,
                   sw_history_out_dir(w->job->history), (long long)saved);
    else
        sw_err_set(&err, SW_ERR_LIBRARY, "%s; there is no checkpoint of this run yet", text);
    sw_fault_set(&w->job->fault, w->slots[stall->culprit].name, &err);
}

static void look(struct sw_watch *w)
{
    char text[STALL_TEXT];
    struct sw_stall stall;
    for (int u = 0; u < w->units; u++) {
        bool read = sw_snapshot_read_slot(w->job->snapshot, u, &w->slots[u]);
        (void)read; /* one that is always being written is alive: the old state will do */
    }
    enum sw_stall_news news = sw_watchdog_look(w->dog, w->slots, sw_os()->monotonic_ns(), &stall);
    if (news == SW_STALL_NONE)
        return;
    const struct sw_slot_state *s = &w->slots[stall.culprit];
    int64_t step = w->slots[0].step;
    if (news == SW_STALL_BEGINS) {
        describe(w, &stall, text, sizeof text);
        sw_job_say_at(w->job, step, SW_LOG_WARN, s->name, "stall: %s", text);
        dump(w);
    }
    if (news == SW_STALL_ENDS)
        sw_job_say_at(w->job, step, SW_LOG_WARN, s->name, "stall: it goes on after %.1f s",
                      (double)stall.quiet_ns * 1e-9);
    if (stall.stop)
        end_job(w, &stall);
}

static void watch_main(void *arg)
{
    struct sw_watch *w = arg;
    bool over = false;
    while (!over) {
        over = __atomic_load_n(&w->over, __ATOMIC_ACQUIRE);
        if (!over)
            sw_control_poll(w->control, LOOK_MS, sw_request_answer, w->job);
        /* The last look finds everybody idle: a stall that was told is over. */
        if (!sw_fault_is_set(&w->job->fault)) {
            sw_reduce_look(w->job);
            look(w);
        }
    }
}

/* ---- life ---- */

static int make_dog(struct sw_watch *w, struct sw_err *err)
{
    const struct sw_cluster_conf *c = sw_recipe_find(w->job->recipe, "cluster", NULL)->common;
    struct sw_watchdog_args args = {.units = w->units,
                                    .stall_ns = (int64_t)(c->stall_s * 1e9),
                                    .on_stall = (enum sw_on_stall)c->on_stall,
                                    .blocker = blocker,
                                    .user = w->job};
    w->slots = sw_calloc((size_t)w->units, sizeof *w->slots);
    if (!w->slots)
        return sw_err_nomem(err, "the watchdog", (size_t)w->units * sizeof *w->slots);
    return sw_watchdog_new(&args, &w->dog, err);
}

/* A socket that cannot be made is no reason not to train. */
static int open_control(struct sw_watch *w, struct sw_err *err)
{
    const char *snapshot = sw_snapshot_file(w->job->snapshot);
    struct sw_err ignored;
    int rc = sw_control_new(&w->control, err);
    if (rc != SW_OK || !snapshot)
        return rc;
    char *path = sw_control_path(snapshot);
    if (!path)
        return sw_err_nomem(err, "the control socket", strlen(snapshot));
    if (sw_control_listen(w->control, path, &ignored) != SW_OK)
        sw_log_write(w->job->log, SW_LOG_WARN, "control", "%s: the run takes no requests",
                     ignored.text);
    sw_free(path);
    return SW_OK;
}

int sw_watch_start(struct sw_job *job, struct sw_err *err)
{
    struct sw_watch *w = sw_calloc(1, sizeof *w);
    if (!w)
        return sw_err_nomem(err, "the watchdog", sizeof *w);
    job->watch = w;
    w->job = job;
    w->units = sw_job_slots(job);
    int rc = sw_gate_init(job, err);
    if (rc == SW_OK)
        rc = make_dog(w, err);
    if (rc == SW_OK)
        rc = open_control(w, err);
    return rc == SW_OK ? sw_thread_start(&w->thread, "watch", watch_main, w, err) : rc;
}

void sw_watch_end(struct sw_job *job)
{
    struct sw_watch *w = job->watch;
    if (!w)
        return;
    __atomic_store_n(&w->over, 1, __ATOMIC_RELEASE);
    if (w->control)
        sw_control_wake(w->control);
    sw_thread_join(&w->thread);
    sw_control_free(w->control);
    sw_watchdog_free(w->dog);
    sw_gate_fini(job);
    sw_free(w->slots);
    sw_free(w);
    job->watch = NULL;
}
