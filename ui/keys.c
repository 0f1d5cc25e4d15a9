/* Turns keys and mouse events into changes of the view or into an action for the dashboard. Start
 * at sw_ui_press at the end; press_key decides by mode first, then by key. Pure functions; the
 * contract is in ui/keys.h. */
#include "ui/keys.h"

#include "ui/screen.h"
#include "ui/theme.h"
#include <stdio.h>
#include <string.h>

enum { MOST_ZOOM = 12, CURVES = 1, EVENTS = 7, RUNS = 8 };

struct sw_ui_view sw_ui_first_view(void)
{
    return (struct sw_ui_view){.focus = CURVES, .smoothing = 2, .end = 1, .cursor = -1};
}

/* ---- Panels -----------------------------------------------------------------------------------
 */

static bool is_visible(const struct sw_layout *l, int number)
{
    for (int i = 0; i < l->count; i++)
        if (l->place[i].panel->number == number)
            return true;
    return false;
}

/* Focuses a panel; one that has no room in the overview gets the whole screen. */
static void focus_on(struct sw_ui_view *v, const struct sw_layout *l, int number)
{
    if (!sw_panel_numbered(number))
        return;
    v->maximized = number == v->focus ? !v->maximized : v->maximized || !is_visible(l, number);
    v->focus = number;
}

static void next_panel(struct sw_ui_view *v, const struct sw_layout *l, int by)
{
    for (int i = 1; i < SW_UI_PANELS; i++) {
        int number = (v->focus + i * by + SW_UI_PANELS) % SW_UI_PANELS;
        if (sw_panel_numbered(number) && (v->maximized || is_visible(l, number))) {
            v->focus = number;
            return;
        }
    }
}

/* ---- Scrolling --------------------------------------------------------------------------------
 */

static int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? (most < 0 ? 0 : most) : value;
}

/* Lines that a panel shows at once, below its titles. */
static int page_of(const struct sw_layout *l, int number)
{
    for (int i = 0; i < l->count; i++)
        if (l->place[i].panel->number == number)
            return l->place[i].area.h > 4 ? l->place[i].area.h - 3 : 1;
    return 1;
}

/* Whether a key scrolls; *by gets the number of lines, downwards. */
static bool is_move(int key, int page, int *by)
{
    enum { FAR = 1 << 20 };
    static const struct {
        int key, letter, lines, pages;
    } moves[] = {{SW_KEY_UP, 'k', -1, 0},      {SW_KEY_DOWN, 'j', 1, 0},
                 {SW_KEY_PAGE_UP, 'b', 0, -1}, {SW_KEY_PAGE_DOWN, ' ', 0, 1},
                 {SW_KEY_HOME, 'g', -FAR, 0},  {SW_KEY_END, 'G', FAR, 0},
                 {SW_KEY_WHEEL_UP, 0, -3, 0},  {SW_KEY_WHEEL_DOWN, 0, 3, 0}};

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (key == moves[i].key || (key > 0 && key == moves[i].letter)) {
            *by = moves[i].lines + moves[i].pages * page;
            return true;
        }

    return false;
}

/* Scrolls down for positive values, until the last line is at the lower edge. The offset of events
 * counts from the newest, so its sign is reversed. */
static void scroll(struct sw_ui_view *v, const struct sw_ui_model *m, const struct sw_layout *l,
                   int number, int by)
{
    const struct sw_panel *p = sw_panel_numbered(number);
    if (!p || !p->lines)
        return;

    int lines = p->lines(m, v);
    if (number == RUNS)
        v->selected = clamp(v->selected + by, lines - 1);
    else
        v->scroll[number] =
            clamp(v->scroll[number] + (number == EVENTS ? -by : by), lines - page_of(l, number));
}

/* ---- Curves -----------------------------------------------------------------------------------
 */

static void zoom(struct sw_ui_view *v, int by)
{
    v->zoom = clamp(v->zoom + by, MOST_ZOOM);
    double width = 1.0 / (1 << v->zoom);
    v->end = v->end < width ? width : v->end;
}

