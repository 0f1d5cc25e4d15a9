/* singa-ws stop: stops a running run with a checkpoint. */
#include "cli/checkpoint/checkpoints.h"
#include "cli/control/running.h"
#include "history/control.h"

struct options {
    struct sw_cli_common common;
    bool no_wait;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, no_wait, "no-wait",
                       "return at once, not when the run has ended"),
    {0},
};

/* Says how the run ended, and from where it can be resumed. */
static int report_end(struct sw_running *r, bool quiet)
{
    struct sw_checkpoints checkpoints = {0};
    struct sw_err err;
    bool stopped = r->run.status == SW_RUN_STOPPED || r->run.status == SW_RUN_DONE;

    int rc = sw_checkpoints_find(r->reader, &r->run, &checkpoints, &err);
    if (!stopped)
        sw_cli_message("%s %s before it could be stopped; see `singa-ws history show %lld`",
                       r->title, sw_run_status_name(r->run.status), (long long)r->run.id);
    else if (rc != SW_OK)
        sw_cli_message("%s is %s: %s", r->title, sw_run_status_name(r->run.status), err.text);
    else if (!quiet && r->run.status == SW_RUN_STOPPED)
        sw_cli_message("%s is stopped after step %lld: %s; `singa-ws resume %lld` continues it",
                       r->title, (long long)checkpoints.items[0].step, checkpoints.items[0].path,
                       (long long)r->run.id);
    else if (!quiet)
        sw_cli_message("%s is done after step %lld: %s", r->title,
                       (long long)checkpoints.items[0].step, checkpoints.items[0].path);
    sw_checkpoints_fini(&checkpoints);

    return stopped ? SW_EXIT_DONE : SW_EXIT_FAILED;
}

static int leave_queue(const struct sw_running *r, const struct options *o)
{
    struct sw_err err;

    int rc = sw_running_leave_queue(r, !o->no_wait, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    if (!o->common.quiet)
        sw_cli_message("%s %s the queue", r->title, o->no_wait ? "will leave" : "has left");
    return SW_EXIT_DONE;
}

static int stop(void *options)
{
    const struct options *o = options;
    struct sw_running r;
    struct sw_err err;
    char answer[SW_CONTROL_LINE];
    int code;

    int rc = sw_running_find(&r, &o->common, &err);
    if (rc == SW_OK)
        rc = sw_running_ask(&r, "stop", answer, sizeof answer, &err);
    if (rc == SW_OK && !o->no_wait)
        rc = sw_running_wait_end(&r, &err);

    if (r.queued_pid) {
        code = leave_queue(&r, o);
    } else if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
    } else if (!o->no_wait) {
        code = report_end(&r, o->common.quiet);
    } else {
        code = SW_EXIT_DONE;
        if (!o->common.quiet)
            sw_cli_message("%s: %s", r.title, answer);
    }

    sw_running_fini(&r);
    return code;
}

const struct sw_verb sw_verb_stop = {
    .name = "stop",
    .help = "stop a running run with a checkpoint, or a queued one",
    .usage = "[OPTION]... RUN",
    .about =
        "Stops RUN (an id, a unique prefix, a name, or @last) after its current step, waits until\n"
        "it has ended, and names the checkpoint from which `singa-ws resume` continues. The run\n"
        "itself exits with 75. A run that waits in the queue (run --when-free) leaves it, and\n"
        "exits with 143.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN",
    .run = stop,
};
