/* Draws a line chart into a file: axes, grid, bands, curves and a legend, with the primitives of
 * ui/plot.h. Ranges and ticks are those of the terminal chart. The contract is in
 * ui/plot_chart.h. */
#include "ui/plot_chart.h"
#include <math.h>

enum {
    LEFT = 64,
    RIGHT = 18,
    TOP = 40,
    BOTTOM = 52,
    TEXT = 12,
    TITLE = 15,
    LEGEND_ROW = 18,
    LETTER_W = 14
};
enum { LABEL_COLUMNS = 8, X_LABEL_COLUMNS = 12, MOST_DECADES = 12 };

/* The drawing state: the image, the area of the lines, and the chart. */
struct pen {
    struct sw_plot *p;
    struct sw_plot_box in;
    const struct sw_chart *chart;
};

/* Clamps positions far outside: coordinates must be finite, and the strokes of a dashed line grow
 * with its length. */
static double limited(double fraction)
{
    return fmin(fmax(fraction, -8), 9);
}

static double at_x(const struct pen *n, double x)
{
    return n->in.x + n->in.w * limited(sw_chart_fraction_x(n->chart, x));
}

static double at_y(const struct pen *n, double y)
{
    return n->in.y + n->in.h * (1 - limited(sw_chart_fraction_y(n->chart, y)));
}

/* ---- Axes -------------------------------------------------------------------------------------
 */

static void axis_y(const struct pen *n)
{
    struct sw_ticks ticks;
    int linear = n->in.h > 120 ? (int)(n->in.h / 50) : 2;

    sw_ticks_make(&ticks, (struct sw_ui_range){n->chart->y_from, n->chart->y_to}, n->chart->log_y,
                  n->chart->log_y ? MOST_DECADES : linear, LABEL_COLUMNS);

    for (int i = 0; i < ticks.count; i++) {
        double y = at_y(n, ticks.items[i].value);
        sw_plot_line(n->p, n->in.x, y, n->in.x + n->in.w, y, SW_PLOT_GRID, 1);
        sw_plot_text(n->p, n->in.x - 6, y,
                     (struct sw_plot_font){SW_PLOT_RIGHT, .size = TEXT, .most = LEFT - 6},
                     ticks.items[i].label);
    }
}

static void axis_x(const struct pen *n)
{
    struct sw_ticks ticks;

    const struct sw_ui_range range = {n->chart->x_from, n->chart->x_to};
    const int most = n->in.w > 200 ? (int)(n->in.w / 90) : 2;

    if (n->chart->powers_x)
        sw_ticks_powers(&ticks, range, most);
    else
        sw_ticks_make(&ticks, range, false, most, X_LABEL_COLUMNS);

    for (int i = 0; i < ticks.count; i++) {
        double x = at_x(n, ticks.items[i].value);
        sw_plot_line(n->p, x, n->in.y, x, n->in.y + n->in.h, SW_PLOT_GRID, 1);
        sw_plot_text(n->p, x, n->in.y + n->in.h + 14,
                     (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT}, ticks.items[i].label);
    }
}

/* ---- Lines ------------------------------------------------------------------------------------
 */

/* Mixes a color half and half with white. */
static uint32_t pale(uint32_t colour)
{
    return (colour >> 1 & 0x7f7f7f) + 0x7f7f7f;
}

static bool has_place(const struct pen *n, const struct sw_point *at)
{
    return isfinite(at->x) && isfinite(at->y) && (!n->chart->log_y || at->y > 0);
}

/* Fills the band: along the highest values and back along the lowest, one piece between gaps at a
 * time. */
static void draw_band(const struct pen *n, const struct sw_chart_line *line, uint32_t colour)
{
    for (size_t from = 0, to; from < line->count; from = to + 1) {
        for (to = from; to < line->count && has_place(n, &line->points[to]);)
            to++;
        if (to == from)
            continue;

        sw_plot_path_begin(n->p);
        for (size_t i = from; i < to; i++)
            sw_plot_path_add(n->p, at_x(n, line->points[i].x), at_y(n, line->points[i].hi));
        for (size_t i = to; i-- > from;)
            sw_plot_path_add(n->p, at_x(n, line->points[i].x), at_y(n, line->points[i].lo));
        sw_plot_path_fill(n->p, colour, 0.22);
    }
}

