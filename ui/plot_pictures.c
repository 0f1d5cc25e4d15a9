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

/* ---- Contact sheets ---------------------------------------------------------------------------
 */

enum { SHEET_COLUMNS = 6, SHEET_W = 150, LINE_H = 15, GAP = 12, CAPTION = 11 };

static int sheet_columns(const struct sw_plot_sheet *s)
{
    const int count = s->tiles.count;
    return count < 1 ? 1 : count < SHEET_COLUMNS ? count : SHEET_COLUMNS;
}

/* The height of an image that is as wide as its tile; of upright ones as high. */
static struct sw_plot_size sheet_picture(const struct sw_plot_sheet *s)
{
    const double scale = (double)SHEET_W / (s->tiles.w > s->tiles.h ? s->tiles.w : s->tiles.h);
    return (struct sw_plot_size){scale * s->tiles.w, scale * s->tiles.h};
}

static struct sw_plot_size sheet_tile(const struct sw_plot_sheet *s)
{
    return (struct sw_plot_size){SHEET_W + GAP, sheet_picture(s).h + s->lines * LINE_H + GAP};
}

struct sw_plot_size sw_plot_sheet_size(const struct sw_plot_sheet *s)
{
    const int columns = sheet_columns(s), rows = (s->tiles.count + columns - 1) / columns;
    const struct sw_plot_size tile = sheet_tile(s);

    return (struct sw_plot_size){fmax(columns * tile.w, 2 * SHEET_W) + 2 * MARGIN,
                                 rows * tile.h + TITLE_H + MARGIN};
}

int sw_plot_sheet(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_sheet *s,
                  struct sw_err *err)
{
    const int columns = sheet_columns(s), w = s->tiles.w, h = s->tiles.h;
    const struct sw_plot_size tile = sheet_tile(s), picture = sheet_picture(s);
    uint8_t *rgb = sw_calloc((size_t)w * (size_t)h, 3);
    if (!rgb)
        return sw_err_nomem(err, "an image of a contact sheet", (size_t)w * (size_t)h * 3);

    for (int n = 0; n < s->tiles.count; n++) {
        const double x = box.x + MARGIN + n % columns * tile.w + GAP / 2.0;
        const double y = box.y + TITLE_H + n / columns * tile.h;

        paint_tile(&s->tiles, n, rgb, w);
        sw_plot_pixels(p,
                       (struct sw_plot_box){x + (SHEET_W - picture.w) / 2, y, picture.w, picture.h},
                       rgb, w, h);
        for (int line = 0; line < s->lines; line++)
            sw_plot_text(p, x + SHEET_W / 2.0, y + picture.h + (line + 0.6) * LINE_H,
                         (struct sw_plot_font){SW_PLOT_CENTRE, .size = CAPTION, .most = SHEET_W},
                         s->captions[n * s->lines + line]);
    }

    draw_title(p, box, s->tiles.title);
    sw_free(rgb);
    return SW_OK;
}

/* ---- Confusion --------------------------------------------------------------------------------
 */

enum { AXIS = 36, MANY_CLASSES = 30, LABEL = 11, WIDEST_NAME = 150, EVERY = 16 };

static int cell_of(const struct sw_plot_confusion *c)
{
    const int cell = c->classes <= 12 ? 48 : c->classes <= MANY_CLASSES ? 30 : 720 / c->classes;
    return cell < 2 ? 2 : cell;
}

static const char *class_name(const struct sw_plot_confusion *c, int i, char text[16])
{
    if (c->names)
        return c->names[i];
    snprintf(text, 16, "%d", i);
    return text;
}

/* The width of the widest class name. */
static double widest_name(const struct sw_plot_confusion *c)
{
    double widest = 0;

    for (int i = 0; i < c->classes; i++) {
        char text[16];
        widest = fmax(widest, sw_plot_text_width(LABEL, false, class_name(c, i, text)));
    }

    return fmin(widest, WIDEST_NAME);
}

