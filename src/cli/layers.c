/* singa-ws layers: the catalogue of the types and keys that a recipe can use, from the tables that
 * parse and check recipes. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/reference/catalogue.h"
#include "cli/reference/pages.h"
#include "layers/layer.h"
#include "recipe/reference.h"
#include <stdio.h>
#include <string.h>

struct options {
    struct sw_cli_common common;
    bool man, markdown;
    const char *completion;
};

static const struct sw_cli_option options_of_layers[] = {
    SW_CLI_FLAG_OPTION(struct options, man, "man", "print the complete reference as a man page"),
    SW_CLI_FLAG_OPTION(struct options, markdown, "markdown",
                       "print the complete reference as Markdown"),
    SW_CLI_TEXT_OPTION(struct options, completion, "completion", "SHELL",
                       "print the completion script for bash or zsh"),
    {0},
};

/* ---- The list
 * --------------------------------------------------------------------------------------
 */

static int widest_name(void)
{
    size_t widest = 0;
    const struct sw_type *t;

    for (int g = 0; sw_catalogue_groups[g].name; g++)
        for (int i = 0; (t = sw_catalogue_groups[g].at(i)); i++)
            widest = strlen(t->name) > widest ? strlen(t->name) : widest;

    return (int)widest;
}

static void list(struct sw_bytes *out)
{
    int width = widest_name();

    for (int g = 0; sw_catalogue_groups[g].name; g++) {
        sw_bytes_printf(out, "%s%s\n", g ? "\n" : "", sw_catalogue_groups[g].title);
        const struct sw_type *t;
        for (int i = 0; (t = sw_catalogue_groups[g].at(i)); i++)
            sw_bytes_printf(out, "  %-*s  %s\n", width, t->name, t->help);
    }

    sw_bytes_add(out, "\nSections without types:\n");

    for (int s = 0; sw_catalogue_sections[s].name; s++)
        sw_bytes_printf(out, "  %-*s  %s: %s\n", width, sw_catalogue_sections[s].name,
                        sw_catalogue_sections[s].title, sw_catalogue_sections[s].help);

    sw_bytes_add(out, "\nVerbs:\n");
    for (int v = 0; sw_verbs[v]; v++)
        sw_bytes_printf(out, "  %-*s  %s\n", width, sw_verbs[v]->name, sw_verbs[v]->help);
    sw_bytes_add(out, "\n'singa-ws layers TYPE|VERB' lists the keys or options of each.\n");
}

static void json_partitions(struct sw_json_writer *w, const struct sw_layer_type *t)
{
    sw_json_open_array(w, "partition");

    for (int p = 0; sw_partition_names[p]; p++)
        if (sw_layer_can_split(t, (enum sw_partition)p))
            sw_json_string(w, NULL, sw_partition_names[p]);

    sw_json_close_array(w);
}

static void list_json(struct sw_json_writer *w)
{
    sw_json_open_object(w, NULL);

    for (int g = 0; sw_catalogue_groups[g].name; g++) {
        sw_json_open_array(w, sw_catalogue_groups[g].name);

        const struct sw_type *t;
        for (int i = 0; (t = sw_catalogue_groups[g].at(i)); i++) {
            sw_json_open_object(w, NULL);
            sw_json_string(w, "name", t->name);
            sw_json_string(w, "help", t->help);

            if (sw_catalogue_groups[g].role) {
                sw_json_string(w, "role", sw_catalogue_groups[g].role(i));
                json_partitions(w, sw_layer_type_find(t->name));
            }

            sw_json_close_object(w);
        }

        sw_json_close_array(w);
    }

    sw_json_open_array(w, "verbs");

    for (int v = 0; sw_verbs[v]; v++) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "name", sw_verbs[v]->name);
        sw_json_string(w, "help", sw_verbs[v]->help);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    sw_json_close_object(w);
}

/* ---- One entry
 * --------------------------------------------------------------------------------------
 */

