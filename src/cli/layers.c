/* singa-ws layers: the catalogue of what a recipe may name, from the tables that bind and check
 * recipes. */
#include "base/json.h"
#include "cli/cli.h"
#include "cluster/conf.h"
#include "data/data.h"
#include "layers/layer.h"
#include "param/init.h"
#include "param/schedule.h"
#include "param/updater.h"
#include "recipe/job.h"
#include "recipe/reference.h"
#include <string.h>

static const struct sw_type *layer_at(int i)
{
    return sw_layer_types[i] ? &sw_layer_types[i]->base : NULL;
}

static const char *role_name(enum sw_layer_role role)
{
    static const char *const names[] = {[SW_ROLE_NEURON] = "neuron",
                                        [SW_ROLE_INPUT] = "input",
                                        [SW_ROLE_LOSS] = "loss",
                                        [SW_ROLE_METRIC] = "metric",
                                        [SW_ROLE_OUTPUT] = "output"};
    return names[role];
}

static const struct sw_type *updater_at(int i)
{
    return sw_updaters[i] ? &sw_updaters[i]->base : NULL;
}

static const struct sw_type *schedule_at(int i)
{
    return sw_schedules[i];
}

static const struct sw_type *format_at(int i)
{
    return sw_formats[i] ? &sw_formats[i]->base : NULL;
}

/* A registry, and the tables that its sections have besides the type's own. */
static const struct group {
    const char *name, *title;
    const struct sw_type *(*at)(int i);
    const struct sw_opt *common, *params;
} groups[] = {
    {"layers", "Layers: [layer NAME] type = ...", layer_at, sw_layer_opts, sw_param_opts},
    {"updaters", "Updaters: [updater] type = ...", updater_at, sw_updater_opts, NULL},
    {"policies", "Learning rate: [updater] policy = ...", schedule_at, NULL, NULL},
    {"formats", "Data: [data NAME] format = ...", format_at, sw_data_opts, NULL},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Sections whose keys do not depend on a type. */
static const struct section {
    const char *name, *title, *help;
    const struct sw_opt *opts;
} sections[] = {
    {"job", "[job]", "steps, batch, seed, when to evaluate and to save", sw_job_opts},
    {"cluster", "[cluster]", "how many workers and servers, and where servers live",
     sw_cluster_opts},
    {"updater", "[updater PATTERN]", "factors for the parameters whose names match",
     sw_updater_override_opts},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* ---- All --------------------------------------------------------------------------------------
 */

static int widest_name(void)
{
    size_t widest = 0;
    const struct sw_type *t;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; (t = groups[g].at(i)); i++)
            widest = strlen(t->name) > widest ? strlen(t->name) : widest;
    return (int)widest;
}

static void list(struct sw_buf *out)
{
    int width = widest_name();
    for (int g = 0; g < GROUPS; g++) {
        sw_buf_printf(out, "%s%s\n", g ? "\n" : "", groups[g].title);
        const struct sw_type *t;
        for (int i = 0; (t = groups[g].at(i)); i++)
            sw_buf_printf(out, "  %-*s  %s\n", width, t->name, t->help);
    }
    sw_buf_add(out, "\nSections without types:\n");
    for (int s = 0; s < SECTIONS; s++)
        sw_buf_printf(out, "  %-*s  %s: %s\n", width, sections[s].name, sections[s].title,
                      sections[s].help);
    sw_buf_add(out, "\n'singa-ws layers TYPE' has the keys of each.\n");
}

static void list_json(struct sw_json_writer *w)
{
    sw_json_open_object(w, NULL);
    for (int g = 0; g < GROUPS; g++) {
        sw_json_open_array(w, groups[g].name);
        const struct sw_type *t;
        for (int i = 0; (t = groups[g].at(i)); i++) {
            sw_json_open_object(w, NULL);
            sw_json_string(w, "name", t->name);
            sw_json_string(w, "help", t->help);
            if (groups[g].at == layer_at)
                sw_json_string(w, "role", role_name(sw_layer_types[i]->role));
            sw_json_close_object(w);
        }
        sw_json_close_array(w);
    }
    sw_json_close_object(w);
}

/* ---- One --------------------------------------------------------------------------------------
 */

static bool show_type(const char *name, bool json, struct sw_buf *out)
{
    struct sw_json_writer w;
    for (int g = 0; g < GROUPS; g++) {
        const struct sw_type *t;
        for (int i = 0; (t = groups[g].at(i)); i++) {
            if (!sw_str_eq(t->name, name))
                continue;
            const struct sw_opt *params = t->params ? groups[g].params : NULL;
            if (json) {
                sw_json_begin(&w, out);
                sw_json_type(&w, NULL, t, groups[g].common, params);
                sw_buf_add(out, "\n");
            } else {
                sw_print_type(out, t, groups[g].common, params);
            }
            return true;
        }
    }
    return false;
}

static bool show_section(const char *name, bool json, struct sw_buf *out)
{
    for (int s = 0; s < SECTIONS; s++) {
        if (!sw_str_eq(sections[s].name, name))
            continue;
        if (json) {
            struct sw_type as_type = {
                .name = name, .help = sections[s].help, .opts = sections[s].opts};
            struct sw_json_writer w;
            sw_json_begin(&w, out);
            sw_json_type(&w, NULL, &as_type, NULL, NULL);
            sw_buf_add(out, "\n");
        } else {
            sw_print_opts(out, sections[s].title, sections[s].opts);
        }
        return true;
    }
    return false;
}

static int unknown(const char *name)
{
    enum { MOST = 256 };
    const char *names[MOST];
    size_t count = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g].at(i) && count < MOST; i++)
            names[count++] = groups[g].at(i)->name;
    for (int s = 0; s < SECTIONS && count < MOST; s++)
        names[count++] = sections[s].name;
    const char *near = sw_str_nearest(name, names, count);
    if (near)
        return sw_cli_usage("layers", "unknown type '%s'; did you mean '%s'?", name, near);
    return sw_cli_usage("layers", "unknown type '%s'; without a TYPE all are listed", name);
}

static const struct sw_cli_spec spec = {
    .verb = "layers",
    .usage = "[OPTION]... [TYPE]",
    .about =
        "Lists the types that a recipe may name: layers, updaters, learning-rate policies, data\n"
        "formats. With TYPE (also: job, cluster, updater), its keys with range, default and\n"
        "meaning.",
    .takes = SW_CLI_JSON,
    .max_args = 1,
};

static int run(int argc, char **argv)
{
    struct sw_cli_common options = {0};
    struct sw_buf out = {0};
    int code = sw_cli_parse(&spec, argc, argv, &options);
    if (code != SW_CLI_GO_ON)
        goto done;
    if (options.arg_count == 0 && options.json) {
        struct sw_json_writer w;
        sw_json_begin(&w, &out);
        list_json(&w);
        sw_buf_add(&out, "\n");
    } else if (options.arg_count == 0) {
        list(&out);
    } else if (!show_type(options.args[0], options.json, &out) &&
               !show_section(options.args[0], options.json, &out)) {
        code = unknown(options.args[0]);
        goto done;
    }
    code = sw_cli_print(&out);
done:
    sw_buf_fini(&out);
    sw_cli_fini(&spec, &options);
    return code;
}

const struct sw_verb sw_verb_layers = {
    .name = "layers",
    .help = "list layer types, updaters, policies and formats, and their keys",
    .run = run,
};
