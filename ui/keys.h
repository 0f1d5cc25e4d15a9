/* Keys and the mouse: how they change the view, and which actions they request. Every function has
 * a plain letter, Esc only goes back, and ending a training needs a confirmation. Pure functions:
 * tests press keys without a terminal. */
#pragma once

#include "ui/layout.h"

/* A key that is a character is its Unicode code point; these are the others. */
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
    SW_KEY_HANGUP, /* the terminal was closed */
};

struct sw_ui_input {
    int key;
    int x, y; /* cell of the mouse */
};

enum sw_ui_action {
    SW_ACT_NONE,
    SW_ACT_QUIT,
    SW_ACT_PAUSE, /* or continue */
    SW_ACT_CHECKPOINT,
    SW_ACT_STOP,    /* confirmed with yes */
    SW_ACT_RUN,     /* show the selected run */
    SW_ACT_OVERLAY, /* add or remove the curves of the selected run */
    SW_ACT_MOUSE,   /* off or on */
    SW_ACT_REDRAW,
};

/* w and h are those of the screen that the user saw. */
enum sw_ui_action sw_ui_press(struct sw_ui_view *v, const struct sw_ui_model *m,
                              const struct sw_ui_input *in, int w, int h);

/* The initial view. */
struct sw_ui_view sw_ui_first_view(void);
