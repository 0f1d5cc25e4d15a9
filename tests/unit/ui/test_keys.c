/* Keys and the mouse, pressed without a terminal. */
#include "ui_support.h"

#include "ui/keys.h"
#include "ui/screen.h"
#include "ui/theme.h"

struct hands {
    struct sw_ui_model *m;
    struct sw_ui_view v;
};

static struct hands begin(void)
{
    return (struct hands){stage(), sw_ui_first_view()};
}

static enum sw_ui_action press(struct hands *h, int key)
{
    struct sw_ui_input in = {.key = key};
    return sw_ui_press(&h->v, h->m, &in, 80, 24);
}

static void press_at(struct hands *h, int key, int w, int height)
{
    struct sw_ui_input in = {.key = key};
    assert_int_equal(sw_ui_press(&h->v, h->m, &in, w, height), SW_ACT_NONE);
}

static enum sw_ui_action at(struct hands *h, int key, int x, int y)
{
    struct sw_ui_input in = {key, x, y};
    return sw_ui_press(&h->v, h->m, &in, 80, 24);
}

static void only_y_stops_training(void **state)
{
    struct hands h = begin();
    static const int others[] = {'n', 'x', SW_KEY_ENTER, SW_KEY_ESCAPE, 'p', ' '};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(press(&h, 'x'), SW_ACT_NONE);
        assert_int_equal(h.v.mode, SW_UI_CONFIRMING);
        assert_int_equal(press(&h, others[i]), SW_ACT_NONE);
        assert_int_equal(h.v.mode, SW_UI_NORMAL);
    }
    press(&h, 'x');
    assert_int_equal(press(&h, 'y'), SW_ACT_STOP);
    assert_int_equal(press(&h, 'y'), SW_ACT_NONE);
    unstage(h.m);
}

static void escape_never_quits_and_q_always_does(void **state)
{
    struct hands h = begin();
    for (int i = 0; i < 5; i++)
        assert_int_equal(press(&h, SW_KEY_ESCAPE), SW_ACT_NONE);
    assert_int_equal(press(&h, 'q'), SW_ACT_QUIT);
    press(&h, '?');
    assert_int_equal(press(&h, 3), SW_ACT_QUIT);
    h.v = sw_ui_first_view();
    press(&h, '/');
    assert_int_equal(press(&h, 'q'), SW_ACT_NONE); /* a letter of the filter */
    assert_int_equal(press(&h, SW_KEY_HANGUP), SW_ACT_QUIT);
    unstage(h.m);
}

static void request_keys_return_actions(void **state)
{
    struct hands h = begin();
    assert_int_equal(press(&h, 'p'), SW_ACT_PAUSE);
    assert_int_equal(press(&h, 'c'), SW_ACT_CHECKPOINT);
    assert_int_equal(press(&h, 'o'), SW_ACT_OVERLAY);
    assert_int_equal(press(&h, 'm'), SW_ACT_MOUSE);
    assert_int_equal(press(&h, 12), SW_ACT_REDRAW);
    unstage(h.m);
}

static void panels_are_focused_by_number_and_tab(void **state)
{
    struct hands h = begin();
    press(&h, '3');
    assert_true(h.v.focus == 3 && !h.v.maximized);
    press(&h, '3');
    assert_true(h.v.focus == 3 && h.v.maximized);
    press(&h, '0');
    assert_false(h.v.maximized);
    press(&h, '4'); /* there is no room for it beside the others */
    assert_true(h.v.focus == 4 && h.v.maximized);
    press(&h, SW_KEY_TAB);
    assert_int_equal(h.v.focus, 5);
    press(&h, SW_KEY_BACK_TAB);
    press(&h, SW_KEY_BACK_TAB);
    assert_int_equal(h.v.focus, 3);
    press(&h, SW_KEY_ESCAPE);
    assert_false(h.v.maximized);
    press(&h, '9'); /* the run has no plan */
    assert_true(h.v.focus == 9 && h.v.maximized);
    unstage(h.m);
}

static void scrolling_ends_at_both_ends(void **state)
{
    struct hands h = begin();
    press(&h, '7');
    for (int i = 0; i < 10; i++)
        press(&h, SW_KEY_UP);
    assert_int_equal(h.v.scroll[7], sw_ui_event_count(h.m) - 1);
    press(&h, 'G');
    assert_int_equal(h.v.scroll[7], 0);
    press(&h, SW_KEY_DOWN);
    assert_int_equal(h.v.scroll[7], 0);
    press(&h, '5'); /* all layers are visible */
    press(&h, SW_KEY_PAGE_DOWN);
    press(&h, 'G');
    assert_int_equal(h.v.scroll[5], 0);
    press_at(&h, 'G', 50, 12); /* six of them are */
    assert_int_equal(h.v.scroll[5], h.m->layer_count - 6);
    press_at(&h, SW_KEY_UP, 50, 12);
    assert_int_equal(h.v.scroll[5], h.m->layer_count - 7);
    unstage(h.m);
}

