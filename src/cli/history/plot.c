/* singa-ws history plot: draws curves of one or more runs, in the terminal or to an image. */
#include "cli/history/curves.h"

enum { TERMINAL_ROWS = 20, TERMINAL_POINTS = 1024, FILE_POINTS = 4096 };

struct options {
    struct sw_cli_common common;
    const char *metric, *split, *x, *smooth, *png, *svg;
    int64_t width, height; /* of the image; 0: default size */
    bool log;
    struct sw_curves_args args; /* the parsed arguments */
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "NAME", "metric to draw; default: loss"),
    SW_CLI_TEXT_OPTION(struct options, split, "split", "NAME",
                       "only this split, for example train; default: all"),
    SW_CLI_TEXT_OPTION(struct options, x, "by", "AXIS",
                       "horizontal axis: step (the default), time or epoch"),
    SW_CLI_TEXT_OPTION(
        struct options, smooth, "smooth", "S",
        "smoothing of training curves by a moving average, from 0 to below 1; default: 0.9"),
    SW_CLI_FLAG_OPTION(struct options, log, "log", "logarithmic vertical axis"),
    SW_CLI_TEXT_OPTION(struct options, png, "png", "FILE", "draw to FILE as PNG"),
    SW_CLI_TEXT_OPTION(struct options, svg, "svg", "FILE", "draw to FILE as SVG"),
    SW_CLI_INT_OPTION(struct options, width, "width", "PIXELS", 64, "width of the image"),
    SW_CLI_INT_OPTION(struct options, height, "height", "PIXELS", 64, "height of the image"),
    {0},
};

static int read_args(struct options *o)
{
    static const char *const axes[] = {"step", "time", "epoch"};

    enum { AXES = sizeof axes / sizeof *axes };
    o->args = (struct sw_curves_args){.metric = o->metric ? o->metric : "loss",
                                      .split = o->split,
                                      .smooth = 0.9,
                                      .log_y = o->log,
                                      .capacity = o->png || o->svg ? FILE_POINTS : TERMINAL_POINTS};
    if (o->smooth &&
        (!sw_parse_real(o->smooth, &o->args.smooth) || o->args.smooth < 0 || o->args.smooth >= 1))
        return sw_cli_usage("history plot", "--smooth=%s: S must be 0 or more and less than 1",
                            o->smooth);

    int x = 0;
    while (o->x && x < AXES && !sw_str_eq(o->x, axes[x]))
        x++;
    if (x == AXES)
        return sw_cli_usage("history plot", "--by=%s: AXIS must be step, time or epoch", o->x);

    o->args.x = (enum sw_curves_x)x;

    if (o->png && o->svg)
        return sw_cli_usage("history plot", "--png and --svg are mutually exclusive");
    if ((o->width || o->height) && !o->png && !o->svg)
        return sw_cli_usage("history plot", "--width and --height are only for --png and --svg");

    return SW_EXIT_DONE;
}

/* Converts a side to int; sw_plot_begin refuses one that is too large. */
static int side(int64_t given, int otherwise)
{
    return given == 0 ? otherwise : given > INT32_MAX ? INT32_MAX : (int)given;
}

static int plot(void *options)
{
    struct options *o = options;
    const char *path = o->png ? o->png : o->svg;
    struct sw_history_view v = {.raw = true};
    struct sw_curves curves = {0};

    int code = read_args(o);
    if (code)
        return code;

    code = sw_history_view_open(&v, &o->common, SW_VIEW_RUNS);
    if (!code)
        code = sw_curves_load(&curves, &v, &o->args);
    if (!code && path)
        code = sw_curves_plot(&curves, path, o->png ? SW_PLOT_PNG : SW_PLOT_SVG,
                              side(o->width, 960), side(o->height, 540), &v.err);
    else if (!code)
        code = sw_curves_print(&curves, sw_cli_stdout_width(), TERMINAL_ROWS, &v.out, &v.err);
    sw_curves_fini(&curves);

    return sw_history_view_close(&v, code);
}

const struct sw_verb sw_history_verb_plot = {
    .name = "plot",
    .help = "draw curves in the terminal or as PNG or SVG",
    .typed = "history plot",
    .usage = "[OPTION]... [RUN]...",
    .about =
        "Draws a metric of one or more runs (default: @last) in one chart, in the terminal or\n"
        "to a file with --png or --svg. Unsmoothed values are drawn behind the curves.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = -1,
    .arg_name = "RUN",
    .run = plot,
};
