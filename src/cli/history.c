/* singa-ws history: what was trained, read from the history database; nothing is ever written. */
#include "base/json.h"
#include "base/os.h"
#include "cli/cli.h"
#include "cli/share/run_page.h"
#include "history/reader.h"
#include <errno.h>
#include <string.h>

enum { FLUSH_BYTES = 1 << 16 };

struct options {
    struct sw_cli_common common;
    bool header;
};

static const struct sw_cli_option options_of_history[] = {
    {.name = "header",
     .type = SW_CLI_FLAG,
     .offset = offsetof(struct options, header),
     .help = "sql: print the names of the columns first"},
    {0},
};

static const struct sw_cli_spec spec = {
    .verb = "history",
    .usage = "[OPTION]... [list]\n[OPTION]... show [RUN]\n[OPTION]... sql \"SELECT "
             "...\"",
    .about =
        "Lists the runs, shows one, or answers a query. RUN is an id, a unique prefix, a name "
        "(the\n"
        "newest run of it), or @last (the default).\n\n"
        "sql prints tab-separated rows and nothing else; NULL is empty; a tab, a newline and a\n"
        "backslash within a value are \\t, \\n and \\\\. Only reading is allowed.",
    .more = "Tables: runs series point step_time layer_time link_traffic hardware placement "
            "checkpoints\n"
            "events tags plans segments. Views: metrics(run_id, step, epoch, time, split, name, "
            "value)\n"
            "run_summary epoch_metrics slowest_layers where_time_went.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .options = options_of_history,
    .max_args = 2,
    .arg_name = "RUN",
};

/* What the callbacks of a query share. */
struct view {
    struct sw_history_reader *reader;
    struct sw_buf out;
    struct sw_json_writer json;
    bool as_json, header;
    int io_error;
    const char **names; /* sql as JSON: owned copies of the column names */
    int name_count;
};

/* ---- sql --------------------------------------------------------------------------------------
 */

static void add_cell(struct sw_buf *out, const char *cell)
{
    for (const char *c = cell ? cell : ""; *c;) {
        size_t plain = strcspn(c, "\t\n\\");
        sw_buf_add_bytes(out, c, plain);
        c += plain;
        if (*c)
            sw_buf_add(out, *c == '\t' ? "\\t" : *c == '\n' ? "\\n" : "\\\\");
        c += *c != 0;
    }
}

/* Rows are many: what is ready is written in pieces, and a reader that has gone ends the query. */
static int flush_rows(struct view *v, size_t limit)
{
    if (v->out.length < limit)
        return 0;
    v->io_error = v->out.failed ? ENOMEM : sw_cli_write(v->out.text, v->out.length);
    sw_buf_clear(&v->out);
    return v->io_error ? SW_ERR_CANCELLED : 0;
}

static int print_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct view *v = user;
    if (row < 0 && !v->header)
        return 0;
    for (int i = 0; i < columns; i++) {
        sw_buf_add(&v->out, i ? "\t" : "");
        add_cell(&v->out, cells[i].text);
    }
    sw_buf_add(&v->out, "\n");
    return flush_rows(v, FLUSH_BYTES);
}

static int keep_names(struct view *v, int columns, const struct sw_history_cell *cells)
{
    v->names = sw_calloc((size_t)columns + 1, sizeof *v->names);
    for (v->name_count = 0; v->names && v->name_count < columns; v->name_count++) {
        v->names[v->name_count] = sw_strdup(cells[v->name_count].text);
        if (!v->names[v->name_count])
            break;
    }
    if (v->names && v->name_count == columns)
        return 0;
    v->io_error = ENOMEM;
    return SW_ERR_CANCELLED;
}

/* Infinity is the one number that JSON cannot spell; it stays a text. */
static void json_cell(struct sw_json_writer *w, const char *key, const struct sw_history_cell *cell)
{
    int64_t i;
    double r;
    if (cell->is_number && sw_parse_int(cell->text, &i))
        sw_json_int(w, key, i);
    else if (cell->is_number && sw_parse_real(cell->text, &r))
        sw_json_real(w, key, r);
    else
        sw_json_string(w, key, cell->text);
}

static int print_json_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct view *v = user;
    if (row < 0)
        return keep_names(v, columns, cells);
    sw_json_open_object(&v->json, NULL);
    for (int i = 0; i < columns; i++)
        json_cell(&v->json, v->names[i], &cells[i]);
    sw_json_close_object(&v->json);
    return flush_rows(v, FLUSH_BYTES);
}

