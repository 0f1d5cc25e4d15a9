/* Draws contact sheets of searches with the primitives of ui/plot.h. The contract is in
 * ui/plot_results.h. */
#include "ui/plot_results.h"

#include "base/os.h"
#include <string.h>

enum { TITLE_H = 36, MARGIN = 14, TITLE = 14, TEXT = 10, LINE_H = 13, GAP = 10, AFTER_QUERY = 18 };
enum { NOTE_H = 16, LINE_W = SW_PLOT_THUMBNAIL - 4, LINE_BYTES = 96 };
enum { RIGHT = 0x009e73, WRONG = 0xd55e00 };

static const double cell_w = SW_PLOT_THUMBNAIL + GAP, cell_h = SW_PLOT_THUMBNAIL + NOTE_H + GAP;

struct sw_plot_size sw_plot_results_size(const struct sw_plot_results *r)
{
    const double w = r->columns * cell_w + AFTER_QUERY;

    return (struct sw_plot_size){(w < 360 ? 360 : w) + 2 * MARGIN,
                                 r->rows * cell_h + TITLE_H + MARGIN};
}

/* ---- Text -------------------------------------------------------------------------------------
 */

/* The bytes of `text` that fit into a line: whole words, or if the first is too wide a part of it
 * that ends between characters. */
static size_t line_bytes(const char *text)
{
    char line[LINE_BYTES];
    size_t fits = 0;

    for (size_t at = 0; text[at];) {
        const size_t word = strcspn(text + at, " \t") + at;
        const size_t end = word < sizeof line ? word : sizeof line - 1;

        memcpy(line, text, end);
        line[end] = '\0';
        if (end < word || sw_plot_text_width(TEXT, false, line) > LINE_W)
            break;
        fits = end;
        at = end + strspn(text + end, " \t");
    }

    for (size_t at = 0; fits == 0 && text[at];) {
        const size_t length = sw_utf8_length(text + at, strlen(text + at));
        const size_t end = at + (length ? length : 1);

        if (end >= sizeof line)
            return at;
        memcpy(line, text, end);
        line[end] = '\0';
        if (at > 0 && sw_plot_text_width(TEXT, false, line) > LINE_W)
            return at;
        at = end;
        if (!text[at])
            return at;
    }

    return fits;
}

/* Draws a text from the top of a box in as many lines as fit; the last one is cut. */
static void draw_wrapped(struct sw_plot *p, struct sw_plot_box box, const char *text)
{
    const int most = (int)(box.h / LINE_H);

    for (int line = 0; line < most; line++) {
        text += strspn(text, " \t");

        const size_t fits = line_bytes(text);
        const bool last = line + 1 == most && text[fits];
        char *part = sw_format("%.*s%s", (int)fits, text, last ? "..." : "");

        if (part && *part)
            sw_plot_text(p, box.x + 2, box.y + (line + 0.5) * LINE_H,
                         (struct sw_plot_font){SW_PLOT_LEFT, .size = TEXT, .most = box.w - 4},
                         part);
        sw_free(part);
        text += fits;
        if (!*text)
            break;
    }
}

/* ---- Cells ------------------------------------------------------------------------------------
 */

static void draw_image(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_cell *c)
{
    double scale = box.w / c->w;

    scale = scale * c->h > box.h ? box.h / c->h : scale;
    sw_plot_pixels(p,
                   (struct sw_plot_box){box.x + (box.w - scale * c->w) / 2,
                                        box.y + (box.h - scale * c->h) / 2, scale * c->w,
                                        scale * c->h},
                   c->rgb, c->w, c->h);
}

static void draw_cell(struct sw_plot *p, double x, double y, const struct sw_plot_cell *c)
{
    const struct sw_plot_box at = {x, y, SW_PLOT_THUMBNAIL, SW_PLOT_THUMBNAIL};
    const bool both = c->rgb && c->text;
    struct sw_plot_box image = at;

    if (both)
        image.h -= LINE_H;
    if (c->rgb)
        draw_image(p, image, c);
    if (both)
        sw_plot_text(p, x + at.w / 2, y + at.h - LINE_H / 2.0,
                     (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .most = at.w - 4},
                     c->text);
    else if (c->text)
        draw_wrapped(p, at, c->text);

    if (c->verdict == SW_PLOT_UNKNOWN)
        sw_plot_frame(p, at, SW_PLOT_GRID, 1);
    else
        sw_plot_frame(p, at, c->verdict == SW_PLOT_RELEVANT ? RIGHT : WRONG, 3);
    if (c->note)
        sw_plot_text(p, x + at.w / 2, y + at.h + NOTE_H / 2.0,
                     (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .most = at.w,
                                           .colour = SW_PLOT_GREY},
                     c->note);
}

void sw_plot_results(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_results *r)
{
    for (int row = 0; row < r->rows; row++)
        for (int column = 0; column < r->columns; column++)
            draw_cell(p, box.x + MARGIN + column * cell_w + (column ? AFTER_QUERY : 0),
                      box.y + TITLE_H + row * cell_h, &r->cells[row * r->columns + column]);

    const double line = box.x + MARGIN + cell_w + AFTER_QUERY / 2.0 - GAP / 2.0;
    sw_plot_line(p, line, box.y + TITLE_H, line, box.y + box.h - MARGIN, SW_PLOT_GREY, 1);
    sw_plot_text(p, box.x + box.w / 2, box.y + TITLE_H / 2.0,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TITLE, .bold = true,
                                       .most = box.w - 2 * MARGIN},
                 r->title);
}
