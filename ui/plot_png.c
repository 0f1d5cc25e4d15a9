/* Renders the marks of an image (plot_marks.h) as PNG with cairo. */
#include "base/os.h"
#include "ui/plot_marks.h"
#include <cairo.h>
#include <math.h>
#include <string.h>

static int check(cairo_status_t status, struct sw_err *err)
{
    if (status == CAIRO_STATUS_SUCCESS)
        return SW_OK;
    if (status == CAIRO_STATUS_NO_MEMORY)
        return sw_err_nomem(err, "image", 0);

    return sw_err_set(err, SW_ERR_LIBRARY, "cairo: %s", cairo_status_to_string(status));
}

int sw_plot_check_png(const char *path, struct sw_err *err)
{
    return SW_OK;
}

static void paint_shape(cairo_t *cr, const struct sw_plot_mark *m)
{
    static const double dashes[] = {6, 4};

    if (m->width > 0) {
        cairo_set_line_width(cr, m->width);
        cairo_set_line_join(cr, m->kind == SW_PLOT_PATH ? CAIRO_LINE_JOIN_ROUND
                                                        : CAIRO_LINE_JOIN_MITER);
        cairo_set_dash(cr, dashes, m->dashed ? 2 : 0, 0);
        cairo_stroke(cr);
    } else {
        cairo_close_path(cr);
        cairo_fill(cr);
    }
}

static void trace_path(cairo_t *cr, const struct sw_plot_point *point, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (point[i].moves)
            cairo_move_to(cr, point[i].x, point[i].y);
        else
            cairo_line_to(cr, point[i].x, point[i].y);
}

/* The width of letters was estimated in the layout; a line that is wider in this font is
 * condensed. */
static void paint_text(cairo_t *cr, const struct sw_plot_mark *m, const char *text)
{
    cairo_text_extents_t extents;
    cairo_font_extents_t font;

    cairo_save(cr);
    cairo_translate(cr, m->box.x, m->box.y);
    if (m->font.up)
        cairo_rotate(cr, -M_PI / 2);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           m->font.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, m->font.size);
    cairo_font_extents(cr, &font);
    cairo_text_extents(cr, text, &extents);

    const double estimate = sw_plot_text_width(m->font.size, m->font.bold, text);
    if (extents.x_advance > estimate)
        cairo_scale(cr, estimate / extents.x_advance, 1);

    const double part = m->font.align == SW_PLOT_LEFT     ? 0
                        : m->font.align == SW_PLOT_CENTRE ? 0.5
                                                          : 1;
    cairo_move_to(cr, -part * extents.x_advance, (font.ascent - font.descent) / 2);
    cairo_show_text(cr, text);
    cairo_new_path(cr);
    cairo_restore(cr);
}

static int paint_image(cairo_t *cr, const struct sw_plot_mark *m, const uint8_t *rgb,
                       struct sw_err *err)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, m->w, m->h);

    int rc = check(cairo_surface_status(image), err);
    if (rc != SW_OK) {
        cairo_surface_destroy(image);
        return rc;
    }

    unsigned char *data = cairo_image_surface_get_data(image);
    const size_t stride = (size_t)cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);

    for (size_t y = 0; y < (size_t)m->h; y++)
        for (size_t x = 0; x < (size_t)m->w; x++, rgb += 3) {
            uint32_t pixel = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
            memcpy(data + y * stride + 4 * x, &pixel, sizeof pixel);
        }

    cairo_surface_mark_dirty(image);

    cairo_save(cr);
    cairo_translate(cr, m->box.x, m->box.y);
    cairo_scale(cr, m->box.w / m->w, m->box.h / m->h);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_rectangle(cr, 0, 0, m->w, m->h);
    cairo_fill(cr);
    cairo_restore(cr);
    cairo_surface_destroy(image);

    return SW_OK;
}

static int paint_mark(cairo_t *cr, const struct sw_plot_marks *list, const struct sw_plot_mark *m,
                      struct sw_err *err)
{
    const struct sw_plot_box b = m->box;

    cairo_set_source_rgba(cr, (m->colour >> 16 & 255) / 255.0, (m->colour >> 8 & 255) / 255.0,
                          (m->colour & 255) / 255.0, m->opacity);
    cairo_new_path(cr);

    switch (m->kind) {
    case SW_PLOT_RECT:
        cairo_rectangle(cr, b.x, b.y, b.w, b.h);
        paint_shape(cr, m);
        break;
    case SW_PLOT_CIRCLE:
        cairo_arc(cr, b.x, b.y, b.w, 0, 2 * M_PI);
        paint_shape(cr, m);
        break;
    case SW_PLOT_PATH:
        trace_path(cr, list->point + m->first, m->count);
        paint_shape(cr, m);
        break;
    case SW_PLOT_TEXT: {
        struct sw_bytes text = {0};
        sw_bytes_append(&text, list->bytes + m->first, m->count);
        paint_text(cr, m, sw_bytes_text(&text));
        sw_bytes_fini(&text);
        break;
    }
    case SW_PLOT_IMAGE:
        return paint_image(cr, m, list->bytes + m->first, err);
    case SW_PLOT_CLIP:
        cairo_save(cr);
        cairo_rectangle(cr, b.x, b.y, b.w, b.h);
        cairo_clip(cr);
        break;
    case SW_PLOT_CLIP_END:
        cairo_restore(cr);
        break;
    }

    return SW_OK;
}

static cairo_status_t take_bytes(void *user, const unsigned char *data, unsigned length)
{
    struct sw_bytes *out = user;
    sw_bytes_append(out, data, length);
    return out->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

int sw_plot_write_png(const struct sw_plot_marks *list, struct sw_bytes *out, struct sw_err *err)
{
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, list->width, list->height);
    cairo_t *cr = cairo_create(surface);

    int rc = check(cairo_status(cr), err);
    if (rc != SW_OK)
        goto out;

    for (size_t i = 0; i < list->marks; i++) {
        rc = paint_mark(cr, list, &list->mark[i], err);
        if (rc != SW_OK)
            goto out;
    }

    rc = check(cairo_status(cr), err);
    if (rc != SW_OK)
        goto out;

    rc = check(cairo_surface_write_to_png_stream(surface, take_bytes, out), err);

out:
    cairo_destroy(cr);
    cairo_surface_destroy(surface);

    return rc;
}
