/* The view that the user has chosen: focus, zoom, scales, scrolling, filter. Plain data; keys.c
 * changes it, panels read it. One owner. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SW_UI_PANELS = 16, SW_UI_FILTER = 48, SW_UI_PROMPT = 160 };

enum sw_ui_mode {
    SW_UI_NORMAL,
    SW_UI_FILTERING,  /* typed characters go into the filter */
    SW_UI_CONFIRMING, /* waits for y or n */
    SW_UI_HELP,
};

struct sw_ui_view {
    int focus;      /* number of the panel that receives keys */
    bool maximized; /* the focused panel fills the screen */
    enum sw_ui_mode mode;
    int scroll[SW_UI_PANELS]; /* first visible line; for events: lines back from the newest */
    int selected;             /* index in the filtered list of runs */
    int smoothing;            /* index of sw_ui_smoothing */
    bool log_y;
    int zoom;      /* curves show 1 / 2^zoom of the steps */
    double end;    /* right end of the window as a fraction of the steps; 1 follows the run */
    double cursor; /* position in the window, 0..1; negative: none */
    int theme;     /* index of sw_themes */
    char filter[SW_UI_FILTER];
    char message[SW_UI_PROMPT]; /* result of the last request, or "" */
    bool message_bad;
    bool of_run; /* started with the training; `q` detaches */
};

enum { SW_UI_SMOOTHINGS = 4 };
extern const double
    sw_ui_smoothing[SW_UI_SMOOTHINGS]; /* decay of each smoothing, for sw_chart_smooth */
