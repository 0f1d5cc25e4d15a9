/* Writes the marks of an image (plot_marks.h) as SVG 1.1. Images are BMP files in base64, the
 * simplest format that every viewer reads. */
#include "base/os.h"
#include "ui/plot_marks.h"
#include <string.h>

/* Appends the attributes " fill=..." or " fill="none" stroke=..." of a shape. */
static void add_paint(struct sw_bytes *out, const struct sw_plot_mark *m)
{
    if (m->width > 0)
        sw_bytes_printf(out, " fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.2f\"",
                        (unsigned)m->colour, m->width);
    else
        sw_bytes_printf(out, " fill=\"#%06x\"", (unsigned)m->colour);

    if (m->opacity < 1)
        sw_bytes_printf(out, " fill-opacity=\"%.2f\"", m->opacity);
    if (m->dashed)
        sw_bytes_add(out, " stroke-dasharray=\"6 4\"");
}

static void add_box(struct sw_bytes *out, const char *tag, struct sw_plot_box b)
{
    sw_bytes_printf(out, "<%s x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", tag, b.x, b.y,
                    b.w, b.h);
}

static void add_path(struct sw_bytes *out, const struct sw_plot_mark *m,
                     const struct sw_plot_point *point)
{
    sw_bytes_add(out, "<path d=\"");
    for (size_t i = 0; i < m->count; i++)
        sw_bytes_printf(out, "%c%.2f %.2f", point[i].moves ? 'M' : 'L', point[i].x, point[i].y);
    sw_bytes_printf(out, "%s\" stroke-linejoin=\"round\"", m->width > 0 ? "" : "Z");
    add_paint(out, m);
    sw_bytes_add(out, "/>\n");
}

static void add_text(struct sw_bytes *out, const struct sw_plot_mark *m, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};

    sw_bytes_printf(out, "<text transform=\"translate(%.2f %.2f)%s\" y=\"%.2f\"", m->box.x,
                    m->box.y, m->font.up ? " rotate(-90)" : "", 0.35 * m->font.size);
    sw_bytes_printf(out, " text-anchor=\"%s\" font-size=\"%.2f\"%s", anchors[m->font.align],
                    m->font.size, m->font.bold ? " font-weight=\"bold\"" : "");
    add_paint(out, m);
    sw_bytes_add(out, ">");

    for (size_t i = 0; i < m->count; i++) {
        if (text[i] == '&')
            sw_bytes_add(out, "&amp;");
        else if (text[i] == '<')
            sw_bytes_add(out, "&lt;");
        else if (text[i] == '>')
            sw_bytes_add(out, "&gt;");
        else
            sw_bytes_append(out, &text[i], 1);
    }

    sw_bytes_add(out, "</text>\n");
}

/* ---- Images ---- */

static void add_base64(struct sw_bytes *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        uint32_t b = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (i + 2 < n ? bytes[i + 2] : 0);
        char four[4] = {digits[b >> 18], digits[b >> 12 & 63], digits[b >> 6 & 63], digits[b & 63]};

        for (size_t k = n - i < 3 ? n - i + 1 : 4; k < 4; k++)
            four[k] = '=';
        sw_bytes_append(out, four, 4);
    }
}

static void put32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void add_image(struct sw_bytes *out, const struct sw_plot_mark *m, const uint8_t *rgb)
{
    enum { HEAD = 54 };

    size_t w = (size_t)m->w, h = (size_t)m->h;
    size_t stride = (w * 3 + 3) / 4 * 4, bytes = HEAD + stride * h;
    uint8_t *bmp = sw_calloc(1, bytes);
    if (!bmp) {
        out->failed = true;
        return;
    }

    memcpy(bmp, "BM", 2);
    put32(bmp + 2, (uint32_t)bytes);
    put32(bmp + 10, HEAD);
    put32(bmp + 14, HEAD - 14);
    put32(bmp + 18, (uint32_t)w);
    put32(bmp + 22, (uint32_t)h);
    put32(bmp + 26, 24u << 16 | 1);

    for (size_t y = 0; y < h; y++) /* the last row first, blue first */
        for (size_t x = 0; x < w; x++)
            for (size_t c = 0; c < 3; c++)
                bmp[HEAD + (h - 1 - y) * stride + 3 * x + c] = rgb[3 * (y * w + x) + 2 - c];

    add_box(out, "image", m->box);
    sw_bytes_add(out, " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
                      "href=\"data:image/bmp;base64,");
    add_base64(out, bmp, bytes);
    sw_bytes_add(out, "\"/>\n");
    sw_free(bmp);
}

/* ---- The file ---- */

static void add_mark(struct sw_bytes *out, const struct sw_plot_marks *list, size_t i)
{
    const struct sw_plot_mark *m = &list->mark[i];

    switch (m->kind) {
    case SW_PLOT_RECT:
        add_box(out, "rect", m->box);
        add_paint(out, m);
        sw_bytes_add(out, "/>\n");
        break;
    case SW_PLOT_CIRCLE:
        sw_bytes_printf(out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\"", m->box.x, m->box.y,
                        m->box.w);
        add_paint(out, m);
        sw_bytes_add(out, "/>\n");
        break;
    case SW_PLOT_PATH:
        add_path(out, m, list->point + m->first);
        break;
    case SW_PLOT_TEXT:
        add_text(out, m, (const char *)list->bytes + m->first);
        break;
    case SW_PLOT_IMAGE:
        add_image(out, m, list->bytes + m->first);
        break;
    case SW_PLOT_CLIP:
        sw_bytes_printf(out, "<clipPath id=\"c%zu\">", i);
        add_box(out, "rect", m->box);
        sw_bytes_printf(out, "/></clipPath><g clip-path=\"url(#c%zu)\">\n", i);
        break;
    case SW_PLOT_CLIP_END:
        sw_bytes_add(out, "</g>\n");
        break;
    }
}

void sw_plot_write_svg(const struct sw_plot_marks *list, struct sw_bytes *out)
{
    sw_bytes_printf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "font-family=\"sans-serif\">\n",
                    list->width, list->height);
    for (size_t i = 0; i < list->marks; i++)
        add_mark(out, list, i);
    sw_bytes_add(out, "</svg>\n");
}
