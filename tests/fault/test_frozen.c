/* ctest-labels: threads
 * ctest-timeout: 600
 * Any thread of a job is stopped at any moment, as by a debugger: it is named, with its number,
 * before the limit of five seconds, and no other thread is; after
 * it continues, so does training. A
 * worker or reader whose thread has ended is named, too.
 *
 * SW_STOPS is the number of stops (default 20), SW_SEED what they are drawn from. The clock
 * runs eight times as fast meanwhile. */
#include "fault_support.h"
#include "run/run.h"
#include "thread/tasks.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FASTER = 8, PATIENCE_S = 120, MOST_TASKS = 512, MOST_TOLD = 64 };

/* ---- The one that stops threads: a process, as a thread cannot trace its own process ---- */

static int tracer[2]; /* to and from it */
static pid_t tracer_pid;

static int stop_task(int id)
{
    int status;
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0)
        return errno;
    if (ptrace(PTRACE_INTERRUPT, id, NULL, NULL) != 0 || waitpid(id, &status, __WALL) != id)
        return errno;
    return 0;
}

/* Takes orders: stop the thread with that number, or, where it is negative, let it go on. */
static void trace(int orders, int answers)
{
    int id, rc;
    while (read(orders, &id, sizeof id) == sizeof id) {
        if (id > 0)
            rc = stop_task(id);
        else
            rc = ptrace(PTRACE_DETACH, -id, NULL, NULL) == 0 ? 0 : errno;
        if (write(answers, &rc, sizeof rc) != sizeof rc)
            break;
    }
    _exit(0);
}

static bool start_tracer(void)
{
    int orders[2], answers[2];
    if (pipe(orders) != 0 || pipe(answers) != 0)
        return false;
    tracer_pid = fork();
    if (tracer_pid == 0) {
        close(orders[1]);
        trace(orders[0], answers[1]);
    }
    close(orders[0]);
    tracer[0] = answers[0];
    tracer[1] = orders[1];
    prctl(PR_SET_PTRACER, tracer_pid, 0, 0, 0); /* Yama */
    return tracer_pid > 0;
}

/* The tracer's answer: 0, or an errno. */
static int order(int id)
{
    int rc = EPIPE;
    if (write(tracer[1], &id, sizeof id) != sizeof id || read(tracer[0], &rc, sizeof rc) < 0)
        return errno;
    return rc;
}

/* ---- A clock that runs faster while threads are stopped ---- */

static atomic_llong fast_from, fast_to; /* 0: not yet */

static int64_t fast_clock(void)
{
    const int64_t now = sw_os_posix.monotonic_ns();
    const int64_t from = atomic_load(&fast_from), to = atomic_load(&fast_to);
    if (from == 0 || now < from)
        return now;
    return now + (FASTER - 1) * ((to && to < now ? to : now) - from);
}

/* ---- What the watch says: this function takes the place of the library's ---- */

static struct told {
    char source[32], text[512];
} told[MOST_TOLD];
static atomic_int told_count;

void sw_events_report_at(struct sw_events *events, int64_t step, enum sw_log_level level,
                         const char *source, const char *fmt, ...)
{
    static void (*real)(struct sw_events *, int64_t, enum sw_log_level, const char *, const char *,
                        ...);
    const int i = atomic_load(&told_count);
    struct told t;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t.text, sizeof t.text, fmt, ap);
    va_end(ap);
    snprintf(t.source, sizeof t.source, "%s", source);
    if (i < MOST_TOLD && sw_str_starts(t.text, "stall: ")) {
        told[i] = t;
        atomic_store(&told_count, i + 1);
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sw_events_report_at");
    real(events, step, level, source, "%s", t.text);
}

/* The next one after *seen; NULL: there is none for a long time. */
static const struct told *next_told(int *seen)
{
    for (int ms = 0; ms < PATIENCE_S * 1000; ms += 5) {
        if (atomic_load(&told_count) > *seen)
            return &told[(*seen)++];
        sleep_ms(5);
    }
    return NULL;
}

/* ---- Stops ---- */

struct stops {
    int count;
    uint64_t random;
    struct trial *trial;
    struct sw_thread thread;
    int done;
    int64_t longest_ms;
    char failure[1024];
};

static uint64_t draw(struct stops *s, uint64_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % below;
}

/* A thread of the job, which is anybody's but the one that watches and this one. */
static bool draw_task(struct stops *s, struct sw_task *out)
{
    static struct sw_task tasks[MOST_TASKS];
    int count = sw_tasks_read(tasks, MOST_TASKS), left = 0;
    for (int i = 0; i < count; i++)
        if (tasks[i].id != sw_task_self() && strcmp(tasks[i].name, "watch") != 0)
            tasks[left++] = tasks[i];
    if (left > 0)
        *out = tasks[draw(s, (uint64_t)left)];
    return left > 0;
}

/* Is it the role of that thread? Further threads of a worker have its name; all readers have one.
 */
