/* Prints the placement of a job's threads: one row each, or all in one line. */
#include "plan/placement.h"
#include "base/text.h"
#include "cli/report/report.h"
#include <stdio.h>
#include <string.h>

/* The first worker that has cores of this row, or NULL. */
static const struct sw_placement_row *worker_on(const struct sw_placement *p,
                                                const struct sw_placement_row *row)
{
    for (int i = 0; i < p->worker_count; i++)
        if (sw_core_set_overlaps(&p->rows[i].cores, &row->cores))
            return &p->rows[i];
    return NULL;
}

/* Appends with whom row i shares its cores: " (shared with worker0.0)", or nothing. */
static void add_sharing(struct sw_bytes *out, const struct sw_placement *p, int i)
{
    const struct sw_placement_row *row = &p->rows[i], *worker = worker_on(p, row);

    if (i < p->worker_count)
        sw_bytes_add(out, p->oversubscribed ? " (shared: oversubscribed)" : "");
    else if (i >= p->worker_count + p->server_count)
        sw_bytes_add(out, sw_core_set_count(&p->spare) == 0 ? " (shared: no spare core)" : "");
    else if (worker)
        sw_bytes_printf(out, " (shared with %s)", worker->role);
}

void sw_print_placement(struct sw_bytes *out, const struct sw_placement *p, const char *indent,
                        bool reasons)
{
    const int roles = p->worker_count + p->server_count;
    int width = 0;

    for (int i = 0; i < p->row_count; i++) {
        const int n = (int)strlen(p->rows[i].role);
        width = n > width ? n : width;
    }

    for (int i = 0; i < p->row_count; i++) {
        const struct sw_placement_row *row = &p->rows[i];
        char cores[128];

        sw_bytes_printf(out, "%s%-*s  ", i ? indent : "", width, row->role);
        if (i < roles)
            sw_bytes_printf(out, "%s, ", row->device);
        if (i < roles && row->numa >= 0)
            sw_bytes_printf(out, "node %d, ", row->numa);
        sw_bytes_printf(out, "cores %s", sw_core_set_text(&row->cores, cores, sizeof cores));

        if (reasons)
            sw_bytes_printf(out, ", %d thread%s: %s\n", row->threads, row->threads == 1 ? "" : "s",
                            row->reason);
        else
            add_sharing(out, p, i);

        sw_bytes_add(out, reasons ? "" : "\n");
    }
}

/* The cores of the rows first to first + count - 1. */
static struct sw_core_set cores_of(const struct sw_placement *p, int first, int count)
{
    struct sw_core_set all = {0};

    for (int i = first; i < first + count; i++)
        sw_core_set_add_all(&all, &p->rows[i].cores);
    return all;
}

/* "cpu", "cuda:0, cuda:1", or "cuda:0 to cuda:7". */
static void add_devices(struct sw_bytes *out, const struct sw_placement *p)
{
    enum { LISTED = 3 };
    const char *name[LISTED] = {0}, *last = NULL;
    int count = 0;

    for (int i = 0; i < p->worker_count; i++) {
        const char *device = p->rows[i].device;
        bool is_new = true;

        for (int k = 0; k < i && is_new; k++)
            is_new = !sw_str_eq(p->rows[k].device, device);
        if (!is_new)
            continue;

        last = device;
        if (count < LISTED)
            name[count] = device;
        count++;
    }

    for (int i = 0; i < count && count <= LISTED; i++)
        sw_bytes_printf(out, "%s%s", i ? ", " : "", name[i]);
    if (count > LISTED)
        sw_bytes_printf(out, "%s to %s", name[0], last);
}

void sw_print_placement_brief(struct sw_bytes *out, const struct sw_placement *p)
{
    const struct sw_core_set workers = cores_of(p, 0, p->worker_count),
                             servers = cores_of(p, p->worker_count, p->server_count);
    const int threads = p->rows[0].threads;
    char text[128];

    const bool shared = sw_core_set_overlaps(&workers, &servers);

    sw_bytes_printf(out, "%d worker%s", p->worker_count, p->worker_count == 1 ? "" : "s");
    if (shared)
        sw_bytes_printf(out, " and %d server%s", p->server_count, p->server_count == 1 ? "" : "s");
    sw_bytes_add(out, " on ");
    add_devices(out, p);
    sw_bytes_printf(out, ", cores %s (%d thread%s%s%s)",
                    sw_core_set_text(&workers, text, sizeof text), threads, threads == 1 ? "" : "s",
                    p->worker_count == 1 ? "" : " each",
                    p->oversubscribed ? ", oversubscribed" : "");

    if (!shared)
        sw_bytes_printf(out, "; %d server%s on cores %s", p->server_count,
                        p->server_count == 1 ? "" : "s",
                        sw_core_set_text(&servers, text, sizeof text));
}
