/* Draws a net as a graph: layers below their sources, colored by how their outputs are partitioned
 * over the workers of a group, with the connections between parts that are partitioned
 * differently. */
#include "base/os.h"
#include "cli/plot/picture.h"
#include "ui/plot_boxes.h"
#include <string.h>

enum { TITLE_H = 34, LEGEND_H = 30 };

static const struct {
    const char *spread, *text;
    int colour;
} spreads[] = {
    {"rows", "split by rows", 0},          {"columns", "split by columns", 1},
    {"full", "whole, on every worker", 2}, {"sums", "partial sums", 3},
    {"one", "whole, on one worker", 4},
};
enum { SPREADS = sizeof spreads / sizeof *spreads };

static int spread_of(const struct sw_job_layer *l)
{
    for (int i = 0; i < SPREADS; i++)
        if (strncmp(l->spread, spreads[i].spread, strlen(spreads[i].spread)) == 0)
            return i;
    return -1;
}

static void make_box(struct sw_graph_box *b, const struct sw_job_plan *p, int layer)
{
    const struct sw_job_layer *l = &p->layers[layer];
    char params[32], count[32];
    int spread = spread_of(l);

    *b = (struct sw_graph_box){.colour = spread < 0 ? -1 : spreads[spread].colour,
                               .dashed = strncmp(l->type, "bridge_", 7) == 0};
    params[0] = 0;
    if (l->params)
        snprintf(params, sizeof params, ", %s", sw_human_count(count, (double)l->params));
    snprintf(b->title, sizeof b->title, "%.62s", l->name);
    snprintf(b->note, sizeof b->note, "%.36s %.40s%.18s", l->type, l->shape, params);
    for (int i = 0; i < l->read_count && i < SW_GRAPH_SOURCES; i++)
        b->sources[b->source_count++] = l->reads[i];
}

static void draw_legend(struct sw_plot *plot, const struct sw_job_plan *p, double y)
{
    double x = 14;

    for (int i = 0; i < SPREADS; i++) {
        bool used = false;

        for (int l = 0; l < p->layer_count; l++)
            used |= spread_of(&p->layers[l]) == i;
        if (!used)
            continue;

        sw_plot_fill(plot, (struct sw_plot_box){x, y - 6, 12, 12},
                     sw_plot_colour(spreads[i].colour));
        sw_plot_text(plot, x + 18, y, (struct sw_plot_font){SW_PLOT_LEFT, .size = 11},
                     spreads[i].text);
        x += 36 + sw_plot_text_width(11, false, spreads[i].text);
    }
}

int sw_draw_net(const char *path, const struct sw_job_plan *p, struct sw_err *err)
{
    struct sw_plot *plot = NULL;
    char title[160], count[32];
    struct sw_graph_box *boxes = sw_calloc((size_t)p->layer_count + 1, sizeof *boxes);
    if (!boxes)
        return sw_err_nomem(err, "boxes of a drawing", 0);

    for (int i = 0; i < p->layer_count; i++)
        make_box(&boxes[i], p, i);

    struct sw_plot_size size = sw_graph_layout(boxes, p->layer_count);
    double w = size.w < 420 ? 420 : size.w;
    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)w,
                           (int)size.h + TITLE_H + LEGEND_H, err);
    if (rc == SW_OK) {
        snprintf(title, sizeof title, "%.60s: %s parameters, %d worker%s", p->name,
                 sw_human_count(count, (double)p->params), p->placement->worker_count,
                 p->placement->worker_count == 1 ? "" : "s");
        sw_plot_text(
            plot, w / 2, TITLE_H / 2.0,
            (struct sw_plot_font){SW_PLOT_CENTRE, .size = 14, .bold = true, .most = w - 20}, title);
        draw_legend(plot, p, TITLE_H + LEGEND_H / 2.0);
        sw_graph_draw(plot, (w - size.w) / 2, TITLE_H + LEGEND_H, boxes, p->layer_count);
        rc = sw_plot_end(plot, err);
    }

    sw_free(boxes);
    return rc;
}