static void draw_curve(const struct pen *n, const struct sw_chart_line *line, uint32_t colour,
                       double width)
{
    sw_plot_path_begin(n->p);

    for (size_t i = 0; i < line->count; i++) {
        const struct sw_point *at = &line->points[i];
        if (!has_place(n, at))
            sw_plot_path_break(n->p);
        else
            sw_plot_path_add(n->p, at_x(n, at->x), at_y(n, at->y));
    }

    sw_plot_path_stroke(n->p, colour, width, line->stroke == SW_STROKE_DASHED);
}

static void draw_dots(const struct pen *n, const struct sw_chart_line *line, uint32_t colour)
{
    for (size_t i = 0; i < line->count; i++)
        if (has_place(n, &line->points[i]))
            sw_plot_dot(n->p, at_x(n, line->points[i].x), at_y(n, line->points[i].y), 2.5, colour);
}

/* Draws bands of recorded values first, so that they hide no line. */
static void draw_lines(const struct pen *n, const struct sw_plot_labels *labels)
{
    const struct sw_chart_line *lines = n->chart->lines;

    for (int l = 0; l < n->chart->line_count; l++)
        if (lines[l].stroke == SW_STROKE_BAND) {
            draw_band(n, &lines[l], sw_plot_colour(labels->colours[l]));
            draw_curve(n, &lines[l], pale(sw_plot_colour(labels->colours[l])), 0.7);
        }

    for (int l = 0; l < n->chart->line_count; l++) {
        uint32_t colour = sw_plot_colour(labels->colours[l]);
        if (lines[l].stroke != SW_STROKE_BAND)
            draw_curve(n, &lines[l], colour, 1.6);
        if (lines[l].stroke == SW_STROKE_DOTS || lines[l].count == 1)
            draw_dots(n, &lines[l], colour);
    }
}

/* ---- Letters ----------------------------------------------------------------------------------
 */

static void put_letter(const struct pen *n, const struct sw_chart_line *line, double x, double y,
                       uint32_t colour)
{
    const char text[] = {line->letter, 0};

    if (line->letter)
        sw_plot_text(
            n->p, x, y,
            (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .bold = true, .colour = colour},
            text);
}

/* Draws the letter of a line on a white disk at its point nearest to a fraction of the x axis, so
 * that lines can be distinguished without their colors. */
static void draw_letter(const struct pen *n, const struct sw_chart_line *line, double fraction,
                        uint32_t colour)
{
    const struct sw_point *best = NULL;
    double nearest = INFINITY;

    for (size_t i = 0; i < line->count; i++) {
        double d = fabs(sw_chart_fraction_x(n->chart, line->points[i].x) - fraction);
        if (has_place(n, &line->points[i]) && d < nearest) {
            nearest = d;
            best = &line->points[i];
        }
    }

    if (!best)
        return;

    double x = at_x(n, best->x), y = at_y(n, best->y);
    sw_plot_dot(n->p, x, y, 7, 0xffffff);
    put_letter(n, line, x, y, colour);
}

static void draw_letters(const struct pen *n, const struct sw_plot_labels *labels)
{
    int count = 0, turn = 0;

    for (int l = 0; l < n->chart->line_count; l++)
        count += n->chart->lines[l].letter != 0;

    for (int l = 0; l < n->chart->line_count; l++)
        if (n->chart->lines[l].letter)
            draw_letter(n, &n->chart->lines[l], (turn++ + 0.5) / count,
                        sw_plot_colour(labels->colours[l]));
}

/* ---- Legend -----------------------------------------------------------------------------------
 */

/* How much of the curves a box would hide: positions along them that are in it. */
static int hidden(const struct pen *n, struct sw_plot_box b)
{
    enum { BETWEEN = 8 }; /* positions from a point to the next one */
    int count = 0;

    for (int l = 0; l < n->chart->line_count; l++) {
        const struct sw_chart_line *line = &n->chart->lines[l];

        for (size_t i = 0; i < line->count; i++) {
            const struct sw_point *from = &line->points[i];
            const struct sw_point *to = &line->points[i + 1 < line->count ? i + 1 : i];

            if (!has_place(n, from) || !has_place(n, to))
                continue;
            for (int k = 0; k < BETWEEN; k++) {
                const double part = (double)k / BETWEEN;
                const double x = at_x(n, from->x) * (1 - part) + at_x(n, to->x) * part;
                const double y = at_y(n, from->y) * (1 - part) + at_y(n, to->y) * part;

                count += x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h;
            }
        }
    }

    return count;
}

