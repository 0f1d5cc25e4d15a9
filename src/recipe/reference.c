/* Prints option tables as reference text, in columns that are measured first, and as JSON. The rows
 * are the ones that parse recipes. The contract is in recipe/reference.h. */
#include "recipe/reference.h"
#include "recipe/value.h"
#include <stdio.h>
#include <string.h>

enum { PAGE = 80, MOST_KEY = 24, MOST_TYPE = 18, MOST_DEFAULT = 12, INDENT = 2 };

static const char *type_word(enum sw_opt_type type)
{
    static const char *const words[] = {
        [SW_OPT_INT] = "int",
        [SW_OPT_REAL] = "real",
        [SW_OPT_BOOL] = "yes|no",
        [SW_OPT_STRING] = "text",
        [SW_OPT_ENUM] = "",
        [SW_OPT_BYTES] = "bytes",
        [SW_OPT_STRINGS] = "list of text",
        [SW_OPT_REALS] = "list of real",
        [SW_OPT_PATH] = "file",
        [SW_OPT_PATHS] = "list of files",
    };
    return words[type];
}

void sw_opt_describe(const struct sw_opt *opt, struct sw_bytes *out)
{
    sw_bytes_add(out, type_word(opt->type));
    for (int i = 0; opt->type == SW_OPT_ENUM && opt->choices[i]; i++)
        sw_bytes_printf(out, "%s%s", i ? "|" : "", opt->choices[i]);

    bool low = sw_opt_has_min(opt), high = sw_opt_has_max(opt);
    if (low && high && !opt->above_min && !opt->below_max)
        sw_bytes_printf(out, " %.15g..%.15g", opt->min, opt->max);
    else if (low)
        sw_bytes_printf(out, " %s%.15g", opt->above_min ? ">" : ">=", opt->min);

    if (high && (!low || opt->above_min || opt->below_max))
        sw_bytes_printf(out, " %s%.15g", opt->below_max ? "<" : "<=", opt->max);
    for (int i = 0; opt->type == SW_OPT_INT && opt->choices && opt->choices[i]; i++)
        sw_bytes_printf(out, "|%s", opt->choices[i]);
}

/* ---- Text ---- */

/* The columns of one table, in characters from the left edge. */
struct columns {
    int type, def, help;
};

/* One row's strings. */
struct row {
    const char *key, *def, *help;
    struct sw_bytes type;
};

const char *sw_opt_default(const struct sw_opt *o)
{
    struct sw_pool pool = {0};
    struct sw_opt_problem problem;
    bool good = o->def && *o->def && sw_opt_accepts(o, o->def, &pool, &problem);

    sw_pool_fini(&pool);
    return good ? o->def : NULL;
}

static struct row row_of(const struct sw_opt *o)
{
    struct row row = {.key = o->key, .help = o->help ? o->help : ""};

    sw_opt_describe(o, &row.type);

    const char *def = sw_opt_default(o);
    row.def = o->required ? "required" : def ? def : "-";
    return row;
}

/* Returns the larger of both widths; a cell wider than `most` does not count, since its row
 * continues on the next line. */
static int widest(int so_far, const char *s, int most)
{
    int n = (int)strlen(s);
    return n > most || n < so_far ? so_far : n;
}

static struct columns measure(const struct sw_opt *opts)
{
    int key = 3, type = 4, def = 7;

    for (const struct sw_opt *o = opts; o->key; o++) {
        struct row row = row_of(o);
        key = widest(key, row.key, MOST_KEY);
        type = widest(type, sw_bytes_text(&row.type), MOST_TYPE);
        def = widest(def, row.def, MOST_DEFAULT);
        sw_bytes_fini(&row.type);
    }

    struct columns c = {.type = INDENT + key + 2};
    c.def = c.type + type + 2;
    c.help = c.def + def + 2;

    return c;
}

/* Moves to a column, on the next line when this one is already past it. */
static int go_to(struct sw_bytes *out, int at, int column)
{
    if (at && at + 2 > column && column > INDENT) {
        sw_bytes_add(out, "\n");
        at = 0;
    }

    sw_bytes_printf(out, "%*s", column - at, "");
    return column;
}

static int put(struct sw_bytes *out, int at, int column, const char *text)
{
    at = go_to(out, at, column);
    sw_bytes_add(out, text);
    return at + (int)strlen(text);
}

