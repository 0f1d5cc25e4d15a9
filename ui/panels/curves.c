/* Curves of loss, accuracy and all other metrics: training as a band of raw values behind a
 * smoothed line, evaluations as a separate line, another run dashed. With a cursor the numbers
 * above a chart are those at the cursor. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHART_W = 31, CHART_H = 11, MAX_CHARTS = 12, MAX_LINES = 12 };

/* Names of the metrics that get a chart, the most important first. */
static int names_of(const struct sw_ui_model *m, const char *names[MAX_CHARTS])
{
    static const char *const last[] = {"lr", "grad_norm", "samples_per_s"};
    int count = 0;

    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < m->series_count; i++) {
            const char *name = m->series[i].name;
            int kind = sw_str_eq(name, "loss") ? 0 : 1;

            for (size_t k = 0; k < sizeof last / sizeof *last; k++)
                kind = sw_str_eq(name, last[k]) ? 2 : kind;

            bool known = kind != pass;
            for (int k = 0; k < count && !known; k++)
                known = sw_str_eq(names[k], name);
            if (!known && count < MAX_CHARTS)
                names[count++] = name;
        }

    return count;
}

static void window_of(const struct sw_ui_model *m, const struct sw_ui_view *v, double *from,
                      double *to)
{
    int64_t last = 1;

    for (int i = 0; i < m->series_count; i++)
        last = m->series[i].last_step > last ? m->series[i].last_step : last;

    double width = (double)last / pow(2, v->zoom);
    *to = v->end * (double)last;
    *to = *to < width ? width : *to;
    *from = *to - width;
}

static const char *label_of(const struct sw_ui_series *s)
{
    return s->split;
}

/* "loss  train 0.431  test 0.612  best 0.59 at 4400", or the values at the cursor. */
static void headline(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                     const char *name, double cursor)
{
    char number[16], text[96];
    int x = in.x + sw_canvas_text(c, in.x, in.y, in.w, SW_ROLE_STRONG, name) + 2;

    if (!isnan(cursor)) {
        snprintf(text, sizeof text, "@%.0f", cursor);
        x += sw_canvas_text(c, x, in.y, in.x + in.w - x, SW_ROLE_KEY, text) + 2;
    }

    for (int i = 0; i < m->series_count; i++) {
        const struct sw_ui_series *s = &m->series[i];
        const struct sw_point *near = isnan(cursor) ? NULL : sw_trail_near(&s->trail, cursor);

        if (!sw_str_eq(s->name, name))
            continue;

        snprintf(text, sizeof text, "%s %s", label_of(s),
                 sw_chart_number(number, near ? near->y : sw_ui_newest(s)));

        bool train = sw_str_eq(s->split, "train");
        x += sw_canvas_text(c, x, in.y, in.x + in.w - x, train ? SW_ROLE_LINE1 : SW_ROLE_LINE2,
                            text) +
             2;

        if (s->not_finite > 0) {
            snprintf(text, sizeof text, "%lld non-finite", (long long)s->not_finite);
            x += sw_canvas_text(c, x, in.y, in.x + in.w - x, SW_ROLE_BAD, text) + 2;
        }

        if (!train && s->best_step >= 0 && isnan(cursor)) {
            snprintf(text, sizeof text, "best %s at %lld", sw_chart_number(number, s->best),
                     (long long)s->best_step);
            if (x + (int)strlen(text) <= in.x + in.w)
                x += sw_canvas_text(c, x, in.y, in.x + in.w - x, SW_ROLE_DIM, text) + 2;
        }
    }

    for (int i = 0; i < m->overlay_count; i++)
        if (sw_str_eq(m->overlay[i].name, name)) {
            const struct sw_ui_series *s = &m->overlay[i];
            const struct sw_point *near = isnan(cursor) ? NULL : sw_trail_near(&s->trail, cursor);
            snprintf(text, sizeof text, "#%lld %s %s", (long long)m->overlay_run, s->split,
                     sw_chart_number(number, near ? near->y : sw_ui_newest(s)));
            x += sw_canvas_text(c, x, in.y, in.x + in.w - x, SW_ROLE_LINE3, text) + 2;
        }
}

struct lines {
    struct sw_chart_line line[MAX_LINES];
    int count;
};

static void add(struct lines *l, const struct sw_point *points, size_t count, enum sw_role role,
                enum sw_stroke stroke, char ascii)
{
    if (l->count < MAX_LINES)
        l->line[l->count++] = (struct sw_chart_line){points, count, role, stroke, ascii};
}

