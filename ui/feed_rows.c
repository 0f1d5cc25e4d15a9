/* Reads rows of the history into the model: curves, step times, layers, devices, events, segments,
 * the list of runs. What cannot be read now is skipped and read at the next refresh. feed.c decides
 * when; ui/feed_private.h declares the functions. */
#include "ui/feed_private.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

enum {
    STEPS = 200,     /* steps of the time breakdown, with few workers */
    LINK_STEPS = 20, /* of the links */
    NET_MS = 5000,   /* of the links between hosts */
};

/* ---- Curves -----------------------------------------------------------------------------------
 */

void sw_feed_copy(char *to, size_t bytes, const char *from)
{
    sw_utf8_copy(to, bytes, from ? from : "");
}

static struct sw_ui_series *series_of(struct sw_ui_series *list, int count, int64_t id)
{
    for (int i = 0; i < count; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

/* Reads new points of all curves in the list; returns whether there was one. If m is not NULL, it
 * gets an event for each value of an evaluation. */
static bool read_points(struct sw_feed *f, struct sw_ui_series *list, int count,
                        struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_run_point p;
    bool any = false;

    for (int i = 0; i < count; i++) {
        struct sw_ui_series *s = &list[i];
        struct sw_rows rows =
            sw_rows_begin(f->reader, SW_ROWS_POINT, s->id, s->last_step, INT64_MAX, &ignored);
        bool news = false;

        for (; sw_rows_next(&rows, &p); news = true) {
            sw_ui_series_point(s, p.step, p.value);
            if (m && !sw_str_eq(s->split, "train"))
                sw_ui_event_eval(m, p.time, s->split, p.step, s->name, p.value);
        }

        any |= sw_rows_end(&rows) == SW_OK && news;
    }

    return any;
}

static void read_curves(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_SERIES, f->run_id, 0, 0, &ignored);
    struct sw_run_series s;

    while (sw_rows_next(&rows, &s))
        if (!series_of(m->series, m->series_count, s.id))
            sw_ui_series_add(m->series, &m->series_count, SW_UI_SERIES, s.id, s.split, s.name);

    if (sw_rows_end(&rows) == SW_OK && read_points(f, m->series, m->series_count, m))
        f->new_ns = m->now_ns;
}

/* Loads the curves of another run that are compared: losses and accuracies. */
int sw_feed_overlay(struct sw_feed *f, int64_t run, struct sw_ui_model *m, struct sw_err *err)
{
    const int most = (int)(sizeof m->overlay / sizeof *m->overlay);
    struct sw_run_series s;

    sw_ui_series_fini(m->overlay, &m->overlay_count);
    m->overlay_run = 0;
    if (run == 0)
        return SW_OK;

    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_SERIES, run, 0, 0, err);
    while (sw_rows_next(&rows, &s))
        if (sw_str_eq(s.name, "loss") || sw_str_eq(s.name, "accuracy"))
            sw_ui_series_add(m->overlay, &m->overlay_count, most, s.id, s.split, s.name);

    int rc = sw_rows_end(&rows);
    if (rc != SW_OK)
        return rc;

    read_points(f, m->overlay, m->overlay_count, NULL);
    m->overlay_run = run;
    return SW_OK;
}

/* ---- Times, layers, links ---------------------------------------------------------------------
 */

/* Reads the first rows of a kind, at most `most`, into an array; returns how many. */
static int read_rows(struct sw_feed *f, enum sw_rows_kind kind, int64_t after, void *rows_of_kind,
                     size_t bytes, int most)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, kind, f->run_id, after, 0, &ignored);
    int count = 0;

    while (count < most && sw_rows_fill(&rows, (char *)rows_of_kind + (size_t)count * bytes, bytes))
        count++;

    return sw_rows_end(&rows) == SW_OK ? count : 0;
}

