/* Prints the first lines of a run and its closing table. */
#include "cli/report/report.h"

#include "base/text.h"
#include "cli/terminal/columns.h"
#include "plan/placement.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INDENT "             " /* the width of a title */

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

static void memory(struct sw_bytes *out, const struct sw_job_plan *p)
{
    char total[32], values[32], state[32], arena[32], batches[32], between[32], offloaded[32],
        each[32];

    sw_bytes_printf(
        out,
        "memory       %s: parameters %s, gradients and updater %s, activations %s, batches "
        "%s, between workers %s%s%s%s%s\n",
        sw_human_bytes(total, (double)p->bytes.peak),
        sw_human_bytes(values, (double)p->bytes.params),
        sw_human_bytes(state, (double)p->bytes.state),
        sw_human_bytes(arena, (double)p->bytes.arena),
        sw_human_bytes(batches, (double)p->bytes.batches),
        sw_human_bytes(between, (double)p->bytes.exchange),
        p->bytes.offloaded ? ", offloaded " : "",
        p->bytes.offloaded ? sw_human_bytes(offloaded, (double)p->bytes.offloaded) : "",
        p->bytes.device ? "; at most per device " : "",
        p->bytes.device ? sw_human_bytes(each, (double)p->bytes.device) : "");
}

void sw_report_fit(struct sw_bytes *out, const struct sw_job_plan *p)
{
    const struct sw_job_fit *f = &p->fit;
    char budget[32], saved[32], flops[32], moved[32], copied[32];

    if (f->budget_bytes == 0)
        return;

    sw_bytes_printf(out, "budget       %s%s: ", sw_human_bytes(budget, (double)f->budget_bytes),
                    f->may_offload ? " per device" : "");
    if (f->saved_bytes == 0) {
        sw_bytes_printf(
            out, "nothing is recomputed or offloaded, %s would suffice\n",
            sw_human_bytes(saved, (double)(f->may_offload ? p->bytes.device : p->bytes.peak)));
        return;
    }

    sw_bytes_printf(out, "activations use %s less\n",
                    sw_human_bytes(saved, (double)f->saved_bytes));

    if (f->recomputed)
        sw_bytes_printf(out,
                        INDENT "%d recomputed in backward: %s and %s of memory traffic per step\n",
                        f->recomputed, sw_human_unit(flops, f->recompute_flops, "flop"),
                        sw_human_bytes(moved, f->recompute_bytes));

    if (f->offloaded)
        sw_bytes_printf(out, INDENT "%d offloaded: %s to the host and back per step\n",
                        f->offloaded, sw_human_bytes(copied, (double)f->offload_bytes));

    if (!f->may_offload)
        sw_bytes_add(out, INDENT "none offloaded: the CPU computes in host memory\n");
}

void sw_report_precision(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (sw_str_eq(p->precision, "fp32"))
        return;

    bool half = !sw_str_eq(p->precision, "tf32");
    sw_bytes_printf(out, "precision    %s for operands of matrix products%s, fp32 for all else",
                    p->precision, half ? " and for activations" : "");
    if (p->loss_scale > 0)
        sw_bytes_printf(out, "; initial loss scale %.0f", p->loss_scale);
    if (p->loss_scale > 0 && p->loss_scale_every > 0)
        sw_bytes_printf(out, ", doubled after %lld finite updates", (long long)p->loss_scale_every);
    sw_bytes_add(out, "\n");
}

void sw_report_device(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (*p->device_why)
        sw_bytes_printf(out, "device       %s: %s\n", p->device, p->device_why);
}

void sw_report_copy(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (*p->copy)
        sw_bytes_printf(out, "copy         %s: %s\n", p->copy, p->copy_why);
    if (*p->sums)
        sw_bytes_printf(out, "all-reduce   %s\n", p->sums);
}

void sw_report_data(struct sw_bytes *out, const struct sw_job_plan *p)
{
    for (int i = 0; i < 2; i++)
        if (*p->data[i])
            sw_bytes_printf(out, "data         %s\n", p->data[i]);

    if (*p->notes) {
        sw_bytes_add(out, "partition    ");
        sw_print_lines(out, p->notes, INDENT);
    }

    sw_report_exchange_brief(out, p);

    if (*p->fallback) {
        sw_bytes_add(out, "fallback     ");
        sw_print_lines(out, p->fallback, INDENT);
    }
}

