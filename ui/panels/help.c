/* The help screen: all keys, panels and marks, drawn over the other panels. Long lines are wrapped,
 * and the text scrolls (keys.c). */
#include "ui/panel.h"

struct row {
    const char *keys, *what; /* keys NULL: an empty line */
};

static const struct row rows[] = {
    {"q F10 Ctrl-C", "quit; training continues"},
    {"? h F1", "this help"},
    {"1 to 9", "go to a panel; the same number again: the whole screen"},
    {"Enter 0", "whole screen on or off; all panels"},
    {"Tab Shift-Tab", "next, previous panel"},
    {"Up Down k j", "scroll by a line"},
    {"PgUp PgDn b Space", "scroll by a page"},
    {"Home End g G", "first, last line"},
    {"Left Right", "in curves: cursor to read values; at the edge the window moves"},
    {"+ = -", "zoom the curves in (+ or =) and out, keeping the newest steps"},
    {"s", "smooth curves: none, 0.6, 0.9, 0.97"},
    {"l", "logarithmic scale"},
    {"/", "filter events, runs and layers; Enter applies, Esc removes"},
    {"r", "list of runs; Enter shows the selected run"},
    {"o", "in runs: overlay the curves of the selected run; elsewhere: remove"},
    {"p", "pause or continue training"},
    {"c", "write a checkpoint now"},
    {"x", "stop training and write a checkpoint (asks first: y or n)"},
    {"t", "next color theme"},
    {"m", "mouse off or on; off lets the terminal select text"},
    {"Esc", "back: removes the cursor, the filter, the whole screen"},
    {"Ctrl-L", "redraw"},
    {"mouse", "click: panel, run or key; wheel: scroll; title: whole screen"},
    {NULL, NULL},
    {"A B C ...", "letters on curves and in front of their values"},
    {"r d c f b u # . ~", "bars: read, decode, copy, forward, backward, update, "
                          "communication, wait, rest of a step"},
    {NULL, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows, PANELS = 9, KEYS_W = 19 };

static struct row row_of(int i)
{
    const struct sw_panel *p = i < ROWS ? NULL : sw_panel_numbered(i - ROWS + 1);
    return p ? (struct row){p->title, p->help} : rows[i];
}

/* Draws the visible lines of a row that begins at y, which may be above the area; returns how many
 * lines it has. */
static int draw_row(struct sw_canvas *c, struct sw_area in, int y, const struct row *r)
{
    int skip = y < in.y ? in.y - y : 0, top = y + skip, h = in.y + in.h - top;
    struct sw_area at = {in.x + KEYS_W, top, in.w - KEYS_W, h > 0 ? h : 0};

    if (!r->keys)
        return 1;
    if (skip == 0 && h > 0)
        sw_canvas_text(c, in.x, y, KEYS_W - 1, SW_ROLE_KEY, r->keys);

    return sw_ui_wrap_part(c, at, skip, SW_ROLE_TEXT, r->what);
}

static int want_h(const struct sw_ui_model *m, int w)
{
    int count = 0;

    for (int i = 0; i < ROWS + PANELS; i++) {
        struct row r = row_of(i);
        count += draw_row(NULL, (struct sw_area){0, 0, w, 0}, 0, &r);
    }

    return count;
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    int y = in.y - v->scroll[0];

    for (int i = 0; i < ROWS + PANELS && y < in.y + in.h; i++) {
        struct row r = row_of(i);
        y += draw_row(c, in, y, &r);
    }
}

const struct sw_panel sw_panel_help = {
    .name = "help",
    .title = "help",
    .help = "all keys",
    .min_h = 3,
    .want_h = want_h,
    .draw = draw,
};
