/* The watch thread: reads the slots of the live snapshot several times a second and the system's
 * thread states once a second, passes them to the watchdog (watchdog.h), and reports stalls. It
 * takes no lock that a role holds while working, and neither the terminal nor the history can block
 * it for long, so it keeps running when the job stalls.
 *
 * Messages in: the slots; lines on the control socket (history/control.h). Messages out: events,
 * requests, and as a last resort the fault. Stopped by sw_monitor_end, after all other roles.
 *
 * A stall is reported as one warning with the culprit and its victim, and the position of every
 * role is written to the history. If the run must end, the fault is set in the culprit's name. */
#include "monitor/monitor.h"
#include "base/os.h"
#include "history/control.h"
#include "monitor/requests.h"
#include "monitor/watchdog.h"
#include "worker/events.h"
#include "worker/gate.h"
#include "worker/server.h"
#include "worker/worker.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_MS = 200, STALL_TEXT = 500, PLACE_TEXT = 160, MOST_THREADS = 4096 };
static const int64_t second_ns = 1000000000;

struct sw_monitor {
    struct sw_monitor_args args;
    struct sw_watchdog *dog;
    /* State of the last check. An extra slot, always idle, stands for threads that belong to no
     * role. */
    struct sw_slot_state *slots; /* owned [roles + 1] */
    int role_count;
    struct sw_threads *threads;
    struct sw_thread_owner *owners; /* owned [roles] */
    struct sw_task *tasks;          /* owned [MOST_THREADS]: the last list */
    int64_t listed_ns;              /* 0: never */
    struct sw_control *control; /* owned; used by the thread while it runs, except for waking it */
    struct sw_thread thread;
    int over;           /* atomic */
    bool reported_file; /* the truncated snapshot was reported */
};

static int blocker(void *user, const struct sw_slot_state *slots, int role)
{
    const struct sw_monitor *w = user;
    return role < w->role_count ? sw_waits_on(&w->args.roles, slots, role, NULL, 0) : -1;
}

/* ---- Threads ---- */

/* Finds the thread that runs a role now. Readers of all workers have one name. */
static void find_owner(struct sw_monitor *w, int u)
{
    const int workers = w->args.roles.topology->workers;
    struct sw_thread_owner *o = &w->owners[u];
    int runner = u < workers ? u : -1;

    *o = (struct sw_thread_owner){.id = w->slots[u].thread};

    if (u >= workers && u < workers + w->args.roles.topology->servers) {
        const struct sw_server *s = &w->args.roles.servers[u - workers];
        runner = __atomic_load_n(&s->runner, __ATOMIC_RELAXED) - 1;
        o->name = s->role;
    }

    if (runner < 0)
        return;

    const struct sw_worker *worker = &w->args.roles.workers[runner];
    const struct sw_device_caps *caps = worker->device->caps;
    o->id = w->slots[runner].thread;
    o->name = worker->role;
    o->far = caps->own_processor;
    if (caps->simulated)
        snprintf(o->device, sizeof o->device, "%.11s/", worker->device->name);
}

/* At most once a second: there may be hundreds of threads, and shorter intervals do not show which
 * of them compute. */
static void read_threads(struct sw_monitor *w, int64_t now_ns)
{
    int64_t passed_ns = w->listed_ns ? now_ns - w->listed_ns : second_ns;
    if (passed_ns < second_ns)
        return;

    w->listed_ns = now_ns;
    for (int u = 0; u < w->role_count; u++)
        find_owner(w, u);

    int count = sw_tasks_read(w->tasks, MOST_THREADS);
    if (count == MOST_THREADS)
        count = 0; /* the list may be truncated */

    /* The process may have been stopped in between. */
    sw_threads_check(w->threads, w->owners, w->tasks, count, (int)getpid(),
                     passed_ns < 2 * second_ns ? passed_ns : second_ns);
    snprintf(w->slots[w->role_count].name, sizeof w->slots[w->role_count].name, "%s",
             sw_threads_other_name(w->threads));
}

