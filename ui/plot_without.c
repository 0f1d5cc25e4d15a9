/* The pen of plot.h in a build without cairo: SVG is text, which needs no library; PNG is refused.
 * Widths of letters are guesses, so long texts are cut a little early or late. */
#include "ui/plot.h"

#include "base/os.h"
#include "base/text.h"
#include <string.h>

enum { SIDE_MAX = 16384 };

struct sw_plot {
    struct sw_buf out;
    struct sw_buf path; /* the line being drawn, as SVG says it */
    const char *file;   /* borrowed */
    struct sw_plot_size size;
    bool pen_up;
    int clips;
};

int sw_plot_begin(struct sw_plot **out, const char *path, enum sw_plot_format format, int width,
                  int height, struct sw_err *err)
{
    if (format == SW_PLOT_PNG)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: this program was built without cairo (Debian: libcairo2-dev) and "
                          "draws SVG only",
                          path);
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return sw_err_set(err, SW_ERR_INVALID, "a picture of %d x %d: its sides are 1 to %d pixels",
                          width, height, SIDE_MAX);
    struct sw_plot *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "picture", sizeof *p);
    p->file = path;
    p->size = (struct sw_plot_size){width, height};
    sw_buf_printf(&p->out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "font-family=\"sans-serif\">\n",
                  width, height);
    sw_plot_fill(p, (struct sw_plot_box){0, 0, width, height}, 0xffffff);
    *out = p;
    return SW_OK;
}

void sw_plot_abandon(struct sw_plot *p)
{
    if (!p)
        return;
    sw_buf_fini(&p->out);
    sw_buf_fini(&p->path);
    sw_free(p);
}

int sw_plot_end(struct sw_plot *p, struct sw_err *err)
{
    sw_buf_add(&p->out, "</svg>\n");
    int code = p->out.failed || p->path.failed
                   ? sw_err_nomem(err, "picture", p->out.length)
                   : sw_os_replace_file(p->file, p->out.text, p->out.length, 0666, err);
    sw_plot_abandon(p);
    return code;
}

struct sw_plot_size sw_plot_size(const struct sw_plot *p)
{
    return p->size;
}

/* ---- Shapes -----------------------------------------------------------------------------------
 */

void sw_plot_fill(struct sw_plot *p, struct sw_plot_box b, uint32_t colour)
{
    sw_buf_printf(&p->out,
                  "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"#%06x\"/>\n",
                  b.x, b.y, b.w, b.h, (unsigned)colour);
}

void sw_plot_frame(struct sw_plot *p, struct sw_plot_box b, uint32_t colour, double width)
{
    sw_buf_printf(&p->out,
                  "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" "
                  "stroke=\"#%06x\" stroke-width=\"%.2f\"/>\n",
                  b.x, b.y, b.w, b.h, (unsigned)colour, width);
}

void sw_plot_line(struct sw_plot *p, double x0, double y0, double x1, double y1, uint32_t colour,
                  double width)
{
    sw_buf_printf(&p->out,
                  "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#%06x\" "
                  "stroke-width=\"%.2f\"/>\n",
                  x0, y0, x1, y1, (unsigned)colour, width);
}

void sw_plot_dot(struct sw_plot *p, double x, double y, double radius, uint32_t colour)
{
    sw_buf_printf(&p->out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"#%06x\"/>\n", x, y,
                  radius, (unsigned)colour);
}

void sw_plot_path_begin(struct sw_plot *p)
{
    sw_buf_clear(&p->path);
    p->pen_up = true;
}

void sw_plot_path_add(struct sw_plot *p, double x, double y)
{
    sw_buf_printf(&p->path, "%c%.2f %.2f", p->pen_up ? 'M' : 'L', x, y);
    p->pen_up = false;
}

void sw_plot_path_break(struct sw_plot *p)
{
    p->pen_up = true;
}

void sw_plot_path_stroke(struct sw_plot *p, uint32_t colour, double width, bool dashed)
{
    sw_buf_printf(&p->out,
                  "<path d=\"%s\" fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.2f\" "
                  "stroke-linejoin=\"round\"%s/>\n",
                  sw_buf_text(&p->path), (unsigned)colour, width,
                  dashed ? " stroke-dasharray=\"6 4\"" : "");
}

void sw_plot_path_fill(struct sw_plot *p, uint32_t colour, double opacity)
{
    sw_buf_printf(&p->out, "<path d=\"%sZ\" fill=\"#%06x\" fill-opacity=\"%.2f\"/>\n",
                  sw_buf_text(&p->path), (unsigned)colour, opacity);
}

