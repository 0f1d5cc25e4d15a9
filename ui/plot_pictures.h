/* Visualizations of what a net has learned, with the primitives of plot.h: filters as tiles, a
 * confusion matrix, a scatter plot. Each fills a box. */
#pragma once

#include "ui/plot.h"

/* Images [count][channels][h][w] of 1 or 3 channels as tiles, each scaled to its own range. */
struct sw_plot_tiles {
    const float *values; /* borrowed */
    int count, channels, h, w;
    const char *title;
};
/* The image size for tiles that are large enough to see. */
struct sw_plot_size sw_plot_tiles_size(const struct sw_plot_tiles *t);
/* Draws images as tiles inside the box. Errors: SW_ERR_NOMEM. */
int sw_plot_tiles(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_tiles *t,
                  struct sw_err *err) SW_MUST_CHECK;

/* Images with lines of text below each, as tiles of equal width. */
struct sw_plot_sheet {
    struct sw_plot_tiles tiles;
    const char *const *captions; /* borrowed [count][lines] */
    int lines;
};
struct sw_plot_size sw_plot_sheet_size(const struct sw_plot_sheet *s);
/* Errors: SW_ERR_NOMEM. */
int sw_plot_sheet(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_sheet *s,
                  struct sw_err *err) SW_MUST_CHECK;

/* counts [classes][classes]: the row is the true class, the column the predicted one. The shade of
 * a cell is its fraction of the row. */
struct sw_plot_confusion {
    const int64_t *counts; /* borrowed */
    int classes;
    const char *title;
    const char *const *names; /* borrowed [classes]; NULL: numbers */
};
struct sw_plot_size sw_plot_confusion_size(const struct sw_plot_confusion *c);
void sw_plot_confusion(struct sw_plot *p, struct sw_plot_box box,
                       const struct sw_plot_confusion *c);

/* Points xy [count][2] as dots in the color of their label; labels NULL: one color. With diagonal
 * both axes have one range, and a line shows where x = y. */
struct sw_plot_scatter {
    const float *xy;   /* borrowed */
    const int *labels; /* borrowed; a negative label: none */
    int64_t count;
    const char *title;
    bool diagonal;
    const char *const *names; /* borrowed [name_count]: of labels, for the legend; others are
                                 numbers */
    int name_count;
    int64_t squares;           /* how many of the last points are squares */
    const char *kinds[2];      /* what dots and squares are; NULL: not in the legend */
    const int64_t (*links)[2]; /* borrowed: points that a line connects */
    int link_count;
};
void sw_plot_scatter(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_scatter *s);
