/* The styles LIVE and PLAIN. A plain log has one key=value line for each event and no control
 * characters; on a terminal, displays overwrite one status line. */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/report/report.h"
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- key=value --------------------------------------------------------------------------------
 */

static void pair(struct sw_bytes *out, const char *key, double value)
{
    sw_bytes_printf(out, " %s=%.6g", key, value);
}

/* Omitted if the value is not known. */
static void pair_if(struct sw_bytes *out, const char *key, double value)
{
    if (isfinite(value))
        pair(out, key, value);
}

/* A value with blanks or quotes goes in double quotes; line breaks and other control characters
 * become blanks. */
static void pair_text(struct sw_bytes *out, const char *key, const char *value)
{
    bool bare = *value != '\0';

    for (const char *c = value; *c; c++)
        bare = bare && (unsigned char)*c > ' ' && *c != '"' && *c != '=' && *c != '\\';
    sw_bytes_printf(out, " %s=%s", key, bare ? "" : "\"");

    for (const char *c = value; *c; c++) {
        if (*c == '"' || *c == '\\')
            sw_bytes_add(out, "\\");
        sw_bytes_append(out, (unsigned char)*c < ' ' || *c == 127 ? " " : c, 1);
    }

    sw_bytes_add(out, bare ? "" : "\"");
}

static void metric_pairs(struct sw_bytes *out, const struct sw_job_event *e)
{
    if (e->split)
        pair_text(out, "split", e->split);
    for (int i = 0; i < e->metric_count; i++)
        pair(out, e->metric[i].name, e->metric[i].value);
}

static void plain_line(struct sw_bytes *out, const struct sw_job_event *e)
{
    sw_bytes_printf(out, "step=%lld", (long long)e->step);

    switch (e->type) {
    case SW_JOB_DISPLAY:
        sw_bytes_printf(out, " steps=%lld", (long long)e->steps);
        metric_pairs(out, e);
        pair_if(out, "lr", e->lr);
        pair_if(out, "samples_per_s", e->samples_per_s);
        pair_if(out, "elapsed_s", e->elapsed_s);
        pair_if(out, "eta_s", e->eta_s);
        break;
    case SW_JOB_EVAL:
        metric_pairs(out, e);
        break;
    case SW_JOB_CHECKPOINT:
        pair_text(out, "checkpoint", e->path);
        sw_bytes_printf(out, " bytes=%lld%s", (long long)e->bytes, e->best ? " best=yes" : "");
        break;
    default:
        pair_text(out, "level", sw_log_level_name(e->level));
        pair_text(out, "source", e->source ? e->source : "");
        pair_text(out, "text", e->text ? e->text : "");
        break;
    }
}

/* ---- The status line --------------------------------------------------------------------------
 */

/* A line of parts. The first part that does not fit ends the line, so that a narrow terminal still
 * shows the step. */
struct line {
    struct sw_bytes text;
    int columns, room;
    bool full;
};

static void part(struct line *l, const char *fmt, ...) SW_PRINTF(2, 3);
static void part(struct line *l, const char *fmt, ...)
{
    char text[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    const char *gap = l->columns ? "  " : "";
    int columns = (int)strlen(gap) + sw_text_columns(text);
    l->full = l->full || l->columns + columns > l->room;
    if (l->full)
        return;

    sw_bytes_add(&l->text, gap);
    sw_text_add(&l->text, text);
    l->columns += columns;
}

static void format_status(struct line *l, const struct sw_report *r, const struct sw_job_event *e)
{
    char number[32];

    part(l, "step %lld/%lld", (long long)e->step, (long long)e->steps);
    if (e->steps > 0)
        part(l, "%.1f%%", 100.0 * (double)e->step / (double)e->steps);

    bool accuracy = false;
    for (int i = 0; i < e->metric_count; i++) {
        accuracy |= sw_str_eq(e->metric[i].name, "accuracy");
        part(l, "%s %.4g", e->metric[i].name, e->metric[i].value);
    }

    /* If training does not measure the accuracy, show that of the last evaluation. */
    double evaluated = sw_report_value(r, NULL, "accuracy");
    if (!accuracy && isfinite(evaluated))
        part(l, "accuracy %.4g", evaluated);

    part(l, "%s samples/s", sw_human_real(number, e->samples_per_s));
    part(l, "ETA %s", sw_human_seconds(number, e->eta_s));
}

/* Whether stdout accepts output: a terminal that was stopped with Ctrl-S does not, and the training
 * must not wait for it. */
static bool writable(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

static void status_line(struct sw_report *r, const struct sw_job_event *e)
{
    if (!writable())
        return;

    struct line line = {.room = sw_cli_stdout_width() - 1}; /* avoids wrapping at the last column */
    format_status(&line, r, e);
    sw_bytes_add(&r->text, sw_bytes_text(&line.text));
    sw_bytes_fini(&line.text);
    r->line_shown = true;
    sw_report_flush(r, "\r", "\033[K");
}

/* ---- All of it --------------------------------------------------------------------------------
 */

static const char *colour_of(const struct sw_report *r, const struct sw_job_event *e)
{
    if (!r->colour || e->type != SW_JOB_EVENT || e->level < SW_LOG_WARN)
        return NULL;
    return e->level == SW_LOG_WARN ? "\033[33m" : "\033[31m";
}

/* Writes a permanent line; on a terminal it replaces the status line. */
static void permanent_line(struct sw_report *r, const struct sw_job_event *e)
{
    const char *colour = colour_of(r, e);
    char before[16];

    snprintf(before, sizeof before, "%s%s", r->line_shown ? "\r\033[K" : "", colour ? colour : "");
    r->line_shown = false;
    plain_line(&r->text, e);
    sw_report_flush(r, before, colour ? "\033[0m\n" : "\n");
}

void sw_report_text(struct sw_report *r, const struct sw_job_event *e)
{
    switch (e->type) {
    case SW_JOB_START:
        sw_report_start(&r->text, r->plan, e, r->verbose);
        sw_report_flush(r, "", "");
        break;
    case SW_JOB_DISPLAY:
        if (r->style == SW_REPORT_LIVE)
            status_line(r, e);
        else
            permanent_line(r, e);
        break;
    case SW_JOB_SUMMARY:
        sw_report_end_line(r);
        sw_report_summary(&r->text, r, e);
        sw_report_flush(r, "", "");
        break;
    default:
        permanent_line(r, e);
        break;
    }
}
