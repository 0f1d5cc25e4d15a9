/* singa-ws data: a table of sub-verbs that inspect and convert data; each is one file,
 * data/NAME.c. */
#include "cli/data/input.h"

static const struct sw_verb *const sub_verbs[] = {&sw_data_import, &sw_data_inspect, &sw_data_stats,
                                                  NULL};

const struct sw_verb sw_verb_data = {
    .name = "data",
    .help = "import, inspect and measure data",
    .usage = "[OPTION]... RECIPE|FILE...",
    .about = "Inspects, measures and converts data.",
    .subs = sub_verbs,
    .stops = true,
};
