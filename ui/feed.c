#include "ui/feed.h"

#include "base/os.h"
#include "base/str.h"
#include "history/control.h"
#include "history/process.h"
#include "history/reader_rows.h"
#include "ui/sampler.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    STEPS = 200,    /* of the ledger, where there are few workers */
    ROWS = 2048,    /* of step_time at once */
    SLOW_MS = 1000, /* between looks at what changes slowly */
    LIST_MS = 3000, /* between looks at all runs */
    TAIL_BYTES = 65536,
};

struct sw_feed {
    char *db_path;                       /* owned */
    struct sw_history_reader *reader;    /* owned; NULL: no history could be opened */
    struct sw_snapshot_reader *snapshot; /* owned; NULL: not live */
    struct sw_sampler *sampler;          /* owned */
    char *live_path;                     /* owned; of the snapshot */
    int64_t run_id;
    int64_t slow_ns, list_ns, new_ns; /* when: slow things, list, last news */
    int64_t last_checkpoint;          /* step */
    int64_t last_event;               /* row */
    int64_t segments;
    int64_t tail_at; /* bytes of the output that were read */
    char part[256];  /* of its last line, without an end yet */
    struct sw_step_time rows[ROWS];
    int row_count;
};

int sw_feed_new(struct sw_feed **out, const char *db_path, struct sw_err *err)
{
    struct sw_feed *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, "a dashboard", sizeof *f);
    f->db_path = sw_strdup(db_path);
    int rc = f->db_path ? sw_sampler_new(&f->sampler, err)
                        : sw_err_nomem(err, "a dashboard", strlen(db_path));
    if (rc == SW_OK)
        *out = f;
    else
        sw_feed_free(f);
    return rc;
}

static void leave_snapshot(struct sw_feed *f)
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
    leave_snapshot(f);
    sw_history_reader_close(f->reader);
    sw_sampler_free(f->sampler);
    sw_free(f->db_path);
    sw_free(f);
}

static void copy(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from ? from : "");
}

/* ---- The run ----------------------------------------------------------------------------------
 */

static void take_run(struct sw_ui_run *r, const struct sw_run *from)
{
    r->id = from->id;
    copy(r->uid, sizeof r->uid, from->uid);
    copy(r->name, sizeof r->name, from->name);
    copy(r->recipe, sizeof r->recipe, from->recipe);
    copy(r->framework, sizeof r->framework, from->framework);
    copy(r->device, sizeof r->device, from->device);
    copy(r->host, sizeof r->host, from->host);
    copy(r->out_dir, sizeof r->out_dir, from->out_dir);
    copy(r->version, sizeof r->version, from->version);
    copy(r->note, sizeof r->note, from->note);
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

/* The newest run that is running, else the newest: the first of a list that begins with it. */
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
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run yet", f->db_path);
    return sw_history_find_id(f->reader, n.running ? n.running : n.id, run, err);
}

static void forget_rows(struct sw_feed *f)
{
    f->last_event = 0;
    f->last_checkpoint = -1;
    f->segments = 0;
    f->slow_ns = f->new_ns = 0;
    f->tail_at = 0;
    f->part[0] = 0;
    f->row_count = 0;
}

int sw_feed_choose(struct sw_feed *f, const char *run, struct sw_ui_model *m, struct sw_err *err)
{
    struct sw_run found = {0};
    int rc = f->reader ? SW_OK : sw_history_reader_open(&f->reader, f->db_path, err);
    if (rc == SW_OK)
        rc = find_run(f, run, &found, err);
    if (rc != SW_OK)
        return rc;
    leave_snapshot(f);
    forget_rows(f);
    sw_ui_model_clear(m);
    take_run(&m->run, &found);
    m->found = true;
    f->run_id = found.id;
    sw_run_fini(&found);
    return SW_OK;
}

/* ---- The snapshot -----------------------------------------------------------------------------
 */

