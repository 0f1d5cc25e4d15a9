/* singa-ws ctl: sends a request to a running run. */
#include "base/os.h"
#include "cli/control/running.h"

static int ctl(void *options)
{
    const struct sw_cli_common *common = options;
    struct sw_bytes line = {0};

    for (int i = 1; i < common->arg_count; i++)
        sw_bytes_printf(&line, "%s%s", i > 1 ? " " : "", common->args[i]);

    int code = sw_running_tell(common, sw_bytes_text(&line));
    sw_bytes_fini(&line);

    return code;
}

const struct sw_verb sw_verb_ctl = {
    .name = "ctl",
    .help = "send a request to a running run: checkpoint, note TEXT, ...",
    .usage = "[OPTION]... RUN REQUEST",
    .about =
        "Sends REQUEST to RUN (an id, a unique prefix, a name, or @last) and prints its answer:\n"
        "  checkpoint      write a checkpoint after the current step\n"
        "  note TEXT       record an event with TEXT\n"
        "  pause [release], continue, stop\n"
        "                  as the verbs pause, unpause and stop, which also wait",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    .min_args = 2,
    .max_args = -1,
    .arg_name = "RUN or REQUEST",
    .run = ctl,
};
