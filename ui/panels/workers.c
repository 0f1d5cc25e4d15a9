/* The current state of each worker and server, its time breakdown, and what it waits for. Slots of
 * prefetch threads are shown in the data panel. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_W = 11,
    NAME_MOST_W = 24,
    STATE_W = 11,
    STEP_W = 9,
    LAG_W = 6,
    STALE_W = 6,
    BUSY_W = 6
};

static bool is_row(const struct sw_ui_thread *u)
{
    return sw_ui_thread_kind_of(u->slot.name) != SW_UI_READER;
}

static int rows_of(const struct sw_ui_model *m)
{
    int rows = 0;
    for (int i = 0; i < m->thread_count; i++)
        rows += is_row(&m->threads[i]);
    return rows;
}

/* The number of the worker in slot i: workers of a host follow those of the hosts before it. */
static int number_of(const struct sw_ui_model *m, int i)
{
    int number = 0;

    for (int k = 0; k < i; k++)
        number += sw_ui_thread_kind_of(m->threads[k].slot.name) == SW_UI_WORKER;
    return number;
}

/* The slot of a worker; -1: there is none. */
static int slot_of(const struct sw_ui_model *m, int number)
{
    for (int i = 0; i < m->thread_count; i++)
        if (sw_ui_thread_kind_of(m->threads[i].slot.name) == SW_UI_WORKER && number-- == 0)
            return i;
    return -1;
}

/* The time breakdown of the n-th worker, or NULL. */
static const struct sw_ledger_worker *times_of(const struct sw_ui_model *m, int n)
{
    for (int i = 0; i < m->ledger.worker_count; i++)
        if (m->ledger.worker[i].worker == n)
            return &m->ledger.worker[i];
    return NULL;
}

/* The last step of the workers of a host. Those of different hosts cannot be compared, because
 * what is known of other hosts is older. */
static int64_t furthest(const struct sw_ui_model *m, int host)
{
    int64_t step = -1;

    for (int i = 0; i < m->thread_count; i++)
        if (sw_ui_thread_kind_of(m->threads[i].slot.name) == SW_UI_WORKER &&
            sw_ui_host_of(m, m->threads[i].slot.name) == host)
            step = m->threads[i].slot.done_step > step ? m->threads[i].slot.done_step : step;

    return step;
}

/* The x and width of columns; 0: the column does not fit. */
struct columns {
    int name_w, step, lag, stale, busy, bar, bar_w, what, what_w;
};

/* Names of other hosts' threads are longer. */
static int name_width(const struct sw_ui_model *m)
{
    int w = NAME_W;

    for (int i = 0; m->host_count > 0 && i < m->thread_count; i++)
        if (is_row(&m->threads[i])) {
            int n = (int)strlen(m->threads[i].slot.name) + 1;
            w = n > w ? n : w;
        }

    return w < NAME_MOST_W ? w : NAME_MOST_W;
}

static struct columns place(struct sw_area in, int name_w)
{
    int x = in.x + name_w + STATE_W, right = in.x + in.w;
    struct columns k = {.name_w = name_w, .step = x};

    x += STEP_W;
    k.lag = in.w >= 56 ? x : 0;
    x += k.lag ? LAG_W : 0;
    k.stale = in.w >= 80 ? x : 0;
    x += k.stale ? STALE_W : 0;
    k.busy = in.w >= 64 ? x : 0;
    x += k.busy ? BUSY_W : 0;
    k.bar = x;
    k.bar_w = right - x > 44 ? (right - x) / 2 : right - x > 24 ? 14 : right - x > 18 ? 10 : 0;
    k.bar_w = k.bar_w > 40 ? 40 : k.bar_w;
    x += k.bar_w + (k.bar_w > 0);
    k.what = x;
    k.what_w = right - x;

    return k;
}

static void heading(struct sw_canvas *c, struct sw_area in, const struct columns *k)
{
    sw_canvas_text(c, in.x, in.y, k->name_w, SW_ROLE_DIM, "thread");
    sw_canvas_text(c, in.x + k->name_w, in.y, STATE_W, SW_ROLE_DIM, "state");
    sw_canvas_right(c, k->step, in.y, STEP_W - 1, SW_ROLE_DIM, "step");
    if (k->lag)
        sw_canvas_right(c, k->lag, in.y, LAG_W - 1, SW_ROLE_DIM, "lag");
    if (k->stale)
        sw_canvas_right(c, k->stale, in.y, STALE_W - 1, SW_ROLE_DIM, "stale");
    if (k->busy)
        sw_canvas_right(c, k->busy, in.y, BUSY_W - 1, SW_ROLE_DIM, "busy");
    if (k->bar_w > 0)
        sw_canvas_text(c, k->bar, in.y, k->bar_w, SW_ROLE_DIM, "step time");
    sw_canvas_text(c, k->what, in.y, k->what_w, SW_ROLE_DIM, "layer, or what it waits for");
}