/* Writes text from a column on, wrapped at words before the edge of the page. */
static void put_wrapped(struct sw_bytes *out, int at, int column, const char *text)
{
    if (*text)
        at = go_to(out, at, column);

    bool first = true;
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, " ");

        if (!first && at + 1 + n > PAGE) {
            sw_bytes_printf(out, "\n%*s", column, "");
            at = column;
            first = true;
        }

        sw_bytes_printf(out, "%s%.*s", first ? "" : " ", n, p);
        at += n + !first;
        first = false;
        p += n;
        p += strspn(p, " ");
    }

    sw_bytes_add(out, "\n");
}

static void put_row(struct sw_bytes *out, const struct columns *c, const struct row *row)
{
    int at = put(out, 0, INDENT, row->key);
    at = put(out, at, c->type, sw_bytes_text(&row->type));
    at = put(out, at, c->def, row->def);
    put_wrapped(out, at, c->help, row->help);
}

void sw_print_opts(struct sw_bytes *out, const char *title, const struct sw_opt *opts)
{
    if (!opts || !opts->key)
        return;

    struct columns c = measure(opts);
    struct row head = {.key = "key", .def = "default", .help = "meaning"};
    sw_bytes_add(&head.type, "type");
    sw_bytes_printf(out, "%s\n", title);
    put_row(out, &c, &head);
    out->failed |= head.type.failed;
    sw_bytes_fini(&head.type);

    for (const struct sw_opt *o = opts; o->key; o++) {
        struct row row = row_of(o);
        put_row(out, &c, &row);
        out->failed |= row.type.failed;
        sw_bytes_fini(&row.type);
    }
}

void sw_print_type(struct sw_bytes *out, const struct sw_type *type, const struct sw_opt *common,
                   const struct sw_opt *params)
{
    char title[160];

    sw_bytes_printf(out, "%s\n", type->name);
    put_wrapped(out, 0, INDENT, type->help ? type->help : "");
    snprintf(title, sizeof(title), "\nkeys of %s", type->name);
    sw_print_opts(out, title, type->opts);

    if (params && type->params && type->params[0]) {
        struct sw_bytes names = {0};

        sw_bytes_add(&names, "\nkeys of its parameters, as in ");
        sw_bytes_printf(&names, "%s.%s (", type->params[0], params->key);
        for (int i = 0; type->params[i]; i++)
            sw_bytes_printf(&names, "%s%s", i ? ", " : "", type->params[i]);
        sw_bytes_add(&names, ")");
        sw_print_opts(out, sw_bytes_text(&names), params);
        out->failed |= names.failed;
        sw_bytes_fini(&names);
    }

    sw_print_opts(out, "\nkeys of every section of the kind", common);
}

/* ---- JSON ---- */

static void json_opt(struct sw_json_writer *w, const struct sw_opt *o)
{
    struct sw_bytes type = {0};

    sw_opt_describe(o, &type);
    sw_json_open_object(w, NULL);
    sw_json_string(w, "key", o->key);
    sw_json_string(w, "type", o->type == SW_OPT_ENUM ? "choice" : type_word(o->type));
    sw_json_string(w, "range", sw_bytes_text(&type));
    sw_json_string(w, "default", sw_opt_default(o));
    if (sw_opt_has_min(o))
        sw_json_real(w, "min", o->min);
    if (sw_opt_has_max(o))
        sw_json_real(w, "max", o->max);

    if (o->type == SW_OPT_ENUM) {
        sw_json_open_array(w, "choices");
        for (int i = 0; o->choices[i]; i++)
            sw_json_string(w, NULL, o->choices[i]);
        sw_json_close_array(w);
    }

    sw_json_bool(w, "required", o->required);
    sw_json_string(w, "help", o->help);
    sw_json_close_object(w);
    w->out->failed |= type.failed;
    sw_bytes_fini(&type);
}

static void json_opts(struct sw_json_writer *w, const char *key, const struct sw_opt *opts)
{
    sw_json_open_array(w, key);
    for (const struct sw_opt *o = opts; o && o->key; o++)
        json_opt(w, o);
    sw_json_close_array(w);
}

void sw_json_type(struct sw_json_writer *w, const char *key, const struct sw_type *type,
                  const struct sw_opt *common, const struct sw_opt *params)
{
    bool has_params = params && type->params && type->params[0];

    sw_json_open_object(w, key);
    sw_json_string(w, "name", type->name);
    sw_json_string(w, "help", type->help);
    json_opts(w, "keys", type->opts);
    json_opts(w, "common", common);
    sw_json_open_array(w, "params");
    for (int i = 0; has_params && type->params[i]; i++)
        sw_json_string(w, NULL, type->params[i]);
    sw_json_close_array(w);
    json_opts(w, "param_keys", has_params ? params : NULL);
    sw_json_close_object(w);
}
