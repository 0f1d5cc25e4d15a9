/* singa-ws history sql: runs a SELECT of the user; prints rows and nothing else. */
#include "cli/history/cells.h"
#include "cli/history/verb.h"

struct options {
    struct sw_cli_common common;
    bool header;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, header, "header", "print the column names first"),
    {0},
};

static int query(void *options)
{
    const struct options *o = options;
    struct sw_history_view v = {0};
    struct sw_bytes sql = {0};
    struct sw_cells cells;
    int code = sw_history_view_open(&v, &o->common, SW_VIEW_SILENT); /* output is for scripts */
    if (code)
        return sw_history_view_close(&v, code);

    sw_bytes_add(&sql, o->common.args[0]);
    sw_cells_begin(&cells, &v, sw_cells_tabs, o->header);
    code = sw_cells_query(&cells, &sql);
    sw_cells_end(&cells);
    sw_bytes_fini(&sql);

    return sw_history_view_close(&v, code);
}

const struct sw_verb sw_history_verb_sql = {
    .name = "sql",
    .help = "run a read-only SELECT",
    .typed = "history sql",
    .usage = "[OPTION]... \"SELECT ...\"",
    .about =
        "Prints the result of a query as tab-separated rows and nothing else. NULL is empty. A\n"
        "tab, newline and backslash in a value are printed as \\t, \\n and \\\\; other control\n"
        "characters and invalid UTF-8 as \\x1b, Unicode control characters as \\u202e. The\n"
        "database is opened read-only.",
    .more = "ui/history.md documents the tables and views and has example queries.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "the query, in quotes,",
    .run = query,
};
