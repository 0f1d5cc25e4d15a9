#include "ui/plot.h"

#include "base/os.h"
#include "base/text.h"
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <string.h>

enum { SIDE_MAX = 16384 };

struct sw_plot {
    cairo_surface_t *surface; /* owned */
    cairo_t *cr;              /* owned */
    struct sw_buf bytes;      /* of the file */
    const char *path;         /* borrowed */
    enum sw_plot_format format;
    struct sw_plot_size size;
    bool pen_up;
};

static cairo_status_t take_bytes(void *user, const unsigned char *data, unsigned length)
{
    struct sw_buf *bytes = user;
    sw_buf_add_bytes(bytes, data, length);
    return bytes->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static int check(cairo_status_t status, struct sw_err *err)
{
    if (status == CAIRO_STATUS_SUCCESS)
        return SW_OK;
    if (status == CAIRO_STATUS_NO_MEMORY)
        return sw_err_nomem(err, "picture", 0);
    return sw_err_set(err, SW_ERR_LIBRARY, "cairo: %s", cairo_status_to_string(status));
}

int sw_plot_begin(struct sw_plot **out, const char *path, enum sw_plot_format format, int width,
                  int height, struct sw_err *err)
{
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return sw_err_set(err, SW_ERR_INVALID, "a picture of %d x %d: its sides are 1 to %d pixels",
                          width, height, SIDE_MAX);
    struct sw_plot *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "picture", sizeof *p);
    p->path = path;
    p->format = format;
    p->size = (struct sw_plot_size){width, height};
    p->surface = format == SW_PLOT_SVG
                     ? cairo_svg_surface_create_for_stream(take_bytes, &p->bytes, width, height)
                     : cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    p->cr = cairo_create(p->surface);
    int code = check(cairo_status(p->cr), err);
    if (code) {
        sw_plot_abandon(p);
        return code;
    }
    sw_plot_fill(p, (struct sw_plot_box){0, 0, width, height}, 0xffffff);
    *out = p;
    return SW_OK;
}

void sw_plot_abandon(struct sw_plot *p)
{
    if (!p)
        return;
    cairo_destroy(p->cr);
    cairo_surface_finish(p->surface);
    cairo_surface_destroy(p->surface);
    sw_buf_fini(&p->bytes);
    sw_free(p);
}

int sw_plot_end(struct sw_plot *p, struct sw_err *err)
{
    int code = check(cairo_status(p->cr), err);
    if (!code && p->format == SW_PLOT_PNG)
        code = check(cairo_surface_write_to_png_stream(p->surface, take_bytes, &p->bytes), err);
    if (!code) {
        cairo_surface_finish(p->surface);
        code = check(cairo_surface_status(p->surface), err);
    }
    if (!code)
        code = sw_os_replace_file(p->path, p->bytes.text, p->bytes.length, 0666, err);
    sw_plot_abandon(p);
    return code;
}

struct sw_plot_size sw_plot_size(const struct sw_plot *p)
{
    return p->size;
}

/* ---- Shapes -----------------------------------------------------------------------------------
 */

static void dip(struct sw_plot *p, uint32_t colour, double opacity)
{
    cairo_set_source_rgba(p->cr, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0,
                          (colour & 255) / 255.0, opacity);
}

void sw_plot_fill(struct sw_plot *p, struct sw_plot_box box, uint32_t colour)
{
    dip(p, colour, 1);
    cairo_rectangle(p->cr, box.x, box.y, box.w, box.h);
    cairo_fill(p->cr);
}

void sw_plot_frame(struct sw_plot *p, struct sw_plot_box box, uint32_t colour, double width)
{
    dip(p, colour, 1);
    cairo_set_line_width(p->cr, width);
    cairo_rectangle(p->cr, box.x, box.y, box.w, box.h);
    cairo_stroke(p->cr);
}

void sw_plot_line(struct sw_plot *p, double x0, double y0, double x1, double y1, uint32_t colour,
                  double width)
{
    dip(p, colour, 1);
    cairo_set_line_width(p->cr, width);
    cairo_move_to(p->cr, x0, y0);
    cairo_line_to(p->cr, x1, y1);
    cairo_stroke(p->cr);
}

void sw_plot_dot(struct sw_plot *p, double x, double y, double radius, uint32_t colour)
{
    dip(p, colour, 1);
    cairo_arc(p->cr, x, y, radius, 0, 2 * M_PI);
    cairo_fill(p->cr);
}

void sw_plot_path_begin(struct sw_plot *p)
{
    cairo_new_path(p->cr);
    p->pen_up = true;
}

void sw_plot_path_add(struct sw_plot *p, double x, double y)
{
    if (p->pen_up)
        cairo_move_to(p->cr, x, y);
    else
        cairo_line_to(p->cr, x, y);
    p->pen_up = false;
}

