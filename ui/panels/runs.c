/* All runs of the history: live, finished and crashed. Another run can be selected here. */
#include "ui/panel.h"

#include <math.h>
#include <stdio.h>

enum { ID_W = 6, STATUS_W = 9, STEP_W = 16, NUMBER_W = 10 };

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    int count = 0;
    for (int i = 0; i < m->row_count; i++)
        count += !v || sw_ui_run_matches_filter(v, &m->rows[i]);
    return count;
}

/* The x of each column; 0: the column does not fit. */
struct columns {
    int name, name_w, status, step, loss, accuracy, started, took;
};

static struct columns place(struct sw_area in)
{
    int fixed = ID_W + STATUS_W + STEP_W, x;
    struct columns k = {.name = in.x + ID_W};
    int loss = in.w >= 60, accuracy = in.w >= 72, started = in.w >= 92, took = in.w >= 104;

    k.name_w = in.w - fixed - (loss + accuracy + started + took) * NUMBER_W;
    k.name_w = k.name_w > 40 ? 40 : k.name_w;
    x = k.name + k.name_w;
    k.status = x;
    k.step = x += STATUS_W;
    x += STEP_W;
    k.loss = loss ? x : 0;
    x += loss * NUMBER_W;
    k.accuracy = accuracy ? x : 0;
    x += accuracy * NUMBER_W;
    k.started = started ? x : 0;
    x += started * NUMBER_W;
    k.took = took ? x : 0;

    return k;
}

static void optional(struct sw_canvas *c, int x, int y, enum sw_role role, const char *text)
{
    if (x > 0)
        sw_canvas_right(c, x, y, NUMBER_W, role, text);
}

static void heading(struct sw_canvas *c, struct sw_area in, const struct columns *k)
{
    sw_canvas_text(c, in.x, in.y, ID_W, SW_ROLE_DIM, "id");
    sw_canvas_text(c, k->name, in.y, k->name_w, SW_ROLE_DIM, "name");
    sw_canvas_text(c, k->status, in.y, STATUS_W, SW_ROLE_DIM, "status");
    sw_canvas_right(c, k->step, in.y, STEP_W, SW_ROLE_DIM, "step");
    optional(c, k->loss, in.y, SW_ROLE_DIM, "loss");
    optional(c, k->accuracy, in.y, SW_ROLE_DIM, "accuracy");
    optional(c, k->started, in.y, SW_ROLE_DIM, "started");
    optional(c, k->took, in.y, SW_ROLE_DIM, "took");
}

static void row(struct sw_canvas *c, struct sw_area in, const struct columns *k, int y,
                const struct sw_ui_model *m, const struct sw_ui_row *r, bool selected)
{
    char text[48];

    snprintf(text, sizeof text, "%s%lld", r->id == m->run.id ? "*" : " ", (long long)r->id);
    sw_canvas_text(c, in.x, y, ID_W - 1, SW_ROLE_TEXT, text);
    sw_canvas_text(c, k->name, y, k->name_w - 1, SW_ROLE_STRONG, r->name);
    sw_canvas_text(c, k->status, y, STATUS_W - 1, sw_ui_status_role(r->status),
                   sw_run_status_name(r->status));

    if (r->step < 0)
        snprintf(text, sizeof text, "--/%lld", (long long)r->steps);
    else
        snprintf(text, sizeof text, "%lld/%lld", (long long)r->step, (long long)r->steps);

    sw_canvas_right(c, k->step, y, STEP_W, SW_ROLE_TEXT, text);
    optional(c, k->loss, y, SW_ROLE_TEXT, sw_chart_number(text, r->loss));
    optional(c, k->accuracy, y, SW_ROLE_TEXT, sw_chart_number(text, r->accuracy));
    sw_ui_clock(text, r->started_at);
    optional(c, k->started, y, SW_ROLE_DIM, text);

    double took = r->ended_at > 0               ? r->ended_at - r->started_at
                  : r->status == SW_RUN_RUNNING ? m->now - r->started_at
                                                : (double)NAN;
    sw_ui_duration(text, took);
    optional(c, k->took, y, SW_ROLE_DIM, text);
    if (selected)
        sw_canvas_recolour(c, (struct sw_area){in.x, y, in.w, 1}, SW_ROLE_SELECT);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    struct columns k = place(in);
    bool head = in.h > 2;
    int room = in.h - head, seen = 0, y = in.y + head;

    /* Scroll so that the selected line is visible. */
    int first = v->selected >= room ? v->selected - room + 1 : 0;

    if (head)
        heading(c, in, &k);

    for (int i = 0; i < m->row_count && y < in.y + in.h; i++) {
        if (!sw_ui_run_matches_filter(v, &m->rows[i]))
            continue;

        if (seen >= first)
            row(c, in, &k, y++, m, &m->rows[i], v->focus == 8 && seen == v->selected);
        seen++;
    }

    if (seen == 0)
        sw_canvas_text(c, in.x, y, in.w, SW_ROLE_DIM,
                       *v->filter ? "no run matches the filter" : "no runs yet");
}

static void note(const struct sw_ui_model *m, const struct sw_ui_view *v, char *out)
{
    if (*v->filter)
        snprintf(out, 80, "/%s", v->filter);
    else
        snprintf(out, 80, "Enter shows it, o overlays its curves");
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return m->row_count > 10 ? 11 : m->row_count + 1;
}

const struct sw_panel sw_panel_runs = {
    .name = "runs",
    .title = "8 runs",
    .help = "all runs: Enter shows the selected run, o overlays its curves",
    .number = 8,
    .rank = 7,
    .min_h = 2,
    .grow = 1,
    .want_h = want_h,
    .draw = draw,
    .note = note,
    .lines = lines,
};
