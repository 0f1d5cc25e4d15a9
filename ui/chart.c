/* Draws a line chart into cells, with braille dots where UTF-8 is available. It also has the
 * smoothing and the ranges that charts in files use. Start at sw_chart_draw at the end; pure
 * functions; the contract is in ui/chart.h. */
#include "ui/chart.h"

#include <math.h>
#include <string.h>

enum {
    LABEL_COLUMNS = 8,
    X_LABEL_COLUMNS = 12,
    MIN_W = 16,
    MIN_H = 4,
    DASH_DOTS = 3,
    LETTER_COLUMNS = 14, /* distance of a line's letters */
    BRAILLE = 0x2800
};

const char *sw_chart_number(char *out, double value)
{
    return sw_ticks_number(out, value, 3);
}

void sw_chart_smooth(const struct sw_point *in, size_t count, double decay, struct sw_point *out)
{
    double mean = 0, weight = 0;

    for (size_t i = 0; i < count; i++) {
        double y = in[i].y;

        if (isfinite(y)) {
            /* In this form the mean of equal values is that value, without rounding. */
            weight = decay * weight + (1 - decay);
            mean += (1 - decay) / weight * (y - mean);
            y = mean;
        }

        out[i] = (struct sw_point){in[i].x, y, y, y};
    }
}

/* ---- Ranges -----------------------------------------------------------------------------------
 */

static void widen(double *from, double *to, double v, bool log_y)
{
    if (!isfinite(v) || (log_y && v <= 0))
        return;
    *from = isnan(*from) || v < *from ? v : *from;
    *to = isnan(*to) || v > *to ? v : *to;
}

void sw_chart_fit(struct sw_chart *chart)
{
    double from = NAN, to = NAN;

    for (int l = 0; l < chart->line_count; l++) {
        const struct sw_chart_line *line = &chart->lines[l];

        for (size_t i = 0; i < line->count; i++) {
            const struct sw_point *p = &line->points[i];
            if (p->x < chart->x_from || p->x > chart->x_to)
                continue;

            bool band = line->stroke == SW_STROKE_BAND;
            widen(&from, &to, band ? p->lo : p->y, chart->log_y);
            widen(&from, &to, band ? p->hi : p->y, chart->log_y);
        }
    }

    struct sw_ui_range y = sw_ticks_fit(from, to, chart->log_y);
    chart->y_from = y.from;
    chart->y_to = y.to;
}

struct sw_chart sw_chart_normalized(const struct sw_chart *chart)
{
    struct sw_chart normalized = *chart;
    struct sw_ui_range x = sw_ticks_range(chart->x_from, chart->x_to, false);
    struct sw_ui_range y = sw_ticks_range(chart->y_from, chart->y_to, chart->log_y);

    normalized.x_from = x.from;
    normalized.x_to = x.to;
    normalized.y_from = y.from;
    normalized.y_to = y.to;

    return normalized;
}

double sw_chart_fraction_y(const struct sw_chart *chart, double y)
{
    return sw_ticks_fraction((struct sw_ui_range){chart->y_from, chart->y_to}, chart->log_y, y);
}

double sw_chart_fraction_x(const struct sw_chart *chart, double x)
{
    return sw_ticks_fraction((struct sw_ui_range){chart->x_from, chart->x_to}, false, x);
}

/* ---- Axes -------------------------------------------------------------------------------------
 */

/* The area of r for the dots, without the axes. */
static struct sw_area chart_inside(struct sw_area r)
{
    if (r.w < MIN_W || r.h < MIN_H)
        return r;
    return (struct sw_area){r.x + LABEL_COLUMNS, r.y, r.w - LABEL_COLUMNS, r.h - 1};
}

