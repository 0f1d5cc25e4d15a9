/* The style JSON: one object per line, `type` and `step` first, then metrics under their own names.
 * Unknown values are null. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/report/report.h"
#include "plan/placement.h"

void sw_json_placement(struct sw_json_writer *w, const struct sw_placement *p)
{
    sw_json_open_array(w, "placement");

    for (int i = 0; p && i < p->row_count; i++) {
        const struct sw_placement_row *row = &p->rows[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "unit", row->role);
        sw_json_string(w, "device", row->device);
        sw_json_int(w, "numa", row->numa);
        sw_json_open_array(w, "cores");

        for (int c = sw_core_set_next(&row->cores, -1); c >= 0;
             c = sw_core_set_next(&row->cores, c))
            sw_json_int(w, NULL, c);

        sw_json_close_array(w);
        sw_json_int(w, "threads", row->threads);
        sw_json_string(w, "reason", row->reason);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

void sw_report_data_json(struct sw_json_writer *w, const struct sw_job_plan *p)
{
    sw_json_open_array(w, "data");

    for (int i = 0; i < 2; i++)
        if (*p->data[i])
            sw_json_string(w, NULL, p->data[i]);

    sw_json_close_array(w);
    sw_json_string(w, "fallback", *p->fallback ? p->fallback : NULL);
}

void sw_report_fit_json(struct sw_json_writer *w, const struct sw_job_plan *p)
{
    const struct sw_job_fit *f = &p->fit;
    if (f->budget_bytes == 0) {
        sw_json_string(w, "fit", NULL);
        return;
    }

    sw_json_open_object(w, "fit");
    sw_json_int(w, "budget_bytes", f->budget_bytes);
    sw_json_int(w, "saved_bytes", (int64_t)f->saved_bytes);
    sw_json_int(w, "repeated", f->recomputed);
    sw_json_real(w, "repeat_flops", f->recompute_flops);
    sw_json_real(w, "repeat_bytes", f->recompute_bytes);
    sw_json_int(w, "swapped", f->offloaded);
    sw_json_int(w, "swap_bytes", (int64_t)f->offload_bytes);
    sw_json_close_object(w);
}

static void start(struct sw_json_writer *w, const struct sw_job_plan *p,
                  const struct sw_job_event *e)
{
    sw_json_int(w, "run", e->run_id);
    sw_json_string(w, "name", p->name);
    if (p->stage)
        sw_json_string(w, "stages", p->stages);
    sw_json_string(w, "recipe", p->recipe);
    sw_json_string(w, "device", p->device);
    sw_json_string(w, "device_reason", p->device_why);
    sw_json_string(w, "limits", p->limits);
    sw_json_placement(w, p->placement);
    sw_json_string(w, "framework", p->framework);
    sw_json_string(w, "framework_reason", p->framework_reason);
    sw_json_string(w, "copy", p->copy);
    sw_json_string(w, "copy_reason", p->copy_why);
    sw_json_string(w, "all_reduce", p->sums);
    sw_json_int(w, "parameters", p->params);
    sw_json_int(w, "memory_bytes", (int64_t)p->bytes.peak);
    sw_json_int(w, "device_bytes", (int64_t)p->bytes.device);
    sw_report_fit_json(w, p);
    sw_json_int(w, "steps", e->steps);
    sw_json_int(w, "batch", p->batch);
    sw_json_string(w, "out_dir", e->out_dir);
    sw_json_string(w, "db", e->db_path);
    sw_report_data_json(w, p);
}

static void metrics(struct sw_json_writer *w, const struct sw_job_event *e)
{
    for (int i = 0; i < e->metric_count; i++)
        sw_json_real(w, e->metric[i].name, e->metric[i].value);
    sw_json_string(w, "split", e->split);
}

static void summary(struct sw_json_writer *w, const struct sw_report *r,
                    const struct sw_job_event *e)
{
    const struct sw_report_split *last = NULL;

    for (int i = 0; i < r->split_count; i++)
        if (!last || !sw_str_eq(r->split[i].name, "train"))
            last = &r->split[i];

    /* The metrics of the last evaluated split, or those of training if there is none. */
    for (int i = 0; last && i < last->metric_count; i++)
        sw_json_real(w, last->metric[i].name, last->metric[i].value);
    sw_json_string(w, "split", last ? last->name : NULL);
    sw_json_int(w, "run", r->run_id);
    sw_json_string(w, "status", sw_run_status_name(e->status));
    sw_json_real(w, "elapsed_s", e->elapsed_s);
    sw_json_real(w, "step_ms", e->step_ms);
    sw_json_real(w, "samples_per_s", e->samples_per_s);
    sw_json_int(w, "peak_bytes", (int64_t)e->peak_bytes);
    sw_json_int(w, "rss_bytes", (int64_t)e->rss_bytes);
    sw_json_int(w, "skipped_records", e->skipped_records);
    sw_json_string(w, "checkpoint", *r->checkpoint ? r->checkpoint : NULL);
}

static void details(struct sw_json_writer *w, const struct sw_report *r,
                    const struct sw_job_event *e)
{
    switch (e->type) {
    case SW_JOB_START:
        start(w, r->plan, e);
        break;
    case SW_JOB_DISPLAY:
        metrics(w, e);
        sw_json_real(w, "lr", e->lr);
        sw_json_real(w, "samples_per_s", e->samples_per_s);
        sw_json_real(w, "elapsed_s", e->elapsed_s);
        sw_json_real(w, "eta_s", e->eta_s);
        break;
    case SW_JOB_EVAL:
        metrics(w, e);
        sw_json_real(w, "elapsed_s", e->elapsed_s);
        break;
    case SW_JOB_CHECKPOINT:
        sw_json_string(w, "path", e->path);
        sw_json_int(w, "bytes", e->bytes);
        sw_json_bool(w, "best", e->best);
        break;
    case SW_JOB_EVENT:
        sw_json_string(w, "level", sw_log_level_name(e->level));
        sw_json_string(w, "source", e->source);
        sw_json_string(w, "text", e->text);
        break;
    case SW_JOB_SUMMARY:
        summary(w, r, e);
        break;
    }
}

void sw_report_json(struct sw_report *r, const struct sw_job_event *e)
{
    static const char *const types[] = {"start",      "display", "eval",
                                        "checkpoint", "event",   "summary"};
    struct sw_json_writer w;

    sw_cli_json_begin(&w, &r->text);
    sw_json_string(&w, "type", types[e->type]);
    sw_json_int(&w, "step", e->step);
    details(&w, r, e);
    sw_cli_json_end(&w);
    sw_report_flush(r, "", "");
}
