#include "ui/feed_private.h"

#include "base/os.h"
#include "base/text.h"
#include <math.h>

enum {
    STEPS = 200,     /* of the ledger, where there are few workers */
    LINK_STEPS = 20, /* of the links */
};

/* ---- Curves -----------------------------------------------------------------------------------
 */

struct curve {
    struct sw_ui_series *series;
    struct sw_ui_model *model; /* gets an event for each value of an evaluation; NULL: none */
    bool any;
};

void sw_feed_copy(char *to, size_t bytes, const char *from)
{
    sw_utf8_copy(to, bytes, from ? from : "");
}

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
    if (f->row_count == SW_FEED_STEP_ROWS)
        return 1;
    f->rows[f->row_count++] = *row;
    return 0;
}

static int keep_link(void *user, const struct sw_run_traffic *t)
{
    struct sw_ui_model *m = user;
    if (m->link_count == SW_UI_LINKS)
        return 1;
    struct sw_ui_link *to = &m->links[m->link_count++];
    sw_feed_copy(to->from, sizeof to->from, t->from);
    sw_feed_copy(to->to, sizeof to->to, t->to);
    sw_feed_copy(to->kind, sizeof to->kind, t->kind);
    to->bytes_per_step = (double)t->bytes / (double)(t->steps > 0 ? t->steps : 1);
    to->ms_per_step = t->ms / (double)(t->steps > 0 ? t->steps : 1);
    return 0;
}

static void look_at_times(struct sw_feed *f, struct sw_ui_model *m, int64_t newest)
{
    struct sw_err ignored;
    int64_t workers = m->run.workers > 0 ? m->run.workers : 1;
    int64_t steps = SW_FEED_STEP_ROWS / workers < STEPS ? SW_FEED_STEP_ROWS / workers : STEPS;
    f->row_count = 0;
    if (sw_history_each_step_time(f->reader, f->run_id, newest - (steps > 0 ? steps : 1), keep_row,
                                  f, &ignored) >= 0 &&
        f->row_count > 0)
        sw_ledger_make(&m->ledger, f->rows, f->row_count);
    m->link_count = 0;
    if (sw_history_each_traffic(f->reader, f->run_id, newest - LINK_STEPS, keep_link, m, &ignored) <
        0)
        m->link_count = 0;
}

static int keep_layer(void *user, const struct sw_run_layer *l)
{
    struct sw_ui_model *m = user;
    if (m->layer_count == SW_UI_LAYERS)
        return 1;
    struct sw_ui_layer *to = &m->layers[m->layer_count++];
    sw_feed_copy(to->name, sizeof to->name, l->name);
    to->forward_ms = l->forward_ms;
    to->backward_ms = l->backward_ms;
    return 0;
}

static int keep_device(void *user, const struct sw_run_hardware *h)
{
    struct sw_ui_model *m = user;
    if (m->device_count == SW_UI_DEVICES)
        return 1;
    struct sw_ui_device *to = &m->devices[m->device_count++];
    sw_feed_copy(to->name, sizeof to->name, h->device);
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
    struct sw_ui_place *to = sw_array_add(&m->places, &m->place_count, sizeof *to);
    if (!to)
        return 1;
    sw_feed_copy(to->unit, sizeof to->unit, u->unit);
    sw_feed_copy(to->device, sizeof to->device, u->device);
    sw_feed_copy(to->cores, sizeof to->cores, u->cores);
    sw_feed_copy(to->reason, sizeof to->reason, u->reason);
    to->numa = u->numa;
    return 0;
}

/* ---- Events, checkpoints, segments ---- */

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

struct joins {
    struct sw_ui_model *model;
    int64_t count;
};

static int keep_join(void *user, const struct sw_run_segment *s)
{
    struct joins *j = user;
    struct sw_ui_model *m = j->model;
    j->count++;
    if (isnan(s->ended_at))
        m->segment_start = s->started_at;
    else
        m->ended_s += s->ended_at - s->started_at;
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
    m->segment_start = NAN;
    m->ended_s = 0;
    if (sw_history_each_segment(f->reader, f->run_id, keep_join, &j, &ignored) != SW_OK)
        return;
    if (f->segments > 0 && j.count > f->segments) {
        sw_ui_series_fini(m->series, &m->series_count);
        if (m->join_count > 0)
            m->checkpoint_step = f->last_checkpoint = m->joins[m->join_count - 1];
    }
    f->segments = j.count;
}

/* ---- All of it ---- */

void sw_feed_read_new(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct happened h = {f, m};
    look_at_curves(f, m);
    int rc = sw_history_each_event(f->reader, f->run_id, f->last_event, SW_UI_EVENTS, keep_event,
                                   &h, &ignored);
    (void)rc; /* what cannot be read now is read the next time */
}

void sw_feed_read_slow(struct sw_feed *f, struct sw_ui_model *m)
{
    struct sw_err ignored;
    struct happened h = {f, m};
    int64_t newest = -1;
    look_at_segments(f, m);
    if (sw_history_newest_step_time(f->reader, f->run_id, &newest, &ignored) == SW_OK &&
        newest >= 0 && newest != m->ledger.to_step)
        look_at_times(f, m, newest);
    m->layer_count = m->device_count = 0;
    if (sw_history_each_layer(f->reader, f->run_id, keep_layer, m, &ignored) < 0)
        m->layer_count = 0;
    if (sw_history_each_hardware(f->reader, f->run_id, keep_device, m, &ignored) < 0)
        m->device_count = 0;
    if (m->place_count == 0 &&
        sw_history_each_unit(f->reader, f->run_id, keep_place, m, &ignored) < 0)
        m->place_count = 0;
    if (sw_history_each_checkpoint(f->reader, f->run_id, keep_checkpoint, &h, &ignored) >= 0)
        f->last_checkpoint = m->checkpoint_step;
}

struct list {
    struct sw_ui_row *rows;
    int count;
};

static int keep_run(void *user, const struct sw_run *r)
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
    if (sw_history_each_run(f->reader, keep_run, &l, &ignored) < 0) {
        sw_free(l.rows);
        return;
    }
    sw_free(m->rows);
    m->rows = l.rows;
    m->row_count = l.count;
}
