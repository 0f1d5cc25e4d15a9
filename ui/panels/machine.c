/* The machine: NUMA nodes with their CPUs and memory, GPUs, the trainer process, the placement of
 * its threads, and the traffic between them. */
#include "ui/panel.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OLD_S = 8 }; /* devices are sampled every 2 s */

/* The sampler measures the trainer more recently than the trainer reports itself. */
static bool is_shown(const struct sw_ui_model *m, const struct sw_run_hardware *d)
{
    return !(m->live && m->machine.known && sw_str_eq(d->device, "cpu"));
}

/* The character that shows a level of 0..1 in one cell. */
static uint32_t level_rune(const struct sw_canvas *c, float fraction)
{
    if (isnan(fraction))
        return '?';

    int eighths = sw_canvas_bar_columns(8, (double)fraction);
    if (c->caps.utf8)
        return eighths ? 0x2580u + (uint32_t)eighths : 0xb7;

    return (uint32_t) ".123456789"[sw_canvas_bar_columns(9, (double)fraction)];
}

/* Writes lines until the area is full, and skips lines that are scrolled out. */
struct writer {
    struct sw_canvas *c;
    struct sw_area in;
    int row, skip;
};

/* The y of the next line, or -1 if it is not visible. */
static int next_line(struct writer *w)
{
    int row = w->row++ - w->skip;
    return row >= 0 && row < w->in.h ? w->in.y + row : -1;
}

static void line(struct writer *w, enum sw_role role, const char *fmt, ...) SW_PRINTF(3, 4);
static void line(struct writer *w, enum sw_role role, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    int y = next_line(w);

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (y >= 0)
        sw_canvas_text(w->c, w->in.x, y, w->in.w, role, text);
}

static void node_line(struct writer *w, const struct sw_ui_machine *k, const struct sw_ui_node *n)
{
    char used[32], total[32], percent[16];
    int y = next_line(w);
    double busy = 0;

    if (y < 0)
        return;

    for (int i = 0; i < n->cpu_count; i++)
        busy += k->cpu[n->first_cpu + i];
    sw_ui_percent(percent, n->cpu_count ? busy / n->cpu_count : (double)NAN);
    sw_human_bytes(used, n->mem_used);
    sw_human_bytes(total, n->mem_total);

    int x =
        w->in.x + sw_canvas_printf(w->c, w->in.x, y, w->in.w, SW_ROLE_TEXT,
                                   "node %d  cpu %5s  %s of %s  ", n->number, percent, used, total);
    int room = w->in.x + w->in.w - x;
    for (int i = 0; i < n->cpu_count && i < room; i++) {
        /* If not all fit, a cell shows the busiest of several processors. */
        int from = n->first_cpu + (n->cpu_count > room ? i * n->cpu_count / room : i);
        int end = n->first_cpu + (n->cpu_count > room ? (i + 1) * n->cpu_count / room : i + 1);
        float most = k->cpu[from];

        for (int p = from; p < end; p++)
            most = k->cpu[p] > most ? k->cpu[p] : most;
        sw_canvas_rune(w->c, x + i, y, level_rune(w->c, most),
                       most > 0.9f ? SW_ROLE_WARN : SW_ROLE_COMPUTE);
    }
}

static void process_line(struct writer *w, const struct sw_ui_machine *k)
{
    char cpus[32], memory[32], in[32], out[32];

    line(w, SW_ROLE_STRONG, "trainer  %s cpus  %s  reads %s  writes %s",
         sw_chart_number(cpus, k->process_cpus), sw_human_bytes(memory, k->process_memory),
         sw_human_unit(in, k->read_per_s, "B/s"), sw_human_unit(out, k->write_per_s, "B/s"));
}

