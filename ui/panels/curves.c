/* Curves of loss, accuracy and all other metrics: training as a band of raw values behind a
 * smoothed line, evaluations as a separate line, another run dashed. With a cursor the numbers
 * above a chart are those at the cursor. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    CHART_W = 31,
    CHART_H = 11,
    MAX_CHARTS = 12,
    MAX_CURVES = 8,
    MAX_LINES = 2 * MAX_CURVES,
    PLACES = 4
};

/* The place of a metric: the loss first, then what is measured of it, then speeds and rates. A
 * curve that has not changed says least. */
static int place_of(const struct sw_ui_series *s)
{
    static const char *const last[] = {"lr", "grad_norm", "samples_per_s"};

    if (sw_str_eq(s->name, "loss"))
        return 0;
    if (sw_ui_is_constant(s))
        return 3;

    for (size_t k = 0; k < sizeof last / sizeof *last; k++)
        if (sw_str_eq(last[k], s->name))
            return 2;

    return 1;
}

/* Names of the metrics that get a chart, the most important first. */
static int names_of(const struct sw_ui_model *m, const char *names[MAX_CHARTS])
{
    int count = 0;

    for (int place = 0; place < PLACES; place++)
        for (int i = 0; i < m->series_count; i++) {
            const char *name = m->series[i].name;
            bool known = place_of(&m->series[i]) != place;

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

/* ---- The curves of a chart --------------------------------------------------------------------
 */

/* The curves of a metric in one chart: of training, of evaluations, of another run. */
struct curve {
    const struct sw_ui_series *series;
    enum sw_role role;
    bool overlay;
    char letter; /* 0: the only curve */
};
struct chart_curves {
    struct curve items[MAX_CURVES];
    int count;
};

static void add_curve(struct chart_curves *k, const struct sw_ui_series *s, enum sw_role role,
                      bool overlay)
{
    if (k->count < MAX_CURVES)
        k->items[k->count++] = (struct curve){s, role, overlay, 0};
}

static bool is_train(const struct sw_ui_series *s)
{
    return sw_str_eq(s->split, "train");
}

static struct chart_curves curves_of(const struct sw_ui_model *m, const char *name)
{
    struct chart_curves k = {.count = 0};
    int evaluations = 0;

    for (int i = 0; i < m->series_count; i++)
        if (sw_str_eq(m->series[i].name, name) && is_train(&m->series[i]))
            add_curve(&k, &m->series[i], SW_ROLE_LINE1, false);
    for (int i = 0; i < m->series_count; i++)
        if (sw_str_eq(m->series[i].name, name) && !is_train(&m->series[i]))
            add_curve(&k, &m->series[i], evaluations++ % 2 ? SW_ROLE_LINE4 : SW_ROLE_LINE2, false);
    for (int i = 0; i < m->overlay_count; i++)
        if (sw_str_eq(m->overlay[i].name, name))
            add_curve(&k, &m->overlay[i], SW_ROLE_LINE3, true);

    for (int i = 0; i < k.count && k.count > 1; i++)
        k.items[i].letter = sw_chart_letter(i);
    return k;
}

/* ---- The numbers above a chart ----------------------------------------------------------------
 */

/* Draws a word and a gap, which is narrow in a narrow chart; returns the x of the next. */
static int word(struct sw_canvas *c, struct sw_area in, int x, enum sw_role role, const char *text)
{
    return x + sw_canvas_text(c, x, in.y, in.x + in.w - x, role, text) + (in.w < 40 ? 1 : 2);
}

static int curve_words(struct sw_canvas *c, struct sw_area in, int x, const struct sw_ui_model *m,
                       const struct curve *k, double cursor)
{
    const struct sw_ui_series *s = k->series;
    const struct sw_point *near = isnan(cursor) ? NULL : sw_trail_near(&s->trail, cursor);
    char number[SW_TICK_LABEL], run[32] = "", text[96];
    const char letter[] = {k->letter, ' ', 0};

    if (k->overlay)
        snprintf(run, sizeof run, "#%lld%s", (long long)m->overlay_run, is_train(s) ? "" : " ");
    snprintf(text, sizeof text, "%s%s%s %s", k->letter ? letter : "", run,
             k->overlay && is_train(s) ? "" : s->split,
             sw_chart_number(number, near ? near->y : sw_ui_newest(s)));
    x = word(c, in, x, k->role, text);

    if (k->overlay)
        return x;

    if (s->not_finite > 0) {
        snprintf(text, sizeof text, "%lld non-finite", (long long)s->not_finite);
        x = word(c, in, x, SW_ROLE_BAD, text);
    }

    if (!is_train(s) && s->best_step >= 0 && isnan(cursor)) {
        snprintf(text, sizeof text, "best %s at %lld", sw_chart_number(number, s->best),
                 (long long)s->best_step);
        if (x + (int)strlen(text) <= in.x + in.w)
            x = word(c, in, x, SW_ROLE_DIM, text);
    }

    return x;
}

/* "loss  A train 0.431  B test 0.612  best 0.59 at 4400", or the values at the cursor. */
static void headline(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                     const char *name, const struct chart_curves *k, double cursor)
{
    char text[32];
    int x = word(c, in, in.x, SW_ROLE_STRONG, name);

    if (!isnan(cursor)) {
        snprintf(text, sizeof text, "@%.0f", cursor);
        x = word(c, in, x, SW_ROLE_KEY, text);
    }

    for (int i = 0; i < k->count; i++)
        x = curve_words(c, in, x, m, &k->items[i], cursor);
}

/* ---- A chart ----------------------------------------------------------------------------------
 */

struct lines {
    struct sw_chart_line line[MAX_LINES];
    struct sw_chart_mark mark[SW_UI_SEGMENTS + MAX_CURVES];
    int count, marks;
};

static void add(struct lines *l, const struct curve *k, const struct sw_point *points, size_t count,
                enum sw_stroke stroke)
{
    if (l->count < MAX_LINES)
        l->line[l->count++] = (struct sw_chart_line){points, count, k->role, stroke, 0, k->letter};
}

/* The raw values behind a smoothed line. The learning rate is set and not measured, so it is not
 * smoothed. */
static void add_training(struct lines *l, const struct sw_ui_view *v, const struct curve *k,
                         struct sw_point smooth[SW_UI_POINTS])
{
    const struct sw_trail *t = &k->series->trail;
    double decay = sw_str_eq(k->series->name, "lr") ? 0 : sw_ui_smoothing[v->smoothing];
    const struct curve raw = {k->series, SW_ROLE_DIM, false, 0};

    if (decay > 0)
        add(l, &raw, t->points, t->count, SW_STROKE_BAND);
    sw_chart_smooth(t->points, t->count, decay, smooth);
    add(l, k, smooth, t->count, SW_STROKE_SOLID);
}

static void add_evaluation(struct lines *l, const struct sw_canvas *c, const struct curve *k)
{
    const struct sw_trail *t = &k->series->trail;
    const struct curve dots = {k->series, k->role, false, c->caps.utf8 ? 0 : k->letter};

    /* ASCII is too coarse for a line close to another. */
    if (c->caps.utf8)
        add(l, k, t->points, t->count, SW_STROKE_SOLID);
    add(l, &dots, t->points, t->count, SW_STROKE_DOTS);

    if (k->series->best_step >= 0)
        l->mark[l->marks++] =
            (struct sw_chart_mark){(double)k->series->best_step, 0x25b2, SW_ROLE_GOOD};
}

static void draw_chart(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                       const struct sw_ui_view *v, const char *name)
{
    struct sw_point smooth[SW_UI_POINTS];
    struct chart_curves k = curves_of(m, name);
    struct lines l = {.count = 0};
    double from, to;

    window_of(m, v, &from, &to);

    for (int i = 0; i < k.count; i++)
        if (k.items[i].overlay)
            add(&l, &k.items[i], k.items[i].series->trail.points, k.items[i].series->trail.count,
                SW_STROKE_DASHED);
    for (int i = 0; i < k.count; i++)
        if (!k.items[i].overlay && is_train(k.items[i].series))
            add_training(&l, v, &k.items[i], smooth);
    for (int i = 0; i < k.count; i++)
        if (!k.items[i].overlay && !is_train(k.items[i].series))
            add_evaluation(&l, c, &k.items[i]);

    for (int i = 0; i < m->resume_count; i++)
        l.mark[l.marks++] =
            (struct sw_chart_mark){(double)m->resume_steps[i], 0x250a, SW_ROLE_WARN};

    struct sw_chart chart = {.lines = l.line,
                             .line_count = l.count,
                             .marks = l.mark,
                             .mark_count = l.marks,
                             .x_from = from,
                             .x_to = to,
                             .log_y = v->log_y,
                             .cursor =
                                 v->cursor >= 0 ? from + v->cursor * (to - from) : (double)NAN};
    sw_chart_fit(&chart);
    headline(c, in, m, name, &k, chart.cursor);
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
