/* singa-ws history note: sets, prints or removes the note of a run. */
#include "cli/history/change.h"

struct options {
    struct sw_cli_common common;
    bool remove;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, remove, "remove", "remove the note"),
    {0},
};

static int note(void *options)
{
    const struct options *o = options;
    struct sw_history_change c = {0};
    struct sw_run run = {0};
    struct sw_err err = {0};
    const char *text = o->common.arg_count > 1 ? o->common.args[1] : NULL;

    if (o->remove && text)
        return sw_cli_usage("history note", "--remove takes no TEXT");

    int code = sw_history_change_open(&c, &o->common, &err);
    if (code)
        goto out;
    code = sw_history_find(c.view.reader, o->common.args[0], &run, &err);
    if (code)
        goto out;

    if (text || o->remove)
        code = sw_history_edit_note(c.edit, run.id, text, &err);
    else if (run.note)
        sw_bytes_printf(&c.view.out, "%s\n", run.note);

out:
    sw_run_fini(&run);
    return sw_history_change_close(&c, code, &err);
}

const struct sw_verb sw_history_verb_note = {
    .name = "note",
    .help = "set or print the note of a run",
    .typed = "history note",
    .usage = "[OPTION]... RUN [TEXT]",
    .about = "Sets the note of a run to TEXT, or prints the note.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 2,
    .arg_name = "RUN",
    .run = note,
};
