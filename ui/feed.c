/* Fills the model of the dashboard: chooses the run, attaches to the live snapshot of its trainer,
 * follows its output file, and decides how often each source is read. feed_rows.c reads the
 * database; ui/feed.h has the contract. */
#include "ui/feed_private.h"

#include "base/os.h"
#include "base/str.h"
#include "history/control.h"
#include "history/process.h"
#include "ui/ending.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SLOW_MS = 1000, /* interval of data that changes slowly */
    LIST_MS = 3000, /* interval of the list of runs */
    TAIL_BYTES = 65536,
};

int sw_feed_new(struct sw_feed **out, const char *db_path, struct sw_err *err)
{
    struct sw_feed *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, "dashboard", sizeof *f);

    f->db_path = sw_strdup(db_path);

    int rc = f->db_path ? sw_sampler_new(&f->sampler, err)
                        : sw_err_nomem(err, "dashboard", strlen(db_path));
    if (rc == SW_OK)
        *out = f;
    else
        sw_feed_free(f);

    return rc;
}

static void close_snapshot(struct sw_feed *f)
{
    sw_snapshot_reader_close(f->snapshot);
    sw_free(f->live_path);
    f->snapshot = NULL;
    f->live_path = NULL;
}

void sw_feed_free(struct sw_feed *f)
{
    if (!f)
        return;

    close_snapshot(f);
    sw_history_reader_close(f->reader);
    sw_sampler_free(f->sampler);
    sw_free(f->db_path);
    sw_free(f);
}

/* ---- The run ----------------------------------------------------------------------------------
 */

static void copy_run(struct sw_ui_run *r, const struct sw_run *from)
{
    r->id = from->id;
    sw_feed_copy(r->uid, sizeof r->uid, from->uid);
    sw_feed_copy(r->name, sizeof r->name, from->name);
    sw_feed_copy(r->recipe, sizeof r->recipe, from->recipe);
    sw_feed_copy(r->framework, sizeof r->framework, from->framework);
    sw_feed_copy(r->device, sizeof r->device, from->device);
    sw_feed_copy(r->host, sizeof r->host, from->host);
    sw_feed_copy(r->out_dir, sizeof r->out_dir, from->out_dir);
    sw_feed_copy(r->version, sizeof r->version, from->version);
    sw_feed_copy(r->note, sizeof r->note, from->note);
    r->status = from->status;
    r->workers = from->workers;
    r->batch = from->batch;
    r->steps = from->steps;
    r->epoch_records = from->epoch_records;
    r->params = from->params;
    r->seed = from->seed;
    r->flops_per_sample = from->flops_per_sample;
    r->started_at = from->started_at;
    r->ended_at = from->ended_at;
    r->pid = from->pid;
}

/* State of a search for the newest running run, else the newest one: the list begins with the
 * newest. */
struct newest {
    int64_t id, running;
};
static int note_newest(void *user, const struct sw_run *run)
{
    struct newest *n = user;
    n->id = n->id ? n->id : run->id;
    n->running = run->status == SW_RUN_RUNNING ? run->id : 0;
    return n->running != 0;
}

