/* singa-ws history tag: sets, prints or removes the tags of a run. */
#include "base/os.h"
#include "cli/history/cells.h"
#include "cli/history/verb.h"
#include "history/reader_rows.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    bool remove;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, remove, "remove", "remove the tags"),
    {0},
};

/* key\tvalue, or an object. */
static int print_tags(struct sw_history_view *v)
{
    struct sw_rows tags = sw_rows_begin(v->reader, SW_ROWS_TAG, v->runs->id, 0, 0, &v->err);
    struct sw_run_tag t;

    if (v->as_json)
        sw_json_open_object(&v->json, NULL);

    while (sw_rows_next(&tags, &t))
        if (v->as_json)
            sw_json_string(&v->json, t.key, t.value);
        else
            sw_cells_tabs(&v->out, 2, (struct sw_history_cell[]){{t.key, false}, {t.value, false}});

    if (v->as_json)
        sw_cli_json_end(&v->json);

    return sw_rows_end(&tags);
}

static int set_tag(struct sw_history_view *v, const char *word, bool remove)
{
    struct sw_err *err = &v->err;
    char *key = sw_strdup(word), *equals = key ? strchr(key, '=') : NULL;
    int code = SW_OK;

    if (!key)
        return sw_err_nomem(err, "tag", strlen(word));

    if (equals)
        *equals = 0;

    if (!*key)
        code = sw_err_set(err, SW_ERR_INVALID, "'%s': the tag has no name before '='", word);
    else if (remove && equals)
        code = sw_err_set(err, SW_ERR_INVALID, "--remove takes only the name of a tag: '%s'", key);
    else
        code = sw_history_edit_tag(v->edit, v->runs->id, key,
                                   remove   ? NULL
                                   : equals ? equals + 1
                                            : "",
                                   err);

    sw_free(key);
    return code;
}

static int tag(void *options)
{
    const struct options *o = options;
    struct sw_history_view v = {0};

    if (o->remove && o->common.arg_count < 2)
        return sw_cli_usage("history tag", "--remove needs the names of tags");

    int code = sw_history_view_open(&v, &o->common, SW_VIEW_EDIT | SW_VIEW_RUN);
    if (!code && o->common.arg_count == 1)
        code = print_tags(&v);
    for (int i = 1; !code && i < o->common.arg_count; i++)
        code = set_tag(&v, o->common.args[i], o->remove);

    return sw_history_view_close(&v, code);
}

const struct sw_verb sw_history_verb_tag = {
    .name = "tag",
    .help = "set or print the tags of a run",
    .typed = "history tag",
    .usage = "[OPTION]... RUN [KEY[=VALUE]]...",
    .about =
        "Sets tags of a run, or prints its tags. 'history list --tag KEY[=VALUE]' lists the runs\n"
        "with a tag. 'history gc' does not change runs tagged `keep`.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = -1,
    .arg_name = "RUN",
    .run = tag,
};
