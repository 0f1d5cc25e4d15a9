/* singa-ws data: a table of sub-verbs that look at data and bring them into shape; each is one
 * file, share/data_NAME.c. */
#include "cli/data/input.h"
#include "cli/options/sub_verbs.h"

static const struct sw_verb *const sub_verbs[] = {&sw_data_import, &sw_data_inspect, &sw_data_stats,
                                                  NULL};

static int run(int argc, char **argv)
{
    static const struct sw_sub_verbs table = {
        .verb = "data",
        .usage = "[OPTION]... RECIPE|FILE...",
        .about = "Looks at data and brings them into shape.",
        .subs = sub_verbs,
    };
    return sw_sub_verbs_run(&table, argc, argv);
}

const struct sw_verb sw_verb_data = {
    .name = "data",
    .help = "import data into shards, inspect and measure them",
    .run = run,
    .stops = true,
    .subs = sub_verbs,
};
