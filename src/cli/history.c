/* singa-ws history: a table of sub-verbs that query the history database, and a few that change it;
 * each is one file, history/NAME.c. */
#include "cli/history/verb.h"

static const struct sw_verb *const sub_verbs[] = {
    &sw_history_verb_list,
    &sw_history_verb_show,
    &sw_history_verb_compare,
    &sw_history_verb_plot,
    &sw_history_verb_export,
    &sw_history_verb_sql,
    &sw_history_verb_tag,
    &sw_history_verb_note,
    &sw_history_verb_rm,
    &sw_history_verb_gc,
    NULL,
};

const struct sw_verb sw_verb_history = {
    .name = "history",
    .help = "query finished and running runs: list, show, compare, plot, export, sql ...",
    .usage = "[OPTION]... [RUN]...",
    .about =
        "Queries the history of finished and running runs. Without a sub-verb: list. RUN is an\n"
        "id, a unique prefix, a name (its newest run), or @last.",
    .more = "Tables: runs series point step_time layer_time link_traffic hardware placement "
            "checkpoints\n"
            "events tags plans segments stages hosts. Views: metrics(run_id, step, epoch, time, split, "
            "name, value)\n"
            "run_summary series_stats epoch_metrics slowest_layers where_time_went traffic.",
    .subs = sub_verbs,
    .without = &sw_history_verb_list,
};