/* Names below the matrix read upwards where they are wider than a cell. */
static bool names_go_up(const struct sw_plot_confusion *c)
{
    return c->names && widest_name(c) > cell_of(c);
}

static double left_of(const struct sw_plot_confusion *c)
{
    return AXIS + 8 + fmax(widest_name(c), 24);
}

static double bottom_of(const struct sw_plot_confusion *c)
{
    return AXIS + (names_go_up(c) ? widest_name(c) + 8 : 20);
}

struct sw_plot_size sw_plot_confusion_size(const struct sw_plot_confusion *c)
{
    const double side = fmax(cell_of(c) * (double)c->classes, 200);
    return (struct sw_plot_size){side + left_of(c) + MARGIN, side + TITLE_H + bottom_of(c)};
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
static void draw_class_names(struct sw_plot *p, struct sw_plot_box in,
                             const struct sw_plot_confusion *c)
{
    const double cell = in.w / c->classes;
    const int every = (int)ceil(EVERY / cell);
    const bool up = names_go_up(c);

    for (int i = 0; i < c->classes; i += every) {
        char text[16];
        const char *name = class_name(c, i, text);
        const double middle = (i + 0.5) * cell;

        sw_plot_text(p, in.x - 6, in.y + middle,
                     (struct sw_plot_font){SW_PLOT_RIGHT, .size = LABEL, .most = WIDEST_NAME},
                     name);
        sw_plot_text(p, in.x + middle, in.y + in.h + (up ? 8 : 12),
                     (struct sw_plot_font){up ? SW_PLOT_RIGHT : SW_PLOT_CENTRE, .size = LABEL,
                                           .up = up, .most = WIDEST_NAME},
                     name);
    }
}

void sw_plot_confusion(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_confusion *c)
{
    double side = fmin(box.w - left_of(c) - MARGIN, box.h - TITLE_H - bottom_of(c));

    side = fmax(side, 1); /* the box is too small */

    struct sw_plot_box in = {box.x + left_of(c), box.y + TITLE_H, side, side};
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
    draw_class_names(p, in, c);
    draw_title(p, box, c->title);
    sw_plot_text(p, in.x + side / 2, in.y + side + bottom_of(c) - 16,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .most = side},
                 "predicted class");
    sw_plot_text(p, box.x + 18, in.y + side / 2,
                 (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .up = true}, "true class");
}

/* ---- Scatter plots
 * -----------------------------------------------------------------------------------
 */

enum {
    LEGEND_W = 60,
    WIDEST_LEGEND = 180,
    LEGEND_ROW = 18,
    MOST_IN_LEGEND = 24,
    LABEL_COLUMNS = 8
};
enum { LINK = 0xcc3311 };

static struct sw_ui_range range_of(const struct sw_plot_scatter *s, int axis)
{
    double from = INFINITY, to = -INFINITY;

