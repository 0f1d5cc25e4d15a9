/* What the user has chosen to see: focus, zoom, scales, scrolling, filter. Plain data; keys.c
 * changes it, panels read it. One owner. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SW_UI_PANELS = 16, SW_UI_FILTER = 48, SW_UI_PROMPT = 160 };

enum sw_ui_mode {
    SW_UI_NORMAL,
    SW_UI_FILTERING,  /* typed characters go into the filter */
    SW_UI_CONFIRMING, /* y or n */
    SW_UI_HELP,
};

struct sw_ui_view {
    int focus;      /* a panel's number; keys go there */
    bool maximized; /* the focused panel fills the screen */
    enum sw_ui_mode mode;
    int scroll[SW_UI_PANELS]; /* first line shown; of events: lines back from the newest */
    int selected;             /* in the list of runs */
    int smoothing;            /* index of sw_ui_smoothing */
    bool log_y;
    int zoom;      /* the window of curves has 1 / 2^zoom of the steps */
    double end;    /* fraction of the steps at the window's right end; 1 follows the run */
    double cursor; /* fraction of the window; below 0: none */
    int theme;     /* index of sw_themes */
    char filter[SW_UI_FILTER];
    char message[SW_UI_PROMPT]; /* result of the last request; "" none */
    bool message_bad;
    bool of_run; /* started with the training; `q` detaches */
};

enum { SW_UI_SMOOTHINGS = 4 };
extern const double sw_ui_smoothing[SW_UI_SMOOTHINGS]; /* weights of the past */
