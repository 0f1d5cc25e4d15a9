/* Events: evaluations, checkpoints, warnings, notes, and output of libraries. The newest event is
 * at the bottom; scrolling moves back in time. */
#include "ui/panel.h"

#include <stdio.h>

static bool passes(const struct sw_ui_view *v, const struct sw_ui_event *e)
{
    return sw_ui_matches_filter(v, e->text) || sw_ui_matches_filter(v, e->source);
}

static enum sw_role role_of(enum sw_log_level level)
{
    return level == SW_LOG_ERROR  ? SW_ROLE_BAD
           : level == SW_LOG_WARN ? SW_ROLE_WARN
           : level == SW_LOG_INFO ? SW_ROLE_TEXT
                                  : SW_ROLE_DIM;
}

/* Draws an event; without colors a letter shows its level. */
static void row(struct sw_canvas *c, struct sw_area in, int y, const struct sw_ui_event *e)
{
    char clock[16];
    int x = in.x;

    sw_ui_clock(clock, e->time);
    if (in.w >= 40)
        x += sw_canvas_text(c, x, y, in.w, SW_ROLE_DIM, clock) + 1;

    const char *sign = e->level == SW_LOG_ERROR ? "E " : e->level == SW_LOG_WARN ? "! " : "  ";
    x += sw_canvas_text(c, x, y, in.x + in.w - x, role_of(e->level), sign);
    if (in.w >= 60)
        sw_canvas_text(c, x, y, 10, SW_ROLE_DIM, e->source);
    x += in.w >= 60 ? 11 : 0;
    sw_canvas_text(c, x, y, in.x + in.w - x, role_of(e->level), e->text);
}

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    int count = 0;
    for (int i = 0; i < sw_ui_event_count(m); i++)
        count += passes(v, sw_ui_event_at(m, i));
    return count;
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    int all = lines(m, v), back = v->scroll[7];
    int most = all > in.h ? all - in.h : 0;
    int shown = all < in.h ? all : in.h, y = in.y + shown - 1;
    int skip = back > most ? most : back;

    if (all == 0)
        sw_canvas_text(c, in.x, in.y, in.w, SW_ROLE_DIM,
                       *v->filter ? "no event matches the filter" : "no events yet");

    for (int i = sw_ui_event_count(m) - 1; i >= 0 && y >= in.y; i--) {
        const struct sw_ui_event *e = sw_ui_event_at(m, i);
        if (passes(v, e) && skip-- <= 0)
            row(c, in, y--, e);
    }
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    int n = 0;

    *out = 0;
    if (*v->filter)
        n = snprintf(out, 80, "/%s  ", v->filter);
    if (v->scroll[7] > 0)
        n += snprintf(out + n, (size_t)(80 - n), "%d newer below  ", v->scroll[7]);

    if (m->checkpoint_step >= 0) {
        char clock[16];
        sw_ui_clock(clock, m->checkpoint_time);
        snprintf(out + n, (size_t)(80 - n), "checkpoint of step %lld at %s",
                 (long long)m->checkpoint_step, clock);
    }
}

static int want_h(const struct sw_ui_model *m, int w)
{
    int n = sw_ui_event_count(m);
    return n < 2 ? 2 : n > 8 ? 8 : n;
}

const struct sw_panel sw_panel_events = {
    .name = "events",
    .title = "7 events",
    .help = "evaluations, checkpoints, warnings, library output; / filters",
    .number = 7,
    .rank = 3,
    .min_h = 1,
    .grow = 2,
    .want_h = want_h,
    .draw = draw,
    .note = note,
    .lines = lines,
};
