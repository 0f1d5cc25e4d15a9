/* singa-ws pause: pauses a running run. */
#include "cli/control/running.h"
#include "history/control.h"

struct options {
    struct sw_cli_common common;
    bool no_wait, release;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, release, "release",
                       "give back memory, cores and GPUs until it continues"),
    SW_CLI_FLAG_OPTION(struct options, no_wait, "no-wait",
                       "return at once, not when the workers are paused"),
    {0},
};

static int pause_run(void *options)
{
    const struct options *o = options;
    struct sw_running r;
    struct sw_err err;
    char answer[SW_CONTROL_LINE];
    int64_t step = 0;

    int rc = sw_running_find(&r, &o->common, &err);
    if (rc == SW_OK)
        rc =
            sw_running_ask(&r, o->release ? "pause release" : "pause", answer, sizeof answer, &err);
    if (rc == SW_OK && !o->no_wait)
        rc = sw_running_wait_pause(&r, o->release, &step, &err);

    if (rc == SW_OK && !o->common.quiet && o->no_wait)
        sw_cli_message("%s: %s", r.title, answer);
    else if (rc == SW_OK && !o->common.quiet)
        sw_cli_message("%s is paused after step %lld%s; `singa-ws unpause %lld` continues it",
                       r.title, (long long)step,
                       o->release ? " and has given back its memory, cores and GPUs" : "",
                       (long long)r.run.id);
    sw_running_fini(&r);

    return rc == SW_OK ? SW_EXIT_DONE : sw_cli_fail(rc, &err);
}

const struct sw_verb sw_verb_pause = {
    .name = "pause",
    .help = "pause a running run",
    .usage = "[OPTION]... RUN",
    .about =
        "Pauses RUN (an id, a unique prefix, a name, or @last) after its current step, and waits\n"
        "until all workers are paused. It keeps its memory and its cores and GPUs, except with\n"
        "--release: then it writes a checkpoint, frees everything that computes, and continues\n"
        "from the checkpoint with cores and GPUs that are free then. Results do not change.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN",
    .run = pause_run,
};
