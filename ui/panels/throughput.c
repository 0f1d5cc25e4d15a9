/* Throughput, the time breakdown of a step, and one line that names the bottleneck. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_W = 11, FIGURES_W = 20, CHART_H = 6 };

/* Appends a figure to the line, if it fits. */
static int figure(struct sw_canvas *c, struct sw_area in, int x, enum sw_role role,
                  const char *text)
{
    int n = sw_canvas_columns(c, text);
    return x + n > in.x + in.w ? x : x + sw_canvas_text(c, x, in.y, n, role, text) + 2;
}

static void speeds(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    double speed = sw_ui_median(sw_ui_series_find(m, "train", "samples_per_s"));
    double flops = m->run.flops_per_sample * speed;
    char number[32], text[64];

    snprintf(text, sizeof text, "%s samples/s", sw_human_real(number, speed));

    int x = figure(c, in, in.x, SW_ROLE_STRONG, text);
    if (flops > 0 && in.w >= 64) {
        x = figure(c, in, x, SW_ROLE_DIM, sw_human_unit(number, flops, "flop/s"));
    }

    snprintf(text, sizeof text, "step %s", sw_human_seconds(number, m->ledger.step_ms / 1000));
    x = figure(c, in, x, SW_ROLE_TEXT, text);
    snprintf(text, sizeof text, "p50 %s", sw_human_seconds(number, m->ledger.p50_ms / 1000));
    x = figure(c, in, x, SW_ROLE_TEXT, text);
    snprintf(text, sizeof text, "p99 %s", sw_human_seconds(number, m->ledger.p99_ms / 1000));
    figure(c, in, x, SW_ROLE_TEXT, text);
}

static void phase_fractions(const struct sw_ledger *l, double fraction[SW_STEP_PHASES])
{
    for (int p = 0; p < SW_STEP_PHASES; p++) {
        double s = sw_ledger_fraction(l, (enum sw_step_phase)p);
        fraction[p] = isnan(s) ? 0 : s;
    }
}

/* Draws the phases in one line; phases below 0.5 % are left out. */
static void legend(struct sw_canvas *c, struct sw_area at, const double fraction[SW_STEP_PHASES])
{
    int x = at.x;

    for (int p = 0; p < SW_STEP_PHASES; p++) {
        char text[32];

        if (fraction[p] < 0.005)
            continue;

        snprintf(text, sizeof text, "%c %s %.0f%%", sw_step_phase_letter((enum sw_step_phase)p),
                 sw_step_phase_name((enum sw_step_phase)p), 100 * fraction[p]);

        int n = (int)strlen(text);
        if (x + n > at.x + at.w)
            break;

        sw_canvas_text(c, x, at.y, n, sw_step_phase_role((enum sw_step_phase)p), text);
        x += n + 2;
    }
}

/* Draws a line for each phase; returns the number of lines. */
static int table(struct sw_canvas *c, struct sw_area in, const struct sw_ledger *l,
                 const double fraction[SW_STEP_PHASES])
{
    int row = 0, bar = in.w - NAME_W - FIGURES_W;

    for (int p = 0; p < SW_STEP_PHASES && row < in.h; p++) {
        double ms = 0;
        char figure[32], text[64];

        for (int w = 0; w < l->worker_count; w++)
            ms += l->worker[w].ms[p] / l->worker_count;
        if (ms == 0 && (p == SW_STEP_H2D || p == SW_STEP_WAIT || p == SW_STEP_UPDATE))
            continue; /* not used in this run */

        enum sw_role role = sw_step_phase_role((enum sw_step_phase)p);
        sw_canvas_printf(c, in.x, in.y + row, NAME_W, SW_ROLE_TEXT, "%c %s",
                         sw_step_phase_letter((enum sw_step_phase)p),
                         sw_step_phase_name((enum sw_step_phase)p));
        sw_canvas_bar(c, in.x + NAME_W, in.y + row, bar, fraction[p], role);
        snprintf(text, sizeof text, "%s %5.1f %%", sw_human_seconds(figure, ms / 1000),
                 100 * fraction[p]);
        sw_canvas_right(c, in.x + NAME_W + bar, in.y + row, FIGURES_W, SW_ROLE_TEXT, text);
        row++;
    }

    double hidden = 0;
    for (int w = 0; w < l->worker_count; w++)
        hidden += l->worker[w].hidden_ms / l->worker_count;

    if (hidden > 0 && row < in.h) {
        char figure[32];
        sw_canvas_printf(c, in.x, in.y + row, in.w, SW_ROLE_DIM,
                         "%s of communication overlapped with compute",
                         sw_human_seconds(figure, hidden / 1000));
        row++;
    }

    return row;
}