void sw_plot_path_break(struct sw_plot *p)
{
    p->pen_up = true;
}

void sw_plot_path_stroke(struct sw_plot *p, uint32_t colour, double width, bool dashed)
{
    static const double dashes[] = {6, 4};
    dip(p, colour, 1);
    cairo_set_line_width(p->cr, width);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(p->cr, dashes, dashed ? 2 : 0, 0);
    cairo_stroke(p->cr);
    cairo_set_dash(p->cr, dashes, 0, 0);
}

void sw_plot_path_fill(struct sw_plot *p, uint32_t colour, double opacity)
{
    dip(p, colour, opacity);
    cairo_close_path(p->cr);
    cairo_fill(p->cr);
}

void sw_plot_clip(struct sw_plot *p, struct sw_plot_box box)
{
    cairo_save(p->cr);
    cairo_rectangle(p->cr, box.x, box.y, box.w, box.h);
    cairo_clip(p->cr);
}

void sw_plot_clip_end(struct sw_plot *p)
{
    cairo_restore(p->cr);
}

/* ---- Text -------------------------------------------------------------------------------------
 */

static void set_font(struct sw_plot *p, double size, bool bold)
{
    cairo_select_font_face(p->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(p->cr, size);
}

static double width_of(struct sw_plot *p, const char *text)
{
    cairo_text_extents_t e;
    cairo_text_extents(p->cr, text, &e);
    return e.x_advance;
}

double sw_plot_text_width(struct sw_plot *p, double size, bool bold, const char *text)
{
    struct sw_buf clean = {0};
    sw_text_add(&clean, text);
    set_font(p, size, bold);
    double width = width_of(p, sw_buf_text(&clean));
    sw_buf_fini(&clean);
    return width;
}

/* Smaller letters first, then fewer of them. */
static void make_fit(struct sw_plot *p, struct sw_buf *text, double size, bool bold, double most)
{
    double width = width_of(p, sw_buf_text(text));
    if (most <= 0 || width <= most)
        return;
    double smaller = size * most / width;
    set_font(p, smaller > size / 2 ? smaller : size / 2, bold);
    while (text->length > 1 && width_of(p, sw_buf_text(text)) > most) {
        do
            text->length--;
        while (text->length > 1 && ((unsigned char)text->text[text->length] & 0xc0) == 0x80);
        text->text[text->length] = 0;
    }
}

void sw_plot_text(struct sw_plot *p, double x, double y, enum sw_plot_align align, double size,
                  bool bold, double most, uint32_t colour, const char *text)
{
    struct sw_buf clean = {0};
    cairo_font_extents_t font;
    sw_text_add(&clean, text);
    set_font(p, size, bold);
    make_fit(p, &clean, size, bold, most);
    cairo_font_extents(p->cr, &font);
    double width = width_of(p, sw_buf_text(&clean));
    x -= align == SW_PLOT_LEFT ? 0 : align == SW_PLOT_CENTRE ? width / 2 : width;
    dip(p, colour, 1);
    cairo_move_to(p->cr, x, y + (font.ascent - font.descent) / 2);
    cairo_show_text(p->cr, sw_buf_text(&clean));
    cairo_new_path(p->cr);
    sw_buf_fini(&clean);
}

void sw_plot_text_up(struct sw_plot *p, double x, double y, double size, uint32_t colour,
                     const char *text)
{
    cairo_save(p->cr);
    cairo_translate(p->cr, x, y);
    cairo_rotate(p->cr, -M_PI / 2);
    sw_plot_text(p, 0, 0, SW_PLOT_CENTRE, size, false, 0, colour, text);
    cairo_restore(p->cr);
}

/* ---- Pixels -----------------------------------------------------------------------------------
 */

int sw_plot_pixels(struct sw_plot *p, struct sw_plot_box box, const uint8_t *rgb, int w, int h,
                   struct sw_err *err)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, w, h);
    int code = check(cairo_surface_status(image), err);
    if (code)
        goto done;
    unsigned char *data = cairo_image_surface_get_data(image);
    int stride = cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const uint8_t *from = rgb + 3 * ((size_t)y * (size_t)w + (size_t)x);
            uint32_t pixel = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
            memcpy(data + (size_t)y * (size_t)stride + 4 * (size_t)x, &pixel, sizeof pixel);
        }
    cairo_surface_mark_dirty(image);
    cairo_save(p->cr);
    cairo_translate(p->cr, box.x, box.y);
    cairo_scale(p->cr, box.w / w, box.h / h);
    cairo_set_source_surface(p->cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(p->cr), CAIRO_FILTER_NEAREST);
    cairo_rectangle(p->cr, 0, 0, w, h);
    cairo_fill(p->cr);
    cairo_restore(p->cr);
done:
    cairo_surface_destroy(image);
    return code;
}
