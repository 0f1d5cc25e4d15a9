/* Charts and images of arbitrary numbers, sizes and texts: drawing ends and does not write outside
 * its area. Input: a byte that selects the drawing (draw[] below), a byte of switches, then the
 * sizes, numbers and texts that take_* read; missing input is 0. */
#include "base/os.h"
#include "ui/chart.h"
#include "ui/plot_boxes.h"
#include "ui/plot_chart.h"
#include "ui/plot_pictures.h"
#include "ui/trail.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { POINTS = 48, LINES = 3, TEXT = 40, TILES = 512, CLASSES = 6, BOXES = 24 };
enum { UTF8 = 1, LOG_Y = 2, FIT = 4, PNG = 8, SMOOTH = 16, COLOURS = 32 };

struct input {
    const uint8_t *at, *end;
    unsigned switches;
};

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* ---- reading the input ---- */

static int take_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static double take_bits(struct input *in)
{
    double v;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | (uint64_t)take_byte(in);
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Small numbers, special values, neighbors of 1, and arbitrary bits. */
static double take_number(struct input *in)
{
    static const double odd[] = {
        0.0, -0.0, 1.0, DBL_MAX, -DBL_MAX, DBL_MIN,  5e-324, INFINITY,           -INFINITY,
        NAN, 1e15, 0.1, 1e308,   -1e308,   0x1.8p53, 1e-10,  9007199254740993.0, 2147483648.0};
    const int kind = take_byte(in);
    if (kind < 100)
        return kind - 50;
    if (kind < 160)
        return odd[kind % (int)(sizeof odd / sizeof *odd)];
    if (kind < 200)
        return 1.0 + (kind - 180) * DBL_EPSILON;
    return kind < 230 ? (kind - 215) * 1e-3 : take_bits(in);
}

static void take_text(struct input *in, char out[TEXT])
{
    size_t n = (size_t)take_byte(in) % TEXT;
    n = n < (size_t)(in->end - in->at) ? n : (size_t)(in->end - in->at);
    memcpy(out, in->at, n);
    out[n] = '\0';
    in->at += n;
}

/* Lines of points in order of x, and the chart around them. */
struct drawing {
    struct sw_point points[LINES][POINTS], smooth[POINTS];
    struct sw_chart_line lines[LINES];
    struct sw_chart_mark marks[2];
    struct sw_chart chart;
};

static void take_line(struct input *in, struct sw_point *points, struct sw_chart_line *line)
{
    double x = take_number(in);
    *line = (struct sw_chart_line){.points = points,
                                   .count = (size_t)take_byte(in) % (POINTS + 1),
                                   .role = SW_ROLE_LINE1,
                                   .stroke = (enum sw_stroke)(take_byte(in) % 4)};
    for (size_t i = 0; i < line->count; i++) {
        const double step = fabs(take_number(in)), y = take_number(in);
        x = isfinite(x) && x + step >= x ? x + step : x;
        points[i] = (struct sw_point){x, y, y, y};
        if (line->stroke == SW_STROKE_BAND)
            points[i].hi = take_number(in);
    }
}

static void take_chart(struct input *in, struct drawing *d)
{
    for (int i = 0; i < LINES; i++)
        take_line(in, d->points[i], &d->lines[i]);
    for (int i = 0; i < 2; i++)
        d->marks[i] =
            (struct sw_chart_mark){take_number(in), (uint32_t)take_byte(in) * 97, SW_ROLE_WARN};
    d->chart = (struct sw_chart){.lines = d->lines,
                                 .line_count = LINES,
                                 .marks = d->marks,
                                 .mark_count = 2,
                                 .x_from = take_number(in),
                                 .x_to = take_number(in),
                                 .y_from = take_number(in),
                                 .y_to = take_number(in),
                                 .log_y = in->switches & LOG_Y,
                                 .cursor = take_number(in)};
    if (in->switches & SMOOTH) {
        sw_chart_smooth(d->points[0], d->lines[0].count, take_byte(in) / 256.0, d->smooth);
        d->lines[0].points = d->smooth;
    }
    if (in->switches & FIT)
        sw_chart_fit(&d->chart);
}

/* ---- cells ---- */

static bool is_in(struct sw_area r, int x, int y)
{
    return x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h;
}

static void draw_cells(struct input *in)
{
    const struct sw_ui_caps caps = {.utf8 = in->switches & UTF8, .colours = 8};
    struct sw_canvas c = {0}, blank = {0};
    struct sw_err err;
    const int w = take_byte(in), h = take_byte(in) / 4;
    const struct sw_area r = {take_byte(in) - 64, take_byte(in) - 64, take_byte(in) - 8,
                              take_byte(in) / 2 - 8};
    struct drawing d;
    take_chart(in, &d);
    if (sw_canvas_begin(&c, w, h, caps, &err) == SW_OK &&
        sw_canvas_begin(&blank, w, h, caps, &err) == SW_OK) {
        sw_chart_draw(&c, r, &d.chart);
        for (int i = 0; i < w * h; i++)
            demand(is_in(r, i % w, i / w) || c.cells[i].rune == blank.cells[i].rune);
    }
    sw_canvas_fini(&c);
    sw_canvas_fini(&blank);
}

/* The points of a downsampled curve stay in order for any input. */
static void draw_trail(struct input *in)
{
    struct sw_trail t;
    struct sw_err err;
    double x = -100;
    if (sw_trail_init(&t, 2 + 2 * ((size_t)take_byte(in) % 8), &err) != SW_OK)
        return;
    while (in->at < in->end)
        sw_trail_add(&t, x += 1 + take_byte(in), take_number(in));
    for (size_t i = 1; i < t.count; i++)
        demand(t.points[i].x > t.points[i - 1].x);
    sw_trail_near(&t, take_number(in));
    sw_trail_fini(&t);
}

/* ---- image files ---- */

/* Begins an image; NULL if the size is invalid. No file is written. */
static struct sw_plot *take_paper(struct input *in)
{
    struct sw_plot *p = NULL;
    struct sw_err err = {0};
    const int w = take_byte(in) * 4, h = take_byte(in) * 4;
    if (sw_plot_begin(&p, "nowhere", in->switches & PNG ? SW_PLOT_PNG : SW_PLOT_SVG, w, h, &err) !=
        SW_OK) {
        demand(err.text[0] && !p);
        return NULL;
    }
    return p;
}

static struct sw_plot_box take_box(struct input *in)
{
    return (struct sw_plot_box){take_byte(in) - 30, take_byte(in) - 30, take_byte(in) * 4 - 30,
                                take_byte(in) * 4 - 30};
}

static void plot_chart(struct input *in, struct sw_plot *p)
{
    const struct sw_plot_box box = take_box(in);
    char text[3 + LINES][TEXT];
    const char *names[LINES];
    int colours[LINES];
    struct drawing d;
    for (int i = 0; i < 3 + LINES; i++)
        take_text(in, text[i]);
    for (int i = 0; i < LINES; i++) {
        names[i] = text[3 + i][0] ? text[3 + i] : NULL;
        colours[i] = take_byte(in);
    }
    take_chart(in, &d);
    const struct sw_plot_labels labels = {text[0], text[1], text[2], names, colours};
    sw_plot_chart(p, box, &d.chart, &labels);
}

static void plot_tiles(struct input *in, struct sw_plot *p)
{
    static float values[TILES];
    const struct sw_plot_box box = take_box(in);
    char title[TEXT];
    take_text(in, title);
    struct sw_plot_tiles t = {.values = values,
                              .channels = in->switches & COLOURS ? 3 : 1,
                              .h = 1 + take_byte(in) % 8,
                              .w = 1 + take_byte(in) % 8,
                              .title = title};
    t.count = take_byte(in) % (TILES / (t.h * t.w * t.channels) + 1);
    for (int i = 0; i < t.count * t.channels * t.h * t.w; i++)
        values[i] = (float)fmin(fmax(take_number(in), -1e39), 1e39);
    struct sw_err err = {0};
    const struct sw_plot_size size = sw_plot_tiles_size(&t);
    demand(isfinite(size.w) && isfinite(size.h) && size.w > 0 && size.h > 0);
    demand(sw_plot_tiles(p, box, &t, &err) == SW_OK || err.text[0]);
}

static void plot_confusion(struct input *in, struct sw_plot *p)
{
    int64_t counts[CLASSES * CLASSES];
    const struct sw_plot_box box = take_box(in);
    char title[TEXT];
    take_text(in, title);
    const struct sw_plot_confusion c = {
        .counts = counts, .classes = 1 + take_byte(in) % CLASSES, .title = title};
    for (int i = 0; i < c.classes * c.classes; i++) {
        const int kind = take_byte(in);
        counts[i] = kind < 128 ? kind : kind < 160 ? INT64_MAX / (kind - 126) : 1000000 * kind;
    }
    sw_plot_confusion_size(&c);
    sw_plot_confusion(p, box, &c);
}

static void plot_scatter(struct input *in, struct sw_plot *p)
{
    float xy[2 * POINTS];
    int labels[POINTS];
    const struct sw_plot_box box = take_box(in);
    char title[TEXT];
    take_text(in, title);
    const struct sw_plot_scatter s = {.xy = xy,
                                      .labels = in->switches & COLOURS ? labels : NULL,
                                      .count = take_byte(in) % (POINTS + 1),
                                      .title = title,
                                      .diagonal = box.w > box.h};
    for (int64_t i = 0; i < s.count; i++) {
        xy[2 * i] = (float)take_number(in);
        xy[2 * i + 1] = (float)take_number(in);
        labels[i] = take_byte(in) - 5;
    }
    sw_plot_scatter(p, box, &s);
}

static void plot_nested(struct input *in, struct sw_plot *p)
{
    struct sw_nested_box boxes[BOXES] = {0};
    char text[BOXES][TEXT];
    const int count = take_byte(in) % (BOXES + 1);
    for (int i = 0; i < count; i++) {
        take_text(in, text[i]);
        boxes[i] = (struct sw_nested_box){.title = text[i],
                                          .note = take_byte(in) & 1 ? text[i] : NULL,
                                          .parent = take_byte(in) % (i + 1) - 1,
                                          .colour = take_byte(in) - 1,
                                          .down = take_byte(in) & 1};
    }
    const struct sw_plot_size size = sw_nested_layout(boxes, count);
    demand(isfinite(size.w) && isfinite(size.h));
    sw_nested_draw(p, 0, 0, boxes, count);
}

static void plot_graph(struct input *in, struct sw_plot *p)
{
    struct sw_graph_box boxes[BOXES] = {0};
    const int count = take_byte(in) % (BOXES + 1);
    for (int i = 0; i < count; i++) {
        take_text(in, boxes[i].title);
        take_text(in, boxes[i].note);
        boxes[i].colour = take_byte(in) - 1;
        boxes[i].dashed = take_byte(in) & 1;
        boxes[i].source_count = i ? take_byte(in) % (SW_GRAPH_SOURCES + 1) : 0;
        for (int k = 0; k < boxes[i].source_count; k++)
            boxes[i].sources[k] = take_byte(in) % i;
    }
    const struct sw_plot_size size = sw_graph_layout(boxes, count);
    demand(isfinite(size.w) && isfinite(size.h));
    sw_graph_draw(p, 0, 0, boxes, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const draw[])(struct input *, struct sw_plot *) = {
        plot_chart, plot_tiles, plot_confusion, plot_scatter, plot_nested, plot_graph};
    enum { PLOTS = sizeof draw / sizeof *draw };
    if (bytes < 2)
        return 0;
    struct input in = {data + 2, data + bytes, data[1]};
    const int what = data[0] % (PLOTS + 3);
    if (what > PLOTS) {
        draw_cells(&in);
    } else if (what == PLOTS) {
        draw_trail(&in);
    } else {
        struct sw_plot *p = take_paper(&in);
        if (p)
            draw[what](&in, p);
        sw_plot_abandon(p);
    }
    return 0;
}