static enum sw_role state_role(const struct sw_slot_state *s)
{
    if (s->waiting_for[0])
        return SW_ROLE_WAIT;

    switch (s->phase) {
    case SW_PHASE_FORWARD:
    case SW_PHASE_BACKWARD:
        return SW_ROLE_COMPUTE;
    case SW_PHASE_READ:
        return SW_ROLE_DATA;
    case SW_PHASE_UPDATE:
    case SW_PHASE_COLLECT:
        return SW_ROLE_COMM;
    case SW_PHASE_PAUSED:
        return SW_ROLE_WARN;
    default:
        return SW_ROLE_DIM;
    }
}

static void number(struct sw_canvas *c, int x, int y, int w, enum sw_role role, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, value < 0 ? "--" : "%lld", (long long)value);
    sw_canvas_right(c, x, y, w, role, text);
}

/* The fraction of a step in which the worker does not wait for others. */
static double busy_fraction(const struct sw_ledger_worker *w)
{
    double all = sw_ledger_step_ms(w);
    double waits =
        w->ms[SW_STEP_COMM] + w->ms[SW_STEP_WAIT] + w->ms[SW_STEP_READ] + w->ms[SW_STEP_DECODE];
    return all > 0 ? 1 - waits / all : (double)NAN;
}

static void worker_figures(struct sw_canvas *c, const struct columns *k, int y, int lag,
                           const struct sw_ledger_worker *times, bool slow)
{
    char percent[16];

    if (k->lag) {
        char text[16];
        snprintf(text, sizeof text, lag ? "-%d" : "0", lag);
        sw_canvas_right(c, k->lag, y, LAG_W - 1, lag > 1 ? SW_ROLE_WARN : SW_ROLE_TEXT, text);
    }

    if (k->stale)
        number(c, k->stale, y, STALE_W - 1, SW_ROLE_TEXT, times ? times->staleness : -1);

    if (k->busy) {
        sw_ui_percent(percent, times ? busy_fraction(times) : (double)NAN);
        sw_canvas_right(c, k->busy, y, BUSY_W - 1, SW_ROLE_TEXT, percent);
    }

    if (times && k->bar_w > 0)
        sw_ui_phase_bar(c, k->bar, y, k->bar_w, times->ms);

    if (slow && k->what_w > 8) {
        sw_canvas_right(c, k->what, y, k->what_w, SW_ROLE_BAD, "slowest");
    }
}

/* Shows the state; a state that has not changed for seconds shows its age. */
static void what_now(struct sw_canvas *c, const struct columns *k, int y,
                     const struct sw_ui_model *m, const struct sw_slot_state *s, int columns)
{
    char text[128];
    double since = (double)(m->now_ns - s->since_ns) * 1e-9;
    const char *what = s->waiting_for[0] ? s->waiting_for : s->layer_name;

    if (s->phase != SW_PHASE_IDLE && since >= 2 && since < 1e8)
        snprintf(text, sizeof text, "%s (%.0f s)", what, since);
    else
        snprintf(text, sizeof text, "%s", what);

    sw_canvas_text(c, k->what, y, columns, s->waiting_for[0] ? SW_ROLE_WAIT : SW_ROLE_TEXT, text);
}

static void unit_row(struct sw_canvas *c, struct sw_area in, const struct columns *k, int y,
                     const struct sw_ui_model *m, int i, int slow)
{
    const struct sw_slot_state *s = &m->threads[i].slot;
    bool worker = sw_ui_thread_kind_of(s->name) == SW_UI_WORKER;
    const int number_in_run = number_of(m, i);
    bool slowest = worker && number_in_run == slow;
    const char *state = s->waiting_for[0] ? "waiting" : sw_phase_name(s->phase);

    sw_canvas_text(c, in.x, y, k->name_w - 1, slowest ? SW_ROLE_BAD : SW_ROLE_TEXT, s->name);
    sw_canvas_text(c, in.x + k->name_w, y, STATE_W - 1, state_role(s), state);
    number(c, k->step, y, STEP_W - 1, SW_ROLE_TEXT, worker ? s->done_step : s->step);
    what_now(c, k, y, m, s, k->what_w - (slowest ? 8 : 0));

    if (worker) {
        int64_t lag = furthest(m, sw_ui_host_of(m, s->name)) - s->done_step;
        worker_figures(c, k, y, (int)lag, times_of(m, number_in_run), slowest);
    } else if (k->busy) {
        char percent[16];
        sw_ui_percent(percent, m->threads[i].busy);
        sw_canvas_right(c, k->busy, y, BUSY_W - 1, SW_ROLE_TEXT, percent);
    }
}