static void enter_snapshot(struct sw_feed *f, const struct sw_ui_model *m)
{
    struct sw_err ignored;
    if (f->snapshot || m->run.status != SW_RUN_RUNNING || !*m->run.uid)
        return;
    if (sw_snapshot_find(m->run.uid, &f->live_path, &ignored) != SW_OK)
        return;
    if (sw_snapshot_reader_open(&f->snapshot, f->live_path, &ignored) != SW_OK)
        leave_snapshot(f);
}

static bool at_work(const struct sw_slot_state *s)
{
    return !s->waiting_for[0] && s->phase != SW_PHASE_IDLE && s->phase != SW_PHASE_PAUSED;
}

static void take_units(struct sw_feed *f, struct sw_ui_model *m, int count)
{
    if (count != m->unit_count) {
        struct sw_ui_unit *units = sw_calloc((size_t)count + 1, sizeof *units);
        if (!units)
            return;
        for (int i = 0; i < count; i++)
            units[i].busy = NAN;
        sw_free(m->units);
        m->units = units;
        m->unit_count = count;
    }
    for (int i = 0; i < count; i++) {
        struct sw_ui_unit *u = &m->units[i];
        if (!sw_snapshot_reader_slot(f->snapshot, i, &u->slot))
            continue; /* it is written all the time: the one before will do */
        double now = at_work(&u->slot) ? 1 : 0;
        u->busy = isnan(u->busy) ? now : 0.95 * u->busy + 0.05 * now;
    }
}

static void look_at_snapshot(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_snapshot_state s;
    enter_snapshot(f, m);
    m->live = false;
    if (!f->snapshot || !sw_snapshot_reader_state(f->snapshot, &s))
        return;
    if (s.status != SW_RUN_RUNNING) {
        m->run.status = s.status;
        leave_snapshot(f);
        f->slow_ns = 0; /* how it ended stands in the history */
        return;
    }
    m->live = true;
    m->run.pid = s.pid;
    m->run.steps = s.steps_total;
    take_units(f, m, s.slots);
}

/* ---- Curves -----------------------------------------------------------------------------------
 */

struct curve {
    struct sw_ui_series *series;
    struct sw_ui_model *model; /* gets an event for each value of an evaluation; NULL: none */
    bool any;
};

static int add_point(void *user, const struct sw_run_point *p)
{
    struct curve *c = user;
    sw_ui_series_point(c->series, p->step, p->value);
    if (c->model && !sw_str_eq(c->series->split, "train"))
        sw_ui_event_eval(c->model, p->time, c->series->split, p->step, c->series->name, p->value);
    c->any = true;
    return 0;
}