static bool is_source(const char *source, const struct sw_task *task)
{
    if (task->id == getpid())
        return strcmp(source, "main") == 0;
    if (sw_str_starts(task->name, "prefetch"))
        return sw_str_starts(source, "prefetch");
    return strcmp(source, task->name) == 0;
}

static bool is_named(struct stops *s, const struct sw_task *task, const struct told *t)
{
    char what[64];
    double quiet_s = 0;
    snprintf(what, sizeof what, ": its thread %d is stopped by a debugger (state t)", task->id);
    bool said = t && is_source(t->source, task) && strstr(t->text, what) &&
                sscanf(t->text, "stall: no progress for %lf s", &quiet_s) == 1 && quiet_s < 5;
    if (!said)
        snprintf(s->failure, sizeof s->failure, "stop %d, of %s (%d): %s: %s", s->done, task->name,
                 task->id, t ? t->source : "nobody", t ? t->text : "nothing was said");
    if (quiet_s * 1000 > (double)s->longest_ms)
        s->longest_ms = (int64_t)(quiet_s * 1000);
    return said;
}

/* False when something is wrong. One that ends before it can be stopped is no stop. */
static bool stop_one(struct stops *s)
{
    struct sw_task task;
    int seen = 0;
    sleep_ms((int)draw(s, 30));
    if (!draw_task(s, &task))
        return false;
    atomic_store(&told_count, 0);
    int rc = order(task.id);
    if (rc == ESRCH)
        return true;
    if (rc != 0) {
        snprintf(s->failure, sizeof s->failure, "%s: %s", task.name, strerror(rc));
        return false;
    }

    const struct told *begin = next_told(&seen);
    while (begin && strstr(begin->text, "it goes on")) /* of what was told before */
        begin = next_told(&seen);
    bool ok = is_named(s, &task, begin);
    rc = order(-task.id);
    const struct told *end = ok ? next_told(&seen) : NULL;
    if (ok && (rc != 0 || !end || !is_source(end->source, &task) ||
               !strstr(end->text, "stall: resumed after "))) {
        snprintf(s->failure, sizeof s->failure, "stop %d, of %s (%d), went on: %s: %s", s->done,
                 task.name, task.id, end ? end->source : "nobody", end ? end->text : "nothing");
        ok = false;
    }
    s->done += ok;
    return ok;
}

/* Training goes on between two stops, for a step at least. */
static bool makes_a_step(const struct stops *s)
{
    struct sw_slot_state before, now;
    const struct sw_snapshot *snapshot = s->trial->job->events.snapshot;
    if (!sw_snapshot_read_slot(snapshot, 0, &before))
        return true;
    for (int ms = 0; ms < PATIENCE_S * 1000; ms++) {
        if (sw_snapshot_read_slot(snapshot, 0, &now) && now.done_step > before.done_step)
            return true;
        sleep_ms(1);
    }
    return false;
}

static void stop_threads(void *arg)
{
    struct stops *s = arg;
    bool ok = makes_a_step(s);
    atomic_store(&fast_from, sw_os_posix.monotonic_ns());
    while (ok && s->done < s->count)
        ok = stop_one(s) && makes_a_step(s);
    atomic_store(&fast_to, sw_os_posix.monotonic_ns());
    if (!ok && !s->failure[0])
        snprintf(s->failure, sizeof s->failure, "no step after stop %d", s->done);
    sw_job_request(s->trial->job, SW_JOB_STOP);
}

