/* singa-ws history export: writes all rows of runs for other programs. */
#include "base/os.h"
#include "cli/history/cells.h"
#include "cli/history/verb.h"

struct options {
    struct sw_cli_common common;
    bool csv;
    const char *metric, *split, *what;
};

/* A table or view that can be exported, in the order of its key. */
static const struct {
    const char *name, *columns, *from, *order;
    bool has_metric; /* it has columns split and name */
} tables[] = {
    {"metrics", "run_id, step, epoch, time, split, name, value", "metrics",
     "split <> 'train', split, name, step", true},
    {"steps", "*", "step_time", "step, worker", false},
    {"layers", "*", "layer_time", "layer, worker", false},
    {"traffic", "*", "link_traffic", "step, from_unit, to_unit", false},
    {"events", "run_id, time, level, source, text", "events", "time", false},
    {"checkpoints", "*", "checkpoints", "step", false},
    {"placement", "*", "placement", "unit", false},
};
enum { TABLES = sizeof tables / sizeof *tables };

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, csv, "csv",
                       "print comma-separated values with a header line (the default)"),
    SW_CLI_TEXT_OPTION(
        struct options, what, "what", "THING",
        "metrics (the default), steps, layers, traffic, events, checkpoints or placement"),
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "NAME",
                       "only this metric, for example loss"),
    SW_CLI_TEXT_OPTION(struct options, split, "split", "NAME",
                       "only this split, for example train"),
    {0},
};

static int export_run(struct sw_cells *cells, const struct options *o, int table, int64_t run_id)
{
    struct sw_bytes sql = {0};

    sw_bytes_printf(&sql, "SELECT %s FROM %s WHERE run_id = %lld", tables[table].columns,
                    tables[table].from, (long long)run_id);

    if (o->metric) {
        sw_bytes_add(&sql, " AND name = ");
        sw_sql_literal(&sql, o->metric);
    }

    if (o->split) {
        sw_bytes_add(&sql, " AND split = ");
        sw_sql_literal(&sql, o->split);
    }

    sw_bytes_printf(&sql, " ORDER BY %s", tables[table].order);

    int code = sw_cells_query(cells, &sql);
    sw_bytes_fini(&sql);

    return code;
}

static int find_table(const struct options *o)
{
    const char *names[TABLES];
    const char *what = o->what ? o->what : tables[0].name;

    for (int i = 0; i < TABLES; i++) {
        names[i] = tables[i].name;
        if (!sw_str_eq(what, names[i]))
            continue;
        if (tables[i].has_metric || !(o->metric || o->split))
            return i;

        sw_cli_usage("history export", "--metric and --split are only for --what metrics");
        return -1;
    }

    const char *near = sw_str_nearest(what, names, TABLES);
    sw_cli_usage("history export", "--what %s is unknown; did you mean '%s'?", what,
                 near ? near : names[0]);

    return -1;
}

static int export_all(void *options)
{
    const struct options *o = options;
    struct sw_history_view v = {.raw = !sw_cli_stdout_tty()};
    struct sw_cells cells;
    int table = find_table(o);
    if (table < 0)
        return SW_EXIT_USAGE;
    if (o->csv && o->common.json)
        return sw_cli_usage("history export", "--csv and --json are mutually exclusive");

    int code = sw_history_view_open(&v, &o->common, SW_VIEW_RUNS);
    if (code)
        return sw_history_view_close(&v, code);

    sw_cells_begin(&cells, &v, sw_cells_csv, true);
    for (int i = 0; !code && i < v.run_count; i++)
        code = export_run(&cells, o, table, v.runs[i].id);
    sw_cells_end(&cells);

    return sw_history_view_close(&v, code);
}

const struct sw_verb sw_history_verb_export = {
    .name = "export",
    .help = "print all points as CSV or JSON",
    .typed = "history export",
    .usage = "[OPTION]... [--csv | --json] [RUN]...",
    .about = "Prints all points of the runs (default @last) as CSV or as an array of JSON objects.",
    .more =
        "CSV contains the stored bytes unchanged, except on a terminal, where control characters\n"
        "are escaped; JSON always escapes them.\n\n"
        "For other queries use 'singa-ws history sql'.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = -1,
    .arg_name = "RUN",
    .run = export_all,
};