/* The corner where a legend of that size hides least; at the right and above, if all are alike. */
static struct sw_plot_box place_legend(const struct pen *n, double width, double height)
{
    enum { GAP = 8 };
    const double left = n->in.x + GAP, top = n->in.y + GAP;
    const double right = fmax(n->in.x, n->in.x + n->in.w - width - GAP);
    const double bottom = n->in.y + n->in.h - height - GAP;
    const struct sw_plot_box corners[] = {{right, top, width, height},
                                          {right, bottom, width, height},
                                          {left, top, width, height},
                                          {left, bottom, width, height}};
    struct sw_plot_box best = corners[0];
    int least = hidden(n, best);

    for (size_t i = 1; i < sizeof corners / sizeof *corners && least > 0; i++) {
        const int hides = hidden(n, corners[i]);

        if (hides < least) {
            least = hides;
            best = corners[i];
        }
    }

    return best;
}

static void draw_legend(const struct pen *n, const struct sw_plot_labels *labels)
{
    double width = 0, rows = 0, indent = 0;

    for (int l = 0; l < n->chart->line_count; l++) {
        if (!labels->lines[l])
            continue;

        double w = sw_plot_text_width(TEXT, false, labels->lines[l]);
        indent = n->chart->lines[l].letter ? LETTER_W : indent;
        width = w > width ? w : width;
        rows++;
    }

    if (rows == 0)
        return;

    width += indent;
    const struct sw_plot_box b = place_legend(n, width + 42, rows * LEGEND_ROW + 8);
    sw_plot_fill(n->p, b, 0xffffff);
    sw_plot_frame(n->p, b, SW_PLOT_GRID, 1);

    double y = b.y + 4 + LEGEND_ROW / 2.0;
    for (int l = 0; l < n->chart->line_count; l++) {
        if (!labels->lines[l])
            continue;

        sw_plot_path_begin(n->p);
        sw_plot_path_add(n->p, b.x + 6, y);
        sw_plot_path_add(n->p, b.x + 28, y);
        sw_plot_path_stroke(n->p, sw_plot_colour(labels->colours[l]), 2,
                            n->chart->lines[l].stroke == SW_STROKE_DASHED);
        put_letter(n, &n->chart->lines[l], b.x + 34 + LETTER_W / 3.0, y,
                   sw_plot_colour(labels->colours[l]));
        sw_plot_text(n->p, b.x + 34 + indent, y,
                     (struct sw_plot_font){SW_PLOT_LEFT, .size = TEXT, .most = n->in.w - 44},
                     labels->lines[l]);
        y += LEGEND_ROW;
    }
}

void sw_plot_chart(struct sw_plot *p, struct sw_plot_box box, const struct sw_chart *given,
                   const struct sw_plot_labels *labels)
{
    const struct sw_chart normalized = sw_chart_normalized(given), *chart = &normalized;
    struct pen n = {
        p, {box.x + LEFT, box.y + TOP, box.w - LEFT - RIGHT, box.h - TOP - BOTTOM}, chart};

    axis_y(&n);
    axis_x(&n);
    sw_plot_clip(p, n.in);
    draw_lines(&n, labels);
    draw_letters(&n, labels);
    sw_plot_clip_end(p);
    sw_plot_frame(p, n.in, SW_PLOT_GREY, 1);
    draw_legend(&n, labels);
    sw_plot_text(p, n.in.x + n.in.w / 2, box.y + TOP / 2.0,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TITLE, .bold = true, .most = n.in.w},
                 labels->title);
    sw_plot_text(p, n.in.x + n.in.w / 2, n.in.y + n.in.h + 36,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .most = n.in.w}, labels->x);
    sw_plot_text(p, box.x + 14, n.in.y + n.in.h / 2,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .up = true}, labels->y);
}