static void ticks_y(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart)
{
    struct sw_ticks ticks;
    int last_row = -1, most = chart->log_y ? in.h : in.h > 6 ? in.h / 3 : 2;

    sw_ticks_make(&ticks, (struct sw_ui_range){chart->y_from, chart->y_to}, chart->log_y, most,
                  LABEL_COLUMNS - 1);

    for (int i = 0; i < ticks.count; i++) {
        double fraction = sw_chart_fraction_y(chart, ticks.items[i].value);
        int row = in.y + (int)lround((1 - fraction) * (in.h - 1));
        if (row == last_row)
            continue;

        last_row = row;
        sw_canvas_right(c, in.x - LABEL_COLUMNS, row, LABEL_COLUMNS - 1, SW_ROLE_DIM,
                        ticks.items[i].label);
        sw_canvas_rune(c, in.x - 1, row, 0x2524, SW_ROLE_DIM);
    }
}

static void ticks_x(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart)
{
    struct sw_ticks ticks;
    int row = in.y + in.h, free_from = in.x;

    const struct sw_ui_range range = {chart->x_from, chart->x_to};
    const int most = in.w > 16 ? in.w / 8 : 2;

    if (chart->powers_x)
        sw_ticks_powers(&ticks, range, most);
    else
        sw_ticks_make(&ticks, range, false, most, X_LABEL_COLUMNS);

    for (int i = 0; i < ticks.count; i++) {
        const struct sw_tick *t = &ticks.items[i];
        int n = (int)strlen(t->label);
        int x = in.x + (int)lround(sw_chart_fraction_x(chart, t->value) * (in.w - 1)) - n / 2;

        x = x < in.x ? in.x : x + n > in.x + in.w ? in.x + in.w - n : x;
        if (x < free_from)
            continue;

        sw_canvas_text(c, x, row, n, SW_ROLE_DIM, t->label);
        free_from = x + n + 2;
    }
}

static void draw_axes(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart)
{
    sw_canvas_fill(c, (struct sw_area){in.x - 1, in.y, 1, in.h}, 0x2502, SW_ROLE_DIM);
    sw_canvas_fill(c, (struct sw_area){in.x, in.y + in.h, in.w, 1}, 0x2500, SW_ROLE_DIM);
    sw_canvas_rune(c, in.x - 1, in.y + in.h, 0x2514, SW_ROLE_DIM);
    ticks_y(c, in, chart);
    ticks_x(c, in, chart);
}

/* ---- Dots -------------------------------------------------------------------------------------
 */

struct pen {
    struct sw_canvas *c;
    struct sw_area in;
    const struct sw_chart *chart;
    const struct sw_chart_line *line;
    int across, down; /* dots in a cell */
    double y_far;     /* positions are clamped to this */
};

static struct pen pen_of(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart,
                         const struct sw_chart_line *line)
{
    bool utf8 = c->caps.utf8;
    struct pen p = {.c = c, .in = in, .chart = chart, .line = line};

    p.across = utf8 ? 2 : 1;
    p.down = utf8 ? 4 : 1;
    p.y_far = 2 * (in.h * p.down - 1) + 8;

    return p;
}

static int dots_w(const struct pen *p)
{
    return p->in.w * p->across;
}

static int dots_h(const struct pen *p)
{
    return p->in.h * p->down;
}

static double dot_x(const struct pen *p, double x)
{
    return sw_chart_fraction_x(p->chart, x) * (dots_w(p) - 1);
}

/* Positions far outside are clamped, which keeps the loops short. */
static double dot_y(const struct pen *p, double y)
{
    double at = (1 - sw_chart_fraction_y(p->chart, y)) * (dots_h(p) - 1);
    return at < -p->y_far ? -p->y_far : at > p->y_far ? p->y_far : at;
}

static uint32_t ascii_of(const struct sw_chart_line *line)
{
    static const char by_stroke[] = {'*', '-', '.', 'o'};
    char own = line->letter ? line->letter : line->ascii;
    return (uint32_t)(own ? own : by_stroke[line->stroke]);
}

/* Sets a dot of the braille block: U+2800 and a bit for each of 2 x 4 positions. A cell has one
 * color, so a line overwrites the cells of a band and shares those of other lines. */