/* Draws a worker from the history, for a run without a live snapshot. */
static void past_row(struct sw_canvas *c, struct sw_area in, const struct columns *k, int y,
                     const struct sw_ledger_worker *w, int slow)
{
    char name[24];

    snprintf(name, sizeof name, "worker %d", w->worker);
    sw_canvas_text(c, in.x, y, k->name_w - 1, SW_ROLE_TEXT, name);
    sw_canvas_text(c, in.x + k->name_w, y, STATE_W - 1, SW_ROLE_DIM, "--");
    number(c, k->step, y, STEP_W - 1, SW_ROLE_TEXT, -1);
    worker_figures(c, k, y, 0, w, w->worker == slow);
}

/* "host b  running  step 120  sends 21.6 MB/s" */
static void host_row(struct sw_canvas *c, struct sw_area in, int y, const struct sw_ui_host *h)
{
    char step[24] = "--", rate[32] = "--";

    if (h->step >= 0)
        snprintf(step, sizeof step, "%lld", (long long)h->step);
    if (!isnan(h->bytes_per_s))
        sw_human_unit(rate, h->bytes_per_s, "B/s");

    if (*h->why)
        sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_BAD, "host %s  lost: %s", h->name, h->why);
    else
        sw_canvas_printf(c, in.x, y, in.w, h->left ? SW_ROLE_DIM : SW_ROLE_TEXT,
                         "host %s  %s  step %s  sends %s", h->name, sw_ui_host_state(h), step,
                         rate);
}

/* One line per host, as long as half of the area remains. Returns how many. */
static int draw_hosts(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    int most = in.h / 2 < m->host_count ? in.h / 2 : m->host_count;

    for (int i = 0; i < most; i++)
        host_row(c, in, in.y + i, &m->hosts[i]);
    return most;
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    const int hosts = draw_hosts(c, in, m);
    struct columns k = place(in, name_width(m));
    const int slow = sw_ui_bottleneck(m).worker, slot = slow < 0 ? -1 : slot_of(m, slow);
    int row = 0, skip = v->scroll[3];

    in.y += hosts;
    in.h -= hosts;
    bool head = in.h >= 3;

    if (head)
        heading(c, in, &k);

    int y = in.y + head, end = in.y + in.h;

    /* The slowest worker is shown even if not all fit. */
    bool first = m->live && slot >= 0 && rows_of(m) > end - y && y < end;
    if (first)
        unit_row(c, in, &k, y++, m, slot, slow);

    for (int i = 0; m->live && i < m->thread_count && y < end; i++)
        if (is_row(&m->threads[i]) && !(first && i == slot) && row++ >= skip)
            unit_row(c, in, &k, y++, m, i, slow);

    for (int i = 0; !m->live && i < m->ledger.worker_count && y < end; i++)
        if (row++ >= skip)
            past_row(c, in, &k, y++, &m->ledger.worker[i], slow);

    if (row == 0 && !first)
        sw_canvas_text(c, in.x, y, in.w, SW_ROLE_DIM, "no data about the workers yet");
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    snprintf(out, 80, "f b compute  r d data  c copy  u # parameters  . wait  ~ rest");
}

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    return m->host_count + (m->live ? rows_of(m) : m->ledger.worker_count);
}

static int want_h(const struct sw_ui_model *m, int w)
{
    int rows = lines(m, NULL);
    return 1 + (rows > 12 ? 12 : rows);
}

const struct sw_panel sw_panel_workers = {
    .name = "workers",
    .title = "3 workers",
    .help = "state of each worker and server, its step time, what it waits for",
    .number = 3,
    .rank = 2,
    .min_h = 2,
    .want_h = want_h,
    .draw = draw,
    .note = note,
    .lines = lines,
};
