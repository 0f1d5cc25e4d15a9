/* Composes the screen of the dashboard: header, panels in their frames, footer, help, and the small
 * forms for tiny terminals. Pure functions of model, view and size; the contract is in
 * ui/screen.h. */
#include "ui/screen.h"

#include "ui/ending.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The last line ----------------------------------------------------------------------------
 */

static const struct {
    int key;
    const char *letter, *word;
} foot[] = {
    {'q', "q", "quit"}, {'?', "?", "help"}, {'p', "p", "pause"},    {'c', "c", "checkpoint"},
    {'x', "x", "stop"}, {'r', "r", "runs"}, {'/', "/", "filter"},   {'s', "s", "smooth"},
    {'l', "l", "log"},  {'+', "+", "zoom"}, {'\t', "Tab", "panel"}, {'t', "t", "theme"},
};
enum { FOOT = sizeof foot / sizeof *foot };

static const char *word_of(int i, const struct sw_ui_view *v)
{
    return foot[i].key == 'q' && v->of_run ? "detach" : foot[i].word;
}

/* Columns of an entry: the letter, a blank, the word. */
static int entry_w(int i, const struct sw_ui_view *v)
{
    return (int)(strlen(foot[i].letter) + 1 + strlen(word_of(i, v)));
}

int sw_screen_key_at(int w, const struct sw_ui_view *v, int x)
{
    for (int i = 0, at = 1; i < FOOT && at + entry_w(i, v) <= w; i++) {
        if (x >= at && x < at + entry_w(i, v))
            return foot[i].key;
        at += entry_w(i, v) + 2;
    }

    return 0;
}

static void footer(struct sw_canvas *c, struct sw_area in, const struct sw_ui_view *v)
{
    if (v->mode == SW_UI_FILTERING) {
        sw_canvas_printf(c, in.x + 1, in.y, in.w - 1, SW_ROLE_KEY, "filter: /%s_", v->filter);
        return;
    }

    if (*v->message) {
        enum sw_role role = v->message_bad                ? SW_ROLE_BAD
                            : v->mode == SW_UI_CONFIRMING ? SW_ROLE_WARN
                                                          : SW_ROLE_GOOD;
        sw_canvas_text(c, in.x + 1, in.y, in.w - 1, role, v->message);
        return;
    }

    for (int i = 0, x = in.x + 1; i < FOOT && x + entry_w(i, v) <= in.x + in.w; i++) {
        int n = (int)strlen(foot[i].letter);
        sw_canvas_text(c, x, in.y, n, SW_ROLE_KEY, foot[i].letter);
        sw_canvas_text(c, x + n + 1, in.y, in.w, SW_ROLE_TEXT, word_of(i, v));
        x += entry_w(i, v) + 2;
    }
}

/* ---- Small screens ----------------------------------------------------------------------------
 */

/* "#128 alexnet 4812/35100 13.7% loss 0.431 accuracy 0.712 1711/s eta 00:37:00", the most important
 * words first, since the end may be cut. */
void sw_screen_headline(const struct sw_ui_model *m, struct sw_bytes *out)
{
    char number[16];
    int64_t step = sw_ui_step(m);

    if (!m->found) {
        sw_bytes_add(out, m->problem);
        return;
    }

    sw_bytes_printf(out, "#%lld", (long long)m->run.id);
    if (!sw_str_eq(sw_ui_status(m), "running"))
        sw_bytes_printf(out, " %s", sw_ui_status(m));
    sw_bytes_printf(out, " %lld/%lld", (long long)step, (long long)m->run.steps);
    sw_bytes_printf(out, " loss %s",
                    sw_chart_number(number, sw_ui_newest(sw_ui_series_find(m, "train", "loss"))));

    const struct sw_ui_series *a = sw_ui_series_find(m, NULL, "accuracy");
    if (a)
        sw_bytes_printf(out, " acc %s", sw_chart_number(number, sw_ui_newest(a)));
    sw_bytes_printf(
        out, " %s/s",
        sw_chart_number(number, sw_ui_median(sw_ui_series_find(m, "train", "samples_per_s"))));
    sw_ui_duration(number, sw_ui_eta(m));
    if (m->run.status == SW_RUN_RUNNING)
        sw_bytes_printf(out, " ETA %s", number);
    sw_bytes_printf(out, " %s", m->run.name);
}