static void speed_chart(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    const struct sw_ui_series *s = sw_ui_series_find(m, "train", "samples_per_s");
    struct sw_point smooth[SW_UI_POINTS];

    if (!s || in.h < CHART_H)
        return;

    sw_chart_smooth(s->trail.points, s->trail.count, 0.6, smooth);

    struct sw_chart_line lines[] = {
        {s->trail.points, s->trail.count, SW_ROLE_DIM, SW_STROKE_BAND, '.', 0},
        {smooth, s->trail.count, SW_ROLE_LINE4, SW_STROKE_SOLID, '*', 0}};
    struct sw_chart chart = {.lines = lines + 1,
                             .line_count = 1,
                             .x_to = s->last_step > 0 ? (double)s->last_step : 1,
                             .cursor = NAN};
    sw_chart_fit(&chart);
    chart.y_from = 0;
    chart.lines = lines;
    chart.line_count = 2;
    sw_canvas_text(c, in.x, in.y, in.w, SW_ROLE_DIM, "samples/s");
    sw_chart_draw(c, (struct sw_area){in.x, in.y + 1, in.w, in.h - 1}, &chart);
}

static enum sw_role bottleneck_role(enum sw_bound b)
{
    return b == SW_BOUND_UNKNOWN   ? SW_ROLE_DIM
           : b == SW_BOUND_COMPUTE ? SW_ROLE_GOOD
                                   : SW_ROLE_WARN;
}

/* Draws what limits the run and what would help, over two lines each if there is room; returns the
 * number of lines. */
static int draw_verdict(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m)
{
    struct sw_bottleneck b = sw_ui_bottleneck(m);
    int most = in.h > 3 ? 2 : 1, y = 0;

    int needed = sw_ui_wrap(c, in.x, in.y, in.w, most, bottleneck_role(b.bound), b.text);
    y += needed < most ? needed : most;

    if (*b.advice && y < in.h) {
        needed = sw_ui_wrap(c, in.x, in.y + y, in.w, most, SW_ROLE_TEXT, b.advice);
        y += needed < most ? needed : most;
    }

    return y;
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    double fraction[SW_STEP_PHASES];
    int y = in.y, end = in.y + in.h;

    phase_fractions(&m->ledger, fraction);

    if (in.h > 1) {
        speeds(c, in, m);
        y++;
    }
    if (in.h > 2)
        sw_ui_phase_bar(c, in.x, y++, in.w, fraction);

    y += draw_verdict(c, (struct sw_area){in.x, y, in.w, end - y}, m);

    int left = end - y;
    if (left >= 7)
        y += table(c, (struct sw_area){in.x, y, in.w, left}, &m->ledger, fraction);
    else if (left >= 1)
        legend(c, (struct sw_area){in.x, y++, in.w, 1}, fraction);

    speed_chart(c, (struct sw_area){in.x, y, in.w, end - y}, m);
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    if (m->ledger.worker_count > 0)
        snprintf(out, 80, "steps %lld to %lld", (long long)m->ledger.from_step,
                 (long long)m->ledger.to_step);
    else
        *out = 0;
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return w >= 76 ? 5 : 13;
}

const struct sw_panel sw_panel_throughput = {
    .name = "throughput",
    .title = "2 throughput",
    .help = "throughput, time breakdown of a step, and the bottleneck",
    .number = 2,
    .rank = 1,
    .min_h = 2,
    .good_h = 4,
    .grow = 1,
    .want_h = want_h,
    .draw = draw,
    .note = note,
};