/* Rows between hosts are not of every step, but of every few seconds. */
static void read_net(struct sw_feed *f, struct sw_ui_model *m, int64_t newest)
{
    double steps = m->ledger.step_ms > 0 ? NET_MS / m->ledger.step_ms : 0;

    m->link_count +=
        read_rows(f, SW_ROWS_NET, newest - (steps < NET_MS ? (int64_t)steps : NET_MS) - 1,
                  m->links + m->link_count, sizeof *m->links, SW_UI_LINKS - m->link_count);
}

static void read_hosts(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_HOST, f->run_id, 0, 0, &ignored);
    struct sw_run_host h;
    int count = 0;

    for (; count < SW_UI_HOSTS && sw_rows_next(&rows, &h); count++) {
        struct sw_ui_host *to = &m->hosts[count];

        *to = (struct sw_ui_host){.left = !isnan(h.left_at), .step = -1, .bytes_per_s = NAN};
        sw_feed_copy(to->name, sizeof to->name, h.name);
        sw_feed_copy(to->why, sizeof to->why, h.why);
    }

    if (sw_rows_end(&rows) == SW_OK)
        m->host_count = count;
}

static void read_times(struct sw_feed *f, struct sw_ui_model *m, int64_t newest)
{
    int64_t workers = m->run.workers > 0 ? m->run.workers : 1;
    int64_t steps = SW_FEED_STEP_ROWS / workers < STEPS ? SW_FEED_STEP_ROWS / workers : STEPS;

    f->row_count = read_rows(f, SW_ROWS_STEP_TIME, newest - (steps > 0 ? steps : 1), f->rows,
                             sizeof *f->rows, SW_FEED_STEP_ROWS);
    if (f->row_count > 0)
        sw_ledger_make(&m->ledger, f->rows, f->row_count);

    m->link_count =
        read_rows(f, SW_ROWS_TRAFFIC, newest - LINK_STEPS, m->links, sizeof *m->links, SW_UI_LINKS);
    if (m->host_count > 0)
        read_net(f, m, newest);
}

/* The newest plan: it has no more rows than one, and its text is parsed only when it changes. */
static void read_plan(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_PLAN_TEXT, f->run_id, 0, 0, &ignored);
    struct sw_run_plan_text row;

    if (sw_rows_next(&rows, &row)) {
        const uint64_t hash = sw_hash_bytes64(row.json, strlen(row.json));

        /* A text that is not a plan still has the times of its row. */
        if ((!m->plan.known || hash != f->plan_hash) &&
            sw_ui_plan_read(&m->plan, &row, SW_UI_LAYERS, &ignored) != SW_ERR_NOMEM)
            f->plan_hash = hash;
        m->plan.step_ms = row.predicted_ms;
        m->plan.mean_ms = row.measured_ms;
    }

    int rc = sw_rows_end(&rows);
    (void)rc; /* what cannot be read now is read the next time */
}

/* A stage, a resume or another plan may have others. */
static void read_placements(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_PLACEMENT, f->run_id, 0, 0, &ignored);
    struct sw_run_placement u, *to, *all = NULL;
    int count = 0;

    while (sw_rows_next(&rows, &u) && (to = sw_array_add(&all, &count, sizeof *to)))
        *to = u;

    if (sw_rows_end(&rows) != SW_OK) {
        sw_free(all);
        return;
    }

    sw_free(m->placements);
    m->placements = all;
    m->placement_count = count;
}

static enum sw_log_level level_of(const char *name)
{
    for (int l = SW_LOG_DEBUG; l <= SW_LOG_ERROR; l++)
        if (sw_str_eq(sw_log_level_name((enum sw_log_level)l), name))
            return (enum sw_log_level)l;
    return SW_LOG_INFO;
}

