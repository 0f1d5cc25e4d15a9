/* Draws the line chart of chart.h into an image, with axes, grid and a legend. */
#pragma once

#include "ui/chart.h"
#include "ui/plot.h"

struct sw_plot_labels {
    const char *title, *x, *y;
    const char *const *lines; /* [line_count]; NULL: not in the legend */
    const int *colours;       /* [line_count], numbers of sw_plot_colour */
};

/* Draws the chart into the box. The caller has set the ranges of x and y. */
void sw_plot_chart(struct sw_plot *p, struct sw_plot_box box, const struct sw_chart *chart,
                   const struct sw_plot_labels *labels);
