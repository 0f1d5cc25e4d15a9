/* Helpers that panels share: finding panels, formatting times and shares, filtering rows, and
 * wrapping text. Pure functions; the contract is in ui/panel.h. */
#include "ui/panel.h"

#include "base/text.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const double sw_ui_smoothing[SW_UI_SMOOTHINGS] = {0, 0.6, 0.9, 0.97};

const struct sw_panel *sw_panel_numbered(int number)
{
    for (int i = 0; number > 0 && sw_panels[i]; i++)
        if (sw_panels[i]->number == number)
            return sw_panels[i];
    return NULL;
}

const struct sw_panel *sw_panel_named(const char *name)
{
    for (int i = 0; sw_panels[i]; i++)
        if (sw_str_eq(sw_panels[i]->name, name))
            return sw_panels[i];
    return NULL;
}

void sw_ui_clock(char out[16], double unix_time)
{
    bool known =
        fabs(unix_time) < 1e12 && unix_time != 0; /* neither NaN nor beyond what time_t holds */
    time_t t = (time_t)(known ? unix_time : 0);
    struct tm local;

    if (known && localtime_r(&t, &local))
        strftime(out, 16, "%H:%M:%S", &local);
    else
        snprintf(out, 16, "--");
}

const char *sw_ui_when(char out[32], double unix_time, double now)
{
    char date[16] = "";
    time_t t = (time_t)(fabs(unix_time) < 1e12 ? unix_time : 0);
    struct tm local;

    if (t != 0 && now - unix_time > 20 * 3600.0 && localtime_r(&t, &local))
        strftime(date, sizeof date, "%Y-%m-%d ", &local);

    size_t n = (size_t)snprintf(out, 16, "%s", date);
    sw_ui_clock(out + n, unix_time);
    return out;
}

void sw_ui_duration(char out[16], double seconds)
{
    if (!(seconds >= 0) || seconds > 9999.0 * 86400) {
        snprintf(out, 16, "--");
        return;
    }

    unsigned s = (unsigned)(seconds + 0.5);
    unsigned days = s / 86400 % 10000, hours = s / 3600 % 24, minutes = s / 60 % 60;
    if (days > 0)
        snprintf(out, 16, "%ud %02u:%02u", days, hours, minutes);
    else
        snprintf(out, 16, "%02u:%02u:%02u", hours, minutes, s % 60);
}

void sw_ui_percent(char out[16], double fraction)
{
    if (isnan(fraction))
        snprintf(out, 16, "--");
    else
        snprintf(out, 16, "%.0f %%", 100 * fmax(-9.99, fmin(fraction, 9.99)));
}

void sw_ui_phase_bar(struct sw_canvas *c, int x, int y, int columns,
                     const double ms[SW_STEP_PHASES])
{
    double all = 0, upto = 0;

    for (int p = 0; p < SW_STEP_PHASES; p++)
        all += ms[p];

    for (int p = 0, at = 0; p < SW_STEP_PHASES && all > 0; p++) {
        upto += ms[p];

        int end = sw_canvas_bar_columns(columns, upto / all);
        for (; at < end; at++)
            sw_canvas_rune(c, x + at, y, (uint32_t)sw_step_phase_letter((enum sw_step_phase)p),
                           sw_step_phase_role((enum sw_step_phase)p));
    }
}

bool sw_ui_matches_filter(const struct sw_ui_view *v, const char *text)
{
    size_t n = strlen(v->filter);
    if (n == 0)
        return true;

    for (; *text; text++) {
        size_t i = 0;

        while (i < n && text[i] &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)v->filter[i]))
            i++;

        if (i == n)
            return true;
    }

    return false;
}

bool sw_ui_run_matches_filter(const struct sw_ui_view *v, const struct sw_ui_row *r)
{
    char id[24];
    snprintf(id, sizeof id, "#%lld", (long long)r->id);
    return sw_ui_matches_filter(v, r->name) ||
           sw_ui_matches_filter(v, sw_run_status_name(r->status)) || sw_ui_matches_filter(v, id);
}

const struct sw_ui_row *sw_ui_selected_run(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    for (int i = 0, seen = 0; i < m->row_count; i++)
        if (sw_ui_run_matches_filter(v, &m->rows[i]) && seen++ == v->selected)
            return &m->rows[i];
    return NULL;
}

/* The number of bytes at the beginning of a text that fit into so many columns, at least one
 * character. */
static size_t bytes_within(const char *text, size_t left, int columns)
{
    const char *at = text;
    size_t bytes = 0;

    while (left) {
        columns -= sw_rune_columns(sw_utf8_next(&at, &left));
        if (columns < 0 && bytes > 0)
            break;
        bytes = (size_t)(at - text);
    }

    return bytes;
}

/* The bytes of the first line of a text that is wrapped at so many columns. */
static size_t line_bytes(const char *text, int columns)
{
    size_t fits = bytes_within(text, strlen(text), columns), end = fits;

    while (text[end] && end > 0 && text[end] != ' ')
        end--;
    return end > 0 ? end : fits;
}

int sw_ui_wrap_part(struct sw_canvas *c, struct sw_area in, int skip, enum sw_role role,
                    const char *text)
{
    struct sw_bytes plain = {0};
    int line = 0;

    sw_text_add(&plain, text);

    for (const char *at = sw_bytes_text(&plain); *at && in.w > 0; line++) {
        size_t n = line_bytes(at, in.w);

        if (line >= skip && line - skip < in.h)
            sw_canvas_printf(c, in.x, in.y + line - skip, in.w, role, "%.*s", (int)n, at);
        at += n;
        at += strspn(at, " ");
    }

    sw_bytes_fini(&plain);
    return line;
}

int sw_ui_wrap(struct sw_canvas *c, int x, int y, int columns, int rows, enum sw_role role,
               const char *text)
{
    struct sw_bytes plain = {0};
    int line = 0;

    sw_text_add(&plain, text);

    for (const char *at = sw_bytes_text(&plain); *at && columns > 0; line++) {
        size_t n = line_bytes(at, columns);

        /* The last line shows by its end that there is more. */
        if (line < rows)
            sw_canvas_printf(c, x, y + line, columns, role, "%.*s",
                             (int)(line + 1 == rows ? strlen(at) : n), at);
        at += n;
        at += strspn(at, " ");
    }

    sw_bytes_fini(&plain);
    return line;
}

enum sw_role sw_ui_status_role(enum sw_run_status s)
{
    switch (s) {
    case SW_RUN_RUNNING:
        return SW_ROLE_GOOD;
    case SW_RUN_DONE:
        return SW_ROLE_STRONG;
    case SW_RUN_STOPPED:
        return SW_ROLE_WARN;
    default:
        return SW_ROLE_BAD;
    }
}
