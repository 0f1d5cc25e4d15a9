/* Prints how the gradients of each layer are reduced over several workers. */
#include "base/json.h"
#include "cli/report/report.h"
#include "cli/terminal/columns.h"
#include <math.h>

#define INDENT "             " /* the width of a title */

static const char *const modes[] = {"ps", "sfb", "adam"};
enum { MODES = sizeof modes / sizeof *modes };

static bool any_shared(const struct sw_job_plan *p)
{
    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].comm.mode)
            return true;
    return false;
}

static bool any_predicted(const struct sw_job_plan *p)
{
    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].comm.predicted)
            return true;
    return false;
}

static void row(struct sw_columns *t, const struct sw_job_layer *l, bool predicted)
{
    const struct sw_job_exchange *c = &l->comm;

    sw_columns_cell(t, "%s", l->name);
    sw_columns_cell(t, "%s", c->mode);
    sw_columns_cell(t, "%lld", (long long)c->moved);
    sw_columns_cell(t, "%lld", (long long)c->counted);

    for (int k = 0; k < MODES && predicted; k++) {
        if (c->predicted && !isnan(c->ms[k]))
            sw_columns_cell(t, "%.3g", c->ms[k]);
        else
            sw_columns_cell(t, "%s", c->predicted ? "--" : "");
    }
}

void sw_report_exchange(struct sw_bytes *out, const struct sw_job_plan *p)
{
    bool predicted = any_predicted(p);
    struct sw_columns t = {0};

    if (!any_shared(p))
        return;

    sw_bytes_add(out, "\nGradients and updated parameters moved per step, all workers:\n");
    sw_columns_begin(&t, "layer|comm|>elements|>as papers count");
    if (predicted)
        sw_columns_begin(&t, ">ps ms|>sfb ms|>adam ms");

    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].comm.mode)
            row(&t, &p->layers[i], predicted);

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

/* "fc6: sfb, predicted to take 1.2 ms per step (ps 8.1, adam not possible)" */
static void explain(struct sw_bytes *out, const struct sw_job_layer *l)
{
    const struct sw_job_exchange *c = &l->comm;
    const char *lead = " (";

    sw_bytes_printf(out, "%s: %s", l->name, c->mode);
    if (!c->predicted) {
        sw_bytes_add(out, ", from the checkpoint\n");
        return;
    }

    for (int k = 0; k < MODES; k++)
        if (sw_str_eq(modes[k], c->mode))
            sw_bytes_printf(out, ", predicted to take %.3g ms per step", c->ms[k]);

    for (int k = 0; k < MODES; k++) {
        if (sw_str_eq(modes[k], c->mode))
            continue;

        if (isnan(c->ms[k]))
            sw_bytes_printf(out, "%s%s not possible", lead, modes[k]);
        else
            sw_bytes_printf(out, "%s%s %.3g", lead, modes[k], c->ms[k]);

        lead = ", ";
    }

    sw_bytes_add(out, ")\n");
}

void sw_report_exchange_brief(struct sw_bytes *out, const struct sw_job_plan *p)
{
    struct sw_bytes lines = {0};

    for (int i = 0; i < p->layer_count; i++) {
        const struct sw_job_layer *l = &p->layers[i];
        if (l->comm.mode && sw_str_eq(l->comm.requested, "auto") &&
            (l->comm.predicted || !sw_str_eq(l->comm.mode, "ps")))
            explain(&lines, l);
    }

    sw_bytes_add(&lines, p->comm_notes);

    if (lines.length > 0) {
        sw_bytes_add(out, "gradients    ");
        sw_print_lines(out, sw_bytes_text(&lines), INDENT);
    }

    sw_bytes_fini(&lines);
}

void sw_report_exchange_json(struct sw_json_writer *w, const struct sw_job_layer *l)
{
    const struct sw_job_exchange *c = &l->comm;
    if (!c->mode)
        return;

    sw_json_open_object(w, "comm");
    sw_json_string(w, "way", c->mode);
    sw_json_string(w, "asked", c->requested);
    sw_json_int(w, "values", c->moved);
    sw_json_int(w, "values_as_papers_count", c->counted);

    if (c->predicted) {
        sw_json_open_object(w, "predicted_ms");
        for (int k = 0; k < MODES; k++)
            sw_json_real(w, modes[k], c->ms[k]);
        sw_json_close_object(w);
    }

    sw_json_close_object(w);
}