/* Prints how a layer of this type can be partitioned over workers. */
static void print_partitions(struct sw_bytes *out, const struct sw_layer_type *t)
{
    sw_bytes_add(out, "\npartition can be");

    for (int p = 0, n = 0; sw_partition_names[p]; p++)
        if (sw_layer_can_split(t, (enum sw_partition)p))
            sw_bytes_printf(out, "%s %s", n++ ? "," : "", sw_partition_names[p]);

    if (t->split == SW_SPLIT_NONE && t->split_reason)
        sw_bytes_printf(out, "; not 1: %s", t->split_reason);
    else if (t->refuses_split || t->joins || t->refuses_data)
        sw_bytes_add(out, "; 1 depends on its keys");

    sw_bytes_add(out, "\n");
}

static bool show_type(const char *name, bool json, struct sw_bytes *out)
{
    struct sw_json_writer w;

    for (int g = 0; sw_catalogue_groups[g].name; g++) {
        const struct sw_type *t;

        for (int i = 0; (t = sw_catalogue_groups[g].at(i)); i++) {
            if (!sw_str_eq(t->name, name))
                continue;

            const struct sw_opt *params = t->params ? sw_catalogue_groups[g].params : NULL;
            if (json) {
                sw_json_begin(&w, out);
                sw_json_type(&w, NULL, t, sw_catalogue_groups[g].common, params);
                sw_bytes_add(out, "\n");
            } else {
                sw_print_type(out, t, sw_catalogue_groups[g].common, params);
                if (sw_catalogue_groups[g].role)
                    print_partitions(out, sw_layer_type_find(name));
            }

            return true;
        }
    }

    return false;
}

static bool show_section(const char *name, bool json, struct sw_bytes *out)
{
    for (int s = 0; sw_catalogue_sections[s].name; s++) {
        if (!sw_str_eq(sw_catalogue_sections[s].name, name))
            continue;

        if (json) {
            struct sw_type as_type = {.name = name,
                                      .help = sw_catalogue_sections[s].help,
                                      .opts = sw_catalogue_sections[s].opts};
            struct sw_json_writer w;

            sw_json_begin(&w, out);
            sw_json_type(&w, NULL, &as_type, NULL, NULL);
            sw_bytes_add(out, "\n");
        } else {
            sw_print_opts(out, sw_catalogue_sections[s].title, sw_catalogue_sections[s].opts);
        }

        return true;
    }

    return false;
}

static void json_option(void *user, const struct sw_cli_option *o)
{
    struct sw_json_writer *w = user;

    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", o->name);
    sw_json_string(w, "argument", o->arg);
    sw_json_string(w, "help", o->help);
    sw_json_close_object(w);
}

/* Shows a verb as its --help does. */
static bool show_verb(const char *name, bool json, struct sw_bytes *out)
{
    struct sw_json_writer w;
    const struct sw_verb *v = NULL;

    for (int i = 0; sw_verbs[i]; i++)
        if (sw_str_eq(sw_verbs[i]->name, name))
            v = sw_verbs[i];

    if (!v)
        return false;

    if (!json) {
        char *words[] = {(char *)name, "--help", NULL};
        sw_cli_run(v, 2, words);
        fflush(stdout);
        return true;
    }

    sw_cli_json_begin(&w, out);
    sw_json_string(&w, "name", v->name);
    sw_json_string(&w, "help", v->help);
    sw_json_open_array(&w, "options");
    if (!v->subs)
        sw_cli_each_option(v, json_option, &w);
    sw_json_close_array(&w);
    sw_json_open_array(&w, "sub_verbs");
    for (int i = 0; v->subs && v->subs[i]; i++)
        sw_json_string(&w, NULL, v->subs[i]->name);
    sw_json_close_array(&w);
    sw_cli_json_end(&w);

    return true;
}