void sw_plot_clip(struct sw_plot *p, struct sw_plot_box b)
{
    p->clips++;
    sw_buf_printf(&p->out,
                  "<clipPath id=\"c%d\"><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                  "height=\"%.2f\"/></clipPath><g clip-path=\"url(#c%d)\">\n",
                  p->clips, b.x, b.y, b.w, b.h, p->clips);
}

void sw_plot_clip_end(struct sw_plot *p)
{
    sw_buf_add(&p->out, "</g>\n");
}

/* ---- Text -------------------------------------------------------------------------------------
 */

static double letter_width(double size, bool bold)
{
    return size * (bold ? 0.63 : 0.56);
}

/* `most` characters at most; negative: all. */
static void add_escaped(struct sw_buf *out, const char *text, int most)
{
    struct sw_buf plain = {0};
    sw_text_add(&plain, text);
    const char *at = sw_buf_text(&plain);
    for (size_t left = plain.length; left && most; most--) {
        const char *from = at;
        uint32_t rune = sw_utf8_next(&at, &left);
        if (rune == '&')
            sw_buf_add(out, "&amp;");
        else if (rune == '<')
            sw_buf_add(out, "&lt;");
        else if (rune == '>')
            sw_buf_add(out, "&gt;");
        else
            sw_buf_add_bytes(out, from, (size_t)(at - from));
    }
    sw_buf_fini(&plain);
}

double sw_plot_text_width(struct sw_plot *p, double size, bool bold, const char *text)
{
    (void)p;
    return letter_width(size, bold) * sw_text_columns(text);
}

void sw_plot_text(struct sw_plot *p, double x, double y, enum sw_plot_align align, double size,
                  bool bold, double most, uint32_t colour, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    double width = sw_plot_text_width(p, size, bold, text);
    int letters = -1;
    if (most > 0 && width > most) {
        size *= most / width < 0.5 ? 0.5 : most / width;
        letters = (int)(most / letter_width(size, bold));
    }
    sw_buf_printf(&p->out,
                  "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" font-size=\"%.2f\"%s "
                  "fill=\"#%06x\">",
                  x, y + 0.35 * size, anchors[align], size, bold ? " font-weight=\"bold\"" : "",
                  (unsigned)colour);
    add_escaped(&p->out, text, letters);
    sw_buf_add(&p->out, "</text>\n");
}

void sw_plot_text_up(struct sw_plot *p, double x, double y, double size, uint32_t colour,
                     const char *text)
{
    sw_buf_printf(&p->out, "<g transform=\"translate(%.2f %.2f) rotate(-90)\">", x, y);
    sw_plot_text(p, 0, 0, SW_PLOT_CENTRE, size, false, 0, colour, text);
    sw_buf_add(&p->out, "</g>\n");
}

/* ---- Pixels: a BMP within, in base64 ----------------------------------------------------------
 */

static void add_base64(struct sw_buf *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t b = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (i + 2 < n ? bytes[i + 2] : 0);
        char four[4] = {digits[b >> 18], digits[b >> 12 & 63], digits[b >> 6 & 63], digits[b & 63]};
        for (size_t k = n - i < 3 ? n - i + 1 : 4; k < 4; k++)
            four[k] = '=';
        sw_buf_add_bytes(out, four, 4);
    }
}

static void put32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

int sw_plot_pixels(struct sw_plot *p, struct sw_plot_box b, const uint8_t *rgb, int w, int h,
                   struct sw_err *err)
{
    enum { HEAD = 54 };
    size_t stride = ((size_t)w * 3 + 3) / 4 * 4, bytes = HEAD + stride * (size_t)h;
    uint8_t *bmp = sw_calloc(1, bytes);
    if (!bmp)
        return sw_err_nomem(err, "pixels of a picture", bytes);
    memcpy(bmp, "BM", 2);
    put32(bmp + 2, (uint32_t)bytes);
    put32(bmp + 10, HEAD);
    put32(bmp + 14, HEAD - 14);
    put32(bmp + 18, (uint32_t)w);
    put32(bmp + 22, (uint32_t)h);
    put32(bmp + 26, 24u << 16 | 1);
    for (int y = 0; y < h; y++) /* from below, blue first */
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++)
                bmp[HEAD + (size_t)(h - 1 - y) * stride + 3 * (size_t)x + (size_t)c] =
                    rgb[3 * ((size_t)y * (size_t)w + (size_t)x) + 2 - (size_t)c];
    sw_buf_printf(&p->out,
                  "<image x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                  "preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
                  "href=\"data:image/bmp;base64,",
                  b.x, b.y, b.w, b.h);
    add_base64(&p->out, bmp, bytes);
    sw_buf_add(&p->out, "\"/>\n");
    sw_free(bmp);
    return SW_OK;
}
