/* singa-ws top: the dashboard of a running, finished or crashed run, on this or another host. */
#include "base/os.h"
#include "cli/cli.h"
#include "cli/history/runs.h"
#include "ui/caps.h"
#include "ui/dash.h"
#include "ui/feed.h"
#include "ui/once.h"
#include "ui/theme.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct sw_cli_common common;
    bool once;
    const char *theme;
};

static const struct sw_cli_option options_of_top[] = {
    SW_CLI_FLAG_OPTION(struct options, once, "once",
                       "print the current state as text, or with --json as one object, and exit"),
    SW_CLI_TEXT_OPTION(struct options, theme, "theme", "NAME",
                       "default, light, colour-blind or mono"),
    {0},
};

/* ---- On another host ---- */

static bool is_remote(const char *word)
{
    return word && strchr(word, '@') && !sw_str_eq(word, "@last");
}

/* Appends a word, quoted for the shell of the remote host; nothing if it is NULL. */
static void add_quoted(struct sw_bytes *out, const char *before, const char *word)
{
    if (!word)
        return;
    sw_bytes_add(out, before);
    sw_cli_quote(out, word);
}

/* Replaces this process with ssh, whose terminal or pipe the remote dashboard then has; returns
 * only when that fails. */
static int watch_remote(const struct options *o, bool terminal)
{
    const char *target = o->common.args[0], *colon = strchr(target, ':');
    char *host = colon ? sw_format("%.*s", (int)(colon - target), target) : sw_strdup(target);
    struct sw_bytes command = {0};

    sw_bytes_add(&command, "singa-ws top");
    sw_bytes_add(&command, o->once ? " --once" : "");
    sw_bytes_add(&command, o->common.json ? " --json" : "");
    add_quoted(&command, " --db ", o->common.db);
    add_quoted(&command, " --theme ", o->theme);
    add_quoted(&command, " -- ", colon && colon[1] ? colon + 1 : NULL);

    char *words[] = {"ssh", terminal ? "-t" : "-T", "--", host, command.text, NULL};
    int code = SW_EXIT_MISSING;
    if (!host || command.failed)
        sw_cli_message("out of memory");
    else if (*host == '-')
        code = sw_cli_usage("top", "'%s' is not USER@HOST", host);
    else {
        execvp("ssh", words);
        sw_cli_message("cannot run ssh: %s", strerror(errno));
    }

    sw_bytes_fini(&command);
    sw_free(host);
    return code;
}

/* ---- On this host ---- */

static int print_once(const struct options *o, const struct sw_ui_model *m)
{
    struct sw_bytes out = {0};
    struct sw_err err;
    struct sw_ui_caps caps = sw_ui_caps_here();
    int rc = SW_OK;

    caps.colours = sw_cli_colour() ? caps.colours : 0;

    if (o->common.json)
        sw_once_json(m, &out);
    else
        rc = sw_once_text(m, sw_cli_stdout_width(), caps, &out, &err);

    int code = rc == SW_OK ? sw_cli_print_raw(&out) : sw_cli_fail(rc, &err);
    sw_bytes_fini(&out);
    return code;
}

static int show_once(const struct options *o, const char *db_path, const char *run)
{
    struct sw_feed *feed = NULL;
    struct sw_ui_model *m = sw_calloc(1, sizeof *m);
    struct sw_err err;
    int code;

    if (!m)
        return sw_cli_fail(sw_err_nomem(&err, "snapshot", sizeof *m), &err);

    int rc = sw_feed_new(&feed, db_path, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto out;
    }
    rc = sw_feed_choose(feed, run, m, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto out;
    }

    sw_feed_refresh(feed, m, o->common.json ? 0 : SW_FEED_MACHINE);
    code = print_once(o, m);

out:
    sw_feed_free(feed);
    sw_ui_model_fini(m);
    sw_free(m);

    return code;
}

static int show_live(const struct options *o, const char *db_path, const char *run)
{
    struct sw_dash_args args = {.db_path = db_path, .run = run, .theme = o->theme};
    struct sw_err err;
    int ended_by;
    int rc = sw_dash_run(&args, &ended_by, &err);

    return rc == SW_OK ? SW_EXIT_DONE : sw_cli_fail(rc, &err);
}

static int top(void *options)
{
    const struct options *o = options;
    const char *run = o->common.arg_count > 0 ? o->common.args[0] : NULL;
    bool terminal = !o->once && !o->common.json && sw_cli_stdout_smart() && isatty(STDIN_FILENO);
    char *db_path = NULL;
    struct sw_history_reader *reader = NULL;
    struct sw_err err;

    if (o->theme && !sw_str_eq(sw_theme_find(o->theme)->name, o->theme))
        return sw_cli_usage("top", "--theme=%s: must be default, light, colour-blind or mono",
                            o->theme);
    if (is_remote(run))
        return watch_remote(o, terminal);

    /* Spools are merged first, so that a run that could not reach the database is visible. */
    int rc = sw_runs_open(o->common.db, NULL, &reader, &db_path, &err);
    sw_history_reader_close(reader);

    int code = rc != SW_OK ? sw_cli_fail(rc, &err)
               : terminal  ? show_live(o, db_path, run)
                           : show_once(o, db_path, run);
    sw_free(db_path);

    return code;
}

const struct sw_verb sw_verb_top = {
    .name = "top",
    .help = "watch a run in the terminal",
    .usage = "[OPTION]... [RUN]\n[OPTION]... USER@HOST[:RUN]",
    .about =
        "Shows a running or finished run: curves, throughput and its bottleneck, workers,\n"
        "machine, layers, data, events, plan. RUN is an id, a unique prefix, a name, or @last;\n"
        "default: the newest running run, else the newest run. `q` quits and never stops a\n"
        "training; `?` shows all keys. Any number of viewers may watch a run.\n\n"
        "With USER@HOST it runs `singa-ws top` on that host over ssh.",
    .more = "If stdout is not a terminal, it prints a text snapshot as with --once.",
    .takes = SW_CLI_DB | SW_CLI_JSON,
    SW_CLI_OPTIONS(struct options, options_of_top),
    .max_args = 1,
    .arg_name = "RUN",
    .run = top,
};