static int unknown(const char *name)
{
    enum { MOST = 256 };

    const char *names[MOST];
    size_t count = 0;
    for (int g = 0; sw_catalogue_groups[g].name; g++)
        for (int i = 0; sw_catalogue_groups[g].at(i) && count < MOST; i++)
            names[count++] = sw_catalogue_groups[g].at(i)->name;

    for (int s = 0; sw_catalogue_sections[s].name && count < MOST; s++)
        names[count++] = sw_catalogue_sections[s].name;
    for (int v = 0; sw_verbs[v] && count < MOST; v++)
        names[count++] = sw_verbs[v]->name;

    const char *near = sw_str_nearest(name, names, count);
    if (near)
        return sw_cli_usage("layers", "unknown type '%s'; did you mean '%s'?", name, near);

    return sw_cli_usage("layers", "unknown type '%s'; 'singa-ws layers' lists all types", name);
}

/* Prints a complete page: that of recipes or that of commands. */
static int print_page(const struct options *o, struct sw_bytes *out)
{
    enum sw_page_form form = o->man ? SW_PAGE_MAN : SW_PAGE_MARKDOWN;
    bool commands = o->common.arg_count && sw_str_eq(o->common.args[0], "commands");

    if (o->man && o->markdown)
        return sw_cli_usage("layers", "--man and --markdown are mutually exclusive");
    if (o->common.json)
        return sw_cli_usage("layers", "--json cannot be combined with --man or --markdown");
    if (o->common.arg_count && !commands)
        return sw_cli_usage("layers",
                            "'%s': --man and --markdown take only the argument 'commands'",
                            o->common.args[0]);

    if (commands)
        sw_pages_commands(form, out);
    else
        sw_pages_recipe(form, out);

    return sw_cli_print(out);
}

static int print_list(const struct options *o, struct sw_bytes *out)
{
    struct sw_json_writer w;

    if (o->common.json) {
        sw_json_begin(&w, out);
        list_json(&w);
        sw_bytes_add(out, "\n");
    } else {
        list(out);
    }

    return sw_cli_print(out);
}

static int print_one(const struct options *o, struct sw_bytes *out)
{
    const char *name = o->common.args[0];
    bool json = o->common.json;
    if (!show_type(name, json, out) && !show_section(name, json, out) &&
        !show_verb(name, json, out))
        return unknown(name);

    return sw_cli_print(out);
}

static int print_completion(const struct options *o, struct sw_bytes *out)
{
    if (o->man || o->markdown || o->common.json || o->common.arg_count)
        return sw_cli_usage("layers", "--completion takes no other option or argument");
    if (!sw_completion(o->completion, out))
        return sw_cli_usage("layers", "--completion=%s: SHELL must be %s or %s", o->completion,
                            sw_completion_shells[0], sw_completion_shells[1]);

    return sw_cli_print(out);
}

static int layers(void *options)
{
    const struct options *o = options;
    struct sw_bytes out = {0};
    int code;

    if (o->completion)
        code = print_completion(o, &out);
    else if (o->man || o->markdown)
        code = print_page(o, &out);
    else
        code = o->common.arg_count ? print_one(o, &out) : print_list(o, &out);

    sw_bytes_fini(&out);
    return code;
}

const struct sw_verb sw_verb_layers = {
    .name = "layers",
    .help = "list layer types, updaters, policies and formats with their keys; reference pages",
    .usage =
        "[OPTION]... [TYPE|VERB]\n[OPTION]... [commands] --man|--markdown\n--completion bash|zsh",
    .about =
        "Lists the types that a recipe can use: layers, updaters, learning-rate policies, data\n"
        "formats; and the verbs of the program. With TYPE (also: job, cluster, updater): its keys\n"
        "with range, default and meaning. With VERB: its description and options. --man and\n"
        "--markdown print the page singa-ws-recipe(5), or singa-ws(1) with the argument commands.",
    .takes = SW_CLI_JSON,
    SW_CLI_OPTIONS(struct options, options_of_layers),
    .max_args = 1,
    .arg_name = "TYPE",
    .run = layers,
};
