/* singa-ws history plot: curves of one or more runs, in the terminal or as a picture. */
#include "cli/history/curves.h"
#include "cli/plot/picture.h"

enum { TERMINAL_ROWS = 20, TERMINAL_POINTS = 1024, FILE_POINTS = 4096 };

struct options {
    struct sw_cli_common common;
    struct sw_picture_options picture;
    const char *metric, *split, *x, *smooth;
    bool log;
    struct sw_curves_args args; /* what they come to */
};

static const struct sw_cli_option rows[] = {
    {.name = "metric",
     .arg = "NAME",
     .type = SW_CLI_TEXT,
     .offset = offsetof(struct options, metric),
     .help = "which; default loss"},
    {.name = "split",
     .arg = "NAME",
     .type = SW_CLI_TEXT,
     .offset = offsetof(struct options, split),
     .help = "of this split only, as train; default all"},
    {.name = "by",
     .arg = "AXIS",
     .type = SW_CLI_TEXT,
     .offset = offsetof(struct options, x),
     .help = "step (the default), time or epoch"},
    {.name = "smooth",
     .arg = "S",
     .type = SW_CLI_TEXT,
     .offset = offsetof(struct options, smooth),
     .help = "weight of the past for training curves, 0 to below 1; default 0.9; what was recorded "
             "stays behind"},
    {.name = "log",
     .type = SW_CLI_FLAG,
     .offset = offsetof(struct options, log),
     .help = "logarithmic values"},
    SW_PICTURE_OPTIONS(struct options, picture),
    {0},
};

static const struct sw_cli_spec spec = {
    .verb = "history plot",
    .usage = "[OPTION]... [RUN]...",
    .about = "Draws a metric of one or more runs (default @last) over each other: in the terminal, "
             "or into\n"
             "a file with --png or --svg.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    .options = rows,
    .max_args = -1,
    .arg_name = "RUN",
};

static int read_args(struct options *o)
{
    static const char *const axes[] = {"step", "time", "epoch"};
    enum { AXES = sizeof axes / sizeof *axes };
    o->args = (struct sw_curves_args){.metric = o->metric ? o->metric : "loss",
                                      .split = o->split,
                                      .smooth = 0.9,
                                      .log_y = o->log,
                                      .capacity = sw_picture_wanted(&o->picture) ? FILE_POINTS
                                                                                 : TERMINAL_POINTS};
    if (o->smooth &&
        (!sw_parse_real(o->smooth, &o->args.smooth) || o->args.smooth < 0 || o->args.smooth >= 1))
        return sw_cli_usage(spec.verb, "--smooth=%s: S must be 0 or more, and less than 1",
                            o->smooth);
    int x = 0;
    while (o->x && x < AXES && !sw_str_eq(o->x, axes[x]))
        x++;
    if (x == AXES)
        return sw_cli_usage(spec.verb, "--by=%s: AXIS is step, time or epoch", o->x);
    o->args.x = (enum sw_curves_x)x;
    return sw_picture_check(spec.verb, &o->picture);
}

static int plot(const struct options *o)
{
    struct sw_history_view v = {.raw = true};
    struct sw_run_list runs = {0};
    struct sw_curves curves = {0};
    struct sw_err err = {0};
    int code = sw_history_view_open(&v, &o->common, &err);
    if (!code)
        code = sw_history_view_runs(&v, o->common.args, o->common.arg_count, &runs, &err);
    if (!code)
        code = sw_curves_load(&curves, &v, &runs, &o->args, &err);
    if (!code && sw_picture_wanted(&o->picture))
        code = sw_curves_plot(&curves, sw_picture_path(&o->picture), sw_picture_format(&o->picture),
                              sw_picture_width(&o->picture, 960),
                              sw_picture_height(&o->picture, 540), &err);
    else if (!code)
        code = sw_curves_print(&curves, sw_cli_stdout_width(), TERMINAL_ROWS, &v.out, &err);
    sw_curves_fini(&curves);
    sw_run_list_fini(&runs);
    return sw_history_view_close(&v, code, &err);
}

static int run(int argc, char **argv)
{
    struct options o = {0};
    int code = sw_cli_parse(&spec, argc, argv, &o);
    if (code == SW_CLI_GO_ON)
        code = read_args(&o);
    if (code == SW_CLI_GO_ON)
        code = plot(&o);
    sw_cli_fini(&spec, &o);
    return code;
}

const struct sw_verb sw_history_verb_plot = {
    .name = "plot", .help = "curves, in the terminal or as PNG or SVG", .run = run, .spec = &spec};
