/* singa-ws history sql: runs a SELECT of the user; prints rows and nothing else. */
#include "cli/history/cells.h"
#include "cli/history/verb.h"

enum { FLUSH_BYTES = 1 << 16 };

struct options {
    struct sw_cli_common common;
    bool header;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, header, "header", "print the column names first"),
    {0},
};

struct query {
    struct sw_history_view view;
    struct sw_cells cells;
    bool header;
    struct sw_err *err;
};

static int print_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct query *q = user;

    if (row < 0) {
        int code = sw_cells_names(&q->cells, columns, cells, q->err);
        if (code || q->view.as_json || !q->header)
            return code;
    }

    if (q->view.as_json)
        sw_cells_json(&q->cells, &q->view.json, cells);
    else
        sw_cells_tabs(&q->view.out, columns, cells);

    return sw_history_view_flush(&q->view, FLUSH_BYTES, q->err);
}

static int query(void *options)
{
    const struct options *o = options;
    struct sw_err err = {0};
    struct query q = {.header = o->header, .err = &err};
    struct sw_cli_common common = o->common;

    common.quiet = true; /* no message about pending rows: the output is for scripts */

    int code = sw_history_view_open(&q.view, &common, &err);
    if (!code && q.view.as_json)
        sw_json_open_array(&q.view.json, NULL);
    if (!code)
        code = sw_history_sql(q.view.reader, common.args[0], print_row, &q, &err);

    if (!code && q.view.as_json) {
        sw_json_close_array(&q.view.json);
        sw_bytes_add(&q.view.out, "\n");
    }

    sw_cells_fini(&q.cells);
    return sw_history_view_close(&q.view, code, &err);
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
