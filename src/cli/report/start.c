/* Prints the first lines of a run: at most 8 lines of 80 columns, or all that is known. */
#include "cli/report/report.h"

#include "base/text.h"
#include "cli/terminal/clip.h"
#include <stdio.h>
#include <string.h>

#define INDENT "             " /* the width of a title */

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

    if (*p->fallback) {
        sw_bytes_add(out, "fallback     ");
        sw_print_lines(out, p->fallback, INDENT);
    }
}

void sw_report_notes(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (*p->notes) {
        sw_bytes_add(out, "partition    ");
        sw_print_lines(out, p->notes, INDENT);
    }

    sw_report_exchange_brief(out, p);
}

void sw_report_warnings(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (!*p->warnings)
        return;

    sw_bytes_add(out, "warning      ");
    sw_print_lines(out, p->warnings, INDENT);
}

/* ---- All that is known ------------------------------------------------------------------------
 */

static void run_number(struct sw_bytes *out, const struct sw_job_event *e)
{
    if (e->run_id)
        sw_bytes_printf(out, "%lld, ", (long long)e->run_id);
    else
        sw_bytes_add(out, "not in the history yet, ");
}

static void steps(struct sw_bytes *out, const struct sw_job_plan *p, const struct sw_job_event *e)
{
    sw_bytes_printf(out, "%lld steps of %lld samples", (long long)e->steps, (long long)p->batch);
    if (e->step > 0)
        sw_bytes_printf(out, ", from step %lld", (long long)e->step);
}

/* What the brief report only counts. */
static void notes(struct sw_bytes *out, const struct sw_job_plan *p)
{
    if (*p->limits)
        sw_bytes_printf(out, "limits       %s\n", p->limits);
    sw_report_precision(out, p);
    sw_report_copy(out, p);
    sw_report_fit(out, p);
    sw_report_notes(out, p);
}

static void report_all(struct sw_bytes *out, const struct sw_job_plan *p,
                       const struct sw_job_event *e)
{
    char count[32], flops[32];

    sw_bytes_add(out, "run          ");
    run_number(out, e);
    sw_text_add(out, p->name);
    sw_bytes_printf(out, " (%s): ", p->recipe);
    steps(out, p, e);
    if (*p->stages)
        sw_bytes_printf(out, "\nstages       %s", p->stages);

    sw_bytes_add(out, "\nplacement    ");
    sw_print_placement(out, p->placement, INDENT, true);
    sw_bytes_printf(out, "framework    %s (%s)\n", p->framework, p->framework_reason);
    sw_bytes_printf(out, "parameters   %lld (%s), %s per sample\n", (long long)p->params,
                    sw_human_count(count, (double)p->params),
                    sw_human_unit(flops, p->flops_per_sample, "flop"));
    memory(out, p);
    sw_bytes_printf(out, "history      %s\n", e->db_path ? e->db_path : "--");
    sw_bytes_printf(out, "checkpoints  %s\n", e->out_dir ? e->out_dir : "--");
    sw_report_warnings(out, p);
    sw_report_data(out, p);
    sw_report_device(out, p);
    notes(out, p);
}

/* ---- At most 8 lines of 80 columns ------------------------------------------------------------
 */

enum { COLUMNS = 80, TITLE = sizeof INDENT - 1, ROOM = COLUMNS - TITLE, ROWS = 8 };

