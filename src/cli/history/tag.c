/* singa-ws history tag: sets, prints or removes the tags of a run. */
#include "base/os.h"
#include "cli/history/cells.h"
#include "cli/history/change.h"
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
static int print_tag(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct sw_history_view *v = user;

    if (row < 0)
        return 0;

    if (v->as_json)
        sw_json_string(&v->json, cells[0].text, cells[1].text);
    else
        sw_cells_tabs(&v->out, columns, cells);

    return 0;
}

static int print_tags(struct sw_history_view *v, int64_t run_id, struct sw_err *err)
{
    char sql[96];

    snprintf(sql, sizeof sql, "SELECT key, value FROM tags WHERE run_id = %lld ORDER BY key",
             (long long)run_id);
    if (v->as_json)
        sw_json_open_object(&v->json, NULL);

    int code = sw_history_sql(v->reader, sql, print_tag, v, err);
    if (v->as_json) {
        sw_cli_json_end(&v->json);
    }

    return code;
}

static int set_tag(struct sw_history_edit *e, int64_t run_id, const char *word, bool remove,
                   struct sw_err *err)
{
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
        code = sw_history_edit_tag(e, run_id, key, remove ? NULL : equals ? equals + 1 : "", err);

    sw_free(key);
    return code;
}

static int tag(void *options)
{
    const struct options *o = options;
    struct sw_history_change c = {0};
    struct sw_run run = {0};
    struct sw_err err = {0};

    if (o->remove && o->common.arg_count < 2)
        return sw_cli_usage("history tag", "--remove needs the names of tags");

    int code = sw_history_change_open(&c, &o->common, &err);
    if (code)
        goto out;
    code = sw_history_find(c.view.reader, o->common.args[0], &run, &err);
    if (code)
        goto out;

    if (o->common.arg_count == 1)
        code = print_tags(&c.view, run.id, &err);
    for (int i = 1; !code && i < o->common.arg_count; i++)
        code = set_tag(c.edit, run.id, o->common.args[i], o->remove, &err);

out:
    sw_run_fini(&run);
    return sw_history_change_close(&c, code, &err);
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
