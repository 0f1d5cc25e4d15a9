/* Replaces plot_png.c in builds without cairo: refuses PNG. */
#include "ui/plot_marks.h"

int sw_plot_check_png(const char *path, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s: this program was built without cairo (Debian: libcairo2-dev) and "
                      "can write SVG only",
                      path);
}

int sw_plot_write_png(const struct sw_plot_marks *m, struct sw_bytes *out, struct sw_err *err)
{
    return sw_plot_check_png("image", err);
}
