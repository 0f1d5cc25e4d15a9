#include "cli/plot/picture.h"

bool sw_picture_wanted(const struct sw_picture_options *o)
{
    return o->png || o->svg;
}

int sw_picture_check(const char *verb, const struct sw_picture_options *o)
{
    if (o->png && o->svg)
        return sw_cli_usage(verb, "--png and --svg are two formats; give one");
    if ((o->width || o->height) && !sw_picture_wanted(o))
        return sw_cli_usage(verb, "--width and --height belong to --png and --svg");
    return SW_CLI_GO_ON;
}

const char *sw_picture_path(const struct sw_picture_options *o)
{
    return o->png ? o->png : o->svg;
}

enum sw_plot_format sw_picture_format(const struct sw_picture_options *o)
{
    return o->png ? SW_PLOT_PNG : SW_PLOT_SVG;
}

/* sw_plot_begin refuses what is too large, by the number that it gets. */
static int side(int64_t given, int otherwise)
{
    return given == 0 ? otherwise : given > INT32_MAX ? INT32_MAX : (int)given;
}

int sw_picture_width(const struct sw_picture_options *o, int otherwise)
{
    return side(o->width, otherwise);
}

int sw_picture_height(const struct sw_picture_options *o, int otherwise)
{
    return side(o->height, otherwise);
}

int sw_picture_check_path(const char *verb, const char *path)
{
    if (sw_str_ends(path, ".png") || sw_str_ends(path, ".svg"))
        return SW_CLI_GO_ON;
    return sw_cli_usage(verb, "--plot=%s: the name must end in .png or .svg", path);
}

enum sw_plot_format sw_picture_format_of(const char *path)
{
    return sw_str_ends(path, ".svg") ? SW_PLOT_SVG : SW_PLOT_PNG;
}

int sw_picture_draw_tiles(const char *path, const struct sw_plot_tiles *t, struct sw_err *err)
{
    struct sw_plot *plot = NULL;
    struct sw_plot_size size = sw_plot_tiles_size(t);
    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)size.w, (int)size.h, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plot_tiles(plot, (struct sw_plot_box){0, 0, size.w, size.h}, t, err);
    if (rc == SW_OK)
        return sw_plot_end(plot, err);
    sw_plot_abandon(plot);
    return rc;
}
