/* Images as files: appends marks to a list, lays out texts, and writes the file at the end.
 * plot_marks.h describes the list; reading order: sw_plot_begin, the marks, sw_plot_end. */
#include "ui/plot.h"

#include "base/os.h"
#include "base/text.h"
#include "ui/plot_marks.h"
#include <math.h>

enum { SIDE_MAX = 16384 };

struct sw_plot {
    struct sw_bytes marks;  /* struct sw_plot_mark */
    struct sw_bytes points; /* struct sw_plot_point */
    struct sw_bytes bytes;  /* of texts and images */
    size_t path;            /* the first point of the path that is being drawn */
    bool pen_up;
    const char *file; /* borrowed */
    enum sw_plot_format format;
    int width, height;
};

int sw_plot_begin(struct sw_plot **out, const char *path, enum sw_plot_format format, int width,
                  int height, struct sw_err *err)
{
    int rc = format == SW_PLOT_PNG ? sw_plot_check_png(path, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "cannot draw an image of %d x %d pixels: each side must be 1 to %d",
                          width, height, SIDE_MAX);

    struct sw_plot *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "image", sizeof *p);

    p->file = path;
    p->format = format;
    p->width = width;
    p->height = height;
    sw_plot_fill(p, (struct sw_plot_box){0, 0, width, height}, 0xffffff);
    *out = p;

    return SW_OK;
}

void sw_plot_abandon(struct sw_plot *p)
{
    if (!p)
        return;

    sw_bytes_fini(&p->marks);
    sw_bytes_fini(&p->points);
    sw_bytes_fini(&p->bytes);
    sw_free(p);
}

static int write_file(const struct sw_plot *p, struct sw_bytes *file, struct sw_err *err)
{
    const struct sw_plot_marks list = {.mark = (const void *)p->marks.text,
                                       .point = (const void *)p->points.text,
                                       .bytes = (const void *)p->bytes.text,
                                       .marks = p->marks.length / sizeof(struct sw_plot_mark),
                                       .width = p->width,
                                       .height = p->height};
    int rc = SW_OK;

    if (p->marks.failed || p->points.failed || p->bytes.failed)
        return sw_err_nomem(err, "image", p->marks.length);

    if (p->format == SW_PLOT_PNG)
        rc = sw_plot_write_png(&list, file, err);
    else
        sw_plot_write_svg(&list, file);

    if (rc != SW_OK)
        return rc;
    if (file->failed)
        return sw_err_nomem(err, "image", file->length);

    return sw_os_replace_file(p->file, file->text, file->length, 0666, err);
}

int sw_plot_end(struct sw_plot *p, struct sw_err *err)
{
    struct sw_bytes file = {0};
    int rc = write_file(p, &file, err);

    sw_bytes_fini(&file);
    sw_plot_abandon(p);
    return rc;
}

struct sw_plot_size sw_plot_size(const struct sw_plot *p)
{
    return (struct sw_plot_size){p->width, p->height};
}

/* ---- Shapes ---- */

static void add(struct sw_plot *p, struct sw_plot_mark mark)
{
    if (mark.opacity == 0)
        mark.opacity = 1;
    sw_bytes_append(&p->marks, &mark, sizeof mark);
}

void sw_plot_fill(struct sw_plot *p, struct sw_plot_box box, uint32_t colour)
{
    add(p, (struct sw_plot_mark){.kind = SW_PLOT_RECT, .box = box, .colour = colour});
}

void sw_plot_frame(struct sw_plot *p, struct sw_plot_box box, uint32_t colour, double width)
{
    add(p,
        (struct sw_plot_mark){.kind = SW_PLOT_RECT, .box = box, .colour = colour, .width = width});
}

void sw_plot_dot(struct sw_plot *p, double x, double y, double radius, uint32_t colour)
{
    add(p, (struct sw_plot_mark){
               .kind = SW_PLOT_CIRCLE, .box = {.x = x, .y = y, .w = radius}, .colour = colour});
}