void sw_report_start(struct sw_bytes *out, const struct sw_job_plan *p,
                     const struct sw_job_event *e, bool verbose)
{
    char count[32], flops[32];

    if (e->run_id)
        sw_bytes_printf(out, "run          %lld, ", (long long)e->run_id);
    else
        sw_bytes_add(out, "run          not in the history yet, ");

    sw_text_add(out, p->name);
    sw_bytes_printf(out, " (%s): %lld steps of %lld samples", p->recipe, (long long)e->steps,
                    (long long)p->batch);
    if (e->step > 0)
        sw_bytes_printf(out, ", from step %lld", (long long)e->step);
    if (*p->stages)
        sw_bytes_printf(out, "\nstages       %s", p->stages);
    sw_bytes_add(out, "\nplacement    ");
    sw_print_placement(out, p->placement, INDENT, verbose);
    sw_report_device(out, p);
    if (*p->limits)
        sw_bytes_printf(out, "limits       %s\n", p->limits);
    sw_bytes_printf(out, "framework    %s (%s)\n", p->framework, p->framework_reason);
    sw_report_precision(out, p);
    sw_report_copy(out, p);
    sw_bytes_printf(out, "parameters   %lld (%s), %s per sample\n", (long long)p->params,
                    sw_human_count(count, (double)p->params),
                    sw_human_unit(flops, p->flops_per_sample, "flop"));
    memory(out, p);
    sw_report_fit(out, p);
    sw_bytes_printf(out, "history      %s\n", e->db_path ? e->db_path : "--");
    sw_bytes_printf(out, "checkpoints  %s\n", e->out_dir ? e->out_dir : "--");
    sw_report_data(out, p);
}

/* ---- The end ----------------------------------------------------------------------------------
 */

/* Whether an earlier split has the metric, which the table lists once. */
static bool is_listed(const struct sw_report *r, int split, int metric)
{
    const char *name = r->split[split].metric[metric].name;

    for (int s = 0; s < split; s++)
        for (int m = 0; m < r->split[s].metric_count; m++)
            if (sw_str_eq(r->split[s].metric[m].name, name))
                return true;

    return false;
}

static void metric_row(struct sw_columns *t, const struct sw_report *r, const char *name)
{
    sw_columns_cell(t, "%s", name);

    for (int s = 0; s < r->split_count; s++) {
        double value = sw_report_value(r, r->split[s].name, name);
        if (isnan(value))
            sw_columns_cell(t, "--");
        else
            sw_columns_cell(t, "%.6g", value);
    }
}

static void metric_table(struct sw_bytes *out, const struct sw_report *r)
{
    struct sw_columns t = {0};

    if (r->split_count == 0)
        return;

    sw_columns_add(&t, "           "); /* as wide as the titles of the other lines */

    for (int s = 0; s < r->split_count; s++) {
        char title[80];
        snprintf(title, sizeof title, ">%s", r->split[s].name);
        sw_columns_add(&t, title);
    }

    sw_columns_cell(&t, "at step");
    for (int s = 0; s < r->split_count; s++)
        sw_columns_cell(&t, "%lld", (long long)r->split[s].step);

    for (int s = 0; s < r->split_count; s++)
        for (int m = 0; m < r->split[s].metric_count; m++)
            if (!is_listed(r, s, m))
                metric_row(&t, r, r->split[s].metric[m].name);

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_report_summary(struct sw_bytes *out, const struct sw_report *r,
                       const struct sw_job_event *e)
{
    char time[32], speed[32], peak[32], rss[32];

    sw_bytes_printf(out, "\n%-13s", sw_run_status_name(e->status));
    if (r->run_id)
        sw_bytes_printf(out, "run %lld, ", (long long)r->run_id);
    sw_text_add(out, r->plan->name);
    sw_bytes_printf(out, ": step %lld of %lld, %s\n", (long long)e->step, (long long)e->steps,
                    sw_human_seconds(time, e->elapsed_s));
    metric_table(out, r);

    if (isfinite(e->step_ms) && e->step_ms > 0)
        sw_bytes_printf(out, "speed        %s samples/s, %s per step\n",
                        sw_human_real(speed, 1000 * (double)r->plan->batch / e->step_ms),
                        sw_human_seconds(time, e->step_ms / 1000));

    if (e->skipped_records)
        sw_bytes_printf(out, "skipped      %lld records that could not be read\n",
                        (long long)e->skipped_records);

    sw_bytes_printf(out, "memory       %s at most, %s resident\n",
                    sw_human_bytes(peak, (double)e->peak_bytes),
                    sw_human_bytes(rss, (double)e->rss_bytes));
    sw_bytes_printf(out, "checkpoint   %s\n", *r->checkpoint ? r->checkpoint : "--");
}
