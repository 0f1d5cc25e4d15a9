/* Images as files: PNG (rendered by cairo) or SVG. This header has the drawing primitives;
 * plot_chart.h, plot_pictures.h and plot_boxes.h draw with them. Lengths are pixels (in SVG: user
 * units), y points down, colors are 0xRRGGBB. The image is a list of marks in memory until
 * sw_plot_end, which replaces the file in one step, so a crash leaves the old file or the new one.
 * A build without cairo writes SVG only. One owner. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_plot;

enum sw_plot_format { SW_PLOT_PNG, SW_PLOT_SVG };

enum sw_plot_align { SW_PLOT_LEFT, SW_PLOT_CENTRE, SW_PLOT_RIGHT };

/* Begins a white image; path is borrowed until the end. Errors: SW_ERR_UNSUPPORTED (a build without
 * cairo), SW_ERR_INVALID (sides below 1 or above 16384), SW_ERR_NOMEM. */
int sw_plot_begin(struct sw_plot **out, const char *path, enum sw_plot_format format, int width,
                  int height, struct sw_err *err) SW_MUST_CHECK;
/* Writes the file and frees. Errors: SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_plot_end(struct sw_plot *p, struct sw_err *err) SW_MUST_CHECK;
/* Frees without writing a file; NULL is accepted. */
void sw_plot_abandon(struct sw_plot *p);

struct sw_plot_size {
    double w, h;
};
/* The size of the whole image in its units. */
struct sw_plot_size sw_plot_size(const struct sw_plot *p);

struct sw_plot_box {
    double x, y, w, h;
};

void sw_plot_fill(struct sw_plot *p, struct sw_plot_box box, uint32_t colour);
void sw_plot_frame(struct sw_plot *p, struct sw_plot_box box, uint32_t colour, double width);
void sw_plot_line(struct sw_plot *p, double x0, double y0, double x1, double y1, uint32_t colour,
                  double width);
void sw_plot_dot(struct sw_plot *p, double x, double y, double radius, uint32_t colour);

/* A line through points: begin, add each point (a break lifts the pen), stroke. */
void sw_plot_path_begin(struct sw_plot *p);
void sw_plot_path_add(struct sw_plot *p, double x, double y);
void sw_plot_path_break(struct sw_plot *p);
void sw_plot_path_stroke(struct sw_plot *p, uint32_t colour, double width, bool dashed);
/* Closes the path and fills it with a translucent color. */
void sw_plot_path_fill(struct sw_plot *p, uint32_t colour, double opacity);
/* Clips drawing to a box until sw_plot_clip_end. */
void sw_plot_clip(struct sw_plot *p, struct sw_plot_box box);
void sw_plot_clip_end(struct sw_plot *p);

struct sw_plot_font {
    enum sw_plot_align align; /* of the text at its x */
    double size;              /* in pixels */
    double most;              /* widest text; 0: any width */
    bool bold, up;            /* up: the text is rotated to read upwards */
    uint32_t colour;          /* 0: SW_PLOT_INK */
};
/* Text whose middle line is at y, as one line of base/text.h. A text that is wider than font.most
 * is shrunk, at most to half its size, and then truncated. */
void sw_plot_text(struct sw_plot *p, double x, double y, struct sw_plot_font font,
                  const char *text);
/* The estimated width of a text. It is an estimate so that layouts do not depend on installed
 * fonts. */
double sw_plot_text_width(double size, bool bold, const char *text);

/* Draws pixels u8 [h, w, 3] stretched over a box, without smoothing. */
void sw_plot_pixels(struct sw_plot *p, struct sw_plot_box box, const uint8_t *rgb, int w, int h);

/* The i-th of a sequence of distinct colors: eight that color-blind readers can distinguish (Okabe
 * and Ito 2008), then evenly spread hues. */
uint32_t sw_plot_colour(int i);
/* A shade from light to dark for a fraction of 0 to 1; gray for NaN. */
uint32_t sw_plot_shade(double fraction);

enum { SW_PLOT_INK = 0x222222, SW_PLOT_GREY = 0x888888, SW_PLOT_GRID = 0xe4e4e4 };
