/* Draws image tiles, confusion matrices and scatter plots with the primitives of ui/plot.h. The
 * contract is in ui/plot_pictures.h. */
#include "ui/plot_pictures.h"

#include "base/os.h"
#include "ui/ticks.h"
#include <math.h>

enum { TITLE_H = 36, MARGIN = 14, TEXT = 12, TITLE = 14 };

static void draw_title(struct sw_plot *p, struct sw_plot_box box, const char *title)
{
    sw_plot_text(p, box.x + box.w / 2, box.y + TITLE_H / 2.0,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TITLE, .bold = true,
                                       .most = box.w - 2 * MARGIN},
                 title);
}

/* ---- Tiles ------------------------------------------------------------------------------------
 */

/* The number of tile columns: somewhat more columns than rows for square tiles. */
static int tile_columns(const struct sw_plot_tiles *t)
{
    int columns = (int)ceil(sqrt(1.5 * t->count * t->h / t->w));
    return columns < 1 ? 1 : columns > t->count ? t->count : columns;
}

static int tile_rows(const struct sw_plot_tiles *t)
{
    int columns = tile_columns(t);
    return (t->count + columns - 1) / columns;
}

/* Pixels of the image for a pixel of a tile. */
static int tile_scale(const struct sw_plot_tiles *t)
{
    int across = tile_columns(t) * (t->w + 1);
    int scale = 900 / across;
    return scale < 1 ? 1 : scale > 12 ? 12 : scale;
}

struct sw_plot_size sw_plot_tiles_size(const struct sw_plot_tiles *t)
{
    int scale = tile_scale(t);
    double w = scale * (tile_columns(t) * (t->w + 1) + 1),
           h = scale * (tile_rows(t) * (t->h + 1) + 1);
    return (struct sw_plot_size){fmax(w, 240) + 2 * MARGIN, h + TITLE_H + MARGIN};
}

/* Paints a tile from black to white over its own range; values that are not finite are red. */
static void paint_tile(const struct sw_plot_tiles *t, int n, uint8_t *rgb, int stride)
{
    size_t plane = (size_t)t->h * (size_t)t->w, size = plane * (size_t)t->channels;
    const float *v = t->values + (size_t)n * size;
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < size; i++) {
        low = isfinite(v[i]) ? fmin(low, (double)v[i]) : low;
        high = isfinite(v[i]) ? fmax(high, (double)v[i]) : high;
    }

    for (int y = 0; y < t->h; y++)
        for (int x = 0; x < t->w; x++)
            for (int c = 0; c < 3; c++) {
                size_t from = (size_t)(t->channels == 3 ? c : 0) * plane +
                              (size_t)y * (size_t)t->w + (size_t)x;
                double fraction = high > low ? ((double)v[from] - low) / (high - low) : 0.5;

                rgb[3 * ((size_t)y * (size_t)stride + (size_t)x) + (size_t)c] =
                    isfinite(v[from]) ? (uint8_t)lround(255 * fraction)
                    : c               ? 0
                                      : 255;
            }
}

int sw_plot_tiles(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_tiles *t,
                  struct sw_err *err)
{
    int columns = tile_columns(t), rows = tile_rows(t);
    int w = columns * (t->w + 1) + 1, h = rows * (t->h + 1) + 1;
    uint8_t *rgb = sw_calloc((size_t)w * (size_t)h, 3);
    if (!rgb)
        return sw_err_nomem(err, "image of filters", (size_t)w * (size_t)h * 3);

    for (size_t i = 0; i < (size_t)w * (size_t)h * 3; i++)
        rgb[i] = 255;

    for (int n = 0; n < t->count; n++) {
        int x = 1 + n % columns * (t->w + 1), y = 1 + n / columns * (t->h + 1);
        paint_tile(t, n, rgb + 3 * ((size_t)y * (size_t)w + (size_t)x), w);
    }

    double room_w = box.w - 2 * MARGIN, room_h = box.h - TITLE_H - MARGIN;
    double scale = fmin(room_w / w, room_h / h);
    struct sw_plot_box at = {box.x + MARGIN + (room_w - scale * w) / 2, box.y + TITLE_H, scale * w,
                             scale * h};
    sw_plot_pixels(p, at, rgb, w, h);
    draw_title(p, box, t->title);
    sw_free(rgb);

    return SW_OK;
}

/* ---- Confusion --------------------------------------------------------------------------------
 */

enum { CONFUSION_LEFT = 70, CONFUSION_BOTTOM = 56, MANY_CLASSES = 30 };

struct sw_plot_size sw_plot_confusion_size(const struct sw_plot_confusion *c)
{
    int cell = c->classes <= 12 ? 48 : c->classes <= MANY_CLASSES ? 30 : 720 / c->classes;
    double side = (cell < 2 ? 2 : cell) * (double)c->classes;
    side = fmax(side, 200);
    return (struct sw_plot_size){side + CONFUSION_LEFT + MARGIN, side + TITLE_H + CONFUSION_BOTTOM};
}

static void draw_cell(struct sw_plot *p, struct sw_plot_box at, int64_t count, double fraction,
                      bool with_text)
{
    char text[32];

    sw_plot_fill(p, at, sw_plot_shade(fraction));
    if (!with_text || count == 0)
        return;

    snprintf(text, sizeof text, "%lld", (long long)count);
    sw_plot_text(p, at.x + at.w / 2, at.y + at.h / 2,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = fmin(TEXT, at.h * 0.45),
                                       .most = at.w - 2,
                                       .colour = fraction > 0.5 ? 0xffffff : SW_PLOT_INK},
                 text);
}

