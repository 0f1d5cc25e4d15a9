/* The help screen: all keys and panels, drawn over the other panels. */
#include "ui/panel.h"

static const struct {
    const char *keys, *what;
} rows[] = {
    {"q", "quit; training continues (F10, Ctrl-C)"},
    {"?", "this help (h, F1)"},
    {"1 to 8", "go to a panel; again or Enter: maximize; 0: show all"},
    {"Tab", "next panel (Shift-Tab: previous)"},
    {"arrows", "scroll (j k); in curves: move the cursor, or the window when zoomed"},
    {"PgUp PgDn", "scroll by a page; g G: first, last line"},
    {"+ -", "zoom the curves in and out, keeping the newest steps"},
    {"s", "smooth curves: none, 0.6, 0.9, 0.97"},
    {"l", "logarithmic scale"},
    {"o", "in runs: overlay the curves of the selected run"},
    {"/", "filter events, runs and layers; Enter applies, empty shows all"},
    {"r", "list of runs; Enter shows the selected run"},
    {"p", "pause or continue training"},
    {"c", "write a checkpoint now"},
    {"x", "stop training and write a checkpoint (asks first)"},
    {"t", "next theme"},
    {"m", "mouse off or on; off lets the terminal select text"},
    {"Ctrl-L", "redraw"},
};
enum { ROWS = sizeof rows / sizeof *rows, KEYS_W = 11 };

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    return ROWS + 12;
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return lines(m, NULL);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    int y = in.y - v->scroll[0], end = in.y + in.h;

    for (int i = 0; i < ROWS && y < end; i++, y++)
        if (y >= in.y) {
            sw_canvas_text(c, in.x, y, KEYS_W, SW_ROLE_KEY, rows[i].keys);
            sw_canvas_text(c, in.x + KEYS_W, y, in.w - KEYS_W, SW_ROLE_TEXT, rows[i].what);
        }

    y++;

    for (int number = 1; number < 10 && y < end; number++) {
        const struct sw_panel *p = sw_panel_numbered(number);
        if (!p)
            continue;

        if (y >= in.y) {
            sw_canvas_text(c, in.x, y, KEYS_W + 2, SW_ROLE_TITLE, p->title);
            sw_canvas_text(c, in.x + KEYS_W + 3, y, in.w - KEYS_W - 3, SW_ROLE_TEXT, p->help);
        }

        y++;
    }
}

const struct sw_panel sw_panel_help = {
    .name = "help",
    .title = "help: any key closes it",
    .help = "all keys",
    .min_h = 3,
    .want_h = want_h,
    .draw = draw,
    .lines = lines,
};
