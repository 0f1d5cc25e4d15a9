/* Loads metric curves of runs from the history, smooths them, and draws them as a chart in the
 * terminal or into a file. A curve of any length is folded into a fixed number of points while it
 * is read (ui/trail.h). The contract is in cli/history/curves.h. */
#include "cli/history/curves.h"

#include "base/os.h"
#include "cli/history/runs.h"
#include "cli/terminal/caps.h"
#include "history/reader_rows.h"
#include "ui/plot_chart.h"
#include "ui/trail.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sw_curve {
    char *label;             /* owned */
    struct sw_trail fold;    /* values as recorded */
    struct sw_point *smooth; /* owned [fold.count]; NULL: not smoothed */
    int run;                 /* index of the run */
    bool eval;               /* of a split other than train */
};

/* ---- Reading ----------------------------------------------------------------------------------
 */

enum { MOST_OF_RUN = 64 }; /* curves */

/* The stages of a run; each has its own epoch length. */
struct epochs {
    struct sw_run_stage *items; /* owned; without names */
    int count;
};

static int read_epochs(struct sw_history_view *v, int64_t run_id, struct epochs *e)
{
    struct sw_err *err = &v->err;
    struct sw_rows rows = sw_rows_begin(v->reader, SW_ROWS_STAGE, run_id, 0, 0, err);
    struct sw_run_stage s, *kept;

    while (sw_rows_next(&rows, &s)) {
        if (s.batch <= 0 || s.epoch_records <= 0) {
            rows.code = sw_err_set(err, SW_ERR_INVALID, "the length of an epoch is unknown");
        } else if (!(kept = sw_array_add(&e->items, &e->count, sizeof *kept))) {
            rows.code = sw_err_nomem(err, "stages", sizeof *kept);
        } else {
            *kept = s;
            kept->name = NULL;
        }
    }

    int code = sw_rows_end(&rows);
    return code ? sw_err_prefix(err, code, "run %lld", (long long)run_id) : SW_OK;
}

/* Epochs up to a step, with a fraction. */
static double epoch_at(const struct epochs *e, int64_t step)
{
    int i = e->count - 1;

    while (i > 0 && e->items[i].from_step >= step)
        i--;

    const struct sw_run_stage *s = &e->items[i];
    return s->epochs_before +
           (double)(step - s->from_step) * (double)s->batch / (double)s->epoch_records;
}

static double x_of(enum sw_curves_x x, const struct sw_run_point *p, const struct sw_run *run,
                   const struct epochs *epochs)
{
    return x == SW_CURVES_BY_TIME    ? p->time - run->started_at
           : x == SW_CURVES_BY_EPOCH ? epoch_at(epochs, p->step)
                                     : (double)p->step;
}

static int smooth(struct sw_curve *c, double keep, struct sw_err *err)
{
    c->smooth = sw_calloc(c->fold.count ? c->fold.count : 1, sizeof *c->smooth);
    if (!c->smooth)
        return sw_err_nomem(err, "smooth curve", c->fold.count * sizeof *c->smooth);

    sw_chart_smooth(c->fold.points, c->fold.count, keep, c->smooth);
    return SW_OK;
}

static int load_curve(struct sw_curves *all, struct sw_history_view *v, int number,
                      const struct epochs *epochs, const struct sw_run_series *s)
{
    const struct sw_run *run = &v->runs[number];
    struct sw_curve *c = sw_array_add(&all->items, &all->count, sizeof *c);
    struct sw_err *err = &v->err;
    struct sw_run_point p;

    if (!c)
        return sw_err_nomem(err, "curves", 0);

    c->run = number;
    c->eval = strcmp(s->split, "train") != 0;

    c->label = all->runs > 1 ? sw_format("%s %s (%lld)", run->name ? run->name : "run", s->split,
                                         (long long)run->id)
                             : sw_format("%s %s", s->split, s->name);
    if (!c->label)
        return sw_err_nomem(err, "label of a curve", 0);

    int code = sw_trail_init(&c->fold, all->args.capacity, err);
    if (code)
        return code;

    struct sw_rows rows = sw_rows_begin(v->reader, SW_ROWS_POINT, s->id, -1, INT64_MAX, err);
    while (sw_rows_next(&rows, &p))
        sw_trail_add(&c->fold, x_of(all->args.x, &p, run, epochs), p.value);
    code = sw_rows_end(&rows);

    return code || c->eval || all->args.smooth <= 0 ? code : smooth(c, all->args.smooth, err);
}