/* Draws the class names along both sides; with many classes only every n-th. */
static void draw_class_names(struct sw_plot *p, struct sw_plot_box in, int classes)
{
    double cell = in.w / classes;
    int every = (int)ceil(16 / cell);

    for (int i = 0; i < classes; i += every) {
        char text[16];

        snprintf(text, sizeof text, "%d", i);
        sw_plot_text(p, in.x - 6, in.y + (i + 0.5) * cell,
                     (struct sw_plot_font){SW_PLOT_RIGHT, .size = 11}, text);
        sw_plot_text(p, in.x + (i + 0.5) * cell, in.y + in.h + 12,
                     (struct sw_plot_font){SW_PLOT_CENTRE, .size = 11}, text);
    }
}

void sw_plot_confusion(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_confusion *c)
{
    double side = fmin(box.w - CONFUSION_LEFT - MARGIN, box.h - TITLE_H - CONFUSION_BOTTOM);

    side = fmax(side, 1); /* the box is too small */

    struct sw_plot_box in = {box.x + CONFUSION_LEFT, box.y + TITLE_H, side, side};
    double cell = side / c->classes;
    for (int row = 0; row < c->classes; row++) {
        double all = 0;

        for (int i = 0; i < c->classes; i++)
            all += (double)c->counts[row * c->classes + i];

        for (int i = 0; i < c->classes; i++) {
            int64_t count = c->counts[row * c->classes + i];
            struct sw_plot_box at = {in.x + i * cell, in.y + row * cell, cell, cell};
            draw_cell(p, at, count, all > 0 ? (double)count / all : (double)NAN,
                      c->classes <= MANY_CLASSES);
        }
    }

    sw_plot_frame(p, in, SW_PLOT_GREY, 1);
    draw_class_names(p, in, c->classes);
    draw_title(p, box, c->title);
    sw_plot_text(p, in.x + side / 2, in.y + side + 36,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .most = side},
                 "predicted class");
    sw_plot_text(p, box.x + 18, in.y + side / 2,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .up = true}, "true class");
}

/* ---- Scatter plots
 * -----------------------------------------------------------------------------------
 */

enum { LEGEND_W = 60, MOST_IN_LEGEND = 24, LABEL_COLUMNS = 8 };

static struct sw_ui_range range_of(const struct sw_plot_scatter *s, int axis)
{
    double from = INFINITY, to = -INFINITY;

    for (int64_t i = 0; i < s->count; i++) {
        double v = (double)s->xy[2 * i + axis];
        if (isfinite(v)) {
            from = fmin(from, v);
            to = fmax(to, v);
        }
    }

    if (!(from <= to))
        from = to = 0;

    double room = 0.04 * (to - from);
    return sw_ticks_range(from - room, to + room, false);
}

static void draw_axis(struct sw_plot *p, struct sw_plot_box in, int axis, struct sw_ui_range r)
{
    struct sw_ticks ticks;

    sw_ticks_make(&ticks, r, false, 6, LABEL_COLUMNS);

    for (int i = 0; i < ticks.count; i++) {
        double fraction = sw_ticks_fraction(r, false, ticks.items[i].value);

        if (axis == 0) {
            double x = in.x + fraction * in.w;
            sw_plot_line(p, x, in.y, x, in.y + in.h, SW_PLOT_GRID, 1);
            sw_plot_text(p, x, in.y + in.h + 12, (struct sw_plot_font){SW_PLOT_CENTRE, .size = 11},
                         ticks.items[i].label);
        } else {
            double y = in.y + (1 - fraction) * in.h;
            sw_plot_line(p, in.x, y, in.x + in.w, y, SW_PLOT_GRID, 1);
            sw_plot_text(p, in.x - 6, y,
                         (struct sw_plot_font){SW_PLOT_RIGHT, .size = 11, .most = 48},
                         ticks.items[i].label);
        }
    }
}

static void draw_labels(struct sw_plot *p, struct sw_plot_box in, const struct sw_plot_scatter *s)
{
    int most = -1;

    for (int64_t i = 0; s->labels && i < s->count; i++)
        most = s->labels[i] > most ? s->labels[i] : most;

    for (int i = 0; i <= most && i < MOST_IN_LEGEND; i++) {
        char text[16];
        double y = in.y + 10 + i * 18;
        snprintf(text, sizeof text, "%d", i);
        sw_plot_dot(p, in.x + in.w + 16, y, 5, sw_plot_colour(i));
        sw_plot_text(p, in.x + in.w + 26, y, (struct sw_plot_font){SW_PLOT_LEFT, .size = TEXT},
                     text);
    }
}

void sw_plot_scatter(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_scatter *s)
{
    struct sw_plot_box in = {box.x + 54, box.y + TITLE_H,
                             box.w - 54 - (s->labels ? LEGEND_W : MARGIN), box.h - TITLE_H - 30};
    struct sw_ui_range across = range_of(s, 0), up = range_of(s, 1);

    draw_axis(p, in, 0, across);
    draw_axis(p, in, 1, up);

    double radius = s->count > 5000 ? 1.3 : s->count > 500 ? 2 : 3;
    for (int64_t i = 0; i < s->count; i++) {
        double x = (double)s->xy[2 * i], y = (double)s->xy[2 * i + 1];
        int label = s->labels ? s->labels[i] : 0;

        if (isfinite(x) && isfinite(y))
            sw_plot_dot(p, in.x + sw_ticks_fraction(across, false, x) * in.w,
                        in.y + (1 - sw_ticks_fraction(up, false, y)) * in.h, radius,
                        label < 0 ? SW_PLOT_GREY : sw_plot_colour(label));
    }

    sw_plot_frame(p, in, SW_PLOT_GREY, 1);
    draw_labels(p, in, s);
    draw_title(p, box, s->title);
}
