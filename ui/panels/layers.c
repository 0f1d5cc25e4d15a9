/* Layers with their forward and backward time, slowest first. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>

enum { FIGURES_W = 26 };

static double all_ms(const struct sw_ui_model *m)
{
    double all = 0;
    for (int i = 0; i < m->layer_count; i++)
        all += m->layers[i].forward_ms + m->layers[i].backward_ms;
    return all;
}

static void row(struct sw_canvas *c, struct sw_area in, int y, const struct sw_run_layer *l,
                double all, double most)
{
    char text[96], forward[32], backward[32];
    int name_w = in.w > 70 ? 20 : 12, bar = in.w - name_w - FIGURES_W;
    double ms = l->forward_ms + l->backward_ms;

    sw_canvas_text(c, in.x, y, name_w - 1, SW_ROLE_TEXT, l->name);

    if (bar > 4 && most > 0) {
        const double phases[SW_STEP_PHASES] = {
            [SW_STEP_FORWARD] = l->forward_ms, [SW_STEP_BACKWARD] = l->backward_ms};
        sw_ui_phase_bar(c, in.x + name_w, y, sw_canvas_bar_columns(bar - 1, ms / most), phases);
    }

    snprintf(text, sizeof text, "%8s %8s %5.1f %%", sw_human_seconds(forward, l->forward_ms / 1000),
             sw_human_seconds(backward, l->backward_ms / 1000), all > 0 ? 100 * ms / all : 0);
    sw_canvas_right(c, in.x + in.w - FIGURES_W, y, FIGURES_W, SW_ROLE_TEXT, text);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    double all = all_ms(m);
    double most =
        m->layer_count > 0 ? m->layers[0].forward_ms + m->layers[0].backward_ms : (double)NAN;
    int y = in.y, end = in.y + in.h, seen = 0;

    if (m->layer_count == 0) {
        sw_canvas_text(c, in.x, y, in.w, SW_ROLE_DIM,
                       "layer times appear after the first evaluation; for branches on a GPU, set "
                       "job.streams = 1");
        return;
    }

    if (in.h > 2) {
        sw_canvas_text(c, in.x, y, in.w, SW_ROLE_DIM, "layer");
        sw_canvas_right(c, in.x, y, in.w, SW_ROLE_DIM, " forward backward   share");
        y++;
    }

    for (int i = 0; i < m->layer_count && y < end; i++)
        if (sw_ui_matches_filter(v, m->layers[i].name) && seen++ >= v->scroll[5])
            row(c, in, y++, &m->layers[i], all, most);
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    char time[32];
    *out = 0;
    if (m->layer_count > 0)
        snprintf(out, 80, "%s per step", sw_human_seconds(time, all_ms(m) / 1000));
}

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    int count = 0;
    for (int i = 0; i < m->layer_count; i++)
        count += !v || sw_ui_matches_filter(v, m->layers[i].name);
    return count;
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return m->layer_count == 0 ? 1 : m->layer_count < 12 ? m->layer_count + 1 : 13;
}

const struct sw_panel sw_panel_layers = {
    .name = "layers",
    .title = "5 layers",
    .help = "layers by forward and backward time",
    .number = 5,
    .rank = 5,
    .min_h = 2,
    .grow = 1,
    .want_h = want_h,
    .draw = draw,
    .note = note,
    .lines = lines,
};