static struct sw_ui_series *series_of(struct sw_ui_series *list, int count, int64_t id)
{
    for (int i = 0; i < count; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

struct curves {
    struct sw_ui_series *list;
    int *count, most;
};

static int note_series(void *user, const struct sw_run_series *s)
{
    struct curves *c = user;
    if (!series_of(c->list, *c->count, s->id))
        sw_ui_series_add(c->list, c->count, c->most, s->id, s->split, s->name);
    return 0;
}

/* New points of all curves in the list; true when there was one. */
static bool read_points(struct sw_feed *f, struct sw_ui_series *list, int count,
                        struct sw_ui_model *m)
{
    struct sw_err ignored;
    bool any = false;
    for (int i = 0; i < count; i++) {
        struct curve c = {&list[i], m, false};
        int rc = sw_history_each_point(f->reader, list[i].id, list[i].last_step, INT64_MAX,
                                       add_point, &c, &ignored);
        any |= rc == SW_OK && c.any;
    }
    return any;
}

static void look_at_curves(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct curves all = {m->series, &m->series_count, SW_UI_SERIES};
    if (sw_history_each_series(f->reader, f->run_id, note_series, &all, &ignored) != SW_OK)
        return;
    if (read_points(f, m->series, m->series_count, m))
        f->new_ns = m->now_ns;
}

/* Of another run what is compared: losses and accuracies. */
static int note_overlay(void *user, const struct sw_run_series *s)
{
    struct curves *c = user;
    if (sw_str_eq(s->name, "loss") || sw_str_eq(s->name, "accuracy"))
        sw_ui_series_add(c->list, c->count, c->most, s->id, s->split, s->name);
    return 0;
}

int sw_feed_overlay(struct sw_feed *f, int64_t run, struct sw_ui_model *m, struct sw_err *err)
{
    struct curves all = {m->overlay, &m->overlay_count,
                         (int)(sizeof m->overlay / sizeof *m->overlay)};
    sw_ui_series_fini(m->overlay, &m->overlay_count);
    m->overlay_run = 0;
    if (run == 0)
        return SW_OK;
    int rc = sw_history_each_series(f->reader, run, note_overlay, &all, err);
    if (rc != SW_OK)
        return rc;
    read_points(f, m->overlay, m->overlay_count, NULL);
    m->overlay_run = run;
    return SW_OK;
}

/* ---- Times, layers, links ---------------------------------------------------------------------
 */

static int keep_row(void *user, const struct sw_step_time *row)
{
    struct sw_feed *f = user;
    if (f->row_count == ROWS)
        return 1;
    f->rows[f->row_count++] = *row;
    return 0;
}

static void look_at_times(struct sw_feed *f, struct sw_ui_model *m, int64_t newest)
{
    struct sw_err ignored;
    int64_t workers = m->run.workers > 0 ? m->run.workers : 1;
    int64_t steps = ROWS / workers < STEPS ? ROWS / workers : STEPS;
    f->row_count = 0;
    if (sw_history_each_step_time(f->reader, f->run_id, newest - (steps > 0 ? steps : 1), keep_row,
                                  f, &ignored) >= 0 &&
        f->row_count > 0)
        sw_ledger_make(&m->ledger, f->rows, f->row_count);
}

static int keep_layer(void *user, const struct sw_run_layer *l)
{
    struct sw_ui_model *m = user;
    if (m->layer_count == SW_UI_LAYERS)
        return 1;
    struct sw_ui_layer *to = &m->layers[m->layer_count++];
    copy(to->name, sizeof to->name, l->name);
    to->forward_ms = l->forward_ms;
    to->backward_ms = l->backward_ms;
    return 0;
}

static int keep_link(void *user, const struct sw_run_traffic *t)
{
    struct sw_ui_model *m = user;
    if (m->link_count == SW_UI_LINKS)
        return 1;
    struct sw_ui_link *to = &m->links[m->link_count++];
    copy(to->from, sizeof to->from, t->from);
    copy(to->to, sizeof to->to, t->to);
    copy(to->kind, sizeof to->kind, t->kind);
    to->bytes_per_step = (double)t->bytes / (double)(t->steps > 0 ? t->steps : 1);
    to->ms_per_step = t->ms / (double)(t->steps > 0 ? t->steps : 1);
    return 0;
}

static int keep_device(void *user, const struct sw_run_hardware *h)
{
    struct sw_ui_model *m = user;
    if (m->device_count == SW_UI_DEVICES)
        return 1;
    struct sw_ui_device *to = &m->devices[m->device_count++];
    copy(to->name, sizeof to->name, h->device);
    to->age_s = m->run.status == SW_RUN_RUNNING ? m->now - h->time : 0;
    to->util = h->util;
    to->mem_used = h->mem_used;
    to->power_w = h->power_w;
    to->temp_c = h->temp_c;
    to->clock_mhz = h->clock_mhz;
    return 0;
}

static int keep_place(void *user, const struct sw_run_unit *u)
{
    struct sw_ui_model *m = user;
    struct sw_ui_place *places =
        sw_realloc_array(m->places, (size_t)m->place_count + 1, sizeof *places);
    if (!places)
        return 1;
    m->places = places;
    struct sw_ui_place *to = &places[m->place_count++];
    copy(to->unit, sizeof to->unit, u->unit);
    copy(to->device, sizeof to->device, u->device);
    copy(to->cores, sizeof to->cores, u->cores);
    copy(to->reason, sizeof to->reason, u->reason);
    to->numa = u->numa;
    return 0;
}

/* ---- Events and output ------------------------------------------------------------------------
 */

static enum sw_log_level level_of(const char *name)
{
    for (int l = SW_LOG_DEBUG; l <= SW_LOG_ERROR; l++)
        if (sw_str_eq(sw_log_level_name((enum sw_log_level)l), name))
            return (enum sw_log_level)l;
    return SW_LOG_INFO;
}

struct happened {
    struct sw_feed *feed;
    struct sw_ui_model *model;
};

static int keep_checkpoint(void *user, const struct sw_run_checkpoint *c)
{
    struct happened *h = user;
    struct sw_ui_model *m = h->model;
    if (c->step > m->checkpoint_step) {
        m->checkpoint_step = c->step;
        m->checkpoint_time = c->time;
    }
    if (c->step <= h->feed->last_checkpoint)
        return 1; /* the highest step comes first: the others are known */
    sw_ui_event_checkpoint(m, c->time, c->step, c->path, (double)c->bytes);
    return 0;
}

static int keep_event(void *user, const struct sw_run_event *e)
{
    struct happened *h = user;
    h->feed->last_event = e->row;
    h->feed->new_ns = h->model->now_ns;
    sw_ui_event_add(h->model, e->time, level_of(e->level), e->source, e->text);
    return 0;
}

/* Whole lines of what was read become events; the rest waits for its end. */
static void keep_output(struct sw_feed *f, struct sw_ui_model *m, const char *text, size_t bytes)
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

/* What the trainer and its libraries printed, where its output goes to a file of the run. */
static void look_at_output(struct sw_feed *f, struct sw_ui_model *m)
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
            keep_output(f, m, text, (size_t)got);
            f->tail_at += got;
        }
    }
    sw_os()->close(fd);
}