/* Shows the values that are known, and their age if they are old. */
static void device_line(struct writer *w, const struct sw_ui_model *m,
                        const struct sw_run_hardware *d)
{
    struct sw_bytes text = {0};
    char figure[32];
    double age_s = m->run.status == SW_RUN_RUNNING ? m->now - d->time : 0;
    bool old = age_s > OLD_S;

    sw_ui_percent(figure, d->util);
    sw_bytes_printf(&text, "%-8s %5s", d->device, figure);
    if (!isnan(d->mem_used))
        sw_bytes_printf(&text, "  %s", sw_human_bytes(figure, d->mem_used));
    if (!isnan(d->power_w))
        sw_bytes_printf(&text, "  %s W", sw_chart_number(figure, d->power_w));
    if (!isnan(d->temp_c))
        sw_bytes_printf(&text, "  %s C", sw_chart_number(figure, d->temp_c));
    if (!isnan(d->clock_mhz))
        sw_bytes_printf(&text, "  %s MHz", sw_chart_number(figure, d->clock_mhz));
    if (old)
        sw_bytes_printf(&text, "  %s s ago", sw_chart_number(figure, age_s));
    line(w, old ? SW_ROLE_DIM : SW_ROLE_TEXT, "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

static void place_line(struct writer *w, const struct sw_run_placement *p)
{
    char node[24] = "";

    if (p->numa >= 0)
        snprintf(node, sizeof node, ", node %d", p->numa);
    line(w, SW_ROLE_TEXT, "%-10s %s%s, cores %s: %s", p->unit, p->device, node,
         *p->cores ? p->cores : "--", p->reason);
}

/* "a > b  net  25.0 MB/s, 21 % of 118.0 MB/s" */
static void net_line(struct writer *w, const struct sw_run_traffic *l)
{
    const double rate = l->ms_per_step > 0 ? l->bytes_per_step * 1e3 / l->ms_per_step : (double)NAN;
    char bytes[32], most[32], share[48] = "";

    if (!isnan(rate) && l->link_bytes_per_s > 0)
        snprintf(share, sizeof share, ", %.0f %% of %s", 100 * rate / l->link_bytes_per_s,
                 sw_human_unit(most, l->link_bytes_per_s, "B/s"));
    line(w, SW_ROLE_COMM, "%s > %s  net  %s%s", l->from, l->to,
         isnan(rate) ? "--" : sw_human_unit(bytes, rate, "B/s"), share);
}

static void link_line(struct writer *w, const struct sw_run_traffic *l)
{
    char bytes[32], time[32];

    sw_human_bytes(bytes, l->bytes_per_step);

    if (sw_str_eq(l->kind, "net"))
        net_line(w, l);
    else if (l->ms_per_step > 0)
        line(w, SW_ROLE_COMM, "%s > %s  %s  %s per step, %s", l->from, l->to, l->kind, bytes,
             sw_human_seconds(time, l->ms_per_step / 1000));
    else
        line(w, SW_ROLE_COMM, "%s > %s  %s  %s per step", l->from, l->to, l->kind, bytes);
}

static void machine_lines(struct writer *w, const struct sw_ui_model *m)
{
    const struct sw_ui_machine *k = &m->machine;
    char load[16];

    if (!k->known) {
        line(w, SW_ROLE_DIM, "%s: not this host, or the run is not running",
             *m->run.host ? m->run.host : "--");
        return;
    }

    line(w, SW_ROLE_DIM, "%s  %d cpu%s  load %s", k->cpu_model, k->cpu_count,
         k->cpu_count == 1 ? "" : "s", sw_chart_number(load, k->load));
    if (m->live)
        process_line(w, k);
    for (int i = 0; i < k->node_count; i++)
        node_line(w, k, &k->node[i]);
    for (int i = 0; i < k->gpu_count; i++)
        line(w, SW_ROLE_TEXT, "gpu %s", k->gpus[i]);
    for (int i = 0; i < k->path_count; i++)
        line(w, SW_ROLE_DIM, "gpus %s", k->paths[i]);
}

static void draw(struct sw_canvas *c, struct sw_area in, const struct sw_ui_model *m,
                 const struct sw_ui_view *v)
{
    struct writer w = {c, in, 0, v->scroll[4]};

    machine_lines(&w, m);

    for (int i = 0; i < m->device_count; i++)
        if (is_shown(m, &m->devices[i]))
            device_line(&w, m, &m->devices[i]);

    for (int i = 0; i < m->placement_count; i++)
        place_line(&w, &m->placements[i]);
    for (int i = 0; i < m->link_count; i++)
        link_line(&w, &m->links[i]);
}

static int lines(const struct sw_ui_model *m, const struct sw_ui_view *v)
{
    const struct sw_ui_machine *k = &m->machine;
    int devices = 0;

    for (int i = 0; i < m->device_count; i++)
        devices += is_shown(m, &m->devices[i]);
    return (k->known ? 1 + m->live + k->node_count + k->gpu_count + k->path_count : 1) + devices +
           m->placement_count + m->link_count;
}

static int want_h(const struct sw_ui_model *m, int w)
{
    int n = lines(m, NULL);
    return n > 16 ? 16 : n;
}

const struct sw_panel sw_panel_machine = {
    .name = "machine",
    .title = "4 machine",
    .help = "CPUs and memory by NUMA node, GPUs, placement of threads, traffic",
    .number = 4,
    .rank = 6,
    .min_h = 2,
    .want_h = want_h,
    .draw = draw,
    .lines = lines,
};
