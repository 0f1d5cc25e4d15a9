/* Divides the screen among panels. Panels of a column get their minimum height by rank, then their
 * good height, then their preferred height, then a fraction of the remaining lines; a panel that
 * does not fit is not shown. Pure functions; the contract is in ui/layout.h. */
#include "ui/layout.h"

enum { COLUMNS = 3, IN_COLUMN = 8, FRAME = 2, RANKS = 8, ESSENTIAL = 4 };

/* The panels of a screen that is at least min_w wide, column by column, from top to bottom. */
struct plan {
    int min_w;
    int columns;
    int width_percent[COLUMNS]; /* the last column takes the rest */
    const char *panel[COLUMNS][IN_COLUMN];
};

static const struct plan plans[] = {
    {200,
     3,
     {42, 30, 0},
     {{"curves", "events"},
      {"throughput", "workers", "plan", "data"},
      {"layers", "machine", "runs"}}},
    {120,
     2,
     {58, 0},
     {{"curves", "workers", "events"}, {"throughput", "plan", "layers", "data", "machine"}}},
    {0,
     1,
     {0},
     {{"curves", "throughput", "workers", "events", "plan", "layers", "machine", "data"}}},
};

static const struct plan *plan_for(int w)
{
    const struct plan *p = plans;
    while (w < p->min_w)
        p++;
    return p;
}

static int want_h(const struct sw_panel *p, const struct sw_ui_model *m, int w)
{
    int h = p->want_h(m, w - FRAME);
    return h == 0 ? 0 : (h > p->min_h ? h : p->min_h) + FRAME;
}

/* One column: its panels and the number of lines of each (0: left out). */
struct column {
    const struct sw_panel *panel[IN_COLUMN];
    int h[IN_COLUMN], want[IN_COLUMN], count;
};

static int used(const struct column *k)
{
    int all = 0;
    for (int i = 0; i < k->count; i++)
        all += k->h[i];
    return all;
}

/* Gives panels their minimum height by rank. The first four ranks compete for the lines; the others
 * get some only if the first four have their preferred height. */
static void reserve_minimums(struct column *k, int room)
{
    int wanted = 0;

    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < k->count; i++) {
            int min = k->panel[i]->min_h + FRAME;

            if (k->panel[i]->rank != rank || k->want[i] == 0)
                continue;

            if (rank < ESSENTIAL ? used(k) + min <= room : wanted + min <= room)
                k->h[i] = min;
            wanted += k->want[i];
        }
}

/* Raises panels to their good height, by rank; returns the remaining lines. */
static int raise_to_good(struct column *k, int rest)
{
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < k->count; i++)
            for (; k->panel[i]->rank == rank && k->h[i] > 0 && rest > 0 &&
                   k->h[i] < k->panel[i]->good_h + FRAME;
                 rest--)
                k->h[i]++;

    return rest;
}

/* Distributes lines one by one, by rank, until all panels have their preferred height or no line
 * remains; returns the remaining lines. */
static int distribute(struct column *k, int rest)
{
    for (bool progress = true; progress;) {
        progress = false;
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < k->count && rest > 0; i++)
                if (k->panel[i]->rank == rank && k->h[i] > 0 && k->h[i] < k->want[i]) {
                    k->h[i]++;
                    rest--;
                    progress = true;
                }
    }

    return rest;
}

/* Distributes remaining lines among panels that can grow; if there are none, to the last panel. */
static void grow(struct column *k, int rest)
{
    int total = 0, last = -1, given = 0;

    for (int i = 0; i < k->count; i++)
        if (k->h[i] > 0) {
            total += k->panel[i]->grow;
            last = k->panel[i]->grow > 0 || last < 0 || total == 0 ? i : last;
        }

    for (int i = 0; i < k->count && total > 0; i++)
        if (k->h[i] > 0) {
            int more = rest * k->panel[i]->grow / total;
            k->h[i] += more;
            given += more;
        }

    if (last >= 0)
        k->h[last] += rest - given;
}

static void stack(struct sw_layout *l, const char *const *names, struct sw_area at,
                  const struct sw_ui_model *m)
{
    struct column k = {.count = 0};

    for (; k.count < IN_COLUMN && names[k.count]; k.count++) {
        k.panel[k.count] = sw_panel_named(names[k.count]);
        k.want[k.count] = want_h(k.panel[k.count], m, at.w);
    }

    reserve_minimums(&k, at.h);
    grow(&k, distribute(&k, raise_to_good(&k, at.h - used(&k))));

    for (int i = 0, y = at.y; i < k.count; y += k.h[i++])
        if (k.h[i] > 0)
            l->place[l->count++] = (struct sw_panel_area){k.panel[i], {at.x, y, at.w, k.h[i]}};
}

void sw_layout_make(struct sw_layout *l, int w, int h, const struct sw_ui_model *m,
                    const struct sw_ui_view *v)
{
    *l = (struct sw_layout){.frames = w >= 50 && h >= 12};

    int head = h >= 2 ? 2 : 1, foot = l->frames ? 1 : 0;
    l->header = (struct sw_area){0, 0, w, head};
    l->footer = (struct sw_area){0, h - foot, w, foot};

    struct sw_area body = {0, head, w, h - head - foot};
    const struct sw_panel *focus = sw_panel_numbered(v->focus);
    if (!l->frames || body.h <= FRAME)
        return;
    if (v->maximized && focus) {
        l->place[l->count++] = (struct sw_panel_area){focus, body};
        return;
    }

    const struct plan *p = plan_for(w);
    for (int i = 0, x = 0; i < p->columns; i++) {
        int width = i + 1 == p->columns ? w - x : w * p->width_percent[i] / 100;
        stack(l, p->panel[i], (struct sw_area){x, body.y, width, body.h}, m);
        x += width;
    }
}

const struct sw_panel_area *sw_layout_at(const struct sw_layout *l, int x, int y)
{
    for (int i = 0; i < l->count; i++)
        if (sw_area_holds(l->place[i].area, x, y))
            return &l->place[i];
    return NULL;
}
