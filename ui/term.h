/* A terminal through ncurses: shows canvases and returns keys. Only this part of the program
 * includes ncurses. sw_term_close restores the terminal; if the process dies before that, a guard
 * process does (guard.h). One terminal at a time, main thread. */
#pragma once

#include "ui/keys.h"
#include "ui/theme.h"

struct sw_term;

/* Takes over standard input and output. Errors: SW_ERR_UNSUPPORTED (no terminal, or one that cannot
 * position the cursor), SW_ERR_NOMEM, SW_ERR_IO. */
int sw_term_open(struct sw_term **out, struct sw_err *err) SW_MUST_CHECK;
void sw_term_close(struct sw_term *t); /* NULL is accepted */

struct sw_ui_caps sw_term_caps(const struct sw_term *t);
void sw_term_size(const struct sw_term *t, int *w, int *h);
/* Sends the cells that differ from the last canvas. */
void sw_term_show(struct sw_term *t, const struct sw_canvas *c, const struct sw_theme *theme);
/* Makes the next sw_term_show send all cells. */
void sw_term_invalidate(struct sw_term *t);
void sw_term_mouse(struct sw_term *t, bool on);
/* Waits at most timeout_ms for a key. False: no key was pressed, or a signal arrived. */
bool sw_term_read(struct sw_term *t, int timeout_ms, struct sw_ui_input *in);