/* Draws a curve in one line of block characters. */
static void sparkline(struct sw_canvas *c, int x, int y, int columns, const struct sw_ui_series *s)
{
    double lo = INFINITY, hi = -INFINITY;
    size_t n = s->trail.count;

    for (size_t i = 0; i < n; i++) {
        lo = fmin(lo, s->trail.points[i].y);
        hi = fmax(hi, s->trail.points[i].y);
    }

    struct sw_ui_range range = sw_ticks_range(lo, hi, false);
    for (int i = 0; i < columns && n > 0; i++) {
        size_t from = (size_t)i * n / (size_t)columns, end = (size_t)(i + 1) * n / (size_t)columns;
        double y_sum = 0;

        if (end <= from)
            end = from + 1;
        for (size_t k = from; k < end; k++)
            y_sum += s->trail.points[k].y;

        double level = sw_ticks_fraction(range, false, y_sum / (double)(end - from));
        int eighth = 1 + (int)(level > 0 ? fmin(level, 1) * 7.99 : 0);
        sw_canvas_rune(c, x + i, y,
                       c->caps.utf8 ? 0x2580u + (uint32_t)eighth : (uint32_t) "_..--==^^"[eighth],
                       SW_ROLE_LINE1);
    }
}

static int metric_lines(struct sw_canvas *c, int y, int end, const struct sw_ui_model *m)
{
    static const struct {
        const char *split, *name, *title;
    } wanted[] = {{"train", "loss", "loss"},
                  {NULL, "loss", "loss"},
                  {NULL, "accuracy", "accuracy"},
                  {"train", "samples_per_s", "samples/s"}};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && y < end; i++) {
        const struct sw_ui_series *s = sw_ui_series_find(m, wanted[i].split, wanted[i].name);
        bool varies = sw_str_eq(wanted[i].name, "samples_per_s"); /* much from step to step */
        char number[16];

        if (!s)
            continue;

        int x = sw_canvas_printf(c, 0, y, c->w, SW_ROLE_TEXT, "%.5s %s", s->split, wanted[i].title);
        sw_canvas_right(c, 0, y, 24, SW_ROLE_STRONG,
                        sw_chart_number(number, varies ? sw_ui_median(s) : sw_ui_newest(s)));
        x = x < 24 ? 25 : x + 1;
        sparkline(c, x, y, c->w - x, s);
        y++;
    }

    return y;
}

static void draw_small(struct sw_canvas *c, int y, const struct sw_ui_model *m,
                       const struct sw_ui_view *v)
{
    struct sw_bottleneck bottleneck = sw_ui_bottleneck(m);

    y = metric_lines(c, y, c->h, m);
    if (y < c->h)
        sw_canvas_text(c, 0, y++, c->w, SW_ROLE_TEXT, bottleneck.text);

    char hint[SW_RESUME_HINT];
    sw_resume_hint(hint, m->run.id, m->run.status, m->checkpoint_step);
    if (*hint && y < c->h)
        sw_canvas_text(c, 0, y++, c->w, SW_ROLE_WARN, hint);
    else if (*bottleneck.advice && c->h - y >= 3)
        sw_canvas_text(c, 0, y++, c->w, SW_ROLE_DIM, bottleneck.advice);

    char plan[48];
    sw_ui_plan_verdict(plan, &m->plan, m->ledger.p50_ms);
    if (*plan && c->h - y >= 3)
        sw_canvas_text(c, 0, y++, c->w, SW_ROLE_DIM, plan);

    if (c->h - y >= 2)
        sw_panel_named("workers")->draw(c, (struct sw_area){0, y, c->w, c->h - y}, m, v);
}

enum { HELP_W = 84, HELP_NOTE_W = 72 };

/* ---- The whole screen
 * --------------------------------------------------------------------------------
 */