/* Loads the curves of run `number`. `others`, if empty, gets the names of the other metrics of the
 * run. */
static int load_run(struct sw_curves *all, struct sw_history_view *v, int number,
                    struct sw_bytes *others)
{
    const int64_t id = v->runs[number].id;
    const bool first = !others->length;
    struct epochs epochs = {0};
    struct sw_run_series s;
    int count = 0;

    int code = all->args.x == SW_CURVES_BY_EPOCH ? read_epochs(v, id, &epochs) : SW_OK;

    if (!code) {
        struct sw_rows rows = sw_rows_begin(v->reader, SW_ROWS_SERIES, id, 0, 0, &v->err);

        while (sw_rows_next(&rows, &s)) {
            bool wanted = !all->args.split || strcmp(s.split, all->args.split) == 0;

            if (strcmp(s.name, all->args.metric) == 0) {
                if (wanted && count++ < MOST_OF_RUN)
                    rows.code = load_curve(all, v, number, &epochs, &s);
            } else if (first && !strstr(sw_bytes_text(others), s.name)) {
                sw_bytes_printf(others, "%s%s", others->length ? ", " : "", s.name);
            }
        }

        code = sw_rows_end(&rows);
    }

    sw_free(epochs.items);
    return code;
}

int sw_curves_load(struct sw_curves *c, struct sw_history_view *v,
                   const struct sw_curves_args *args)
{
    struct sw_bytes others = {0};
    int code = SW_OK;

    c->args = *args;
    c->runs = v->run_count;
    if (c->runs == 1)
        sw_run_title(v->runs, c->title, sizeof c->title - 48);

    size_t n = strlen(c->title);
    snprintf(c->title + n, sizeof c->title - n, "%s%.30s%s%.12s", n ? ": " : "", args->metric,
             args->split ? ", " : "", args->split ? args->split : "");
    for (int i = 0; !code && i < c->runs; i++)
        code = load_run(c, v, i, &others);

    if (!code && c->count == 0)
        code = sw_err_set(&v->err, SW_ERR_NOTFOUND, "no metric '%s'%s%s; available: %s",
                          args->metric, args->split ? " in split " : "",
                          args->split ? args->split : "", others.length ? others.text : "none");

    sw_bytes_fini(&others);
    return code;
}

void sw_curves_fini(struct sw_curves *c)
{
    for (int i = 0; i < c->count; i++) {
        sw_free(c->items[i].label);
        sw_free(c->items[i].smooth);
        sw_trail_fini(&c->items[i].fold);
    }

    sw_free(c->items);
    *c = (struct sw_curves){0};
}

/* ---- As a chart -------------------------------------------------------------------------------
 */

/* A curve is one line, or two where it is smoothed: what was recorded as a band, and the smooth
 * line over it. */
struct scene {
    struct sw_chart chart;
    struct sw_chart_line *lines; /* owned [2 * count] */
    const char **labels;         /* owned [2 * count] */
    int *colours;
    bool lettered; /* there are several curves, distinguished by letters */
    int letters;   /* that are taken */
    char y[64];
};

static enum sw_role role_of(int colour)
{
    return (enum sw_role)(SW_ROLE_LINE1 + colour % 4);
}

static void add_line(struct scene *s, const struct sw_point *points, size_t count,
                     enum sw_stroke stroke, int colour, const char *label)
{
    int n = s->chart.line_count++;
    char letter = label && s->lettered ? sw_chart_letter(s->letters++) : 0;
    s->lines[n] = (struct sw_chart_line){points, count, role_of(colour), stroke, 0, letter};
    s->labels[n] = label;
    s->colours[n] = colour;
}

/* With one run every curve has its own color; with several runs every run has one, and evaluations
 * are dashed. */
static void add_curve(struct scene *s, const struct sw_curves *all, int i, bool bands)
{
    const struct sw_curve *c = &all->items[i];
    int colour = all->runs > 1 ? c->run : i;
    enum sw_stroke line = all->runs > 1 && c->eval ? SW_STROKE_DASHED : SW_STROKE_SOLID;
    bool folded = c->fold.per_point > 1;

    if (bands && (c->smooth || folded))
        add_line(s, c->fold.points, c->fold.count, SW_STROKE_BAND, colour, NULL);
    add_line(s, c->smooth ? c->smooth : c->fold.points, c->fold.count, line, colour, c->label);
}

