/* The layout of panels: a pure function of size, model and view. Narrow screens have one column,
 * wide ones two or three; panels that do not fit are left out by rank. Very small screens (below 50
 * x 12) have no frames, and the smallest is one line. */
#pragma once

#include "ui/panel.h"

struct sw_panel_area {
    const struct sw_panel *panel;
    struct sw_area area; /* with the frame */
};

struct sw_layout {
    struct sw_area header; /* h 0: none */
    struct sw_area footer;
    bool frames;
    int count;
    struct sw_panel_area place[SW_UI_PANELS];
};

/* Computes the area of every panel on a screen of w x h cells. Panels that do not fit are left out,
 * those with the highest rank number first. */
void sw_layout_make(struct sw_layout *l, int w, int h, const struct sw_ui_model *m,
                    const struct sw_ui_view *v);
/* The panel at a cell of the screen, or NULL. */
const struct sw_panel_area *sw_layout_at(const struct sw_layout *l, int x, int y);