static int lines_of(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* "12, lenet (recipes/lenet.ini): 10000 steps of 64 samples". The path gives way. */
static void brief_run(struct sw_bytes *out, const struct sw_job_plan *p,
                      const struct sw_job_event *e)
{
    enum { SHORTEST_PATH = 12 };
    struct sw_bytes line = {0}, rest = {0};

    run_number(&line, e);
    sw_text_add(&line, p->name);
    if (p->stage)
        sw_bytes_printf(&rest, "stage %s (%d/%d), ", p->stage, p->stage_index + 1, p->stage_count);
    steps(&rest, p, e);

    const int left = ROOM - (int)strlen(" (): ") - sw_text_columns(sw_bytes_text(&line)) -
                     sw_text_columns(sw_bytes_text(&rest));
    if (left >= SHORTEST_PATH) {
        sw_bytes_add(&line, " (");
        sw_clip_path(&line, p->recipe, left);
        sw_bytes_add(&line, ")");
    }

    sw_bytes_printf(&line, ": %s", sw_bytes_text(&rest));
    sw_bytes_add(out, "run          ");
    sw_clip_text(out, sw_bytes_text(&line), ROOM);
    sw_bytes_add(out, "\n");
    sw_bytes_fini(&line);
    sw_bytes_fini(&rest);
}

static void brief_roles(struct sw_bytes *out, const struct sw_job_plan *p)
{
    struct sw_bytes line = {0};

    sw_print_placement_brief(&line, p->placement);
    sw_bytes_add(out, "placement    ");
    sw_clip_text(out, sw_bytes_text(&line), ROOM);

    sw_bytes_clear(&line);
    sw_bytes_printf(&line, "%s (%s)", p->framework, p->framework_reason);
    sw_bytes_add(out, "\nframework    ");
    sw_clip_text(out, sw_bytes_text(&line), ROOM);
    sw_bytes_add(out, "\n");
    sw_bytes_fini(&line);
}

static void brief_size(struct sw_bytes *out, const struct sw_job_plan *p)
{
    char count[32], flops[32], total[32], each[32];

    sw_bytes_printf(out, "parameters   %s, %s per sample; memory %s",
                    sw_human_count(count, (double)p->params),
                    sw_human_unit(flops, p->flops_per_sample, "flop"),
                    sw_human_bytes(total, (double)p->bytes.peak));
    if (p->bytes.device)
        sw_bytes_printf(out, ", %s per device", sw_human_bytes(each, (double)p->bytes.device));
    if (!sw_str_eq(p->precision, "fp32"))
        sw_bytes_printf(out, "; %s", p->precision);
    sw_bytes_add(out, "\n");
}

static void brief_path(struct sw_bytes *out, const char *title, const char *path)
{
    sw_bytes_printf(out, "%-*s", TITLE, title);
    sw_clip_path(out, path ? path : "--", ROOM);
    sw_bytes_add(out, "\n");
}

/* A single warning in as many rows as there are, else one row for each. */
static void brief_warnings(struct sw_bytes *out, const char *text, int rows)
{
    const int count = lines_of(text), shown = count > rows ? rows - 1 : count;
    struct sw_bytes line = {0};

    sw_bytes_add(out, "warning      ");

    for (int i = 0; i < shown; i++) {
        const size_t n = strcspn(text, "\n");

        sw_bytes_clear(&line);
        sw_bytes_append(&line, text, n);
        sw_bytes_add(out, i ? INDENT : "");
        sw_clip_wrap(out, sw_bytes_text(&line), INDENT, ROOM, count == 1 ? rows : 1);
        text += n + 1;
    }

    if (shown < count)
        sw_bytes_printf(out, "%s%d %swarnings (use -v)\n", shown ? INDENT : "", count - shown,
                        shown ? "more " : "");
    sw_bytes_fini(&line);
}

/* "train: idx, 60000 records; test: idx, 10000 records" */
static void brief_data(struct sw_bytes *out, const struct sw_job_plan *p)
{
    static const char last[] = " records";
    struct sw_bytes line = {0};

    for (int i = 0; i < 2; i++) {
        const char *end = strstr(p->data[i], last);

        sw_bytes_add(&line, line.length && *p->data[i] ? "; " : "");
        sw_bytes_append(&line, p->data[i],
                        end ? (size_t)(end - p->data[i]) + strlen(last) : strlen(p->data[i]));
    }

    sw_bytes_add(out, "data         ");
    sw_clip_text(out, sw_bytes_text(&line), ROOM);
    sw_bytes_add(out, "\n");
    sw_bytes_fini(&line);
}

static void report_brief(struct sw_bytes *out, const struct sw_job_plan *p,
                         const struct sw_job_event *e)
{
    struct sw_bytes begin = {0}, warnings = {0}, hidden = {0};

    brief_run(&begin, p, e);
    brief_roles(&begin, p);
    brief_size(&begin, p);
    brief_path(&begin, "history", e->db_path);
    brief_path(&begin, "checkpoints", e->out_dir);
    if (*p->device_why)
        sw_bytes_printf(&warnings, "device %s: %s\n", p->device, p->device_why);
    sw_bytes_add(&warnings, p->warnings);
    sw_bytes_add(&warnings, p->fallback);
    notes(&hidden, p);

    const int rows = ROWS - lines_of(sw_bytes_text(&begin)),
              count = lines_of(sw_bytes_text(&hidden));
    sw_bytes_add(out, sw_bytes_text(&begin));

    if (warnings.length > 0)
        brief_warnings(out, sw_bytes_text(&warnings), rows);
    else
        brief_data(out, p);
    if (count > 0 && lines_of(sw_bytes_text(out)) < ROWS)
        sw_bytes_printf(out, "notes        %d (use -v)\n", count);

    sw_bytes_fini(&begin);
    sw_bytes_fini(&warnings);
    sw_bytes_fini(&hidden);
}

void sw_report_start(struct sw_bytes *out, const struct sw_job_plan *p,
                     const struct sw_job_event *e, bool verbose)
{
    if (verbose)
        report_all(out, p, e);
    else
        report_brief(out, p, e);
}