static int find_run(struct sw_feed *f, const char *text, struct sw_run *run, struct sw_err *err)
{
    struct newest n = {0};

    if (text)
        return sw_history_find(f->reader, text, run, err);

    int rc = sw_history_each_run(f->reader, note_newest, &n, err);
    if (rc < 0)
        return rc;
    if (n.id == 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s contains no runs yet", f->db_path);

    return sw_history_find_id(f->reader, n.running ? n.running : n.id, run, err);
}

static void reset_rows(struct sw_feed *f)
{
    f->last_event = 0;
    f->last_checkpoint = -1;
    f->segments = 0;
    f->plan_hash = 0;
    f->slow_ns = f->new_ns = 0;
    f->tail_at = 0;
    f->part[0] = 0;
    f->row_count = 0;
}

int sw_feed_choose(struct sw_feed *f, const char *run, struct sw_ui_model *m, struct sw_err *err)
{
    struct sw_run found = {0};

    int rc = f->reader ? SW_OK : sw_history_reader_open(&f->reader, f->db_path, err);
    if (rc != SW_OK)
        return rc;
    rc = find_run(f, run, &found, err);
    if (rc != SW_OK)
        return rc;

    close_snapshot(f);
    f->reported_problem = f->reported_end = false;
    reset_rows(f);
    sw_ui_model_clear(m);
    copy_run(&m->run, &found);
    m->found = true;
    f->run_id = found.id;
    sw_run_fini(&found);

    return SW_OK;
}

/* ---- The snapshot -----------------------------------------------------------------------------
 */

/* Reports an unusable snapshot once per run: the history has most of the data, too. */
static void report_problem(struct sw_feed *f, struct sw_ui_model *m, const struct sw_err *err)
{
    if (!f->reported_problem)
        sw_ui_event_add(m, m->now, SW_LOG_WARN, "top", err->text);
    f->reported_problem = true;
}

static void open_snapshot(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err err;

    if (f->snapshot || m->run.status != SW_RUN_RUNNING || !*m->run.uid)
        return;
    if (sw_snapshot_find(m->run.uid, &f->live_path, &err) != SW_OK)
        return;

    int rc = sw_snapshot_reader_open(&f->snapshot, f->live_path, &err);
    if (rc == SW_ERR_FORMAT)
        report_problem(f, m, &err);
    if (rc != SW_OK)
        close_snapshot(f);
}

static bool at_work(const struct sw_slot_state *s)
{
    return !s->waiting_for[0] && s->phase != SW_PHASE_IDLE && s->phase != SW_PHASE_PAUSED;
}

static void update_threads(struct sw_feed *f, struct sw_ui_model *m, int count)
{
    if (count != m->thread_count) {
        struct sw_ui_thread *threads = sw_calloc((size_t)count + 1, sizeof *threads);
        if (!threads)
            return;

        for (int i = 0; i < count; i++)
            threads[i].busy = NAN;
        sw_free(m->threads);
        m->threads = threads;
        m->thread_count = count;
    }

    for (int i = 0; i < count; i++) {
        struct sw_ui_thread *u = &m->threads[i];
        if (!sw_snapshot_reader_slot(f->snapshot, i, &u->slot))
            continue; /* the slot is being written: keep the previous state */

        double now = at_work(&u->slot) ? 1 : 0;
        u->busy = isnan(u->busy) ? now : 0.95 * u->busy + 0.05 * now;
    }
}

static void update_snapshot(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_snapshot_state s;
    struct sw_err err;

    open_snapshot(f, m);
    m->live = false;
    if (!f->snapshot)
        return;

    const bool read = sw_snapshot_reader_state(f->snapshot, &s);
    if (sw_snapshot_reader_check(f->snapshot, &err) != SW_OK) {
        report_problem(f, m, &err);
        close_snapshot(f);
        return;
    }

    if (!read)
        return;

    if (s.status != SW_RUN_RUNNING) {
        m->run.status = s.status;
        close_snapshot(f);
        f->slow_ns = 0; /* read the final state from the history at once */
        return;
    }

    if (s.gone) {
        close_snapshot(f);
        return;
    }

    m->live = true;
    m->run.pid = s.pid;
    m->run.steps = s.steps_total;
    update_threads(f, m, s.slots);
}

/* ---- Output ------------------------------------------------------------------------
 */

/* Turns complete lines into events; an incomplete last line is stored for the next call. */
static void add_output(struct sw_feed *f, struct sw_ui_model *m, const char *text, size_t bytes)
{
    size_t n = strlen(f->part);

    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        bool over = c == '\n' || c == '\r' || c == 0;

        if (!over && n + 1 < sizeof f->part)
            f->part[n++] = c;
        if (!over || n == 0)
            continue;

        f->part[n] = 0;
        sw_ui_event_add(m, m->now, SW_LOG_DEBUG, "output", f->part);
        n = 0;
    }

    f->part[n] = 0;
}