void sw_plot_path_begin(struct sw_plot *p)
{
    p->path = p->points.length / sizeof(struct sw_plot_point);
    p->pen_up = true;
}

void sw_plot_path_add(struct sw_plot *p, double x, double y)
{
    const struct sw_plot_point point = {x, y, p->pen_up};
    sw_bytes_append(&p->points, &point, sizeof point);
    p->pen_up = false;
}

void sw_plot_path_break(struct sw_plot *p)
{
    p->pen_up = true;
}

static void add_path(struct sw_plot *p, struct sw_plot_mark mark)
{
    mark.kind = SW_PLOT_PATH;
    mark.first = p->path;
    mark.count = p->points.length / sizeof(struct sw_plot_point) - p->path;
    add(p, mark);
    sw_plot_path_begin(p);
}

void sw_plot_path_stroke(struct sw_plot *p, uint32_t colour, double width, bool dashed)
{
    add_path(p, (struct sw_plot_mark){.colour = colour, .width = width, .dashed = dashed});
}

void sw_plot_path_fill(struct sw_plot *p, uint32_t colour, double opacity)
{
    add_path(p, (struct sw_plot_mark){.colour = colour, .opacity = opacity});
}

void sw_plot_line(struct sw_plot *p, double x0, double y0, double x1, double y1, uint32_t colour,
                  double width)
{
    sw_plot_path_begin(p);
    sw_plot_path_add(p, x0, y0);
    sw_plot_path_add(p, x1, y1);
    sw_plot_path_stroke(p, colour, width, false);
}

void sw_plot_clip(struct sw_plot *p, struct sw_plot_box box)
{
    add(p, (struct sw_plot_mark){.kind = SW_PLOT_CLIP, .box = box});
}

void sw_plot_clip_end(struct sw_plot *p)
{
    add(p, (struct sw_plot_mark){.kind = SW_PLOT_CLIP_END});
}

/* ---- Text ---- */

/* The average width of a letter; the font of the viewer is unknown. */
static double letter_width(double size, bool bold)
{
    return size * (bold ? 0.63 : 0.56);
}

double sw_plot_text_width(double size, bool bold, const char *text)
{
    return letter_width(size, bold) * sw_text_columns(text);
}

/* The bytes of the first `most` characters. */
static size_t bytes_of(const struct sw_bytes *text, int most)
{
    const char *at = sw_bytes_text(text);
    for (size_t left = text->length; left > 0 && most > 0; most--)
        sw_utf8_next(&at, &left);
    return (size_t)(at - sw_bytes_text(text));
}

/* Adds a text; one that is too wide gets smaller letters first and is then truncated. */
void sw_plot_text(struct sw_plot *p, double x, double y, struct sw_plot_font font, const char *text)
{
    struct sw_bytes clean = {0};

    sw_text_add(&clean, text);
    size_t count = clean.length;

    double width = sw_plot_text_width(font.size, font.bold, text);
    if (font.most > 0 && width > font.most) {
        font.size *= fmax(font.most / width, 0.5);
        count = bytes_of(&clean, (int)(font.most / letter_width(font.size, font.bold)));
    }

    add(p, (struct sw_plot_mark){.kind = SW_PLOT_TEXT,
                                 .box = {.x = x, .y = y},
                                 .colour = font.colour ? font.colour : SW_PLOT_INK,
                                 .font = font,
                                 .first = p->bytes.length,
                                 .count = count});
    sw_bytes_append(&p->bytes, sw_bytes_text(&clean), count);
    sw_bytes_fini(&clean);
}

/* ---- Pixels ---- */

void sw_plot_pixels(struct sw_plot *p, struct sw_plot_box box, const uint8_t *rgb, int w, int h)
{
    const size_t count = 3 * (size_t)w * (size_t)h;

    add(p, (struct sw_plot_mark){.kind = SW_PLOT_IMAGE,
                                 .box = box,
                                 .w = w,
                                 .h = h,
                                 .first = p->bytes.length,
                                 .count = count});
    sw_bytes_append(&p->bytes, rgb, count);
}
