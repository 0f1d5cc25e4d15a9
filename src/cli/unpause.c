/* singa-ws unpause: ends the pause of a run. */
#include "cli/control/running.h"

static int unpause(void *options)
{
    return sw_running_tell(options, "continue");
}

const struct sw_verb sw_verb_unpause = {
    .name = "unpause",
    .help = "let a paused run continue",
    .usage = "[OPTION]... RUN",
    .about =
        "Ends the pause of RUN (an id, a unique prefix, a name, or @last). The pause does not\n"
        "change the results.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN",
    .run = unpause,
};