/* ---- The rhythm -------------------------------------------------------------------------------
 */

struct joins {
    struct sw_ui_model *model;
    int64_t count;
};

static int keep_join(void *user, const struct sw_run_segment *s)
{
    struct joins *j = user;
    struct sw_ui_model *m = j->model;
    j->count++;
    if (s->segment > 0 && m->join_count < SW_UI_SEGMENTS)
        m->joins[m->join_count++] = s->from_step;
    return 0;
}

/* A resume takes back what came after its first step: all curves are read anew then. */
static void look_at_segments(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct joins j = {m, 0};
    m->join_count = 0;
    if (sw_history_each_segment(f->reader, f->run_id, keep_join, &j, &ignored) != SW_OK)
        return;
    if (f->segments > 0 && j.count > f->segments) {
        sw_ui_series_fini(m->series, &m->series_count);
        if (m->join_count > 0)
            m->checkpoint_step = f->last_checkpoint = m->joins[m->join_count - 1];
    }
    f->segments = j.count;
}

static void look_slowly(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_run run = {0};
    int64_t newest = -1;
    if (sw_history_find_id(f->reader, f->run_id, &run, &ignored) == SW_OK) {
        int64_t steps = m->live ? m->run.steps : run.steps;
        take_run(&m->run, &run);
        m->run.steps = steps;
        sw_run_fini(&run);
    }
    look_at_segments(f, m);
    if (sw_history_newest_step_time(f->reader, f->run_id, &newest, &ignored) == SW_OK &&
        newest >= 0 && newest != m->ledger.to_step) {
        look_at_times(f, m, newest);
        m->link_count = 0;
        if (sw_history_each_traffic(f->reader, f->run_id, newest - 20, keep_link, m, &ignored) < 0)
            m->link_count = 0;
    }
    m->layer_count = m->device_count = 0;
    if (sw_history_each_layer(f->reader, f->run_id, keep_layer, m, &ignored) < 0)
        m->layer_count = 0;
    if (sw_history_each_hardware(f->reader, f->run_id, keep_device, m, &ignored) < 0)
        m->device_count = 0;
    if (m->place_count == 0 &&
        sw_history_each_unit(f->reader, f->run_id, keep_place, m, &ignored) < 0)
        m->place_count = 0;
    struct happened h = {f, m};
    if (sw_history_each_checkpoint(f->reader, f->run_id, keep_checkpoint, &h, &ignored) >= 0)
        f->last_checkpoint = m->checkpoint_step;
}

