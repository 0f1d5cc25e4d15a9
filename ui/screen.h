/* Draws the whole screen: a pure function of model, view, size and capabilities, so tests check the
 * dashboard here. */
#pragma once

#include "ui/layout.h"

/* Draws into c, which sw_canvas_begin has prepared. */
void sw_screen_draw(struct sw_canvas *c, const struct sw_ui_model *m, const struct sw_ui_view *v);
/* The key that a click on the footer at column x stands for; 0: none. */
int sw_screen_key_at(int w, const struct sw_ui_view *v, int x);
/* The help on a screen of that size: its width, all its lines, and how many are visible. */
struct sw_help_size {
    int w, lines, shown;
};
struct sw_help_size sw_screen_help(int w, int h);
/* Appends the essential state in one line, for the smallest screens. */
void sw_screen_headline(const struct sw_ui_model *m, struct sw_bytes *out);
