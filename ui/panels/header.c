/* The two lines at the top: the run, its progress, and the remaining time. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum sw_role status_role(const struct sw_ui_model *m)
{
    bool waits = m->run.status == SW_RUN_RUNNING && !sw_str_eq(sw_ui_status(m), "running");
    return waits ? SW_ROLE_WARN : sw_ui_status_role(m->run.status);
}

static void epoch_text(const struct sw_ui_model *m, char *out, size_t bytes)
{
    int64_t step = sw_ui_step(m);
    double records = (double)m->run.epoch_records, batch = (double)m->run.batch;

    if (records <= 0 || batch <= 0 || step < 0)
        snprintf(out, bytes, "--");
    else
        snprintf(out, bytes, "%.1f/%.0f", (double)step * batch / records,
                 ceil((double)m->run.steps * batch / records));
}

/* Draws a word of the first line and a gap, if it fits. */
static int word(struct sw_canvas *c, struct sw_area in, int x, enum sw_role role, const char *text)
{
    int n = sw_canvas_columns(c, text);
    if (n == 0 || x + n > in.x + in.w)
        return x;
    return x + sw_canvas_text(c, x, in.y, n, role, text) + 2;
}

static void first_line(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    char text[256], epoch[32];
    int x = in.x + 1;

    if (!m->found) {
        sw_canvas_text(c, x, in.y, in.w - 1, SW_ROLE_WARN, m->problem);
        return;
    }

    epoch_text(m, epoch, sizeof epoch);
    if (in.w >= 100)
        x = word(c, in, x, SW_ROLE_DIM, "singa-ws");
    snprintf(text, sizeof text, "#%lld", (long long)m->run.id);
    x = word(c, in, x, SW_ROLE_DIM, text) - 1;
    x = word(c, in, x, SW_ROLE_TITLE, *m->run.name ? m->run.name : "run");
    x = word(c, in, x, status_role(m), sw_ui_status(m));
    snprintf(text, sizeof text, "%s%lld/%lld", in.w < 60 ? "" : "step ", (long long)sw_ui_step(m),
             (long long)m->run.steps);
    x = word(c, in, x, SW_ROLE_STRONG, text);
    snprintf(text, sizeof text, "epoch %s", epoch);
    x = word(c, in, x, SW_ROLE_TEXT, text);
    x = word(c, in, x, SW_ROLE_TEXT, m->run.framework);
    snprintf(text, sizeof text, "%lld worker%s", (long long)m->run.workers,
             m->run.workers == 1 ? "" : "s");
    x = word(c, in, x, SW_ROLE_TEXT, text);
    x = word(c, in, x, SW_ROLE_TEXT, m->run.device);
    snprintf(text, sizeof text, "batch %lld", (long long)m->run.batch);
    x = word(c, in, x, SW_ROLE_DIM, text);

    /* Data is old only after several steps, since steps may take seconds; a paused run has none. */
    double patience_s = fmax(3, 3e-3 * (isnan(m->ledger.p99_ms) ? 0 : m->ledger.p99_ms));
    if (m->run.status == SW_RUN_RUNNING && m->rows_age > patience_s && !sw_ui_paused(m)) {
        char age[16];
        sw_ui_duration(age, m->rows_age);
        snprintf(text, sizeof text, "%s ago", age);
        x = word(c, in, x, SW_ROLE_WARN, text);
    }

    x = word(c, in, x, SW_ROLE_DIM, m->run.host);
    word(c, in, x, SW_ROLE_DIM, m->run.recipe);
}

static void second_line(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    char left[96], elapsed[16], eta[16], when[32];
    double fraction = m->run.steps > 0 ? (double)sw_ui_step(m) / (double)m->run.steps : 0;

    sw_ui_duration(elapsed, sw_ui_elapsed(m));
    sw_ui_duration(eta, sw_ui_eta(m));

    if (m->run.status == SW_RUN_RUNNING)
        snprintf(left, sizeof left, "%5.1f %%  %s  ETA %s", 100 * (fraction > 0 ? fraction : 0),
                 elapsed, eta);
    else
        snprintf(left, sizeof left, "%5.1f %%  %s %s, took %s", 100 * (fraction > 0 ? fraction : 0),
                 m->run.status == SW_RUN_DONE ? "ended" : sw_run_status_name(m->run.status),
                 sw_ui_when(when, m->run.ended_at, m->now), elapsed);
    if (sw_canvas_columns(c, left) > in.w - 2 && m->run.status != SW_RUN_RUNNING)
        snprintf(left, sizeof left, "%s %s", sw_run_status_name(m->run.status), when);

    int n = (int)strlen(left), columns = in.w - n - 5;
    sw_canvas_right(c, in.x, in.y + 1, in.w - 1, SW_ROLE_STRONG, left);
    if (columns < 4)
        return;

    sw_canvas_rune(c, in.x + 1, in.y + 1, '[', SW_ROLE_DIM);
    sw_canvas_fill(c, (struct sw_area){in.x + 2, in.y + 1, columns, 1}, 0xb7, SW_ROLE_DIM);
    sw_canvas_bar(c, in.x + 2, in.y + 1, columns, fraction, SW_ROLE_LINE1);
    sw_canvas_rune(c, in.x + 2 + columns, in.y + 1, ']', SW_ROLE_DIM);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    first_line(c, in, m);
    if (in.h > 1 && m->found)
        second_line(c, in, m);
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return 2;
}

const struct sw_panel sw_panel_header = {
    .name = "header",
    .title = "run",
    .help = "the run, its progress and the remaining time",
    .min_h = 1,
    .want_h = want_h,
    .draw = draw,
};