struct list {
    struct sw_ui_row *rows;
    int count, room;
};

static int keep_run(void *user, const struct sw_run *r)
{
    struct list *l = user;
    if (l->count == l->room) {
        int room = l->room ? 2 * l->room : 64;
        struct sw_ui_row *rows = sw_realloc_array(l->rows, (size_t)room, sizeof *rows);
        if (!rows)
            return 1;
        l->rows = rows;
        l->room = room;
    }
    struct sw_ui_row *to = &l->rows[l->count++];
    *to = (struct sw_ui_row){.id = r->id,
                             .step = r->last_step,
                             .steps = r->steps,
                             .status = r->status,
                             .loss = r->loss,
                             .accuracy = r->accuracy,
                             .samples_per_s = r->samples_per_s,
                             .started_at = r->started_at,
                             .ended_at = r->ended_at};
    copy(to->name, sizeof to->name, r->name);
    return 0;
}

static void look_at_list(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct list l = {0};
    if (sw_history_each_run(f->reader, keep_run, &l, &ignored) < 0) {
        sw_free(l.rows);
        return;
    }
    sw_free(m->rows);
    m->rows = l.rows;
    m->row_count = l.count;
}

static bool is_due(int64_t *last_ns, int64_t now_ns, int ms)
{
    if (*last_ns && now_ns - *last_ns < (int64_t)ms * 1000000)
        return false;
    *last_ns = now_ns;
    return true;
}

/* Only what runs here can be looked at. */
static void look_at_machine(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_process self;
    sw_process_self(&self);
    m->machine.known = false;
    if (m->run.status == SW_RUN_RUNNING && sw_str_eq(self.host, m->run.host))
        sw_sampler_look(f->sampler, m->live ? m->run.pid : 0, &m->machine);
}

void sw_feed_refresh(struct sw_feed *f, struct sw_ui_model *m, unsigned what)
{
    struct sw_err ignored;
    struct happened h = {f, m};
    m->now = sw_os()->unix_time();
    m->now_ns = sw_os()->monotonic_ns();
    if (!f->reader || !m->found)
        return;
    look_at_snapshot(f, m);
    look_at_curves(f, m);
    if (sw_history_each_event(f->reader, f->run_id, f->last_event, SW_UI_EVENTS, keep_event, &h,
                              &ignored) == SW_OK)
        look_at_output(f, m);
    if (is_due(&f->slow_ns, m->now_ns, SLOW_MS)) {
        look_slowly(f, m);
        if (what & SW_FEED_MACHINE)
            look_at_machine(f, m);
    }
    if ((what & SW_FEED_ROWS) && is_due(&f->list_ns, m->now_ns, LIST_MS))
        look_at_list(f, m);
    m->rows_age = f->new_ns ? (double)(m->now_ns - f->new_ns) * 1e-9 : (double)NAN;
}

int sw_feed_ask(struct sw_feed *f, const char *line, char *answer, size_t bytes, struct sw_err *err)
{
    if (!f->live_path)
        return sw_err_set(err, SW_ERR_NOTFOUND, "this run does not run on this host");
    char *path = sw_control_path(f->live_path);
    if (!path)
        return sw_err_nomem(err, "the control socket", 0);
    int rc = sw_control_ask(path, line, answer, bytes, err);
    sw_free(path);
    return rc;
}
