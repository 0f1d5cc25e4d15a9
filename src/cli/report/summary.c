/* Prints the closing table of a run. */
#include "cli/report/report.h"

#include "base/text.h"
#include "cli/terminal/columns.h"
#include <math.h>
#include <stdio.h>

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

/* Do the metrics of all splits belong to the step that the summary names? */
static bool all_at(const struct sw_report *r, int64_t step)
{
    for (int s = 0; s < r->split_count; s++)
        if (r->split[s].step != step)
            return false;
    return true;
}

/* Metrics of all splits side by side, in at most `rows` lines. */
static void metric_table(struct sw_bytes *out, const struct sw_report *r, int64_t step, int rows)
{
    struct sw_columns t = {0};

    if (r->split_count == 0)
        return;

    sw_columns_add(&t, "           "); /* as wide as the titles of the other lines */
    rows--;

    for (int s = 0; s < r->split_count; s++) {
        char title[80];
        snprintf(title, sizeof title, ">%s", r->split[s].name);
        sw_columns_add(&t, title);
    }

    if (!all_at(r, step)) {
        sw_columns_cell(&t, "at step");
        for (int s = 0; s < r->split_count; s++)
            sw_columns_cell(&t, "%lld", (long long)r->split[s].step);
        rows--;
    }

    int left = 0;
    for (int s = 0; s < r->split_count; s++)
        for (int m = 0; m < r->split[s].metric_count; m++)
            left += !is_listed(r, s, m);

    rows -= left > rows; /* for the line that counts the others */
    for (int s = 0; s < r->split_count; s++)
        for (int m = 0; m < r->split[s].metric_count && rows > 0; m++)
            if (!is_listed(r, s, m)) {
                metric_row(&t, r, r->split[s].metric[m].name);
                rows--;
                left--;
            }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
    if (left > 0 && r->run_id)
        sw_bytes_printf(out, "%d more       singa-ws history show %lld\n", left,
                        (long long)r->run_id);
}

static void speed(struct sw_bytes *out, const struct sw_job_event *e)
{
    char rss[32], speed_text[32], time[32];

    sw_human_bytes(rss, (double)e->rss_bytes);
    if (isfinite(e->step_ms) && isfinite(e->samples_per_s))
        sw_bytes_printf(out, "speed        %s samples/s, %s per step; %s resident\n",
                        sw_human_real(speed_text, e->samples_per_s),
                        sw_human_seconds(time, e->step_ms / 1000), rss);
    else
        sw_bytes_printf(out, "memory       %s resident\n", rss);
}

static void prediction(struct sw_bytes *out, double predicted_ms, double measured_ms)
{
    char predicted[32], measured[32];

    if (predicted_ms > 0 && isfinite(measured_ms))
        sw_bytes_printf(out, "plan         %s per step predicted, %s measured\n",
                        sw_human_seconds(predicted, predicted_ms / 1000),
                        sw_human_seconds(measured, measured_ms / 1000));
}

/* Data that a fallback generated. */
static void data(struct sw_bytes *out, const bool synthetic[2])
{
    if (synthetic[0] || synthetic[1])
        sw_bytes_printf(out, "data         %s%s%s on synthetic data: the files are missing\n",
                        synthetic[0] ? "trained" : "", synthetic[0] && synthetic[1] ? " and " : "",
                        synthetic[1] ? "evaluated" : "");
}

/* Commands that continue with the result. */
static void next(struct sw_bytes *out, const struct sw_report *r, const struct sw_job_event *e)
{
    const long long run = r->run_id;

    if (run == 0 || !*r->checkpoint)
        return;

    if (e->status == SW_RUN_DONE)
        sw_bytes_printf(out, "next         singa-ws %s %lld%s, or singa-ws resume %lld %s\n",
                        r->writes_text ? "sample" : "predict", run,
                        r->writes_text ? "" : " INPUT...", run, r->plan->extension);
    else
        sw_bytes_printf(out, "next         singa-ws resume %lld\n", run);
}

void sw_report_summary(struct sw_bytes *out, const struct sw_report *r,
                       const struct sw_job_event *e)
{
    enum { ROWS = 10 };
    struct sw_bytes end = {0};
    char time[32];
    int rows = ROWS - 1;

    if (e->best_metric)
        sw_bytes_printf(&end, "best         %s %.6g at step %lld\n", e->best_metric, e->best_value,
                        (long long)e->best_step);

    speed(&end, e);
    prediction(&end, r->predicted_ms, e->step_ms);
    data(&end, r->plan->synthetic);
    if (e->skipped_records)
        sw_bytes_printf(&end, "skipped      %lld records that could not be read\n",
                        (long long)e->skipped_records);

    sw_bytes_printf(&end, "checkpoint   %s\n", *r->checkpoint ? r->checkpoint : "--");
    next(&end, r, e);

    for (const char *c = sw_bytes_text(&end); *c; c++)
        rows -= *c == '\n';

    sw_bytes_printf(out, "\n%-13s", sw_run_status_name(e->status));
    if (r->run_id)
        sw_bytes_printf(out, "run %lld, ", (long long)r->run_id);
    sw_text_add(out, r->plan->name);
    sw_bytes_printf(out, ": step %lld of %lld, %s\n", (long long)e->step, (long long)e->steps,
                    sw_human_seconds(time, e->elapsed_s));
    metric_table(out, r, e->step, rows);
    sw_bytes_add(out, sw_bytes_text(&end));
    sw_bytes_fini(&end);
}
