/* Pictures in a build without cairo: begin says so, and nothing else can be reached. */
#include "ui/plot.h"

int sw_plot_begin(struct sw_plot **out, const char *path, enum sw_plot_format format, int width,
                  int height, struct sw_err *err)
{
    (void)out;
    (void)format;
    (void)width;
    (void)height;
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s cannot be drawn: this program was built without cairo (Debian: "
                      "libcairo2-dev)",
                      path);
}
