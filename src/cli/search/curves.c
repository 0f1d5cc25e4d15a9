/* Draws precision and recall of searches. The contract is in cli/search/curves.h. */
#include "cli/search/curves.h"

#include "base/os.h"
#include "cli/plot/picture.h"
#include "ui/plot_chart.h"
#include <math.h>

enum { CHARTS = 3, CHART_W = 520, CHART_H = 420, MOST_POINTS = SW_MOST_SCOPES + 1 };

enum chart { PRECISION_RECALL, RECALL_SHARE, PRECISION_SCOPE };

static const struct {
    const char *title, *x, *y;
} texts[CHARTS] = {
    {"precision and recall", "recall", "precision"},
    {"recall of the results that are looked at", "share of all rows", "recall"},
    {"precision at scope", "number of results", "precision"},
};

static size_t make_points(enum chart chart, const struct sw_score *s, struct sw_point *out)
{
    const struct sw_scope_curve *c = &s->scopes;
    const int count = chart == PRECISION_RECALL ? SW_SCORE_LEVELS : c->count;
    size_t n = 0;

    if (chart == RECALL_SHARE)
        out[n++] = (struct sw_point){0};

    for (int i = 0; i < count; i++) {
        const double x = chart == PRECISION_RECALL ? i / (SW_SCORE_LEVELS - 1.0)
                         : chart == RECALL_SHARE   ? (double)c->at[i] / (double)c->at[c->count - 1]
                                                   : log2((double)c->at[i]);
        const double y = chart == PRECISION_RECALL ? s->precision[i]
                         : chart == RECALL_SHARE   ? c->recall[i]
                                                   : c->precision[i];

        out[n++] = (struct sw_point){x, y, y, y};
    }

    return n;
}

static void draw_chart(struct sw_plot *p, enum chart which, const struct sw_search_curve *curves,
                       int count, struct sw_point *points)
{
    static const int colours[SW_SEARCH_MOST_CURVES] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct sw_chart_line lines[SW_SEARCH_MOST_CURVES];
    const char *names[SW_SEARCH_MOST_CURVES];
    double most = 1;

    for (int i = 0; i < count; i++) {
        struct sw_point *at = points + (size_t)i * MOST_POINTS;
        const size_t n = make_points(which, curves[i].score, at);

        lines[i] = (struct sw_chart_line){.points = at,
                                          .count = n,
                                          .stroke = SW_STROKE_SOLID,
                                          .letter = count > 1 ? sw_chart_letter(i) : 0};
        names[i] = curves[i].name;
        most = n && at[n - 1].x > most ? at[n - 1].x : most;
    }

    struct sw_chart chart = {.lines = lines,
                             .line_count = count,
                             .x_to = which == PRECISION_SCOPE ? most : 1,
                             .y_to = 1,
                             .powers_x = which == PRECISION_SCOPE,
                             .cursor = (double)NAN};
    const struct sw_plot_labels labels = {texts[which].title, texts[which].x, texts[which].y, names,
                                          colours};

    if (which != RECALL_SHARE) {
        sw_chart_fit(&chart);
        chart.y_from = 0;
    }
    sw_plot_chart(p, (struct sw_plot_box){which * CHART_W, 0, CHART_W, CHART_H}, &chart, &labels);
}

int sw_search_draw_curves(const char *path, const struct sw_search_curve *curves, int count,
                          struct sw_err *err)
{
    const size_t room = (size_t)count * MOST_POINTS;
    struct sw_plot *plot = NULL;
    struct sw_point *points = sw_calloc(room, sizeof *points);
    if (!points)
        return sw_err_nomem(err, "curves", room * sizeof *points);

    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), CHARTS * CHART_W, CHART_H, err);
    for (int chart = 0; rc == SW_OK && chart < CHARTS; chart++)
        draw_chart(plot, (enum chart)chart, curves, count, points);
    if (rc == SW_OK)
        rc = sw_plot_end(plot, err);

    sw_free(points);
    return rc;
}
