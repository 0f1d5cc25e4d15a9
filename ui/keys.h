/* Keys and the mouse: what they change in the view, and what they ask the dashboard to do. Every
 * key has a plain letter, Esc only ever goes back, and nothing that ends a training happens without
 * a question. Pure: tests press keys without a terminal. */
#pragma once

#include "ui/layout.h"

/* Characters are their Unicode numbers; these are keys that have none. */
enum sw_ui_key {
    SW_KEY_NONE = 0,
    SW_KEY_TAB = '\t',
    SW_KEY_ENTER = '\n',
    SW_KEY_ESCAPE = 27,
    SW_KEY_BACKSPACE = 127,
    SW_KEY_UP = 0x110000,
    SW_KEY_DOWN,
    SW_KEY_LEFT,
    SW_KEY_RIGHT,
    SW_KEY_PAGE_UP,
    SW_KEY_PAGE_DOWN,
    SW_KEY_HOME,
    SW_KEY_END,
    SW_KEY_BACK_TAB,
    SW_KEY_F1,
    SW_KEY_F10,
    SW_KEY_CLICK,
    SW_KEY_WHEEL_UP,
    SW_KEY_WHEEL_DOWN,
    SW_KEY_RESIZE,
    SW_KEY_GONE, /* there is no terminal any more */
};

struct sw_ui_input {
    int key;
    int x, y; /* of the mouse */
};

enum sw_ui_action {
    SW_ACT_NONE,
    SW_ACT_QUIT,
    SW_ACT_PAUSE, /* or continue */
    SW_ACT_CHECKPOINT,
    SW_ACT_STOP,    /* the answer was yes */
    SW_ACT_RUN,     /* show the selected run */
    SW_ACT_OVERLAY, /* lay the selected run's curves over these, or take them away */
    SW_ACT_MOUSE,   /* off or on */
    SW_ACT_REDRAW,
};

/* w and h are those of the screen that the user saw. */
enum sw_ui_action sw_ui_press(struct sw_ui_view *v, const struct sw_ui_model *m,
                              const struct sw_ui_input *in, int w, int h);

/* How everything looks at first. */
struct sw_ui_view sw_ui_first_view(void);
