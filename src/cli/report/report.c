/* Chooses the style of the training report (live line, plain lines, JSON, nothing) and passes each
 * event of the job to the code of that style. It runs on the thread that runs the job. The contract
 * is in cli/report/report.h. */
#include "cli/report/report.h"

#include "cli/cli.h"
#include <stdio.h>

void sw_report_init(struct sw_report *r, bool json, bool quiet, bool verbose)
{
    *r = (struct sw_report){
        .style = quiet                   ? SW_REPORT_QUIET
                 : json                  ? SW_REPORT_JSON
                 : sw_cli_stdout_smart() ? SW_REPORT_LIVE
                                         : SW_REPORT_PLAIN,
        .colour = sw_cli_colour(),
        .verbose = verbose,
    };
}

void sw_report_fini(struct sw_report *r)
{
    sw_report_end_line(r);
    sw_bytes_fini(&r->text);
}

struct sw_display_policy sw_report_policy(const struct sw_report *r)
{
    switch (r->style) {
    case SW_REPORT_LIVE:
        return (struct sw_display_policy){.first_steps = 1, .every_s = 0.2};
    case SW_REPORT_QUIET:
        return (struct sw_display_policy){.every_s = 1e9};
    default:
        return (struct sw_display_policy){.first_steps = 5, .every_s = 10, .every_share = 0.01};
    }
}

void sw_report_observe(void *user, const struct sw_job_event *e)
{
    struct sw_report *r = user;

    if (e->type == SW_JOB_START) {
        r->run_began = true;
        r->run_id = e->run_id;
        if (r->on_begin)
            r->on_begin(r->begin_user, e);
    }

    if (e->type == SW_JOB_DISPLAY || e->type == SW_JOB_EVAL)
        sw_report_store_metrics(r, e);
    if (e->type == SW_JOB_CHECKPOINT && e->path)
        snprintf(r->checkpoint, sizeof r->checkpoint, "%s", e->path);
    r->step = e->step;
    if (r->closed || r->style == SW_REPORT_QUIET)
        return;

    if (r->style == SW_REPORT_JSON)
        sw_report_json(r, e);
    else
        sw_report_text(r, e);
}
