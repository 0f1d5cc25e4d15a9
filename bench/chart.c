/* Draws curves to pictures with the plots of ui/: the figures of bench/papers.
 *
 *     chart FILE.png|FILE.svg ... <DESCRIPTION
 *
 * A line of the description is `title TEXT`, `x TEXT` or `y TEXT` (names of axes), `log` (the y
 * axis is logarithmic), `curve NAME` or `dashed NAME`, which begin a curve, or `X Y`, a point of
 * the last one. Points of a curve are in ascending order of x. */
#include "base/os.h"
#include "base/str.h"
#include "ui/plot_chart.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVES = 16, POINTS = 1024, TEXT = 160, WIDTH = 880, HEIGHT = 520 };

struct figure {
    char title[TEXT], x[TEXT], y[TEXT], name[CURVES][TEXT];
    struct sw_point point[CURVES][POINTS];
    struct sw_chart_line line[CURVES];
    int curves;
    bool log_y;
};

static void die(const char *what, const char *more)
{
    fprintf(stderr, "chart: %s%s\n", what, more);
    exit(1);
}

/* Copies what follows the word, and returns whether the line begins with it. */
static bool reads(const char *line, const char *word, char out[TEXT])
{
    const size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || line[length] != ' ')
        return false;

    snprintf(out, TEXT, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
    return true;
}

static void add_point(struct figure *f, const char *line)
{
    double x, y;
    if (f->curves == 0 || sscanf(line, "%lf %lf", &x, &y) != 2)
        die("not understood: ", line);

    struct sw_chart_line *l = &f->line[f->curves - 1];
    if (l->count == POINTS)
        die("too many points", "");
    f->point[f->curves - 1][l->count++] = (struct sw_point){x, y, y, y};
}

static void read_line(struct figure *f, const char *line)
{
    char name[TEXT];
    const bool dashed = reads(line, "dashed", name);

    if (dashed || reads(line, "curve", name)) {
        const int i = f->curves++;
        if (i == CURVES)
            die("too many curves", "");

        memcpy(f->name[i], name, sizeof name);
        f->line[i] = (struct sw_chart_line){.points = f->point[i],
                                            .stroke = dashed ? SW_STROKE_DASHED : SW_STROKE_SOLID};
    } else if (strcmp(line, "log\n") == 0) {
        f->log_y = true;
    } else if (!reads(line, "title", f->title) && !reads(line, "x", f->x) &&
               !reads(line, "y", f->y)) {
        add_point(f, line);
    }
}

static struct sw_chart chart_of(const struct figure *f)
{
    struct sw_chart chart = {.lines = f->line,
                             .line_count = f->curves,
                             .x_from = (double)INFINITY,
                             .x_to = -(double)INFINITY,
                             .log_y = f->log_y,
                             .cursor = (double)NAN};

    for (int i = 0; i < f->curves; i++)
        for (size_t k = 0; k < f->line[i].count; k++) {
            chart.x_from = fmin(chart.x_from, f->point[i][k].x);
            chart.x_to = fmax(chart.x_to, f->point[i][k].x);
        }

    sw_chart_fit(&chart);
    if (!chart.log_y)
        chart.y_from = fmin(chart.y_from, 0);
    return chart;
}

static void draw(const struct figure *f, const struct sw_chart *chart, const char *path)
{
    const enum sw_plot_format format = sw_str_ends(path, ".svg") ? SW_PLOT_SVG : SW_PLOT_PNG;
    const char *names[CURVES];
    int colours[CURVES];
    const struct sw_plot_labels labels = {f->title, f->x, f->y, names, colours};
    struct sw_plot *plot;
    struct sw_err err;

    for (int i = 0; i < f->curves; i++) {
        names[i] = f->name[i];
        colours[i] = i;
    }

    if (sw_plot_begin(&plot, path, format, WIDTH, HEIGHT, &err) != SW_OK)
        die(err.text, "");
    sw_plot_chart(plot, (struct sw_plot_box){0, 0, WIDTH, HEIGHT}, chart, &labels);
    if (sw_plot_end(plot, &err) != SW_OK)
        die(err.text, "");
}

int main(int argc, char **argv)
{
    static struct figure f;
    char line[2 * TEXT];

    while (fgets(line, sizeof line, stdin))
        read_line(&f, line);
    if (f.curves == 0)
        die("no curve", "");

    const struct sw_chart chart = chart_of(&f);
    for (int i = 1; i < argc; i++)
        draw(&f, &chart, argv[i]);
    return 0;
}
