/* singa-ws history note: sets, prints or removes the note of a run. */
#include "cli/history/verb.h"

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
    struct sw_history_view v = {0};
    const char *text = o->common.arg_count > 1 ? o->common.args[1] : NULL;

    if (o->remove && text)
        return sw_cli_usage("history note", "--remove takes no TEXT");

    int code = sw_history_view_open(&v, &o->common, SW_VIEW_EDIT | SW_VIEW_RUN);
    if (!code && (text || o->remove))
        code = sw_history_edit_note(v.edit, v.runs->id, text, &v.err);
    else if (!code && v.runs->note)
        sw_bytes_printf(&v.out, "%s\n", v.runs->note);

    return sw_history_view_close(&v, code);
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
