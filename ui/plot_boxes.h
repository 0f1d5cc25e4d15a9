/* Drawings made of boxes: nested boxes (a machine with its nodes and cores), and a graph with boxes
 * in rows below their sources (a net). Layout is a pure function of its arguments. */
#pragma once

#include "ui/plot.h"

/* A nested box; parents come before their children in the array. */
struct sw_nested_box {
    const char *title, *note; /* borrowed; note may be NULL */
    int parent;               /* index; -1: none */
    int colour;               /* index of sw_plot_colour; -1: white */
    bool down;                /* its children are stacked instead of side by side */
    /* Filled by the layout. */
    struct sw_plot_box at;
};
/* Places all boxes and returns the total size; boxes without a parent are stacked. */
struct sw_plot_size sw_nested_layout(struct sw_nested_box *boxes, int count);
void sw_nested_draw(struct sw_plot *p, double x, double y, const struct sw_nested_box *boxes,
                    int count);

enum { SW_GRAPH_SOURCES = 16 };
/* A box of a graph; its sources come before it in the array. */
struct sw_graph_box {
    char title[64], note[96];
    int sources[SW_GRAPH_SOURCES], source_count; /* indices */
    int colour;                                  /* as above */
    bool dashed;                                 /* a connection, not a layer of the recipe */
    /* Filled by the layout. */
    int row;
    struct sw_plot_box at;
};
struct sw_plot_size sw_graph_layout(struct sw_graph_box *boxes, int count);
void sw_graph_draw(struct sw_plot *p, double x, double y, const struct sw_graph_box *boxes,
                   int count);
