/* Keys and the mouse, pressed without a terminal. */
#include "ui_support.h"

#include "ui/keys.h"
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
    press(&h, '9');
    assert_int_equal(h.v.focus, 3);
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
    press(&h, '5');
    press(&h, SW_KEY_PAGE_DOWN);
    press(&h, 'G');
    assert_int_equal(h.v.scroll[5], h.m->layer_count - 1);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