static void draw_framed(struct sw_canvas *c, struct sw_area at, const struct sw_panel *p,
                        const struct sw_ui_model *m, const struct sw_ui_view *v, const char *note)
{
    char text[96] = "";
    bool focus = p->number > 0 && v->focus == p->number;

    if (p->note)
        p->note(m, v, text);
    sw_canvas_box(c, at, focus ? SW_ROLE_FOCUS : SW_ROLE_BORDER, p->title, note ? note : text);

    struct sw_area in = sw_area_inside(at);
    if (in.w > 4 && in.h > 0)
        p->draw(c, (struct sw_area){in.x + 1, in.y, in.w - 2, in.h}, m, v);
}

/* Dims the data of a run whose trainer no longer responds. */
static void dim_stale(struct sw_canvas *c, const struct sw_layout *l, const struct sw_ui_model *m)
{
    if (m->run.status != SW_RUN_RUNNING || m->live || !m->found)
        return;

    for (int i = 0; i < l->count; i++)
        if (l->place[i].panel->number == 3)
            sw_canvas_recolour(c, sw_area_inside(l->place[i].area), SW_ROLE_DIM);
}

struct sw_help_size sw_screen_help(int w, int h)
{
    struct sw_help_size s = {.w = w < HELP_W ? w : HELP_W};

    s.lines = sw_panel_named("help")->want_h(NULL, s.w - 4);
    s.shown = s.lines < h - 2 ? s.lines : h - 2;
    return s;
}

static void help(struct sw_canvas *c, const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    struct sw_help_size s = sw_screen_help(c->w, c->h);
    int h = s.shown + 2;
    struct sw_area at = {(c->w - s.w) / 2, (c->h - h) / 2, s.w, h};
    char note[80] = "any key closes it";

    if (s.shown < s.lines && s.w < HELP_NOTE_W)
        snprintf(note, sizeof note, "PgDn; any other closes it");
    else if (s.shown < s.lines)
        snprintf(note, sizeof note, "%d-%d of %d: arrows and PgDn scroll, any other closes it",
                 v->scroll[0] + 1, v->scroll[0] + s.shown, s.lines);
    sw_canvas_fill(c, at, ' ', SW_ROLE_TEXT);
    draw_framed(c, at, sw_panel_named("help"), m, v, note);
}

/* The smallest screens: the state, or the most important keys, over all lines. */
static void draw_tiny(struct sw_canvas *c, const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    struct sw_bytes text = {0};

    if (v->mode == SW_UI_HELP)
        sw_bytes_add(&text, "q quit  p pause  c checkpoint  x stop  (more keys: enlarge this)");
    else if (v->mode == SW_UI_FILTERING)
        sw_bytes_printf(&text, "filter: /%s_", v->filter);
    else if (*v->message)
        sw_bytes_add(&text, v->message);
    else
        sw_screen_headline(m, &text);

    sw_ui_wrap(c, 0, 0, c->w, c->h, SW_ROLE_TEXT, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

void sw_screen_draw(struct sw_canvas *c, const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    struct sw_layout l;

    if (c->w < 1 || c->h < 1)
        return;

    sw_layout_make(&l, c->w, c->h, m, v);
    if (!l.frames && (c->h < 4 || c->w < 30)) {
        draw_tiny(c, m, v);
        return;
    }

    sw_panel_named("header")->draw(c, l.header, m, v);
    if (!l.frames)
        draw_small(c, l.header.h, m, v);
    for (int i = 0; i < l.count; i++)
        draw_framed(c, l.place[i].area, l.place[i].panel, m, v, NULL);
    dim_stale(c, &l, m);

    if (l.footer.h > 0)
        footer(c, l.footer, v);
    else if (*v->message || v->mode == SW_UI_FILTERING) {
        struct sw_area last = {0, c->h - 1, c->w, 1};
        sw_canvas_fill(c, last, ' ', SW_ROLE_TEXT);
        footer(c, last, v);
    }

    if (v->mode == SW_UI_HELP)
        help(c, m, v);
}
