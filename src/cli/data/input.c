/* Opens the data that a sub-verb of `singa-ws data` names. Files without a recipe become a recipe
 * with one [data] section, built from text, so that both cases are read and checked by the same
 * code. Main thread; the contract is in cli/data/input.h. */
#include "cli/data/input.h"

#include "base/os.h"
#include "cli/training/trainer.h"
#include "data/sniff.h"
#include "run/job.h"
#include "run/schema.h"
#include <string.h>

/* The name of the section made for files without a recipe. */
static const char own_split[] = "train";

/* ---- Files ------------------------------------------------------------------------------------
 */

/* Texts of --set that are built here. */
struct texts {
    char **items; /* owned, each too */
    int count;
    bool failed;
};

static void add_text(struct texts *t, char *text)
{
    char **item = text ? sw_array_add(&t->items, &t->count, sizeof *item) : NULL;

    t->failed |= !item;

    if (item)
        *item = text;
    else
        sw_free(text);
}

static void free_texts(struct texts *t)
{
    for (int i = 0; i < t->count; i++)
        sw_free(t->items[i]);
    sw_free(t->items);
}

static char *join_paths(const struct sw_data_options *o)
{
    struct sw_bytes out = {0};

    for (int i = 0; i < o->common.arg_count; i++)
        sw_bytes_printf(&out, "%s%s", out.length ? ", " : "", o->common.args[i]);
    for (int i = 0; i < o->paths.count; i++)
        sw_bytes_printf(&out, "%s%s", out.length ? ", " : "", o->paths.items[i]);

    char *text = sw_bytes_take(&out);
    sw_bytes_fini(&out);
    return text;
}

/* A schema of nothing but [data] sections. */
static struct sw_schema data_schema(void)
{
    const struct sw_schema *all = sw_train_schema();
    struct sw_schema data = {.count = 1};

    for (int i = 0; i < all->count && !data.kinds; i++)
        if (strcmp(all->kinds[i].kind, "data") == 0)
            data.kinds = &all->kinds[i];

    return data;
}

static int load_files(struct sw_data_input *in, const struct sw_data_options *o, const char *format,
                      struct sw_err *err)
{
    const char *split = o->split ? o->split : own_split;
    struct texts t = {0};
    char *paths = join_paths(o), *text = sw_format("[data %s]\n", split);

    in->schema = data_schema();
    add_text(&t, sw_format("data.%s.format=%s", split, format));
    if (!paths || *paths)
        add_text(&t, paths ? sw_format("data.%s.paths=%s", split, paths) : NULL);
    for (int i = 0; i < o->common.sets.count; i++)
        add_text(&t, sw_format("data.%s.%s", split, o->common.sets.items[i]));

    const struct sw_recipe_source source = {.path = "the command line",
                                            .text = text,
                                            .text_bytes = text ? strlen(text) : 0,
                                            .sets = (const char *const *)t.items,
                                            .set_count = t.count};
    int rc = t.failed || !text ? sw_err_nomem(err, "options", 0)
                               : sw_recipe_load(&source, &in->schema, &in->recipe, err);
    sw_free(paths);
    sw_free(text);
    free_texts(&t);

    return rc;
}

/* Detects the format of the first file unless --format gives it. */
static int find_format(const struct sw_data_options *o, const char **format, const char *verb)
{
    const struct sw_format *found = NULL;
    struct sw_err err;
    const char *first = o->common.arg_count ? o->common.args[0]
                        : o->paths.count    ? o->paths.items[0]
                                            : NULL;

    *format = o->format;
    if (*format)
        return SW_EXIT_DONE;
    if (!first)
        return sw_cli_usage(verb, "RECIPE or FILE is missing");

    int rc = sw_data_sniff(first, &found, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);
    if (!found)
        return sw_cli_usage(verb, "%s: unknown format; use --format=FORMAT", first);

    *format = found->base.name;
    return SW_EXIT_DONE;
}

/* ---- Opening -----------------------------------------------------------------------------------
 */