static void draw_chart(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                       const struct sw_ui_view *v, const char *name)
{
    struct sw_point smooth[SW_UI_POINTS];
    struct sw_chart_mark marks[SW_UI_SEGMENTS + 1];
    struct lines l = {.count = 0};
    double from, to;

    window_of(m, v, &from, &to);

    double cursor = v->cursor >= 0 ? from + v->cursor * (to - from) : (double)NAN;
    for (int i = 0; i < m->overlay_count; i++)
        if (sw_str_eq(m->overlay[i].name, name))
            add(&l, m->overlay[i].trail.points, m->overlay[i].trail.count, SW_ROLE_LINE3,
                SW_STROKE_DASHED, '-');

    struct sw_chart chart = {.lines = l.line,
                             .marks = marks,
                             .x_from = from,
                             .x_to = to,
                             .log_y = v->log_y,
                             .cursor = cursor};
    for (int i = 0; i < m->series_count; i++) {
        const struct sw_ui_series *s = &m->series[i];
        if (!sw_str_eq(s->name, name) || !sw_str_eq(s->split, "train"))
            continue;

        /* The learning rate is set and not measured, so it is not smoothed. */
        double decay = sw_str_eq(name, "lr") ? 0 : sw_ui_smoothing[v->smoothing];
        if (decay > 0)
            add(&l, s->trail.points, s->trail.count, SW_ROLE_DIM, SW_STROKE_BAND, '.');
        sw_chart_smooth(s->trail.points, s->trail.count, decay, smooth);
        add(&l, smooth, s->trail.count, SW_ROLE_LINE1, SW_STROKE_SOLID, '*');
    }

    for (int i = 0; i < m->series_count; i++) {
        const struct sw_ui_series *s = &m->series[i];
        if (!sw_str_eq(s->name, name) || sw_str_eq(s->split, "train"))
            continue;

        /* ASCII is too coarse for a line close to another. */
        if (c->caps.utf8)
            add(&l, s->trail.points, s->trail.count, SW_ROLE_LINE2, SW_STROKE_SOLID, 0);
        add(&l, s->trail.points, s->trail.count, SW_ROLE_LINE2, SW_STROKE_DOTS, 'o');

        if (s->best_step >= 0)
            marks[chart.mark_count++] =
                (struct sw_chart_mark){(double)s->best_step, 0x25b2, SW_ROLE_GOOD};

        break;
    }

    for (int i = 0; i < m->resume_count; i++)
        marks[chart.mark_count++] =
            (struct sw_chart_mark){(double)m->resume_steps[i], 0x250a, SW_ROLE_WARN};

    chart.line_count = l.count;
    sw_chart_fit(&chart);
    headline(c, in, m, name, cursor);
    sw_chart_draw(c, (struct sw_area){in.x, in.y + 1, in.w, in.h - 1}, &chart);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    const char *names[MAX_CHARTS];
    int count = names_of(m, names);
    int across = in.w / CHART_W, down = in.h / CHART_H;

    across = across < 1 ? 1 : across > 2 && in.w < 3 * CHART_W + 40 ? 2 : across > 3 ? 3 : across;
    down = down < 1 ? 1 : down;
    across = across > count ? count : across;
    if (count == 0) {
        sw_canvas_text(c, in.x, in.y, in.w, SW_ROLE_DIM, "no step has been completed yet");
        return;
    }

    if (down > (count + across - 1) / across)
        down = (count + across - 1) / across;

    for (int i = 0; i < count && i < across * down; i++) {
        int column = i % across, row = i / across;
        int x = in.x + in.w * column / across, end = in.x + in.w * (column + 1) / across;
        int y = in.y + in.h * row / down, bottom = in.y + in.h * (row + 1) / down;
        draw_chart(c, (struct sw_area){x, y, end - x - (column + 1 < across), bottom - y}, m, v,
                   names[i]);
    }
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    int n = snprintf(out, 80, "smooth %.2g", sw_ui_smoothing[v->smoothing]);

    if (v->log_y)
        n += snprintf(out + n, (size_t)(80 - n), "  log");
    if (v->zoom > 0)
        n += snprintf(out + n, (size_t)(80 - n), "  zoom x%d", 1 << v->zoom);
    if (m->overlay_run)
        snprintf(out + n, (size_t)(80 - n), "  overlay #%lld", (long long)m->overlay_run);
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return w >= 2 * CHART_W ? 14 : 12;
}

const struct sw_panel sw_panel_curves = {
    .name = "curves",
    .title = "1 curves",
    .help = "loss, accuracy and other metrics: training (raw and smoothed) and evaluation",
    .number = 1,
    .rank = 0,
    .min_h = 5,
    .grow = 3,
    .want_h = want_h,
    .draw = draw,
    .note = note,
};