static void read_checkpoints(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_CHECKPOINT, f->run_id, 0, 0, &ignored);
    struct sw_run_checkpoint c;

    /* Steps are in descending order: after one that is known, the rest is known. */
    while (sw_rows_next(&rows, &c)) {
        if (c.step > m->checkpoint_step) {
            m->checkpoint_step = c.step;
            m->checkpoint_time = c.time;
        }

        if (c.step <= f->last_checkpoint)
            break;
        sw_ui_event_checkpoint(m, c.time, c.step, c.path, (double)c.bytes);
    }

    if (sw_rows_end(&rows) == SW_OK)
        f->last_checkpoint = m->checkpoint_step;
}

static void read_events(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows =
        sw_rows_begin(f->reader, SW_ROWS_EVENT, f->run_id, f->last_event, SW_UI_EVENTS, &ignored);
    struct sw_run_event e;

    while (sw_rows_next(&rows, &e)) {
        f->last_event = e.row;
        f->new_ns = m->now_ns;
        sw_ui_event_add(m, e.time, level_of(e.level), e.source, e.text);
    }

    int rc = sw_rows_end(&rows);
    (void)rc; /* what cannot be read now is read the next time */
}

/* A resume discards the steps after its first one, so all curves are read again. */
static void read_segments(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct sw_rows rows = sw_rows_begin(f->reader, SW_ROWS_SEGMENT, f->run_id, 0, 0, &ignored);
    struct sw_run_segment s;
    int64_t count = 0;

    m->resume_count = 0;
    m->segment_start = NAN;

    m->ended_s = 0;
    for (; sw_rows_next(&rows, &s); count++) {
        if (isnan(s.ended_at))
            m->segment_start = s.started_at;
        else
            m->ended_s += s.ended_at - s.started_at;

        if (s.segment > 0 && m->resume_count < SW_UI_SEGMENTS)
            m->resume_steps[m->resume_count++] = s.from_step;
    }

    if (sw_rows_end(&rows) != SW_OK)
        return;

    if (f->segments > 0 && count > f->segments) {
        sw_ui_series_fini(m->series, &m->series_count);
        if (m->resume_count > 0)
            m->checkpoint_step = f->last_checkpoint = m->resume_steps[m->resume_count - 1];
    }

    f->segments = count;
}

/* ---- Reading by interval ---- */

void sw_feed_read_new(struct sw_feed *f, struct sw_ui_model *m)
{
    read_curves(f, m);
    read_events(f, m);
}

void sw_feed_read_slow(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    int64_t newest = -1;

    read_segments(f, m);
    read_hosts(f, m);

    if (sw_history_newest_step_time(f->reader, f->run_id, &newest, &ignored) == SW_OK &&
        newest >= 0 && newest != m->ledger.to_step)
        read_times(f, m, newest);

    m->layer_count = read_rows(f, SW_ROWS_LAYER, 0, m->layers, sizeof *m->layers, SW_UI_LAYERS);
    read_plan(f, m);
    m->device_count =
        read_rows(f, SW_ROWS_HARDWARE, 0, m->devices, sizeof *m->devices, SW_UI_DEVICES);
    read_placements(f, m);
    sw_ui_update_hosts(m);
    read_checkpoints(f, m);
}

struct list {
    struct sw_ui_row *rows;
    int count;
};

static int add_run(void *user, const struct sw_run *r)
{
    struct list *l = user;
    struct sw_ui_row *to = sw_array_add(&l->rows, &l->count, sizeof *to);
    if (!to)
        return 1;

    *to = (struct sw_ui_row){.id = r->id,
                             .step = r->last_step,
                             .steps = r->steps,
                             .status = r->status,
                             .loss = r->loss,
                             .accuracy = r->accuracy,
                             .samples_per_s = r->samples_per_s,
                             .started_at = r->started_at,
                             .ended_at = r->ended_at};
    sw_feed_copy(to->name, sizeof to->name, r->name);

    return 0;
}

void sw_feed_read_list(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct list l = {0};
    if (sw_history_each_run(f->reader, add_run, &l, &ignored) < 0) {
        sw_free(l.rows);
        return;
    }

    sw_free(m->rows);
    m->rows = l.rows;
    m->row_count = l.count;
}