static int load_recipe(struct sw_data_input *in, const struct sw_data_options *o,
                       struct sw_err *err)
{
    const struct sw_job_conf *conf;
    struct sw_job_options job = {.recipe_path = o->common.args[0],
                                 .sets = o->common.sets.items,
                                 .set_count = o->common.sets.count};

    return sw_job_read_recipe(&job, &in->recipe, &conf, err);
}

static int find_section(struct sw_data_input *in, const char *verb, const char *split)
{
    in->section = sw_recipe_find(in->recipe, "data", split ? split : own_split);
    if (!in->section && !split)
        in->section = sw_recipe_first(in->recipe, "data");
    if (in->section)
        return SW_EXIT_DONE;

    const char *names[64];
    size_t count = 0;
    const struct sw_section *s = sw_recipe_first(in->recipe, "data");
    for (; s && count < sizeof names / sizeof *names; s = sw_section_next(s))
        names[count++] = s->name;

    const char *near = split ? sw_str_nearest(split, names, count) : NULL;
    if (near)
        return sw_cli_usage(verb, "the recipe has no [data %s]; did you mean '%s'?", split, near);

    return sw_cli_usage(verb, "the recipe has no [data %s]", split ? split : own_split);
}

int sw_data_input_open(struct sw_data_input *in, const char *verb, const struct sw_data_options *o)
{
    struct sw_err err;
    const char *format;
    const bool recipe = o->common.arg_count > 0 && sw_str_ends(o->common.args[0], ".ini");
    int rc;

    *in = (struct sw_data_input){0};
    if (recipe && (o->format || o->paths.count || o->common.arg_count > 1))
        return sw_cli_usage(verb,
                            "%s is a recipe: it cannot be combined with files, --format or "
                            "--paths",
                            o->common.args[0]);

    if (recipe) {
        rc = load_recipe(in, o, &err);
    } else {
        int wrong = find_format(o, &format, verb);
        if (wrong != SW_EXIT_DONE)
            return wrong;
        rc = load_files(in, o, format, &err);
    }

    int code = rc == SW_OK ? find_section(in, verb, o->split) : sw_cli_refuse(in->recipe, rc, &err);
    if (code != SW_EXIT_DONE)
        sw_data_input_close(in);

    return code;
}

void sw_data_input_close(struct sw_data_input *in)
{
    sw_recipe_free(in->recipe);
    *in = (struct sw_data_input){0};
}

static const struct sw_format *format_of(const struct sw_section *s)
{
    return (const struct sw_format *)(const void *)s->type[0];
}

static int check_files(const struct sw_section *s, struct sw_err *err)
{
    const char *format = sw_section_fell_from(s);
    if (!format)
        return SW_OK;

    return sw_err_set(err, SW_ERR_NOTFOUND,
                      "%s: none of its files (format %s) exists; set SINGA_DATA to their folder",
                      s->title, format);
}

int sw_data_input_records(const struct sw_data_input *in, struct sw_records *r,
                          struct sw_subset *subset, struct sw_err *err)
{
    const struct sw_section *s = in->section;
    const struct sw_data_conf *conf = s->common;
    const struct sw_format_args args = {.conf = s->conf[0],
                                        .split = s->name,
                                        .channels = conf->channels,
                                        .max_bytes = conf->max_bytes,
                                        .max_pixels = conf->max_pixels,
                                        .class_names = conf->class_names};

    memset(r, 0, sizeof *r);

    int rc = check_files(s, err);
    if (rc)
        return rc;

    rc = sw_records_open(r, format_of(s), &args, err);
    if (!rc)
        rc = sw_subset_init(subset, &conf->part, conf->part_seed, conf->streams, r->count, err);

    return rc ? sw_err_prefix(err, rc, "%s", s->title) : SW_OK;
}

int sw_data_input_source(const struct sw_data_input *in, const struct sw_data_conf *conf,
                         struct sw_source **out, struct sw_err *err)
{
    const struct sw_section *s = in->section;
    const struct sw_source_args args = {
        .name = s->name, .conf = conf, .format = format_of(s), .format_conf = s->conf[0]};
    int rc = check_files(s, err);

    return rc ? rc : sw_source_open(&args, out, err);
}