/* Moves the cursor by a hundredth of the window; at the edge the window scrolls. */
static void move_cursor(struct sw_ui_view *v, int by)
{
    double width = 1.0 / (1 << v->zoom);

    v->cursor = v->cursor < 0 ? 1 : v->cursor + 0.01 * by;
    if (v->cursor < 0 || v->cursor > 1)
        v->end += 0.1 * width * by;
    v->cursor = v->cursor < 0 ? 0 : v->cursor > 1 ? 1 : v->cursor;
    v->end = v->end > 1 ? 1 : v->end < width ? width : v->end;
}

/* ---- Modes ------------------------------------------------------------------------------------
 */

static void type_filter(struct sw_ui_view *v, int key)
{
    size_t n = strlen(v->filter);

    if (key == SW_KEY_ENTER)
        v->mode = SW_UI_NORMAL;
    else if (key == SW_KEY_ESCAPE) {
        v->mode = SW_UI_NORMAL;
        v->filter[0] = 0;
    } else if ((key == SW_KEY_BACKSPACE || key == 8) && n > 0)
        v->filter[n - 1] = 0;
    else if (key >= ' ' && key < 127 && n + 1 < sizeof v->filter) {
        v->filter[n] = (char)key;
        v->filter[n + 1] = 0;
    }

    memset(v->scroll, 0, sizeof v->scroll);
    v->selected = 0;
}

static enum sw_ui_action answer(struct sw_ui_view *v, int key)
{
    v->mode = SW_UI_NORMAL;
    v->message[0] = 0;
    return key == 'y' || key == 'Y' ? SW_ACT_STOP : SW_ACT_NONE;
}

static void confirm_stop(struct sw_ui_view *v)
{
    v->mode = SW_UI_CONFIRMING;
    v->message_bad = false;
    snprintf(v->message, sizeof v->message,
             "stop training after this step and write a checkpoint? (y/n)");
}

static void go_back(struct sw_ui_view *v)
{
    if (v->cursor >= 0)
        v->cursor = -1;
    else if (*v->filter)
        v->filter[0] = 0;
    else
        v->maximized = false;
}

/* ---- Keys -------------------------------------------------------------------------------------
 */

/* Keys that request an action beyond the view. */
static enum sw_ui_action request_of(int key)
{
    static const struct {
        int key;
        enum sw_ui_action action;
    } rows[] = {{'q', SW_ACT_QUIT},        {3, SW_ACT_QUIT}, /* Ctrl-C */
                {SW_KEY_F10, SW_ACT_QUIT}, {SW_KEY_HANGUP, SW_ACT_QUIT},
                {'p', SW_ACT_PAUSE},       {'c', SW_ACT_CHECKPOINT},
                {'o', SW_ACT_OVERLAY},     {'m', SW_ACT_MOUSE},
                {12, SW_ACT_REDRAW} /* Ctrl-L */};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].key == key)
            return rows[i].action;

    return SW_ACT_NONE;
}

/* Handles keys that change curves and colors; false for any other key. */
static bool press_display(struct sw_ui_view *v, int key)
{
    switch (key) {
    case 's':
        v->smoothing = (v->smoothing + 1) % SW_UI_SMOOTHINGS;
        return true;
    case 'l':
        v->log_y = !v->log_y;
        return true;
    case '+':
    case '=':
        zoom(v, 1);
        return true;
    case '-':
        zoom(v, -1);
        return true;
    case 't':
        v->theme++;
        v->theme = sw_themes[v->theme].name ? v->theme : 0;
        return true;
    default:
        return false;
    }
}

/* Handles the remaining keys: modes and the focus. */
static enum sw_ui_action press_letter(struct sw_ui_view *v, const struct sw_layout *l, int key)
{
    switch (key) {
    case '?':
    case 'h':
    case SW_KEY_F1:
        v->mode = SW_UI_HELP;
        v->scroll[0] = 0;
        break;
    case 'x':
        confirm_stop(v);
        break;
    case '/':
        v->mode = SW_UI_FILTERING;
        break;
    case 'r':
        focus_on(v, l, RUNS);
        break;
    case '0':
        v->maximized = false;
        break;
    case SW_KEY_ESCAPE:
        go_back(v);
        break;
    case SW_KEY_TAB:
        next_panel(v, l, 1);
        break;
    case SW_KEY_BACK_TAB:
        next_panel(v, l, -1);
        break;
    case SW_KEY_ENTER:
        if (v->focus == RUNS)
            return SW_ACT_RUN;
        v->maximized = !v->maximized;
        break;
    default:
        if (key >= '1' && key <= '9')
            focus_on(v, l, key - '0');
    }