/* Reads new output of the trainer and its libraries, if it is written to a file of the run. */
static void read_output(struct sw_feed *f, struct sw_ui_model *m)
{
    char text[4096];
    struct stat st;

    if (!*m->run.out_dir)
        return;

    char *path = sw_format("%s/" SW_UI_OUTPUT, m->run.out_dir);
    int fd = path ? sw_os()->open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0) : -1;
    sw_free(path);
    if (fd < 0)
        return;

    if (sw_os()->fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (f->tail_at == 0 && st.st_size > TAIL_BYTES)
            f->tail_at = st.st_size - TAIL_BYTES;

        ssize_t got;
        while ((got = sw_os()->pread(fd, text, sizeof text, f->tail_at)) > 0) {
            add_output(f, m, text, (size_t)got);
            f->tail_at += got;
        }
    }

    sw_os()->close(fd);
}

/* ---- Refresh -------------------------------------------------------------------------------
 */

static void read_run(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_run run = {0};
    if (sw_history_find_id(f->reader, f->run_id, &run, &ignored) != SW_OK)
        return;

    int64_t steps = m->live ? m->run.steps : run.steps;
    copy_run(&m->run, &run);
    m->run.steps = steps;
    sw_run_fini(&run);
}

/* Adds an event, once, at the time when the run ended early: what it was and how to continue. */
static void report_early_end(struct sw_feed *f, struct sw_ui_model *m)
{
    char hint[SW_RESUME_HINT], text[160];
    bool bad = m->run.status == SW_RUN_CRASHED || m->run.status == SW_RUN_FAILED;
    bool early = *sw_resume_hint(hint, m->run.id, m->run.status, m->checkpoint_step) != 0;

    if (early && !f->reported_end && m->run.ended_at > 0) {
        snprintf(text, sizeof text, "%s; %s", sw_run_status_name(m->run.status), hint);
        sw_ui_event_add(m, m->run.ended_at, bad ? SW_LOG_ERROR : SW_LOG_WARN, "run", text);
    }

    f->reported_end = early;
}

static bool is_due(int64_t *last_ns, int64_t now_ns, int ms)
{
    if (*last_ns && now_ns - *last_ns < (int64_t)ms * 1000000)
        return false;
    *last_ns = now_ns;
    return true;
}

/* Samples the machine, if the run is on this host. */
static void sample_machine(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_process self;

    sw_process_self(&self);
    m->machine.known = false;
    if (m->run.status == SW_RUN_RUNNING && sw_str_eq(self.host, m->run.host))
        sw_sampler_sample(f->sampler, m->live ? m->run.pid : 0, &m->machine);
}

void sw_feed_refresh(struct sw_feed *f, struct sw_ui_model *m, unsigned what)
{
    m->now = sw_os()->unix_time();
    m->now_ns = sw_os()->monotonic_ns();
    if (!f->reader || !m->found)
        return;

    update_snapshot(f, m);
    sw_feed_read_new(f, m);
    read_output(f, m);

    if (is_due(&f->slow_ns, m->now_ns, SLOW_MS)) {
        read_run(f, m);
        sw_feed_read_slow(f, m);
        report_early_end(f, m);
        if (what & SW_FEED_MACHINE)
            sample_machine(f, m);
    }

    if ((what & SW_FEED_ROWS) && is_due(&f->list_ns, m->now_ns, LIST_MS))
        sw_feed_read_list(f, m);
    m->rows_age = f->new_ns ? (double)(m->now_ns - f->new_ns) * 1e-9 : (double)NAN;
}

int sw_feed_request(struct sw_feed *f, const char *line, char *answer, size_t bytes,
                    struct sw_err *err)
{
    if (!f->live_path)
        return sw_err_set(err, SW_ERR_NOTFOUND, "the run is not running on this host");

    char *path = sw_control_path(f->live_path);
    if (!path)
        return sw_err_nomem(err, "the control socket", 0);

    int rc = sw_control_ask(path, line, answer, bytes, err);
    sw_free(path);
    return rc;
}
