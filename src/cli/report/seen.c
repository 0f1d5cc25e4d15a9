/* Shared by all styles of a report: the newest metrics of a run, and writing text to stdout. */
#include "cli/report/report.h"

#include "base/text.h"
#include "cli/cli.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void sw_report_flush(struct sw_report *r, const char *before, const char *after)
{
    struct sw_bytes out = {0};

    sw_bytes_add(&out, before);
    sw_text_add_lines(&out, sw_bytes_text(&r->text), r->text.length);
    sw_bytes_add(&out, after);

    int problem = r->closed ? 0 : sw_cli_write_raw(sw_bytes_text(&out), out.length);
    sw_bytes_fini(&out);
    sw_bytes_clear(&r->text);
    if (problem == 0)
        return;

    r->closed = true;
    r->line_shown = false;

    /* A closed pipe or terminal is no error: the user stopped reading. */
    if (problem != EPIPE && problem != EIO)
        sw_cli_message("standard output: %s; the training continues without output",
                       strerror(problem));
}

void sw_report_end_line(struct sw_report *r)
{
    if (!r->line_shown)
        return;

    r->line_shown = false;
    sw_bytes_clear(&r->text);
    sw_report_flush(r, "", "\n");
}

void sw_report_store_metrics(struct sw_report *r, const struct sw_job_event *e)
{
    if (!e->split || e->metric_count == 0)
        return;

    int i = 0;
    while (i < r->split_count && !sw_str_eq(r->split[i].name, e->split))
        i++;
    if (i == SW_REPORT_SPLITS)
        return;

    struct sw_report_split *s = &r->split[i];
    if (i == r->split_count) {
        r->split_count++;
        snprintf(s->name, sizeof s->name, "%s", e->split);
    }

    s->step = e->step;
    s->metric_count = e->metric_count;
    memcpy(s->metric, e->metric, sizeof s->metric);
}

double sw_report_value(const struct sw_report *r, const char *split, const char *metric)
{
    for (int i = 0; i < r->split_count; i++) {
        const struct sw_report_split *s = &r->split[i];
        if (split ? !sw_str_eq(s->name, split) : sw_str_eq(s->name, "train"))
            continue;

        for (int m = 0; m < s->metric_count; m++)
            if (sw_str_eq(s->metric[m].name, metric))
                return s->metric[m].value;
    }

    return NAN;
}

void sw_print_lines(struct sw_bytes *out, const char *text, const char *indent)
{
    for (const char *lead = ""; *text; lead = indent) {
        size_t n = strcspn(text, "\n");
        sw_bytes_printf(out, "%s%.*s\n", lead, (int)n, text);
        text += n + (text[n] == '\n');
    }
}