static void run_is_selected_in_the_list(void **state)
{
    struct hands h = begin();
    press(&h, 'r');
    assert_int_equal(h.v.focus, 8);
    press(&h, 'j');
    assert_int_equal(sw_ui_selected_run(h.m, &h.v)->id, 127);
    assert_int_equal(press(&h, SW_KEY_ENTER), SW_ACT_RUN);
    press(&h, '/');
    for (const char *c = "crash"; *c; c++)
        press(&h, *c);
    assert_int_equal(press(&h, SW_KEY_ENTER), SW_ACT_NONE);
    assert_int_equal(sw_ui_selected_run(h.m, &h.v)->id, 126);
    press(&h, SW_KEY_DOWN);
    assert_int_equal(h.v.selected, 0);
    unstage(h.m);
}

static void filter_is_typed_and_cleared(void **state)
{
    struct hands h = begin();
    press(&h, '/');
    press(&h, 'a');
    press(&h, 'b');
    press(&h, SW_KEY_BACKSPACE);
    press(&h, 0x11f); /* what cannot be searched for */
    assert_string_equal(h.v.filter, "a");
    for (int i = 0; i < 100; i++)
        press(&h, 'z');
    assert_int_equal(strlen(h.v.filter), SW_UI_FILTER - 1);
    press(&h, SW_KEY_ESCAPE);
    assert_string_equal(h.v.filter, "");
    assert_int_equal(h.v.mode, SW_UI_NORMAL);
    unstage(h.m);
}

static void the_window_of_curves_stays_within_the_run(void **state)
{
    struct hands h = begin();
    for (int i = 0; i < 20; i++)
        press(&h, '+');
    assert_true(h.v.zoom <= 12);
    for (int i = 0; i < 3000; i++)
        press(&h, SW_KEY_LEFT);
    assert_true(h.v.end > 0 && h.v.end <= 1 && h.v.cursor == 0);
    for (int i = 0; i < 300; i++)
        press(&h, SW_KEY_RIGHT);
    assert_true(h.v.end <= 1 && h.v.cursor == 1);
    for (int i = 0; i < 20; i++)
        press(&h, '-');
    assert_true(h.v.zoom == 0 && h.v.end == 1);
    unstage(h.m);
}

static void scales_and_themes_cycle(void **state)
{
    struct hands h = begin();
    int smoothing = h.v.smoothing;
    for (int i = 0; i < SW_UI_SMOOTHINGS; i++)
        press(&h, 's');
    assert_int_equal(h.v.smoothing, smoothing);
    for (int i = 0; i < 100; i++) {
        press(&h, 't');
        assert_non_null(sw_themes[h.v.theme].name);
    }
    press(&h, 'l');
    assert_true(h.v.log_y);
    unstage(h.m);
}

static void the_mouse_points_scrolls_and_presses_keys(void **state)
{
    struct hands h = begin();
    at(&h, SW_KEY_CLICK, 10, 11);
    assert_int_equal(h.v.focus, 2);
    at(&h, SW_KEY_WHEEL_UP, 10, 21);
    assert_int_equal(h.v.scroll[7], 3);
    assert_int_equal(at(&h, SW_KEY_CLICK, 1, 23), SW_ACT_QUIT);
    assert_int_equal(at(&h, SW_KEY_CLICK, 9, 23), SW_ACT_NONE);
    assert_int_equal(h.v.mode, SW_UI_HELP);
    at(&h, SW_KEY_CLICK, 5, 5);
    assert_int_equal(h.v.mode, SW_UI_NORMAL);
    assert_int_equal(at(&h, SW_KEY_CLICK, -5, 500), SW_ACT_NONE);
    unstage(h.m);
}

/* The drawn help of a screen, as text. */
static void draw_help(const struct hands *h, int w, int height, struct sw_bytes *out)
{
    struct sw_canvas c = {0};
    struct sw_err err;
    assert_int_equal(sw_canvas_begin(&c, w, height, (struct sw_ui_caps){false, 0}, &err), SW_OK);
    sw_screen_draw(&c, h->m, &h->v);
    sw_canvas_to_text(&c, out);
    sw_canvas_fini(&c);
}

static bool help_shows(const struct hands *h, int w, int height, const char *what)
{
    struct sw_bytes text = {0};
    draw_help(h, w, height, &text);
    bool found = strstr(sw_bytes_text(&text), what) != NULL;
    sw_bytes_fini(&text);
    return found;
}

/* By pages, lines and ends, also with letters and the wheel, on several screens. */
static void help_scrolls_to_its_end_and_back(void **state)
{
    static const int sizes[][2] = {{80, 24}, {60, 15}, {40, 10}, {200, 20}};
    static const int down[] = {SW_KEY_PAGE_DOWN, ' ', SW_KEY_DOWN, 'j', 'G', SW_KEY_END,
                               SW_KEY_WHEEL_DOWN};
    static const int up[] = {SW_KEY_PAGE_UP, 'b', SW_KEY_UP, 'k', 'g', SW_KEY_HOME,
                             SW_KEY_WHEEL_UP};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t k = 0; k < sizeof down / sizeof *down; k++) {
            struct hands h = begin();
            int w = sizes[s][0], height = sizes[s][1];
            press_at(&h, '?', w, height);
            assert_true(help_shows(&h, w, height, "q F10 Ctrl-C"));
            assert_true(help_shows(&h, w, height, "any other closes"));
            assert_true(help_shows(&h, w, height, "PgDn"));
            assert_false(help_shows(&h, w, height, "9 plan  "));
            for (int i = 0; i < 200; i++)
                press_at(&h, down[k], w, height);
            assert_int_equal(h.v.mode, SW_UI_HELP);
            assert_true(help_shows(&h, w, height, "9 plan  "));
            assert_false(help_shows(&h, w, height, "q F10 Ctrl-C"));
            for (int i = 0; i < 200; i++)
                press_at(&h, up[k], w, height);
            assert_true(help_shows(&h, w, height, "q F10 Ctrl-C"));
            press_at(&h, 'z', w, height);
            assert_int_equal(h.v.mode, SW_UI_NORMAL);
            unstage(h.m);
        }
}

