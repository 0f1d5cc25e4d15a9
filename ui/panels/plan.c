/* The parallel plan of the run: what it predicts beside what was measured, of a step, of its parts,
 * and of every layer. Lines are collected first, so that all of them scroll alike. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBER = 9, LINES = SW_UI_LAYERS + SW_UI_PLAN_PASTS + 16 };
/* Columns; of names and bars the fewest. */
enum { NAME_W = 12, CHOICE_W = 8, TIME_W = 9, BAR_W = 8, SLOWER_W = 9 };

/* A line: a text over the whole width, or two times. */
struct line {
    const char *text; /* or NULL */
    enum sw_role role;
    const char *name, *partition, *comm;
    double predicted_ms, measured_ms;
    double full_ms; /* the time whose bar fills its columns */
};

struct lines {
    struct line line[LINES];
    int count;
};

/* ---- Lines ---- */

static void add(struct lines *l, struct line line)
{
    if (l->count < LINES)
        l->line[l->count++] = line;
}

/* The longer of both times; -1: none is known. */
static double larger(const struct line *l)
{
    double ms = fmax(l->predicted_ms, l->measured_ms);
    return isnan(ms) ? -1 : ms;
}

static int by_size(const void *a, const void *b)
{
    double x = larger(a), y = larger(b);
    return (y > x) - (y < x);
}

static void add_step(struct lines *l, const struct sw_ui_model *m)
{
    const struct sw_ui_plan_measured got =
        sw_ui_plan_measure(&m->plan, &m->ledger, m->layers, m->layer_count);
    double full = fmax(m->plan.step_ms, got.step_ms);

    add(l, (struct line){.name = "step",
                         .predicted_ms = m->plan.step_ms,
                         .measured_ms = got.step_ms,
                         .full_ms = full});
    for (int i = 0; i < SW_UI_PLAN_PARTS; i++)
        add(l, (struct line){.name = sw_ui_plan_part_name((enum sw_ui_plan_part)i),
                             .predicted_ms = m->plan.part_ms[i],
                             .measured_ms = got.part_ms[i],
                             .full_ms = full});

    add(l, (struct line){.name = "of it input",
                         .predicted_ms = NAN,
                         .measured_ms = got.input_ms,
                         .full_ms = full});
    if (!isnan(m->plan.mean_ms))
        add(l, (struct line){.name = "mean step",
                             .predicted_ms = m->plan.step_ms,
                             .measured_ms = m->plan.mean_ms,
                             .full_ms = full});
    for (int i = 0; i < m->plan.past_count; i++)
        add(l, (struct line){.name = m->plan.past[i].name,
                             .predicted_ms = m->plan.past[i].predicted_ms,
                             .measured_ms = m->plan.past[i].measured_ms,
                             .full_ms = full});
}

/* The slowest layers first, by what was predicted or measured, whichever is longer. */
static void add_layers(struct lines *l, const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    int first = l->count;
    double full = 0;

    for (int i = 0; i < m->plan.layer_count; i++) {
        const struct sw_ui_plan_layer *p = &m->plan.layers[i];

        if (sw_ui_matches_filter(v, p->name))
            add(l, (struct line){.name = p->name,
                                 .partition = p->partition,
                                 .comm = p->comm,
                                 .predicted_ms = p->compute_ms,
                                 .measured_ms =
                                     sw_ui_plan_layer_ms(p->name, m->layers, m->layer_count)});
    }

    qsort(l->line + first, (size_t)(l->count - first), sizeof *l->line, by_size);
    for (int i = first; i < l->count; i++)
        full = fmax(full, larger(&l->line[i]));
    for (int i = first; i < l->count; i++)
        l->line[i].full_ms = full;
}

static void collect(struct lines *l, const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    l->count = 0;
    add(l, (struct line){.text = *m->plan.shape ? m->plan.shape : "the plan cannot be read",
                         .role = SW_ROLE_STRONG});
    add_step(l, m);
    if (m->plan.layer_count > 0)
        add(l,
            (struct line){
                .text = "layers on their slowest worker, forward and backward, means of all steps",
                .role = SW_ROLE_DIM});
    add_layers(l, m, v);
}

/* ---- Drawing ---- */

/* Columns of a line. */
struct columns {
    int name_w, bar_w;               /* with its gaps; 0: no bars */
    int predicted, measured, slower; /* x; the last one ends with the area */
};

/* Names get what they need, as long as bars of a useful length are left; in a narrow area there are
 * no bars. */
static struct columns columns_of(const struct sw_canvas *c, struct sw_area in,
                                 const struct sw_ui_plan *p)
{
    int room = in.w - CHOICE_W - 2 * TIME_W - SLOWER_W, name_w = NAME_W, bar_w = 0;

    for (int i = 0; i < p->layer_count; i++) {
        int w = sw_canvas_columns(c, p->layers[i].name) + 1;
        name_w = w > name_w ? w : name_w;
    }

    if (room >= NAME_W + 2 * BAR_W) {
        name_w = name_w < room - 2 * BAR_W ? name_w : room - 2 * BAR_W;
        bar_w = (room - name_w) / 2;
    } else {
        name_w = room;
    }

    int predicted = in.x + name_w + CHOICE_W;
    return (struct columns){.name_w = name_w,
                            .bar_w = bar_w,
                            .predicted = predicted,
                            .measured = predicted + TIME_W + bar_w,
                            .slower = in.x + in.w - SLOWER_W};
}