static void begin_stops(struct trial *t, const struct sw_job_event *e)
{
    struct stops *s = t->user;
    struct sw_err err;
    if (e->type == SW_JOB_START && sw_thread_start(&s->thread, "stopper", stop_threads, s, &err))
        fail_msg("%s", err.text);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void sleep_until_told(void *over)
{
    while (!atomic_load((atomic_bool *)over))
        sleep_ms(1);
}

/* May this program be traced? 0, or an errno. */
static int try_tracer(void)
{
    static atomic_bool over;
    struct sw_task task[MOST_TASKS];
    struct sw_thread thread;
    struct sw_err err;
    int rc = EAGAIN;
    atomic_store(&over, false);
    assert_int_equal(sw_thread_start(&thread, "probe", sleep_until_told, &over, &err), SW_OK);
    for (int i = sw_tasks_read(task, MOST_TASKS) - 1; i >= 0; i--)
        if (task[i].id != getpid()) {
            rc = order(task[i].id);
            if (rc == 0)
                rc = order(-task[i].id);
            break;
        }
    atomic_store(&over, true);
    sw_thread_join(&thread);
    return rc;
}

/* A third of the stops. */
static void stop_in(struct trial t)
{
    struct stops s = {.random = number_of("SW_SEED", 1), .trial = &t};
    s.count = (int)(number_of("SW_STOPS", 20) + 2) / 3;
    int rc = try_tracer();
    if (rc != 0) {
        print_message("skipped: no thread can be stopped by ptrace here: %s\n", strerror(rc));
        skip();
    }

    t.steps = 1000000000;
    t.oversubscribe = true;
    t.on_event = begin_stops;
    t.user = &s;
    atomic_store(&fast_from, 0);
    atomic_store(&fast_to, 0);
    if (trial_open(&t) != SW_OK)
        fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
    trial_run(&t);
    sw_thread_join(&s.thread);
    print_message("%s: %d stops, the last one told after %lld ms at most\n", t.name, s.done,
                  (long long)s.longest_ms);
    if (s.failure[0])
        fail_msg("%s", s.failure);
    if (t.rc != SW_ERR_CANCELLED)
        fail_msg("%d: %s", t.rc, t.err.text);
    trial_close(&t);
}

#define QUIET "cluster.on_stall=warn", "job.checkpoint_every=0"

static void stopped_threads_of_workers_and_readers_are_named(void **state)
{
    stop_in((struct trial){.name = "workers",
                           .recipe = file_recipe(),
                           .sets = {QUIET, "job.eval_every=20", "cluster.workers_per_group=2"}});
}

static void give_core(struct trial *t)
{
    if (!give_server_a_core(t->job))
        print_message("this machine has one core: the server is no thread\n");
}

static void stopped_threads_of_servers_are_named(void **state)
{
    stop_in((struct trial){.name = "servers",
                           .recipe = file_recipe(),
                           .sets = {QUIET, "job.eval_every=20"},
                           .before = give_core});
}

static void stopped_threads_of_devices_are_named(void **state)
{
    stop_in((struct trial){.name = "devices",
                           .recipe = file_recipe(),
                           .sets = {QUIET, "job.eval_every=20", "cluster.workers_per_group=2"},
                           .device = "sim:gpus=2,mem=64MiB"});
}

/* ---- A thread that ends ---- */

static atomic_bool may_end;
static const char *ends; /* whose thread ends when it says next that it is in this phase */
static enum sw_phase ends_in;

/* Takes the place of the library's: roles say where they are while they hold no lock. */
void sw_slot_phase(struct sw_slot *slot, enum sw_phase phase, int64_t step, int layer,
                   const char *layer_name, int64_t now_ns)
{
    void (*real)(struct sw_slot *, enum sw_phase, int64_t, int, const char *, int64_t);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_slot_phase");
    real(slot, phase, step, layer, layer_name, now_ns);
    if (atomic_load(&may_end) && phase == ends_in && strcmp(thread_role, ends) == 0)
        pthread_exit(NULL);
}

static void end_thread_at_step_3(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 3)
        atomic_store(&may_end, true);
}

struct ended_case {
    const char *thread, *source, *workers;
    enum sw_phase phase; /* in which it ends */
    bool server;         /* it is to be a thread */
};

/* 0: the stall ended the run, and was named. */
static int run_ended(const struct ended_case *c)
{
    struct trial t = {.name = "ended",
                      .recipe = file_recipe(),
                      .sets = {"cluster.on_stall=stop", "cluster.stall_s=1", c->workers,
                               "job.checkpoint_every=0", "job.eval_every=0"},
                      .steps = 1000000000,
                      .oversubscribe = true,
                      .display = {.every_steps = 1},
                      .on_event = end_thread_at_step_3};
    ends = c->thread;
    ends_in = c->phase;
    if (trial_open(&t) != SW_OK)
        return 2;
    if (c->server && !give_server_a_core(t.job))
        return 0; /* this machine has one core */
    trial_run(&t);
    if (t.rc == SW_ERR_LIBRARY && !t.stuck && sw_str_starts(t.err.text, c->source) &&
        strstr(t.err.text, " has ended; worker0.") && strstr(t.err.text, " waits for "))
        return 0;
    print_error("%d: %s\n", t.rc, t.err.text);
    return 3;
}

/* What such a thread had is lost, so the process leaves without looking back; by the system call
 * itself, since the thread sanitizer counts threads in _exit. */
static void thread_that_has_ended_is_named(void **state)
{
    static const struct ended_case cases[] = {
        {"worker0.1", "worker0.1", "cluster.workers_per_group=2", SW_PHASE_FORWARD, false},
        {"prefetch train", "prefetch0.", "cluster.workers_per_group=2", SW_PHASE_READ, false},
        {"server0.0", "server0.0", "cluster.workers_per_group=1", SW_PHASE_IDLE, true}};
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            syscall(SYS_exit_group, run_ended(&cases[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: status %d", cases[i].thread, status);
    }
}

static int begin(void **state)
{
    static struct sw_os table;
    int rc = fault_begin(state);
    table = *sw_os();
    table.monotonic_ns = fast_clock;
    sw_os_set(&table);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(stopped_threads_of_workers_and_readers_are_named),
        CASE(stopped_threads_of_servers_are_named),
        CASE(stopped_threads_of_devices_are_named),
        CASE(thread_that_has_ended_is_named),
    };
    if (!start_tracer()) /* while there is one thread */
        return 1;
    int failed = cmocka_run_group_tests_name("stops", tests, begin, home_end);
    close(tracer[1]);
    waitpid(tracer_pid, NULL, 0);
    return failed;
}