/* No page skips a line: the last line before PgDn is still visible after it. */
static void pages_of_the_help_overlap(void **state)
{
    struct hands h = begin();
    struct sw_help_size s = sw_screen_help(80, 24);
    press_at(&h, '?', 80, 24);
    press_at(&h, SW_KEY_PAGE_DOWN, 80, 24);
    assert_true(s.shown < s.lines && h.v.scroll[0] > 0 && h.v.scroll[0] < s.shown);
    unstage(h.m);
}

/* Whether a word stands in the column of keys. */
static bool help_lists(const char *help, const char *word)
{
    size_t n = strlen(word);
    for (const char *line = help; line; line = strchr(line, '\n'), line += line != NULL) {
        const char *keys = strchr(line, '|');
        for (int x = 1; keys && x < 20; x++)
            if (keys[x] == ' ' && strncmp(keys + x + 1, word, n) == 0 && keys[x + 1 + n] == ' ')
                return true;
    }
    return false;
}

/* Every key that does something is in the help. */
static void every_key_is_in_the_help(void **state)
{
    static const struct {
        int key;
        const char *word;
    } named[] = {{SW_KEY_TAB, "Tab"},
                 {SW_KEY_ENTER, "Enter"},
                 {SW_KEY_ESCAPE, "Esc"},
                 {SW_KEY_UP, "Up"},
                 {SW_KEY_DOWN, "Down"},
                 {SW_KEY_LEFT, "Left"},
                 {SW_KEY_RIGHT, "Right"},
                 {SW_KEY_PAGE_UP, "PgUp"},
                 {SW_KEY_PAGE_DOWN, "PgDn"},
                 {SW_KEY_HOME, "Home"},
                 {SW_KEY_END, "End"},
                 {SW_KEY_F1, "F1"},
                 {SW_KEY_F10, "F10"},
                 {SW_KEY_CLICK, "mouse"},
                 {SW_KEY_WHEEL_UP, "mouse"},
                 {SW_KEY_BACK_TAB, "Shift-Tab"},
                 {' ', "Space"},
                 {12, "Ctrl-L"},
                 {3, "Ctrl-C"}};
    struct hands h = begin();
    struct sw_bytes help = {0};
    h.v.mode = SW_UI_HELP;
    draw_help(&h, 84, 60, &help);
    unstage(h.m);

    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!help_lists(sw_bytes_text(&help), named[i].word))
            fail_msg("the help lacks %s", named[i].word);
    for (int key = '!'; key < 127; key++) {
        char word[] = {(char)key, 0};
        bool acts = false;
        for (int i = 2; i < 20; i++) {
            int focus = i / 2;
            h = begin();
            h.v.focus = focus;
            h.v.maximized = i % 2;
            h.v.scroll[focus] = h.v.selected = h.v.zoom = 1;
            struct sw_ui_view before = h.v;
            acts |= press(&h, key) != SW_ACT_NONE || memcmp(&before, &h.v, sizeof before) != 0;
            unstage(h.m);
        }
        bool number = key >= '1' && key <= '9';
        if (acts && !number && !help_lists(sw_bytes_text(&help), word))
            fail_msg("the help lacks %s", word);
        if (!acts && help_lists(sw_bytes_text(&help), word) && !strchr("dfuABC#.~", key))
            fail_msg("%s is in the help and does nothing", word);
    }
    assert_non_null(strstr(sw_bytes_text(&help), "1 to 9"));
    sw_bytes_fini(&help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_y_stops_training),
        cmocka_unit_test(escape_never_quits_and_q_always_does),
        cmocka_unit_test(request_keys_return_actions),
        cmocka_unit_test(panels_are_focused_by_number_and_tab),
        cmocka_unit_test(scrolling_ends_at_both_ends),
        cmocka_unit_test(run_is_selected_in_the_list),
        cmocka_unit_test(filter_is_typed_and_cleared),
        cmocka_unit_test(the_window_of_curves_stays_within_the_run),
        cmocka_unit_test(scales_and_themes_cycle),
        cmocka_unit_test(the_mouse_points_scrolls_and_presses_keys),
        cmocka_unit_test(help_scrolls_to_its_end_and_back),
        cmocka_unit_test(pages_of_the_help_overlap),
        cmocka_unit_test(every_key_is_in_the_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
