/* All keys, drawn over the other panels. */
#include "ui/panel.h"

static const struct {
    const char *keys, *what;
} rows[] = {
    {"q", "leave; the training goes on (F10, Ctrl-C)"},
    {"?", "this help (h, F1)"},
    {"1 to 8", "go to a panel; again, or Enter: it alone; 0: all of them"},
    {"Tab", "the next panel (Shift-Tab: the one before)"},
    {"arrows", "scroll; in curves move the cursor, or the window when zoomed (j k)"},
    {"PgUp PgDn", "scroll by pages; g G: to the first, to the last"},
    {"+ -", "zoom the curves in and out at their newest end"},
    {"s", "smoothing of curves: none, 0.6, 0.9, 0.97"},
    {"l", "logarithmic scale"},
    {"o", "in runs: lay the curves of the selected run over these"},
    {"/", "filter events, runs and layers; Enter ends it, empty shows all"},
    {"r", "the list of runs; Enter shows the selected one"},
    {"p", "pause the training, or go on"},
    {"c", "write a checkpoint now"},
    {"x", "stop the training with a checkpoint (asks first)"},
    {"t", "the next theme"},
    {"m", "mouse off or on: off lets the terminal mark text"},
    {"Ctrl-L", "draw anew"},
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
