/* singa-ws explain: prints every value of a recipe and its source, in the order of precedence. */
#include "recipe/explain.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/terminal/columns.h"
#include "cli/training/trainer.h"
#include "recipe/reference.h"
#include "run/job.h"
#include <stdio.h>
#include <string.h>

/* The request, and the results so far. */
struct answer {
    const char *path; /* SECTION.KEY or SECTION; NULL: everything */
    bool json, one;   /* one value alone */
    int count;
    struct sw_bytes *out;
    struct sw_json_writer w;
    struct sw_columns table; /* of the current section */
    char section[256];
};

/* ---- One value --------------------------------------------------------------------------------
 */

static void json_value(struct answer *a, const struct sw_explained *e)
{
    struct sw_bytes from = {0};

    sw_explained_from(e, &from);
    sw_json_string(&a->w, "value", e->value);
    if (e->written)
        sw_json_string(&a->w, "written", e->written);
    if (e->found)
        sw_json_string(&a->w, "found", e->found);
    sw_json_string(&a->w, "origin", sw_origin_name(e->origin));
    sw_json_string(&a->w, "where", sw_bytes_text(&from));
    a->out->failed |= from.failed;
    sw_bytes_fini(&from);
}

static void add_json(struct answer *a, const struct sw_explained *e, const char *section)
{
    struct sw_json_writer *w = &a->w;
    struct sw_explained below = *e;

    sw_json_open_object(w, NULL);
    sw_json_string(w, "section", section);
    sw_json_string(w, "key", e->key);
    json_value(a, e);
    sw_json_open_array(w, "instead_of");

    while (sw_explained_replaced(&below)) {
        sw_json_open_object(w, NULL);
        json_value(a, &below);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    if (e->row)
        sw_json_string(w, "help", e->row->help);
    sw_json_close_object(w);
}

static void add_from(const struct sw_explained *e, struct sw_bytes *out)
{
    sw_explained_from(e, out);
    if (e->origin == SW_FROM_FALLBACK)
        sw_bytes_add(out, " ([fallback])");
    if (e->origin == SW_FROM_STAGE)
        sw_bytes_add(out, " ([stage])");
    if (e->origin == SW_FROM_INCLUDE)
        sw_bytes_add(out, " (included)");
    if (e->found)
        sw_bytes_printf(out, ", %s", e->found);
}

static void add_one(struct answer *a, const struct sw_explained *e, const char *section)
{
    struct sw_explained below = *e;

    sw_bytes_printf(a->out, "%s.%s = %s\n  from        ", section, e->key,
                    e->value ? e->value : "-");
    add_from(e, a->out);
    if (e->written)
        sw_bytes_printf(a->out, "\n  written     %s", e->written);

    while (sw_explained_replaced(&below)) {
        sw_bytes_printf(a->out, "\n  instead of  %s, ", below.value);
        add_from(&below, a->out);
    }

    sw_bytes_add(a->out, "\n");
    if (!e->row)
        return;

    sw_bytes_add(a->out, "  values      ");
    sw_opt_describe(e->row, a->out);
    sw_bytes_printf(a->out, "\n  meaning     %s\n", e->row->help ? e->row->help : "");
}

static void add_row(struct answer *a, const struct sw_explained *e)
{
    struct sw_explained below = *e;
    struct sw_bytes from = {0};

    add_from(e, &from);

    for (const char *word = ", instead of"; sw_explained_replaced(&below); word = ", of") {
        sw_bytes_printf(&from, "%s %s of ", word, below.value);
        add_from(&below, &from);
    }

    sw_columns_cell(&a->table, "%s", e->key);
    sw_columns_cell(&a->table, "%s", e->value ? e->value : "-");
    sw_columns_cell(&a->table, "%s", sw_bytes_text(&from));
    a->out->failed |= from.failed;
    sw_bytes_fini(&from);
}

/* ---- Sections
 * --------------------------------------------------------------------------------------
 */

static void end_section(struct answer *a)
{
    if (a->table.columns) {
        sw_bytes_add(a->out, a->out->length ? "\n" : "");
        sw_columns_print(&a->table, a->out);
    }

    sw_columns_fini(&a->table);
}

static void begin_section(struct answer *a, const struct sw_explained *e, const char *section)
{
    char title[256];

    if (strcmp(section, a->section) == 0 && a->table.columns)
        return;

    end_section(a);
    snprintf(a->section, sizeof a->section, "%s", section);
    snprintf(title, sizeof title, "[%s%s%s]", e->kind, e->name ? " " : "", e->name ? e->name : "");
    sw_columns_add(&a->table, title);
    sw_columns_begin(&a->table, "value|from");
}

/* "layer.fc1" of a value. */
static void section_of(const struct sw_explained *e, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s%s%s", e->kind, e->name ? "." : "", e->name ? e->name : "");
}

static bool is_path(const struct answer *a, const struct sw_explained *e, const char *section)
{
    size_t n = strlen(section);
    return strncmp(a->path, section, n) == 0 && a->path[n] == '.' &&
           strcmp(a->path + n + 1, e->key) == 0;
}

/* Checks whether the path names a value: a section [layer a.outputs] could have the same path. */
static void find_value(void *user, const struct sw_explained *e)
{
    struct answer *a = user;
    char section[256];
    section_of(e, section, sizeof section);
    a->one |= is_path(a, e, section);
}

static void show(void *user, const struct sw_explained *e)
{
    struct answer *a = user;
    char section[256];

    section_of(e, section, sizeof section);
    if (a->one ? !is_path(a, e, section) : a->path && strcmp(a->path, section) != 0)
        return;

    a->count++;

    if (a->json) {
        add_json(a, e, section);
    } else if (a->one) {
        add_one(a, e, section);
    } else {
        begin_section(a, e, section);
        add_row(a, e);
    }
}

/* ---- Unknown names ------------------------------------------------------------------------
 */

struct words {
    const char *path;
    char nearest[400];
    int distance;
};

static void measure(struct words *w, const char *word)
{
    int d = sw_str_distance(w->path, word);

    if (d < w->distance) {
        w->distance = d;
        snprintf(w->nearest, sizeof w->nearest, "%.*s", (int)sizeof w->nearest - 1, word);
    }
}

static void find_nearest(void *user, const struct sw_explained *e)
{
    char section[256], path[400];

    section_of(e, section, sizeof section);
    snprintf(path, sizeof path, "%s.%s", section, e->key);
    measure(user, path);
    measure(user, section);
}

static int unknown(const struct sw_recipe *recipe, const char *path)
{
    struct words w = {.path = path, .distance = 4};
    struct sw_err err;

    int rc = sw_recipe_explain(recipe, find_nearest, &w, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);
    if (*w.nearest)
        return sw_cli_usage("explain", "the recipe has no '%s'; did you mean '%s'?", path,
                            w.nearest);

    return sw_cli_usage("explain", "the recipe has no '%s'; omit it to print all values", path);
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

static int print(const struct sw_recipe *recipe, const struct sw_cli_common *o,
                 struct sw_bytes *out, struct sw_err *err)
{
    struct answer a = {.path = o->arg_count > 1 ? o->args[1] : NULL, .json = o->json, .out = out};
    int rc = a.path ? sw_recipe_explain(recipe, find_value, &a, err) : SW_OK;

    sw_json_begin(&a.w, out);

    if (a.json && !a.one) {
        sw_json_open_object(&a.w, NULL);
        sw_json_string(&a.w, "recipe", sw_recipe_path(recipe));
        sw_json_string(&a.w, "hash", sw_recipe_hash(recipe));
        sw_json_open_array(&a.w, "values");
    }

    if (rc == SW_OK)
        rc = sw_recipe_explain(recipe, show, &a, err);
    end_section(&a);

    if (a.json && !a.one) {
        sw_json_close_array(&a.w);
        sw_json_close_object(&a.w);
    }

    if (a.json)
        sw_bytes_add(out, "\n");
    if (rc != SW_OK)
        return sw_cli_fail(rc, err);

    return a.count ? sw_cli_print(out) : unknown(recipe, a.path);
}

static int explain(void *options)
{
    const struct sw_cli_common *o = options;
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    struct sw_bytes out = {0};
    struct sw_err err;

    struct sw_job_options job = sw_trainer_job_of(o);
    int rc = sw_job_read_recipe(&job, &recipe, &conf, &err);
    int code = rc == SW_OK ? print(recipe, o, &out, &err) : sw_cli_refuse(recipe, rc, &err);

    sw_bytes_fini(&out);
    sw_recipe_free(recipe);
    return code;
}

const struct sw_verb sw_verb_explain = {
    .name = "explain",
    .help = "print every value of a recipe and where it comes from",
    .usage = "[OPTION]... RECIPE [SECTION[.KEY]]",
    .about =
        "Prints every value of RECIPE, where it comes from (the program's default, a file, a line\n"
        "of [fallback] or of a stage, --set or another option), and the values that it\n"
        "overrides. With SECTION.KEY (as in --set): one value and its meaning; with SECTION: all\n"
        "values of a section. Without --stage the first stage counts. Opens no data and writes\n"
        "nothing.",
    .takes = SW_CLI_SET | SW_CLI_DEVICE | SW_CLI_FRAMEWORK | SW_CLI_JSON | SW_CLI_STAGE,
    .min_args = 1,
    .max_args = 2,
    .arg_name = "RECIPE",
    .run = explain,
};
