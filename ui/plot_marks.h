/* The list of marks that make up an image. plot.c appends to it; plot_svg.c and plot_png.c convert
 * it to a file. The list is read only when it is complete, and marks are drawn in its order. One
 * owner. */
#pragma once

#include "ui/plot.h"

enum sw_plot_kind {
    SW_PLOT_RECT,
    SW_PLOT_CIRCLE, /* center at box.x, box.y; radius box.w */
    SW_PLOT_PATH,
    SW_PLOT_TEXT, /* anchor at box.x, box.y */
    SW_PLOT_IMAGE,
    SW_PLOT_CLIP,
    SW_PLOT_CLIP_END,
};

struct sw_plot_mark {
    enum sw_plot_kind kind;
    struct sw_plot_box box;
    uint32_t colour;
    double opacity;
    double width; /* width of the outline in pixels; 0: filled */
    bool dashed;
    struct sw_plot_font font;
    int w, h; /* size of an image in its own pixels */
    size_t first,
        count; /* points of a path; bytes of a text (UTF-8, printable) or an image (RGB) */
};

struct sw_plot_point {
    double x, y;
    bool moves; /* no line leads to this point */
};

struct sw_plot_marks {
    const struct sw_plot_mark *mark; /* [marks] */
    const struct sw_plot_point *point;
    const uint8_t *bytes;
    size_t marks;
    int width, height; /* pixels of the whole image */
};

/* Appends the drawing as an SVG file to out; out->failed is set when memory is exhausted. */
void sw_plot_write_svg(const struct sw_plot_marks *m, struct sw_bytes *out);
/* Appends the drawing as a PNG file to out. Errors: SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_plot_write_png(const struct sw_plot_marks *m, struct sw_bytes *out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Checks that this build can write PNG: SW_ERR_UNSUPPORTED names the path and the missing
 * library. */
int sw_plot_check_png(const char *path, struct sw_err *err) SW_MUST_CHECK;
