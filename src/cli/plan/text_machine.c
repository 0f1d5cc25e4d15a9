/* Prints a machine model for people: devices and links that are alike in one line, each figure with
 * its source. The contract is in cli/plan/output.h. */
#include "cli/plan/output.h"

#include "base/str.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

#define INDENT "             " /* the width of a title */
enum { LINE = 120 };

static bool same_figure(const struct sw_figure *a, const struct sw_figure *b)
{
    return a->value == b->value && strcmp(a->source, b->source) == 0;
}

static bool same_device(const struct sw_device_model *a, const struct sw_device_model *b)
{
    return same_figure(&a->flops_per_s, &b->flops_per_s) &&
           same_figure(&a->bytes_per_s, &b->bytes_per_s) && a->memory_bytes == b->memory_bytes &&
           a->host_memory == b->host_memory;
}

static void print_figure(struct sw_bytes *out, const struct sw_figure *f, const char *unit)
{
    char text[32];

    sw_bytes_printf(out, "%s (", sw_human_unit(text, f->value, unit));
    sw_text_add(out, f->source);
    sw_bytes_add(out, ")");
}

/* The devices from `first` on, which are alike. A long line is broken before the figures. */
static void print_device(struct sw_bytes *out, const struct sw_machine_model *m, int first,
                         int count)
{
    const struct sw_device_model *d = &m->device[first];
    struct sw_bytes figures = {0};
    char bytes[32];
    const size_t begin = out->length;

    print_figure(&figures, &d->flops_per_s, "flop/s");
    sw_bytes_add(&figures, ", memory ");
    print_figure(&figures, &d->bytes_per_s, "B/s");
    if (d->memory_bytes > 0)
        sw_bytes_printf(&figures, ", %s%s", sw_human_bytes(bytes, (double)d->memory_bytes),
                        d->host_memory ? " of the host" : "");

    sw_bytes_add(out, INDENT);
    if (count > 2)
        sw_bytes_printf(out, "%d %s, ", count, d->host_memory ? "workers" : "devices");
    sw_text_add(out, d->name);
    if (count > 1) {
        sw_bytes_add(out, count > 2 ? " to " : ", ");
        sw_text_add(out, m->device[first + count - 1].name);
        sw_bytes_add(out, ", each");
    }

    sw_bytes_add(out, out->length - begin + figures.length > LINE ? ":\n" INDENT "  " : ": ");
    sw_bytes_append(out, figures.text, figures.length);
    sw_bytes_add(out, "\n");
    out->failed = out->failed || figures.failed;
    sw_bytes_fini(&figures);
}

/* Servers compute on them, where workers do not. */
static void print_cores(struct sw_bytes *out, const struct sw_machine_model *m)
{
    sw_bytes_printf(out, INDENT "servers on %d core%s of %s, each: ", m->server_threads,
                    m->server_threads == 1 ? "" : "s", m->hosts > 1 ? "every host" : "the host");
    print_figure(out, &m->core_flops_per_s, "flop/s");
    sw_bytes_add(out, ", memory ");
    print_figure(out, &m->core_bytes_per_s, "B/s");
    sw_bytes_add(out, "\n");
}

static bool same_link(const struct sw_hub_model *a, const struct sw_hub_model *b)
{
    return same_figure(&a->bytes_per_s, &b->bytes_per_s) && a->latency_s == b->latency_s &&
           (a->host < 0) == (b->host < 0);
}

/* A link of which nothing limits the throughput is no news. */
static bool is_shown(const struct sw_machine_model *m, int hub)
{
    if (m->hub[hub].parent < 0 || m->hub[hub].bytes_per_s.value <= 0)
        return false;

    for (int i = 0; i < hub; i++)
        if (m->hub[i].parent >= 0 && same_link(&m->hub[i], &m->hub[hub]))
            return false;
    return true;
}

/* Appends the part of a step in which the link is busy, if it is worth a word. */
static void print_busy(struct sw_bytes *out, double busy)
{
    if (busy >= 0.005)
        sw_bytes_printf(out, ", busy for %.0f %% of a step", 100 * busy);
}

static void print_link(struct sw_bytes *out, const struct sw_machine_model *m, int hub,
                       const double *busy)
{
    const struct sw_hub_model *h = &m->hub[hub];
    int alike = 0;
    double busiest = busy ? sw_planned_busy(busy, hub) : 0;
    char latency[32];

    for (int i = hub + 1; i < m->hub_count; i++) {
        if (!same_link(&m->hub[i], h))
            continue;
        alike++;
        busiest = busy ? fmax(busiest, sw_planned_busy(busy, i)) : 0;
    }

    sw_bytes_add(out, INDENT "link of ");
    sw_text_add(out, h->name);
    if (alike)
        sw_bytes_printf(out, " and %d more", alike);
    sw_bytes_add(out, ": ");
    print_figure(out, &h->bytes_per_s, "B/s");
    sw_bytes_add(out, " in each direction");
    if (h->latency_s > 0)
        sw_bytes_printf(out, ", %s", sw_human_seconds(latency, h->latency_s));
    print_busy(out, busiest);
    sw_bytes_add(out, "\n");
}

static void print_pairs(struct sw_bytes *out, const struct sw_machine_model *m, const double *busy)
{
    double busiest = 0;

    for (int i = 0; i < m->pair_count && busy; i++)
        busiest = fmax(busiest, sw_planned_busy(busy, m->hub_count + i));

    sw_bytes_printf(out, INDENT "%d direct link%s between devices: ", m->pair_count,
                    m->pair_count == 1 ? "" : "s");
    print_figure(out, &m->pair[0].bytes_per_s, "B/s");
    sw_bytes_add(out, " in each direction");
    print_busy(out, busiest);
    sw_bytes_add(out, "\n");
}

void sw_planned_print_machine(struct sw_bytes *out, const struct sw_planned *p)
{
    const struct sw_machine_model *m = p->machine;
    const double *busy = p->simulation.busy;

    sw_bytes_add(out, "machine      ");
    sw_text_add(out, m->name);
    sw_bytes_add(out, "\n");

    for (int i = 0, count; i < m->device_count; i += count) {
        for (count = 1;
             i + count < m->device_count && same_device(&m->device[i], &m->device[i + count]);)
            count++;
        print_device(out, m, i, count);
    }

    if (!m->device[0].host_memory &&
        (m->mirrors || p->best.shape.framework != SW_FRAMEWORK_ALLREDUCE))
        print_cores(out, m);
    for (int i = 0; i < m->hub_count; i++)
        if (is_shown(m, i))
            print_link(out, m, i, busy);
    if (m->pair_count)
        print_pairs(out, m, busy);
}

void sw_planned_print_network(struct sw_bytes *out, const struct sw_machine_model *m)
{
    char latency[32];
    int hub = 0;

    while (hub < m->hub_count && (m->hosts < 2 || m->hub[hub].parent != 0))
        hub++;
    if (hub == m->hub_count)
        return;

    sw_bytes_add(out, INDENT "link of each host: ");
    print_figure(out, &m->hub[hub].bytes_per_s, "B/s");
    sw_bytes_printf(out, ", %s\n", sw_human_seconds(latency, m->hub[hub].latency_s));
}
