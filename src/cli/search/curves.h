/* Charts of how good searches are (thesis, Figure 5.10), for `singa-ws search map --plot`. Main
 * thread. */
#pragma once

#include "search/score.h"

struct sw_search_curve {
    const char *name; /* in the legend; borrowed, as score */
    const struct sw_score *score;
};

enum { SW_SEARCH_MOST_CURVES = 8 };

/* Draws three charts side by side, with a line for each of 1 to SW_SEARCH_MOST_CURVES curves:
 * precision over recall, recall over the share of rows that are looked at, precision over the
 * number of results. The name of the file gives the format (cli/plot/picture.h). Errors: those of
 * sw_plot_begin and sw_plot_end, SW_ERR_NOMEM. */
int sw_search_draw_curves(const char *path, const struct sw_search_curve *curves, int count,
                          struct sw_err *err) SW_MUST_CHECK;