static int query(struct view *v, const char *sql, struct sw_err *err)
{
    if (v->as_json)
        sw_json_open_array(&v->json, NULL);
    int code = sw_history_sql(v->reader, sql, v->as_json ? print_json_row : print_row, v, err);
    if (!code && v->as_json) {
        sw_json_close_array(&v->json);
        sw_buf_add(&v->out, "\n");
    }
    /* A pipe whose reader had enough is no failure. */
    if (v->io_error == EPIPE)
        code = SW_OK;
    else if (v->io_error)
        code = sw_err_set(err, SW_ERR_IO, "cannot write the rows: %s", strerror(v->io_error));
    return code;
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

enum command { LIST, SHOW, SQL, UNKNOWN };

static enum command command_of(const struct sw_cli_common *o)
{
    static const char *const names[] = {"list", "show", "sql"};
    if (o->arg_count == 0)
        return LIST;
    for (int i = 0; i < UNKNOWN; i++)
        if (sw_str_eq(o->args[0], names[i]))
            return (enum command)i;
    return UNKNOWN;
}

static int check_usage(const struct options *o, enum command command)
{
    static const char *const names[] = {"list", "show", "sql"};
    if (command == UNKNOWN) {
        const char *near = sw_str_nearest(o->common.args[0], names, UNKNOWN);
        if (near)
            return sw_cli_usage("history", "unknown command '%s'; did you mean '%s'?",
                                o->common.args[0], near);
        return sw_cli_usage("history", "unknown command '%s'; known are list, show, sql",
                            o->common.args[0]);
    }
    if (command == SQL && o->common.arg_count != 2)
        return sw_cli_usage("history", "sql wants one query, in quotes");
    if (command == LIST && o->common.arg_count > 1)
        return sw_cli_usage("history", "list takes no argument; 'history show %s' shows one run",
                            o->common.args[1]);
    if (o->header && command != SQL)
        return sw_cli_usage("history", "--header belongs to sql");
    return SW_EXIT_DONE;
}

static void tell_waiting(const struct options *o, const char *path)
{
    int waiting = o->common.quiet ? 0 : sw_history_waiting(path);
    if (waiting)
        sw_cli_say(
            "%d run%s rows that are not in the database yet; the next run or resume merges them",
            waiting, waiting == 1 ? " has" : "s have");
}

static int answer(const struct options *o, enum command command)
{
    struct sw_err err = {0};
    struct view v = {.as_json = o->common.json, .header = o->header};
    char *path = NULL;
    int code = sw_history_default_path(o->common.db, NULL, &path, &err);
    if (!code && command != SQL)
        tell_waiting(o, path);
    if (!code)
        code = sw_history_reader_open(&v.reader, path, &err);
    sw_json_begin(&v.json, &v.out);
    struct sw_run_page page = {
        .reader = v.reader, .out = &v.out, .as_json = v.as_json, .json = v.json};
    if (!code && command == LIST)
        code = sw_run_page_list(&page, &err);
    else if (!code && command == SHOW)
        code = sw_run_page_show(&page, o->common.arg_count > 1 ? o->common.args[1] : "@last", &err);
    else if (!code)
        code = query(&v, o->common.args[1], &err);
    int exit_code = code         ? sw_cli_fail(code, &err)
                    : v.io_error ? SW_EXIT_DONE
                                 : sw_cli_print(&v.out);
    for (int i = 0; i < v.name_count; i++)
        sw_free((void *)v.names[i]);
    sw_free(v.names);
    sw_buf_fini(&v.out);
    sw_history_reader_close(v.reader);
    sw_free(path);
    return exit_code;
}

static int run(int argc, char **argv)
{
    struct options o = {0};
    int code = sw_cli_parse(&spec, argc, argv, &o);
    if (code == SW_CLI_GO_ON) {
        enum command command = command_of(&o.common);
        code = check_usage(&o, command);
        if (code == SW_EXIT_DONE)
            code = answer(&o, command);
    }
    sw_cli_fini(&spec, &o);
    return code;
}

const struct sw_verb sw_verb_history = {
    .name = "history",
    .help = "query finished and running runs: list, show RUN, sql \"SELECT ...\"",
    .run = run,
    .spec = &spec,
};
