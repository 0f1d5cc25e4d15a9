/* A grid of character cells, on which the dashboard, the terminal charts of `history plot` and the
 * tests draw. A cell has one character and a role, which is its meaning and not a color; a theme
 * (theme.h) maps roles to colors, and only term.c writes to a terminal. Characters that a terminal
 * without UTF-8 cannot show are replaced while drawing, so a canvas is what will be seen.
 *
 * Drawing is clipped to the canvas. A character of double width takes two cells (the second has
 * rune 0); characters without width are left out, and texts show control characters as escapes
 * (base/text.h). One owner. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a cell means. */
enum sw_role {
    SW_ROLE_TEXT,
    SW_ROLE_DIM,    /* labels, grids, old data */
    SW_ROLE_TITLE,  /* names of panels */
    SW_ROLE_STRONG, /* the numbers that matter */
    SW_ROLE_BORDER,
    SW_ROLE_FOCUS, /* border and title of the panel that receives keys */
    SW_ROLE_KEY,   /* keys that can be pressed */
    SW_ROLE_GOOD,
    SW_ROLE_WARN,
    SW_ROLE_BAD,
    SW_ROLE_SELECT, /* the selected row */
    SW_ROLE_LINE1,  /* curves: training, evaluation, the overlay of another run */
    SW_ROLE_LINE2,
    SW_ROLE_LINE3,
    SW_ROLE_LINE4,
    SW_ROLE_COMPUTE, /* phases of a step */
    SW_ROLE_DATA,
    SW_ROLE_COPY,
    SW_ROLE_COMM,
    SW_ROLE_WAIT,
    SW_ROLES,
};

/* What a terminal can show. */
struct sw_ui_caps {
    bool utf8;   /* else ASCII only */
    int colours; /* 0 (bold, dim and reverse only), 8 or 256 */
};

struct sw_area {
    int x, y, w, h;
};

struct sw_ui_cell {
    uint32_t rune; /* 0: the right half of the previous character */
    uint8_t role;
};

struct sw_canvas {
    int w, h;
    struct sw_ui_caps caps;
    struct sw_ui_cell *cells; /* owned [h * w] */
};

/* Makes the canvas w x h (at least 0) and blank; memory is reused. Errors: SW_ERR_NOMEM (the canvas
 * is then empty). Zero-initialise before the first call; free with sw_canvas_fini. */
int sw_canvas_begin(struct sw_canvas *c, int w, int h, struct sw_ui_caps caps,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_canvas_fini(struct sw_canvas *c);

/* Returns the number of columns that a text takes on this canvas. */
int sw_canvas_columns(const struct sw_canvas *c, const char *text);

void sw_canvas_rune(struct sw_canvas *c, int x, int y, uint32_t rune, enum sw_role role);
/* Draws at most `columns` columns and returns how many were drawn. A text that does not fit ends in
 * '~', so that a truncated number is not mistaken for a complete one. */
int sw_canvas_text(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                   const char *text);
int sw_canvas_printf(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                     const char *fmt, ...) SW_PRINTF(6, 7);
/* Draws a text like sw_canvas_text, but right-aligned: the last column is at x + columns - 1. */
void sw_canvas_right(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                     const char *text);
void sw_canvas_fill(struct sw_canvas *c, struct sw_area r, uint32_t rune, enum sw_role role);
/* Changes the role of the cells in r. */
void sw_canvas_recolour(struct sw_canvas *c, struct sw_area r, enum sw_role role);

/* Draws a frame with a title at the left of its upper edge and a note (may be NULL) at the right.
 */
void sw_canvas_box(struct sw_canvas *c, struct sw_area r, enum sw_role role, const char *title,
                   const char *note);
/* The inside of a box. */
struct sw_area sw_area_inside(struct sw_area r);
bool sw_area_holds(struct sw_area r, int x, int y);

/* The character of bars: a block that leaves a gap to the line above, so that bars in neighboring
 * lines stay separate. */
#define SW_BAR_RUNE 0x2586u
/* The number of columns that a bar of that fraction fills: none for 0, negative values and NaN, all
 * for 1 and above. */
int sw_canvas_bar_columns(int columns, double fraction);
/* Draws a bar; fraction 1 fills all columns. */
void sw_canvas_bar(struct sw_canvas *c, int x, int y, int columns, double fraction,
                   enum sw_role role);

/* Appends the lines as text, without trailing blanks. */
void sw_canvas_to_text(const struct sw_canvas *c, struct sw_bytes *out);
/* Appends the lines with the escape sequences of a terminal that has caps.colours colors. */
void sw_canvas_to_ansi(const struct sw_canvas *c, struct sw_bytes *out);

/* Writes a rune as UTF-8 into out; returns the number of bytes, 1 to 4. */
int sw_utf8_put(uint32_t rune, char out[4]);