static void dot(struct pen *p, int x, int y)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

    if (x < 0 || y < 0 || x >= dots_w(p) || y >= dots_h(p))
        return;

    int column = p->in.x + x / p->across, row = p->in.y + y / p->down;
    if (column < 0 || row < 0 || column >= p->c->w || row >= p->c->h)
        return;

    uint32_t rune = ascii_of(p->line);
    if (p->c->caps.utf8) {
        const struct sw_ui_cell *cell =
            &p->c->cells[(size_t)row * (size_t)p->c->w + (size_t)column];
        bool other = cell->role == SW_ROLE_DIM && p->line->role != SW_ROLE_DIM;
        bool dots = cell->rune >= BRAILLE && cell->rune < BRAILLE + 256 && !other;
        rune = (dots ? cell->rune : BRAILLE) | bit[y % 4][x % 2];
    }

    sw_canvas_rune(p->c, column, row, rune, p->line->role);
}

static void draw_segment(struct pen *p, double x0, double y0, double x1, double y1)
{
    double last = dots_w(p) - 1;
    if (!isfinite(x0) || !isfinite(x1) || !isfinite(y0) || !isfinite(y1) || x1 < 0 || x0 > last)
        return;

    if (x0 < 0 && x1 > x0) {
        y0 += (y1 - y0) * ((0 - x0) / (x1 - x0)); /* the quotient first: the product may overflow */
        x0 = 0;
    }

    if (x1 > last && x1 > x0) {
        y1 = y0 + (y1 - y0) * ((last - x0) / (x1 - x0));
        x1 = last;
    }

    double longer = fmax(fabs(x1 - x0), fabs(y1 - y0));
    int steps = (int)ceil(longer);
    for (int i = 0; i <= steps; i++) {
        double fraction = steps ? (double)i / steps : 0;
        int x = (int)lround(x0 + fraction * (x1 - x0));
        /* Dashes are fixed positions on the axis, so that points close together do not fill the
         * gaps. */
        if (p->line->stroke != SW_STROKE_DASHED || x / DASH_DOTS % 2 == 0)
            dot(p, x, (int)lround(y0 + fraction * (y1 - y0)));
    }
}

/* Draws points in the same column of dots as one stroke. */
static void draw_band(struct pen *p)
{
    double column = -1, top = NAN, bottom = NAN;

    for (size_t i = 0; i < p->line->count; i++) {
        const struct sw_point *q = &p->line->points[i];
        double x = floor(dot_x(p, q->x) + 0.5);
        if (!(x >= 0 && x < dots_w(p)) || isnan(q->lo) || isnan(q->hi))
            continue;

        if (x != column) {
            draw_segment(p, column, top, column, bottom);
            top = bottom = NAN;
            column = x;
        }

        top = fmin(dot_y(p, q->hi), top);
        bottom = fmax(dot_y(p, q->lo), bottom);
    }

    draw_segment(p, column, top, column, bottom);
}

static void draw_dots(struct pen *p)
{
    for (size_t i = 0; i < p->line->count; i++) {
        const struct sw_point *q = &p->line->points[i];
        if (!isfinite(q->y))
            continue;

        double x = dot_x(p, q->x), y = dot_y(p, q->y);
        draw_segment(p, x - 1, y, x + 1, y);
    }
}

/* Connects each point to the next. Points that fall on the same dot are drawn once. */
static void draw_curve(struct pen *p)
{
    double x0 = NAN, y0 = NAN;

    for (size_t i = 0; i < p->line->count; i++) {
        const struct sw_point *q = &p->line->points[i];
        double x = dot_x(p, q->x), y = isfinite(q->y) ? dot_y(p, q->y) : (double)NAN;
        if (fabs(x - x0) < 0.5 && fabs(y - y0) < 0.5)
            continue;

        if (isfinite(y0) && isfinite(y))
            draw_segment(p, x0, y0, x, y);
        else if (isfinite(y))
            draw_segment(p, x, y, x, y);

        x0 = x;
        y0 = y;
    }
}

/* ---- Letters ----------------------------------------------------------------------------------
 */

char sw_chart_letter(int i)
{
    return (char)(i < 26 ? 'A' + i : i < 52 ? 'a' + i - 26 : 0);
}

