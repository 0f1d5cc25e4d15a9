/* The data pipeline: shows whether the prefetch threads keep up with the workers. An idle prefetch
 * thread has filled its queue, so idle is good. */
#include "ui/panel.h"

#include <math.h>
#include <string.h>

/* The prefetch threads of a split: their number, how many read now, and their mean busy fraction.
 */
struct readers {
    int count, working;
    double busy;
};

static struct readers readers_of(const struct sw_ui_model *m, bool train)
{
    struct readers r = {0, 0, 0};

    for (int i = 0; i < m->thread_count; i++) {
        const struct sw_ui_thread *u = &m->threads[i];
        if (sw_ui_thread_kind_of(u->slot.name) != SW_UI_READER ||
            (strstr(u->slot.name, " train ") != NULL) != train)
            continue;

        r.count++;
        r.working += u->slot.phase == SW_PHASE_READ;
        r.busy += isnan(u->busy) ? 0 : u->busy;
    }

    r.busy = r.count ? r.busy / r.count : (double)NAN;
    return r;
}

static void reader_line(struct sw_canvas *c, struct sw_area in, int y, const char *name,
                        const struct readers *r)
{
    char percent[16];

    sw_ui_percent(percent, r->busy);

    int x = in.x + sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_TEXT, "%-10s %d thread%s, busy %s ",
                                    name, r->count, r->count == 1 ? "" : "s", percent);
    int room = in.x + in.w - x;
    sw_canvas_bar(c, x, y, room > 24 ? 24 : room, r->busy, SW_ROLE_DATA);
}

static void wait_line(struct sw_canvas *c, struct sw_area in, int y, const struct sw_ui_model *m,
                      const struct readers *r)
{
    double waits = sw_ledger_fraction(&m->ledger, SW_STEP_READ) +
                   sw_ledger_fraction(&m->ledger, SW_STEP_DECODE);
    char percent[16];

    sw_ui_percent(percent, waits);

    if (isnan(waits))
        sw_canvas_text(c, in.x, y, in.w, SW_ROLE_DIM,
                       "time spent waiting for data is not known yet");
    else if (waits >= 0.2)
        sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_WARN,
                         "workers wait for data %s of a step: starved", percent);
    else if (r->count > 0 && r->busy > 0.9)
        sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_WARN,
                         "barely keeps up: workers wait for data %s", percent);
    else
        sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_GOOD, "keeps up: workers wait for data %s",
                         percent);
}

static void epoch_line(struct sw_canvas *c, struct sw_area in, int y, const struct sw_ui_model *m)
{
    double records = (double)m->run.epoch_records;
    double done = (double)sw_ui_step(m) * (double)m->run.batch;
    if (!(records > 0) || done < 0)
        return;

    int x = in.x + sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_TEXT,
                                    "epoch %-4.0f %.0f of %.0f records ", floor(done / records) + 1,
                                    fmod(done, records), records);
    int room = in.x + in.w - x;
    sw_canvas_bar(c, x, y, room > 24 ? 24 : room, fmod(done, records) / records, SW_ROLE_LINE1);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    struct readers train = readers_of(m, true), eval = readers_of(m, false);
    int y = in.y, end = in.y + in.h;

    wait_line(c, in, y++, m, &train);
    if (y < end)
        epoch_line(c, in, y++, m);
    if (y < end && train.count > 0)
        reader_line(c, in, y++, "training", &train);
    if (y < end && eval.count > 0)
        reader_line(c, in, y++, "evaluation", &eval);

    if (y < end && m->machine.known && m->live) {
        char rate[32];
        sw_canvas_printf(c, in.x, y, in.w, SW_ROLE_TEXT, "disk       %s read by the trainer",
                         sw_human_unit(rate, m->machine.read_per_s, "B/s"));
    }
}

static int want_h(const struct sw_ui_model *m, int w)
{
    return m->live ? 5 : 2;
}

const struct sw_panel sw_panel_data = {
    .name = "data",
    .title = "6 data",
    .help = "prefetch threads, and whether they keep up with the workers",
    .number = 6,
    .rank = 4,
    .min_h = 1,
    .want_h = want_h,
    .draw = draw,
};