    for (int64_t i = 0; i < 2 * s->count; i++) {
        double v = (double)s->xy[i];
        if (isfinite(v) && (s->diagonal || i % 2 == axis)) {
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

static int most_label(const struct sw_plot_scatter *s)
{
    int most = -1;

    for (int64_t i = 0; s->labels && i < s->count; i++)
        most = s->labels[i] > most ? s->labels[i] : most;
    return most < MOST_IN_LEGEND ? most : MOST_IN_LEGEND - 1;
}

static const char *label_name(const struct sw_plot_scatter *s, int label, char number[16])
{
    if (label < s->name_count && s->names[label])
        return s->names[label];
    snprintf(number, 16, "%d", label);
    return number;
}

static double legend_width(const struct sw_plot_scatter *s)
{
    const int most = most_label(s);
    double widest = 0;

    for (int i = 0; i <= most; i++) {
        char number[16];
        widest = fmax(widest, sw_plot_text_width(TEXT, false, label_name(s, i, number)));
    }
    for (int i = 0; i < 2; i++)
        if (s->kinds[i])
            widest = fmax(widest, sw_plot_text_width(TEXT, false, s->kinds[i]));

    if (!s->labels && !s->kinds[0])
        return MARGIN;
    return fmin(fmax(widest + 32, LEGEND_W), WIDEST_LEGEND);
}

static void draw_point(struct sw_plot *p, double x, double y, double radius, bool square,
                       uint32_t colour)
{
    if (square)
        sw_plot_fill(p, (struct sw_plot_box){x - radius, y - radius, 2 * radius, 2 * radius},
                     colour);
    else
        sw_plot_dot(p, x, y, radius, colour);
}

static void draw_legend_row(struct sw_plot *p, struct sw_plot_box in, int row, bool square,
                            uint32_t colour, const char *text)
{
    const double y = in.y + 10 + row * LEGEND_ROW;

    draw_point(p, in.x + in.w + 16, y, 5, square, colour);
    sw_plot_text(p, in.x + in.w + 26, y,
                 (struct sw_plot_font){SW_PLOT_LEFT, .size = TEXT, .most = WIDEST_LEGEND - 32},
                 text);
}

static void draw_labels(struct sw_plot *p, struct sw_plot_box in, const struct sw_plot_scatter *s)
{
    const int most = most_label(s);
    int row = 0;

    for (int i = 0; i <= most; i++) {
        char number[16];
        draw_legend_row(p, in, row++, false, sw_plot_colour(i), label_name(s, i, number));
    }

    for (int i = 0; i < 2; i++)
        if (s->kinds[i])
            draw_legend_row(p, in, row++, i == 1, SW_PLOT_GREY, s->kinds[i]);
}

/* The places of points in a box. */
struct scatter_axes {
    struct sw_plot_box in;
    struct sw_ui_range across, up;
};

static void draw_points(struct sw_plot *p, const struct scatter_axes *a,
                        const struct sw_plot_scatter *s)
{
    const double radius = s->count > 5000 ? 1.3 : s->count > 500 ? 2 : 3;

    for (int64_t i = 0; i < s->count; i++) {
        const double x = (double)s->xy[2 * i], y = (double)s->xy[2 * i + 1];
        const int label = s->labels ? s->labels[i] : 0;

        if (isfinite(x) && isfinite(y))
            draw_point(p, a->in.x + sw_ticks_fraction(a->across, false, x) * a->in.w,
                       a->in.y + (1 - sw_ticks_fraction(a->up, false, y)) * a->in.h, radius,
                       i >= s->count - s->squares,
                       label < 0 ? SW_PLOT_GREY : sw_plot_colour(label));
    }
}

static void draw_links(struct sw_plot *p, const struct scatter_axes *a,
                       const struct sw_plot_scatter *s)
{
    for (int l = 0; l < s->link_count; l++) {
        double x[2], y[2];

        for (int i = 0; i < 2; i++) {
            const float *at = s->xy + 2 * s->links[l][i];

            x[i] = a->in.x + sw_ticks_fraction(a->across, false, (double)at[0]) * a->in.w;
            y[i] = a->in.y + (1 - sw_ticks_fraction(a->up, false, (double)at[1])) * a->in.h;
        }

        if (isfinite(x[0] + y[0] + x[1] + y[1]))
            sw_plot_line(p, x[0], y[0], x[1], y[1], LINK, 1);
    }
}

void sw_plot_scatter(struct sw_plot *p, struct sw_plot_box box, const struct sw_plot_scatter *s)
{
    const struct scatter_axes a = {
        .in = {box.x + 54, box.y + TITLE_H, box.w - 54 - legend_width(s), box.h - TITLE_H - 30},
        .across = range_of(s, 0),
        .up = range_of(s, 1)};

    draw_axis(p, a.in, 0, a.across);
    draw_axis(p, a.in, 1, a.up);
    if (s->diagonal)
        sw_plot_line(p, a.in.x, a.in.y + a.in.h, a.in.x + a.in.w, a.in.y, SW_PLOT_GREY, 1);

    draw_points(p, &a, s);
    draw_links(p, &a, s);
    sw_plot_frame(p, a.in, SW_PLOT_GREY, 1);
    draw_labels(p, a.in, s);
    draw_title(p, box, s->title);
}