/* ---- Messages ---- */

static double seconds_since(int64_t then_ns)
{
    return then_ns > 0 ? (double)(sw_os()->monotonic_ns() - then_ns) * 1e-9 : 0;
}

/* ", waits for a batch of train", or "" if the role does not wait. */
static void describe_wait(const struct sw_slot_state *s, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s%s", s->waiting_for[0] ? ", waits for " : "", s->waiting_for);
}

/* " in backward of conv2, step 7, waits for its device". */
static void describe_place(const struct sw_monitor *w, int role, char *out, size_t bytes)
{
    char place[PLACE_TEXT], waits[96];

    out[0] = '\0';
    if (role == w->role_count)
        return;

    sw_waits_place(&w->args.roles, w->slots, role, place, sizeof place);
    describe_wait(&w->slots[role], waits, sizeof waits);
    snprintf(out, bytes, " in %s%s", place, waits);
}

/* ": its thread 4711 is blocked in the kernel (state D, in nfs_wait_bit_killable)"; "" if unknown.
 */
static void describe_thread(const struct sw_thread_state *t, char *out, size_t bytes)
{
    static const struct {
        char state;
        const char *text;
    } texts[] = {{'t', "is stopped by a debugger"},
                 {'T', "is stopped by a signal"},
                 {'D', "is blocked in the kernel"},
                 {'S', "sleeps"},
                 {'R', "is running or ready to run"}};

    char where[48] = "";
    out[0] = '\0';
    if (t->activity == SW_THREAD_ENDED)
        snprintf(out, bytes, ": its thread %d has ended", t->id);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (t->id == 0 || t->activity == SW_THREAD_ENDED || t->state != texts[i].state)
            continue;

        if (t->state == 'D' || t->state == 'S')
            sw_task_wait_channel(t->id, where, sizeof where);
        snprintf(out, bytes, ": its thread %d %s (state %c%s%s)", t->id, texts[i].text, t->state,
                 where[0] ? ", in " : "", where);
    }
}

static const char *advice(const struct sw_thread_state *t)
{
    if (t->activity == SW_THREAD_ENDED)
        return "This is a defect of the program: press Ctrl-C twice to end the run";
    if (t->activity == SW_THREAD_STOPPED && t->state == 't')
        return "Let the debugger continue the thread, or press Ctrl-C twice to end the run";
    if (t->activity == SW_THREAD_STOPPED)
        return "Send SIGCONT to the process, or press Ctrl-C twice to end the run";
    if (t->state == 'D')
        return "Check the disk or network file system, or press Ctrl-C twice to end the run";

    return "If it does not resume, press Ctrl-C twice to end the run";
}

/* "; worker0.2 waits for its device, too (sim:2)": a device may wait for another one, which is not
 * visible here, so each silent device may be the cause. */
static void describe_devices(const struct sw_monitor *w, int culprit, char *out, size_t bytes)
{
    for (int u = 0; u < w->args.roles.topology->workers; u++) {
        size_t n = strlen(out);
        if (u != culprit && w->slots[u].wait.kind == SW_WAIT_DEVICE)
            snprintf(out + n, bytes - n, "; %s also waits for its device (%s)", w->slots[u].name,
                     w->args.roles.workers[u].device->name);
    }
}

/* "no progress for 6.2 s in backward of conv2, step 7: its thread 4711 sleeps (state S, in
 * futex_do_wait); worker0.1 waits for version 7 of fc6.weight for 6.1 s: server0.0 has no gradient
 * of worker0.0". */
