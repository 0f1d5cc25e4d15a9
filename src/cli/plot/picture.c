/* Chooses PNG or SVG from a file name, and draws image tiles to a file. The contract is in
 * cli/plot/picture.h. */
#include "cli/plot/picture.h"

bool sw_picture_is_named_by(const char *verb, const char *option, const char *path)
{
    if (sw_str_ends(path, ".png") || sw_str_ends(path, ".svg"))
        return true;
    sw_cli_usage(verb, "%s=%s: the name must end in .png or .svg", option, path);
    return false;
}

bool sw_picture_is_named(const char *verb, const char *path)
{
    return sw_picture_is_named_by(verb, "--plot", path);
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
