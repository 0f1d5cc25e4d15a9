/* Line charts in cells: braille dots with UTF-8 (2 x 4 in a cell), else one ASCII character for
 * each line. The caller passes points in order of x and the window of x to show; sw_chart_fit finds
 * the range of y. Points and ranges may be any numbers. No state, no clock. Used by the dashboard's
 * panels and by `history plot` in a terminal. */
#pragma once

#include "ui/canvas.h"
#include "ui/ticks.h"

/* One or more consecutive values of a curve; NaN in y breaks the line. */
struct sw_point {
    double x, y;   /* y: their mean */
    double lo, hi; /* the range of the values; equal to y for one value */
};

enum sw_stroke {
    SW_STROKE_SOLID,
    SW_STROKE_DASHED,
    SW_STROKE_BAND, /* a vertical stroke from lo to hi at each point: raw values behind a smooth
                       line */
    SW_STROKE_DOTS, /* short unconnected dashes, for rare values such as evaluations */
};

struct sw_chart_line {
    const struct sw_point *points; /* borrowed */
    size_t count;
    enum sw_role role;
    enum sw_stroke stroke;
    char ascii;  /* the character without UTF-8; 0: the default of the stroke */
    char letter; /* identifies the line without colors: stands on it now and then, and is its
                    character without UTF-8; 0: none */
};

/* The letter of the i-th of several lines: 'A', 'B', ...; 0 beyond 'z'. */
char sw_chart_letter(int i);

/* A mark on the x axis: a resume or the best value. */
struct sw_chart_mark {
    double x;
    uint32_t rune;
    enum sw_role role;
};

struct sw_chart {
    const struct sw_chart_line *lines; /* the last is drawn over the others */
    int line_count;
    const struct sw_chart_mark *marks;
    int mark_count;
    double x_from, x_to;
    double y_from, y_to;
    bool log_y;
    bool powers_x; /* x are binary logarithms: the axis has the powers of two */
    double cursor; /* x of a vertical line; NaN: none */
};

/* Sets y_from and y_to so that all lines within the window of x are visible, with room above and
 * below. With log_y only positive values count. Without values: 0 to 1 (0.1 to 1 with log_y). */
void sw_chart_fit(struct sw_chart *chart);

/* Draws axes and lines into r. An r below 4 rows or 16 columns gets no axes. */
void sw_chart_draw(struct sw_canvas *c, struct sw_area r, const struct sw_chart *chart);
/* Returns the chart with ranges that can be drawn (sw_ticks_range). */
struct sw_chart sw_chart_normalized(const struct sw_chart *chart);

/* The position of a value on the axes of a normalized chart, 0..1 within its range
 * (sw_ticks_fraction). */
double sw_chart_fraction_x(const struct sw_chart *chart, double x);
double sw_chart_fraction_y(const struct sw_chart *chart, double y);
/* sw_ticks_number with three digits, into out (at least 16 bytes). */
const char *sw_chart_number(char *out, double value);

/* Exponential moving average with the bias of its start removed (Kingma and Ba 2015): decay is the
 * weight of earlier values; 0 copies. out [count] has mean = lo = hi; NaN stays NaN and does not
 * enter the mean.
 */
void sw_chart_smooth(const struct sw_point *in, size_t count, double decay, struct sw_point *out);