static void describe(const struct sw_monitor *w, const struct sw_stall *stall, char *out,
                     size_t bytes)
{
    char place[PLACE_TEXT + 112], thread[112], why[128];

    describe_place(w, stall->culprit, place, sizeof place);
    describe_thread(&sw_threads_states(w->threads)[stall->culprit], thread, sizeof thread);
    snprintf(out, bytes, "no progress for %.1f s%s%s", (double)stall->quiet_ns * 1e-9, place,
             thread);

    for (int u = stall->victim, hops = 0; u != stall->culprit && hops < w->role_count; hops++) {
        const struct sw_slot_state *s = &w->slots[u];
        int next = sw_waits_on(&w->args.roles, w->slots, u, why, sizeof why);
        size_t n = strlen(out);

        if (next < 0)
            break;

        snprintf(out + n, bytes - n, "; %s waits for %s for %.1f s: %s", s->name,
                 s->waiting_for[0] ? s->waiting_for : sw_phase_name(s->phase),
                 seconds_since(s->since_ns), why);
        u = next;
    }

    if (w->slots[stall->culprit].wait.kind == SW_WAIT_DEVICE)
        describe_devices(w, stall->culprit, out, bytes);
}

/* Writes the position of every role to the history. */
static void dump(const struct sw_monitor *w)
{
    char place[PLACE_TEXT], waits[96];

    for (int u = 0; u < w->role_count; u++) {
        const struct sw_slot_state *s = &w->slots[u];
        sw_waits_place(&w->args.roles, w->slots, u, place, sizeof place);
        describe_wait(s, waits, sizeof waits);
        sw_history_event(w->args.events->history, SW_LOG_INFO, s->name, "position: %s for %.1f s%s",
                         place, seconds_since(s->since_ns), waits);
    }
}

static void end_job(const struct sw_monitor *w, const struct sw_stall *stall)
{
    char text[STALL_TEXT];
    struct sw_err err;
    int64_t saved = __atomic_load_n(w->args.saved_step, __ATOMIC_RELAXED);

    describe(w, stall, text, sizeof text);

    if (saved >= 0)
        sw_err_set(&err, SW_ERR_LIBRARY,
                   "%s; the last checkpoint is %s/checkpoint-%lld.safetensors", text,
                   sw_history_out_dir(w->args.events->history), (long long)saved);
    else
        sw_err_set(&err, SW_ERR_LIBRARY, "%s; this run has no checkpoint yet", text);

    sw_fault_set(w->args.fault, w->slots[stall->culprit].name, &err);
}

static void check_roles(struct sw_monitor *w)
{
    char text[STALL_TEXT];
    struct sw_stall stall;

    for (int u = 0; u < w->role_count; u++) {
        bool read = sw_snapshot_read_slot(w->args.events->snapshot, u, &w->slots[u]);
        (void)read; /* a slot that is constantly written is alive: the old state is sufficient */
    }

    const int64_t now_ns = sw_os()->monotonic_ns();
    read_threads(w, now_ns);

    const struct sw_thread_state *threads = sw_threads_states(w->threads);
    enum sw_stall_news event = sw_watchdog_check(w->dog, w->slots, threads, now_ns, &stall);
    if (event == SW_STALL_NONE)
        return;

    const struct sw_slot_state *s = &w->slots[stall.culprit];
    int64_t step = w->slots[0].step;
    if (event == SW_STALL_BEGINS) {
        describe(w, &stall, text, sizeof text);
        sw_events_report_at(w->args.events, step, SW_LOG_WARN, s->name, "stall: %s. %s", text,
                            advice(&threads[stall.culprit]));
        dump(w);
    }

    if (event == SW_STALL_ENDS)
        sw_events_report_at(w->args.events, step, SW_LOG_WARN, s->name,
                            "stall: resumed after %.1f s", (double)stall.quiet_ns * 1e-9);

    if (stall.stop)
        end_job(w, &stall);
}

/* Reports a snapshot that others can no longer read; training continues. */
static void check_file(struct sw_monitor *w)
{
    struct sw_err err;
    if (w->reported_file || sw_snapshot_check(w->args.events->snapshot, &err) == SW_OK)
        return;

    w->reported_file = true;
    sw_events_report_at(w->args.events, w->slots[0].step, SW_LOG_WARN, "watch", "%s", err.text);
}