/* "+12 %", "-5 %", "x 31"; with '!' if it is far off. */
static enum sw_role difference(char out[32], const struct sw_ui_plan *p, const struct line *l)
{
    bool far = sw_ui_plan_differs(p, l->predicted_ms, l->measured_ms);
    double ratio = l->measured_ms / l->predicted_ms;
    const char *mark = far ? " !" : "  ";

    if (!(l->predicted_ms > 0) || !(ratio >= 0))
        snprintf(out, 32, "%s", far ? "--   !" : isnan(l->predicted_ms) ? "" : "--    ");
    else if (ratio >= 10)
        snprintf(out, 32, "x %.0f%s", fmin(ratio, 9999), mark);
    else
        snprintf(out, 32, "%+.0f %%%s", 100 * (ratio - 1), mark);

    return far ? SW_ROLE_WARN : SW_ROLE_TEXT;
}

static void time_and_bar(struct sw_canvas *c, int x, int y, const struct columns *k, double ms,
                         const struct line *l, enum sw_role role)
{
    char text[32];

    sw_canvas_right(c, x, y, TIME_W, SW_ROLE_TEXT, sw_human_seconds(text, ms / 1000));
    if (k->bar_w > 0)
        sw_canvas_bar(c, x + TIME_W + 1, y, k->bar_w - 2, ms / l->full_ms, role);
}

static void draw_line(struct sw_canvas *c, struct sw_area in, const struct columns *k,
                      const struct sw_ui_plan *p, const struct line *l)
{
    char text[32];

    if (l->text) {
        sw_canvas_text(c, in.x, in.y, in.w, l->role, l->text);
        return;
    }

    int choice_w = l->partition ? CHOICE_W : 0;
    sw_canvas_text(c, in.x, in.y, k->name_w - 1 + CHOICE_W - choice_w, SW_ROLE_TEXT, l->name);
    if (l->partition)
        sw_canvas_printf(c, in.x + k->name_w, in.y, CHOICE_W, SW_ROLE_TEXT, "%s %s", l->partition,
                         l->comm);

    time_and_bar(c, k->predicted, in.y, k, l->predicted_ms, l, SW_ROLE_DIM);
    time_and_bar(c, k->measured, in.y, k, l->measured_ms, l, SW_ROLE_LINE1);

    enum sw_role role = difference(text, p, l);
    sw_canvas_right(c, k->slower, in.y, SLOWER_W, role, text);
}

static void draw_titles(struct sw_canvas *c, struct sw_area in, const struct columns *k,
                        const struct sw_ui_model *m)
{
    int room = k->name_w + CHOICE_W;
    char steps[64];

    int n = snprintf(steps, sizeof steps, "steps %lld-%lld", (long long)m->ledger.from_step,
                     (long long)m->ledger.to_step);
    if (m->ledger.worker_count > 0)
        sw_canvas_printf(c, in.x, in.y, room, SW_ROLE_DIM, "%s%s", n + 9 < room ? "medians, " : "",
                         steps);
    sw_canvas_right(c, k->predicted, in.y, TIME_W, SW_ROLE_DIM, "predicted");
    sw_canvas_right(c, k->measured, in.y, TIME_W, SW_ROLE_DIM, "measured");
    sw_canvas_right(c, k->slower, in.y, SLOWER_W, SW_ROLE_DIM, "slower  ");
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    struct lines l;
    struct sw_area at = {in.x, in.y, in.w, 1};
    int end = in.y + in.h;

    if (!m->plan.known) {
        sw_canvas_text(c, in.x, in.y, in.w, SW_ROLE_DIM,
                       "no plan; singa-ws run --plan RECIPE makes one");
        return;
    }

    struct columns k = columns_of(c, in, &m->plan);

    collect(&l, m, v);
    if (in.h > 1) {
        draw_titles(c, at, &k, m);
        at.y++;
    }
    for (int i = v->scroll[NUMBER]; i < l.count && at.y < end; i++, at.y++)
        draw_line(c, at, &k, &m->plan, &l.line[i]);
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    *out = 0;
    if (m->plan.known)
        sw_ui_plan_verdict(out, &m->plan, m->ledger.p50_ms);
}

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    struct lines l = {.count = 0};

    if (m->plan.known)
        collect(&l, m, v);
    return l.count;
}

/* Without a plan it has no place beside other panels. */
static int want_h(const struct sw_ui_model *m, int w)
{
    int layers = m->plan.layer_count < 6 ? m->plan.layer_count : 6;
    return m->plan.known ? 10 + layers : 0;
}

const struct sw_panel sw_panel_plan = {
    .name = "plan",
    .title = "9 plan",
    .help = "times that the plan of the run predicts, beside measured ones; ! is over 20 % off",
    .number = NUMBER,
    .rank = 4,
    .min_h = 3,
    .grow = 1,
    .want_h = want_h,
    .draw = draw,
    .note = note,
    .lines = lines,
};
