/* Prints and draws a simulation of a growing number of workers. The contract is in
 * cli/plan/sweep.h. */
#include "cli/plan/sweep.h"

#include "base/os.h"
#include "base/text.h"
#include "cli/plan/output.h"
#include "cli/plot/picture.h"
#include "cli/terminal/caps.h"
#include "cli/terminal/columns.h"
#include "ui/plot_chart.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHART_ROWS = 14, FILE_WIDTH = 960, FILE_HEIGHT = 540 };

/* ---- Table ---- */

/* "1 host", "2 hosts", "1 GPU". */
static const char *count_text(const struct sw_sweep *s, int count, char out[32])
{
    snprintf(out, 32, "%d %.*s", count, (int)strlen(s->unit) - (count == 1), s->unit);
    return out;
}

static void print_table(struct sw_bytes *out, const struct sw_sweep *s)
{
    struct sw_columns t = {0};
    char step[32], rate[32], title[32];
    bool is_async = false;

    for (int i = 0; i < s->count; i++)
        is_async = is_async || s->point[i].mean_staleness > 0;

    snprintf(title, sizeof title, ">%s", s->unit);
    sw_columns_add(&t, title);
    sw_columns_begin(&t, ">workers|>batch|>step ms|>samples/s|>speed-up|>efficiency|>wait");
    if (is_async)
        sw_columns_add(&t, ">staleness");

    for (int i = 0; i < s->count; i++) {
        const struct sw_sweep_point *p = &s->point[i];

        sw_columns_cell(&t, "%d", p->count);
        sw_columns_cell(&t, "%d", p->workers);
        sw_columns_cell(&t, "%lld", (long long)p->batch);
        sw_columns_cell(&t, "%s", sw_human_real(step, p->step_s * 1000));
        sw_columns_cell(&t, "%s", sw_human_real(rate, p->samples_per_s));
        sw_columns_cell(&t, "%.2f", p->speed_up);
        sw_columns_cell(&t, "%.0f %%", 100 * p->efficiency);
        sw_columns_cell(&t, "%.0f %%", 100 * p->wait_share);
        if (is_async)
            sw_columns_cell(&t, "%.1f", p->mean_staleness);
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_verdict(struct sw_bytes *out, const struct sw_sweep *s)
{
    const struct sw_sweep_point *best = &s->point[s->best], *pays = &s->point[s->pays];
    char count[32];

    if (s->count > 1 && s->pays == s->count - 1)
        sw_bytes_printf(out,
                        "All %s pay: twice as many train at least 20 %% more samples per second.\n",
                        count_text(s, pays->count, count));
    else if (s->count > 1)
        sw_bytes_printf(out,
                        "More than %s do%s not pay: twice as many train less than 20 %% more "
                        "samples per second.\n",
                        count_text(s, pays->count, count), pays->count == 1 ? "es" : "");
    sw_bytes_printf(out, "%s %s fastest: speed-up %.2f over 1 worker.\n",
                    count_text(s, best->count, count), best->count == 1 ? "is" : "are",
                    best->speed_up);
    if (s->skipped[0]) {
        sw_bytes_printf(out,
                        "The simulation begins at %s: ", count_text(s, s->point[0].count, count));
        sw_text_add(out, s->skipped);
        sw_bytes_add(out, "\n");
    }
    if (s->stopped[0]) {
        sw_bytes_printf(
            out, "The simulation ends at %s: ", count_text(s, s->point[s->count - 1].count, count));
        sw_text_add(out, s->stopped);
        sw_bytes_add(out, "\n");
    }
}

/* ---- Chart ---- */

enum { PREDICTED, IDEAL, LINES };

struct scene {
    struct sw_chart chart;
    struct sw_point *points; /* owned [LINES * count] */
    struct sw_chart_line line[LINES];
};
static const char ideal_label[] = "one worker, times their number";
static const char *const labels[LINES] = {"predicted", ideal_label};

/* stroke: of the predicted line. */
static int make_scene(struct scene *c, const struct sw_sweep *s, enum sw_stroke stroke,
                      struct sw_err *err)
{
    const size_t n = (size_t)s->count;
    const struct sw_sweep_point *first = &s->point[0], *last = &s->point[n - 1];

    c->points = sw_calloc(LINES * n, sizeof *c->points);
    if (!c->points)
        return sw_err_nomem(err, "points of a chart", LINES * n * sizeof *c->points);

    for (size_t i = 0; i < n; i++) {
        const struct sw_sweep_point *p = &s->point[i];
        const double doublings = log2(p->count), ideal = p->samples_per_s / p->efficiency;

        c->points[i] =
            (struct sw_point){doublings, p->samples_per_s, p->samples_per_s, p->samples_per_s};
        c->points[n + i] = (struct sw_point){doublings, ideal, ideal, ideal};
    }

    c->line[PREDICTED] = (struct sw_chart_line){c->points, n, SW_ROLE_LINE1, stroke, 0, 0};
    c->line[IDEAL] =
        (struct sw_chart_line){c->points + n, n, SW_ROLE_LINE2, SW_STROKE_DASHED, 0, 0};
    c->chart = (struct sw_chart){.lines = c->line,
                                 .line_count = LINES,
                                 .x_from = log2(first->count),
                                 .x_to = log2(last->count) + (last == first),
                                 .log_y = true,
                                 .powers_x = true,
                                 .cursor = NAN};
    sw_chart_fit(&c->chart);
    return SW_OK;
}

static int print_chart(struct sw_bytes *out, const struct sw_sweep *s, struct sw_err *err)
{
    struct scene scene = {0};
    struct sw_canvas canvas = {0};
    const int width = sw_cli_stdout_width();

    int rc = make_scene(&scene, s, SW_STROKE_SOLID, err);
    if (rc == SW_OK)
        rc = sw_canvas_begin(&canvas, width, CHART_ROWS + 1, sw_cli_caps(), err);

    if (rc == SW_OK) {
        sw_canvas_printf(&canvas, 8, 0, width - 8, SW_ROLE_TITLE,
                         "samples/s by number of %s; dashed: %s", s->unit, ideal_label);
        sw_chart_draw(&canvas, (struct sw_area){0, 1, width, CHART_ROWS}, &scene.chart);
        if (sw_cli_colour())
            sw_canvas_to_ansi(&canvas, out);
        else
            sw_canvas_to_text(&canvas, out);
    }

    sw_canvas_fini(&canvas);
    sw_free(scene.points);
    return rc;
}

int sw_sweep_print(struct sw_bytes *out, const struct sw_sweep *s, struct sw_err *err)
{
    print_table(out, s);
    sw_bytes_add(out, "\n");

    int rc = s->count > 1 ? print_chart(out, s, err) : SW_OK;
    if (rc == SW_OK && s->count > 1)
        sw_bytes_add(out, "\n");
    print_verdict(out, s);
    if (s->server_hosts > 0)
        sw_bytes_printf(out, "Servers have %d hosts more: %s", s->server_hosts, sw_planned_no_run);
    return rc;
}

int sw_sweep_plot(const struct sw_sweep *s, const char *path, struct sw_err *err)
{
    static const int colours[LINES] = {0, 1};
    struct scene scene = {0};
    struct sw_plot *plot = NULL;
    char title[256], x[40], count[32];

    int rc = make_scene(&scene, s, SW_STROKE_DOTS, err);
    if (rc == SW_OK)
        rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), FILE_WIDTH, FILE_HEIGHT, err);

    if (rc == SW_OK) {
        snprintf(title, sizeof title, "%.120s, simulated: up to %s pay", s->name,
                 count_text(s, s->point[s->pays].count, count));
        snprintf(x, sizeof x, "number of %s", s->unit);
        const struct sw_plot_labels text = {title, x, "samples per second", labels, colours};

        sw_plot_chart(plot, (struct sw_plot_box){0, 0, FILE_WIDTH, FILE_HEIGHT}, &scene.chart,
                      &text);
        rc = sw_plot_end(plot, err);
    }

    sw_free(scene.points);
    return rc;
}
