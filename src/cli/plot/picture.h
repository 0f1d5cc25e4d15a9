/* The options of verbs that draw into a file: --png FILE or --svg FILE, --width, --height. */
#ifndef SW_CLI_PLOT_PICTURE_H
#define SW_CLI_PLOT_PICTURE_H

#include "cli/cli.h"
#include "ui/plot_pictures.h"

struct sw_picture_options {
    const char *png, *svg;
    int64_t width, height; /* 0: what suits the picture */
};

/* The rows for the table of a verb whose struct `holder` has them as `member`. */
#define SW_PICTURE_OPTIONS(holder, member)                                                         \
    {.name = "png",                                                                                \
     .arg = "FILE",                                                                                \
     .type = SW_CLI_TEXT,                                                                          \
     .offset = offsetof(holder, member) + offsetof(struct sw_picture_options, png),                \
     .help = "draw into FILE, as PNG"},                                                            \
        {.name = "svg",                                                                            \
         .arg = "FILE",                                                                            \
         .type = SW_CLI_TEXT,                                                                      \
         .offset = offsetof(holder, member) + offsetof(struct sw_picture_options, svg),            \
         .help = "draw into FILE, as SVG"},                                                        \
        {.name = "width",                                                                          \
         .arg = "PIXELS",                                                                          \
         .type = SW_CLI_INT,                                                                       \
         .min = 64,                                                                                \
         .offset = offsetof(holder, member) + offsetof(struct sw_picture_options, width),          \
         .help = "of the picture"},                                                                \
    {                                                                                              \
        .name = "height", .arg = "PIXELS", .type = SW_CLI_INT, .min = 64,                          \
        .offset = offsetof(holder, member) + offsetof(struct sw_picture_options, height),          \
        .help = "of the picture"                                                                   \
    }

bool sw_picture_wanted(const struct sw_picture_options *o);
/* SW_CLI_GO_ON, or the exit code after saying what does not fit together. */
int sw_picture_check(const char *verb, const struct sw_picture_options *o);
const char *sw_picture_path(const struct sw_picture_options *o);
enum sw_plot_format sw_picture_format(const struct sw_picture_options *o);
int sw_picture_width(const struct sw_picture_options *o, int otherwise);
int sw_picture_height(const struct sw_picture_options *o, int otherwise);

/* The format by the end of a name, for verbs with --plot FILE: checked first (SW_CLI_GO_ON, or the
 * exit code after saying that it is neither .png nor .svg). */
int sw_picture_check_path(const char *verb, const char *path);
enum sw_plot_format sw_picture_format_of(const char *path);
/* Pictures side by side, as a file of that name. Errors: those of sw_plot_begin and sw_plot_end,
 * SW_ERR_NOMEM. */
int sw_picture_draw_tiles(const char *path, const struct sw_plot_tiles *t,
                          struct sw_err *err) SW_MUST_CHECK;

#endif