/* The row of a line at a column of cells; -1 where it has no value or is not visible. */
static int row_at(const struct pen *p, int column)
{
    double at = (column + 0.5) * p->across, x0 = NAN, y0 = NAN, y = NAN;

    for (size_t i = 0; i < p->line->count && isnan(y); i++) {
        const struct sw_point *q = &p->line->points[i];
        double x1 = dot_x(p, q->x), y1 = isfinite(q->y) ? dot_y(p, q->y) : (double)NAN;

        if (x0 <= at && at <= x1 && x1 > x0)
            y = y0 + (y1 - y0) * ((at - x0) / (x1 - x0));
        x0 = x1;
        y0 = y1;
    }

    double row = floor(y / p->down + 0.5 / p->down);
    return row >= 0 && row < p->in.h ? (int)row : -1;
}

static bool put_letter(struct pen *p, int column)
{
    int row = row_at(p, column);

    if (row >= 0)
        sw_canvas_rune(p->c, p->in.x + column, p->in.y + row, (uint32_t)p->line->letter,
                       p->line->role);
    return row >= 0;
}

/* Puts the letter of a line on it at regular distances, or once on a short line. Lines take turns,
 * so that letters do not meet where lines do. */
static void draw_letters(struct pen *p, int turn, int turns)
{
    int first = LETTER_COLUMNS * (2 * turn + 1) / (2 * turns), drawn = 0;

    for (int column = first; column < p->in.w; column += LETTER_COLUMNS)
        drawn += put_letter(p, column);
    for (int column = p->in.w - 1; column >= 0 && drawn == 0; column--)
        drawn += put_letter(p, column);
}

static void draw_all_letters(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart)
{
    int turns = 0;

    for (int i = 0; i < chart->line_count; i++)
        turns += chart->lines[i].letter != 0;

    for (int i = 0, turn = 0; i < chart->line_count && c->caps.utf8; i++)
        if (chart->lines[i].letter) {
            struct pen p = pen_of(c, in, chart, &chart->lines[i]);
            draw_letters(&p, turn++, turns);
        }
}

static int column_of(struct sw_area in, const struct sw_chart *chart, double x)
{
    double fraction = sw_chart_fraction_x(chart, x);
    return fraction >= 0 && fraction <= 1 ? in.x + (int)lround(fraction * (in.w - 1)) : -1;
}

static void draw_marks(struct sw_canvas *c, struct sw_area in, const struct sw_chart *chart)
{
    for (int i = 0; i < chart->mark_count; i++) {
        int x = column_of(in, chart, chart->marks[i].x);
        if (x >= 0)
            sw_canvas_rune(c, x, in.y + in.h - 1, chart->marks[i].rune, chart->marks[i].role);
    }

    int x = isnan(chart->cursor) ? -1 : column_of(in, chart, chart->cursor);
    for (int y = in.y; x >= 0 && y < in.y + in.h; y++)
        if (c->cells[(size_t)y * (size_t)c->w + (size_t)x].rune == ' ')
            sw_canvas_rune(c, x, y, 0x2502, SW_ROLE_KEY);
        else
            sw_canvas_recolour(c, (struct sw_area){x, y, 1, 1}, SW_ROLE_KEY);
}

void sw_chart_draw(struct sw_canvas *c, struct sw_area r, const struct sw_chart *given)
{
    const struct sw_chart normalized = sw_chart_normalized(given), *chart = &normalized;
    struct sw_area in = chart_inside(r);
    if (in.w < 1 || in.h < 1 || in.x < 0 || in.y < 0 || in.x + in.w > c->w || in.y + in.h > c->h)
        return;

    if (in.h < r.h)
        draw_axes(c, in, chart);

    for (int i = 0; i < chart->line_count; i++) {
        struct pen p = pen_of(c, in, chart, &chart->lines[i]);

        if (p.line->stroke == SW_STROKE_BAND)
            draw_band(&p);
        else if (p.line->stroke == SW_STROKE_DOTS)
            draw_dots(&p);
        else
            draw_curve(&p);
    }

    draw_all_letters(c, in, chart);
    draw_marks(c, in, chart);
}