static void fit_x(struct scene *s, const struct sw_curves *all)
{
    double from = INFINITY, to = -INFINITY;

    for (int i = 0; i < all->count; i++) {
        const struct sw_trail *f = &all->items[i].fold;
        if (f->count == 0)
            continue;

        from = fmin(from, f->points[0].x);
        to = fmax(to, f->points[f->count - 1].x);
    }

    s->chart.x_from = from <= to ? from : 0;
    s->chart.x_to = from < to ? to : s->chart.x_from + 1;
}

/* Builds the chart. `bands` draws the recorded values behind smoothed lines; in the few dots of a
 * terminal the bands of several runs would hide the lines. */
static int make_scene(struct scene *s, const struct sw_curves *all, bool bands, struct sw_err *err)
{
    size_t lines = 2 * (size_t)all->count;

    s->lines = sw_calloc(lines, sizeof *s->lines);
    s->labels = sw_calloc(lines, sizeof *s->labels);

    s->colours = sw_calloc(lines, sizeof *s->colours);
    if (!s->lines || !s->labels || !s->colours)
        return sw_err_nomem(err, "lines of a chart", 0);

    s->lettered = all->count > 1;
    s->chart = (struct sw_chart){.lines = s->lines, .log_y = all->args.log_y, .cursor = NAN};
    for (int i = 0; i < all->count; i++)
        add_curve(s, all, i, bands);
    fit_x(s, all);
    sw_chart_fit(&s->chart);
    snprintf(s->y, sizeof s->y, "%s%s", all->args.metric, all->args.log_y ? " (log)" : "");

    return SW_OK;
}

static void end_scene(struct scene *s)
{
    sw_free(s->lines);
    sw_free((void *)s->labels);
    sw_free(s->colours);
}

static const char *x_label(const struct sw_curves *c)
{
    return c->args.x == SW_CURVES_BY_TIME    ? "seconds since the start"
           : c->args.x == SW_CURVES_BY_EPOCH ? "epoch"
                                             : "step";
}

/* ---- In a terminal ----------------------------------------------------------------------------
 */

/* Draws the legend below the chart: a sample or the letter of each line, then its label. */
static void draw_legend(struct sw_canvas *canvas, const struct scene *s, int row)
{
    for (int l = 0; l < s->chart.line_count; l++) {
        if (!s->labels[l])
            continue;

        const char letter[] = {s->lines[l].letter, ' ', 0};
        const char *mark = s->lettered ? letter
                           : canvas->caps.utf8
                               ? s->lines[l].stroke == SW_STROKE_DASHED ? "╌╌" : "━━"
                           : s->lines[l].stroke == SW_STROKE_DASHED ? "--"
                                                                    : "**";
        sw_canvas_text(canvas, 8, row, 2, s->lines[l].role, mark);
        sw_canvas_text(canvas, 11, row++, canvas->w - 11, SW_ROLE_TEXT, s->labels[l]);
    }
}

int sw_curves_print(const struct sw_curves *c, int width, int height, struct sw_bytes *out,
                    struct sw_err *err)
{
    struct scene s = {0};
    struct sw_canvas canvas = {0};
    struct sw_ui_caps caps = sw_cli_caps();
    int code = make_scene(&s, c, c->runs == 1, err);
    if (code)
        goto out;
    code = sw_canvas_begin(&canvas, width, height + 1 + c->count, caps, err);
    if (code)
        goto out;

    sw_canvas_printf(&canvas, 8, 0, width - 8, SW_ROLE_TITLE, "%s by %s", c->title, x_label(c));
    sw_chart_draw(&canvas, (struct sw_area){0, 1, width, height}, &s.chart);
    draw_legend(&canvas, &s, height + 1);

    if (sw_cli_colour())
        sw_canvas_to_ansi(&canvas, out);
    else
        sw_canvas_to_text(&canvas, out);

out:
    sw_canvas_fini(&canvas);
    end_scene(&s);

    return code;
}

/* ---- Into a file ------------------------------------------------------------------------------
 */

int sw_curves_plot(const struct sw_curves *c, const char *path, enum sw_plot_format format,
                   int width, int height, struct sw_err *err)
{
    struct scene s = {0};
    struct sw_plot *plot = NULL;
    int code = make_scene(&s, c, true, err);
    if (code)
        goto out;
    code = sw_plot_begin(&plot, path, format, width, height, err);
    if (code)
        goto out;

    const struct sw_plot_labels labels = {c->title, x_label(c), s.y, s.labels, s.colours};
    sw_plot_chart(plot, (struct sw_plot_box){0, 0, width, height}, &s.chart, &labels);
    code = sw_plot_end(plot, err);

out:
    end_scene(&s);
    return code;
}
