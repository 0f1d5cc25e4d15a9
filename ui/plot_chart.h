/* A line chart on paper: the chart of chart.h, which a terminal shows in dots, with axes, grid and
 * a legend. */
#pragma once

#include "ui/chart.h"
#include "ui/plot.h"

struct sw_plot_labels {
    const char *title, *x, *y;
    const char *const *lines; /* [line_count]; NULL: not in the legend */
    const int *colours;       /* [line_count], numbers of sw_plot_colour */
};

/* Draws into the box. Whoever calls has set the ranges of x and y. */
void sw_plot_chart(struct sw_plot *p, struct sw_plot_box box, const struct sw_chart *chart,
                   const struct sw_plot_labels *labels);