static void monitor_main(void *arg)
{
    struct sw_monitor *w = arg;
    bool over = false;

    while (!over) {
        over = __atomic_load_n(&w->over, __ATOMIC_ACQUIRE);
        if (!over)
            sw_control_poll(w->control, CHECK_MS, sw_request_answer, w->args.requests);

        /* The last check finds every role idle: a reported stall is over. */
        if (!sw_fault_is_set(w->args.fault)) {
            w->args.check_sums(w->args.user);
            check_roles(w);
            check_file(w);
        }
    }
}

/* ---- life ---- */

static int make_dog(struct sw_monitor *w, struct sw_err *err)
{
    const struct sw_cluster_conf *c = w->args.cluster;
    const size_t role_count = (size_t)w->role_count;
    struct sw_watchdog_args args = {.role_count = w->role_count + 1,
                                    .workers = w->args.roles.topology->workers,
                                    .others = 1,
                                    .stall_ns = (int64_t)(c->stall_s * 1e9),
                                    .on_stall = (enum sw_on_stall)c->on_stall,
                                    .shared = w->args.roles.topology->hosts > 1,
                                    .blocker = blocker,
                                    .user = w};

    w->slots = sw_calloc(role_count + 1, sizeof *w->slots);
    w->owners = sw_calloc(role_count + 1, sizeof *w->owners);

    w->tasks = sw_calloc(MOST_THREADS, sizeof *w->tasks);
    if (!w->slots || !w->owners || !w->tasks)
        return sw_err_nomem(err, "the watchdog", role_count * sizeof *w->slots);

    int rc = sw_threads_new(w->role_count, &w->threads, err);
    return rc == SW_OK ? sw_watchdog_new(&args, &w->dog, err) : rc;
}

/* A socket that cannot be made is no reason not to train. */
static int open_control(struct sw_monitor *w, struct sw_err *err)
{
    const char *snapshot = sw_snapshot_file(w->args.events->snapshot);
    struct sw_err ignored;

    int rc = sw_control_new(&w->control, err);
    if (rc != SW_OK || !snapshot)
        return rc;

    char *path = sw_control_path(snapshot);
    if (!path)
        return sw_err_nomem(err, "the control socket", strlen(snapshot));

    if (sw_control_listen(w->control, path, &ignored) != SW_OK)
        sw_log_write(w->args.events->log, SW_LOG_WARN, "control", "%s: the run accepts no requests",
                     ignored.text);

    sw_free(path);
    return SW_OK;
}

int sw_monitor_start(const struct sw_monitor_args *args, struct sw_monitor **out,
                     struct sw_err *err)
{
    struct sw_monitor *w = *out = sw_calloc(1, sizeof *w);
    if (!w)
        return sw_err_nomem(err, "the watchdog", sizeof *w);

    w->args = *args;
    w->role_count = args->slots;

    int rc = sw_gate_init(args->requests, args->fault, err);
    if (rc != SW_OK)
        return rc;
    rc = make_dog(w, err);
    if (rc != SW_OK)
        return rc;
    rc = open_control(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_thread_start(&w->thread, "watch", monitor_main, w, err);
}

void sw_monitor_end(struct sw_monitor *w)
{
    if (!w)
        return;

    __atomic_store_n(&w->over, 1, __ATOMIC_RELEASE);
    if (w->control)
        sw_control_wake(w->control);
    sw_thread_join(&w->thread);

    sw_control_free(w->control);
    sw_watchdog_free(w->dog);
    sw_threads_free(w->threads);
    sw_gate_fini(w->args.requests, w->args.fault);
    sw_free(w->slots);
    sw_free(w->owners);
    sw_free(w->tasks);
    sw_free(w);
}