    return SW_ACT_NONE;
}

/* Handles movement keys; false for any other key. */
static bool press_arrow(struct sw_ui_view *v, const struct sw_ui_model *m,
                        const struct sw_layout *l, int key)
{
    int by;

    if (key == SW_KEY_LEFT || key == SW_KEY_RIGHT) {
        if (v->focus == CURVES)
            move_cursor(v, key == SW_KEY_LEFT ? -1 : 1);
        return true;
    }

    if (!is_move(key, page_of(l, v->focus), &by))
        return false;

    scroll(v, m, l, v->focus, by);
    return true;
}

/* Scrolls the help, or closes it. */
static void press_in_help(struct sw_ui_view *v, int key, int w, int h)
{
    struct sw_help_size s = sw_screen_help(w, h);
    int by;

    if (is_move(key, s.shown > 2 ? s.shown - 1 : 1, &by) && s.shown > 0)
        v->scroll[0] = clamp(v->scroll[0] + by, s.lines - s.shown);
    else
        v->mode = SW_UI_NORMAL;
}

/* Keys that quit in every mode. */
static bool leaves(int key)
{
    return key == 3 || key == SW_KEY_F10 || key == SW_KEY_HANGUP;
}

static enum sw_ui_action press_key(struct sw_ui_view *v, const struct sw_ui_model *m,
                                   const struct sw_layout *l, int key)
{
    if (v->mode == SW_UI_FILTERING && !leaves(key)) {
        type_filter(v, key);
        return SW_ACT_NONE;
    }
    if (v->mode == SW_UI_CONFIRMING && !leaves(key))
        return answer(v, key);

    v->message[0] = 0;

    enum sw_ui_action request = request_of(key);
    if (request != SW_ACT_NONE || press_display(v, key) || press_arrow(v, m, l, key))
        return request;

    return press_letter(v, l, key);
}

/* ---- The mouse --------------------------------------------------------------------------------
 */

/* A click on a curve sets the cursor there, as far as one chart fills the panel's width. */
static enum sw_ui_action click(struct sw_ui_view *v, const struct sw_ui_model *m,
                               const struct sw_layout *l, const struct sw_ui_input *in, int w)
{
    if (in->y == l->footer.y && l->footer.h > 0) {
        int key = sw_screen_key_at(w, v, in->x);
        return key ? press_key(v, m, l, key) : SW_ACT_NONE;
    }

    const struct sw_panel_area *at = sw_layout_at(l, in->x, in->y);
    if (!at)
        return SW_ACT_NONE;

    bool title = in->y == at->area.y;
    bool again = v->focus == at->panel->number;
    v->focus = at->panel->number;

    if (title)
        v->maximized = again ? !v->maximized : v->maximized;
    else if (v->focus == RUNS) {
        int row = in->y - at->area.y - 2, room = at->area.h - 3;
        int first = v->selected >= room ? v->selected - room + 1 : 0;
        int most = at->panel->lines(m, v) - 1;

        if (row >= 0 && again && first + row == v->selected)
            return SW_ACT_RUN;

        if (row >= 0)
            v->selected = clamp(first + row, most);
    }

    return SW_ACT_NONE;
}

enum sw_ui_action sw_ui_press(struct sw_ui_view *v, const struct sw_ui_model *m,
                              const struct sw_ui_input *in, int w, int h)
{
    struct sw_layout l;

    sw_layout_make(&l, w, h, m, v);
    if (v->mode == SW_UI_HELP && !leaves(in->key)) {
        press_in_help(v, in->key, w, h);
        return SW_ACT_NONE;
    }

    if (in->key == SW_KEY_CLICK)
        return v->mode == SW_UI_NORMAL ? click(v, m, &l, in, w)
                                       : press_key(v, m, &l, SW_KEY_ESCAPE);

    if (in->key == SW_KEY_WHEEL_UP || in->key == SW_KEY_WHEEL_DOWN) {
        const struct sw_panel_area *at = sw_layout_at(&l, in->x, in->y);
        if (at)
            scroll(v, m, &l, at->panel->number, in->key == SW_KEY_WHEEL_UP ? -3 : 3);
        return SW_ACT_NONE;
    }

    return press_key(v, m, &l, in->key);
}
