/* Curves of several runs in one chart, for `history plot` and `history compare`: read from the
 * history into bounded memory, smoothed, and drawn in a terminal or into a file. One owner. */
#pragma once

#include "cli/history/verb.h"
#include "ui/plot.h"

enum sw_curves_x { SW_CURVES_BY_STEP, SW_CURVES_BY_TIME, SW_CURVES_BY_EPOCH };

struct sw_curves_args {
    const char *metric; /* as loss */
    const char *split;  /* NULL: all that have the metric */
    enum sw_curves_x x;
    double smooth; /* weight of earlier points of training curves; 0: no smoothing */
    bool log_y;
    size_t capacity; /* points kept of a curve, even */
};

/* Zero-initialise; free with sw_curves_fini. */
struct sw_curves {
    struct sw_curve *items; /* owned; curves.c has what one is */
    int count;
    struct sw_curves_args args;
    int runs;
    char title[128]; /* names the metric, and the run if there is only one */
};

/* Loads the curves of v->runs. Errors, in v->err: SW_ERR_NOTFOUND (no run has the metric; the
 * message lists those available), and those of the reader. */
int sw_curves_load(struct sw_curves *c, struct sw_history_view *v,
                   const struct sw_curves_args *args) SW_MUST_CHECK;
void sw_curves_fini(struct sw_curves *c);

/* Appends a chart of terminal cells with a legend below, in color if the terminal has it. */
int sw_curves_print(const struct sw_curves *c, int width, int height, struct sw_bytes *out,
                    struct sw_err *err) SW_MUST_CHECK;
/* Writes the chart to a PNG or SVG file. Errors: those of sw_plot_begin and sw_plot_end. */
int sw_curves_plot(const struct sw_curves *c, const char *path, enum sw_plot_format format,
                   int width, int height, struct sw_err *err) SW_MUST_CHECK;
