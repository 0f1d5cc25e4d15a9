/* A contact sheet of searches: a row for each query, which is its first cell, and its results after
 * it. A cell is an image, a text, or an image above a text, with a frame that says whether the
 * result is relevant. */
#pragma once

#include "ui/plot.h"

enum { SW_PLOT_THUMBNAIL = 96 }; /* pixels of a cell's side; images are at most as large */

enum sw_plot_verdict { SW_PLOT_UNKNOWN, SW_PLOT_RELEVANT, SW_PLOT_IRRELEVANT };

struct sw_plot_cell {
    const uint8_t *rgb; /* borrowed [h][w][3]; NULL: no image */
    int w, h;           /* at most SW_PLOT_THUMBNAIL */
    const char *text;   /* borrowed; below an image one line, else wrapped; NULL: none */
    const char *note;   /* borrowed: a line below the cell; NULL: none */
    enum sw_plot_verdict verdict;
};

struct sw_plot_results {
    const struct sw_plot_cell *cells; /* borrowed [rows][columns] */
    int rows, columns;
    const char *title;
};

struct sw_plot_size sw_plot_results_size(const struct sw_plot_results *r);
void sw_plot_results(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_results *r);
