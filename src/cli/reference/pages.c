/* Builds the reference pages: singa-ws(1) from the table of verbs, singa-ws-recipe(5) from the
 * option tables. The contract is in cli/reference/pages.h. */
#include "cli/reference/pages.h"

#include "cli/reference/catalogue.h"
#include "recipe/reference.h"
#include <stdio.h>
#include <string.h>

/* ---- singa-ws(1) ------------------------------------------------------------------------------
 */

static void add_option(void *user, const struct sw_cli_option *o)
{
    char word[128], letter[8] = "";

    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(word, sizeof word, "%s--%s%s%s", letter, o->name, o->arg ? "=" : "",
             o->arg ? o->arg : "");
    sw_page_item(user, word, NULL, o->help);
}

static void add_verb(struct sw_page *p, const char *above, const struct sw_verb *verb)
{
    struct sw_bytes title = {0}, usage = {0};

    sw_bytes_printf(&title, "%s%s%s", above ? above : "", above ? " " : "", verb->name);
    sw_page_subheading(p, sw_bytes_text(&title));

    if (verb->subs) {
        sw_page_text(p, verb->help);
    } else {
        for (const char *form = verb->usage; *form;) {
            int n = (int)strcspn(form, "\n");
            sw_bytes_printf(&usage, "%ssinga-ws %s %.*s", usage.length ? "\n" : "",
                            sw_bytes_text(&title), n, form);
            form += n + (form[n] == '\n');
        }

        sw_page_lines(p, sw_bytes_text(&usage));
        sw_page_text(p, verb->about);
        sw_cli_each_option(verb, add_option, p);
        sw_page_end_items(p);
        if (verb->more)
            sw_page_text(p, verb->more);
    }

    for (int i = 0; verb->subs && verb->subs[i]; i++)
        add_verb(p, verb->name, verb->subs[i]);
    p->out->failed |= title.failed || usage.failed;
    sw_bytes_fini(&title);
    sw_bytes_fini(&usage);
}

static const struct {
    const char *name, *means;
} variables[] = {
    {"SINGA_DATA", "folder of data sets; default: ./data, else ~/.local/share/singa-ws/data"},
    {"SINGA_DB", "history database, unless --db is given"},
    {"XDG_STATE_HOME", "folder of history and runs; default: ~/.local/state"},
    {"XDG_RUNTIME_DIR", "folder of the live status of running jobs"},
    {"OMP_NUM_THREADS", "maximum number of math threads of a worker"},
    {"NO_COLOR", "if not empty, disables colors"},
};

void sw_pages_commands(enum sw_page_form form, struct sw_bytes *out)
{
    struct sw_page p;
    char code[8];

    sw_page_begin(&p, form, out, "singa-ws", 1, "trains neural networks on one workstation");
    sw_page_heading(&p, "SYNOPSIS");
    sw_page_lines(&p, "singa-ws VERB [OPTION]... [ARGUMENT]...");
    sw_page_heading(&p, "DESCRIPTION");
    sw_page_text(&p, "One program, one recipe, one history. A recipe is an INI file; "
                     "singa-ws-recipe(5) documents its sections and keys. RUN is a run's number, "
                     "a unique prefix of one, a name (its newest run), or @last.");
    sw_page_heading(&p, "VERBS");
    for (int i = 0; sw_verbs[i]; i++)
        add_verb(&p, NULL, sw_verbs[i]);
    sw_page_heading(&p, "EXIT STATUS");

    for (int i = 0; sw_exit_texts[i].means; i++) {
        snprintf(code, sizeof code, "%d", sw_exit_texts[i].code);
        sw_page_item(&p, code, NULL, sw_exit_texts[i].means);
    }

    sw_page_end_items(&p);
    sw_page_heading(&p, "ENVIRONMENT");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        sw_page_item(&p, variables[i].name, NULL, variables[i].means);
    sw_page_end_items(&p);
    sw_page_heading(&p, "SEE ALSO");
    sw_page_text(&p, "singa-ws-recipe(5)");
}

/* ---- singa-ws-recipe(5) -----------------------------------------------------------------------
 */

static void add_keys(struct sw_page *p, const struct sw_opt *opts)
{
    for (const struct sw_opt *o = opts; o && o->key; o++) {
        struct sw_bytes aside = {0};
        const char *def = sw_opt_default(o);

        sw_opt_describe(o, &aside);

        if (o->required || def)
            sw_bytes_printf(&aside, ", %s%s", o->required ? "required" : "default ",
                            o->required ? "" : def);

        sw_page_item(p, o->key, sw_bytes_text(&aside), o->help ? o->help : "");
        p->out->failed |= aside.failed;
        sw_bytes_fini(&aside);
    }

    sw_page_end_items(p);
}

static void add_type(struct sw_page *p, const struct sw_type *t)
{
    struct sw_bytes params = {0};

    sw_page_subheading(p, t->name);
    sw_page_text(p, t->help);
    for (int i = 0; t->params && t->params[i]; i++)
        sw_bytes_printf(&params, "%s%s", i ? ", " : "Parameters: ", t->params[i]);
    if (params.length)
        sw_page_text(p, sw_bytes_text(&params));
    add_keys(p, t->opts);
    p->out->failed |= params.failed;
    sw_bytes_fini(&params);
}

static void add_group(struct sw_page *p, const struct sw_catalogue_group *g)
{
    const struct sw_type *t;

    sw_page_heading(p, g->title);

    if (g->common) {
        sw_page_text(p, "Keys of every type:");
        add_keys(p, g->common);
    }

    if (g->params) {
        sw_page_text(p, "Keys of every parameter, as in weight.init:");
        add_keys(p, g->params);
    }

    for (int i = 0; (t = g->at(i)); i++)
        add_type(p, t);
}

void sw_pages_recipe(enum sw_page_form form, struct sw_bytes *out)
{
    struct sw_page p;

    sw_page_begin(&p, form, out, "singa-ws-recipe", 5, "format of singa-ws recipes");
    sw_page_heading(&p, "DESCRIPTION");
    sw_page_text(
        &p,
        "A recipe is UTF-8 text with lines [section], [section NAME] and key = value. A comment "
        "starts with ; or # at the start of a line or after a blank. include = FILE before the "
        "first section reads another file first; later keys win.\n\n"
        "${NAME} is replaced by a value of [vars] above it, else by an environment variable. The "
        "order of precedence, lowest first: default, included file, recipe, [fallback], stage, "
        "--set, other options. A [data] section with fallback = FORMAT uses that format if none "
        "of its paths exists; the lines of [fallback] (SECTION.KEY = VALUE) then apply.\n\n"
        "Sections [stage NAME] are trained one after the other in one run. Their lines are keys of "
        "[job], including steps or epochs, and SECTION.KEY of other sections.");

    for (int s = 0; sw_catalogue_sections[s].name; s++) {
        sw_page_heading(&p, sw_catalogue_sections[s].title);
        sw_page_text(&p, sw_catalogue_sections[s].help);
        add_keys(&p, sw_catalogue_sections[s].opts);
    }

    for (int g = 0; sw_catalogue_groups[g].name; g++)
        add_group(&p, &sw_catalogue_groups[g]);
    sw_page_heading(&p, "SEE ALSO");
    sw_page_text(&p, "singa-ws(1)");
}
