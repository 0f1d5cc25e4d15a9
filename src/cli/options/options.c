/* Parses verbs and their options: the rows of two tables (the common options that a verb takes, and
 * its own) become the table of getopt_long, the values in the struct of the verb, and the text of
 * --help. In a verb with sub-verbs the first argument that is not an option names the sub-verb. */
#include "base/os.h"
#include "cli/cli.h"
#include "cli/options/habits.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_OPTIONS = 32,
    MOST_SUBS = 32,
    HELP_COLUMN = 28,
    HELP_VALUE = 1000,
    VERSION_VALUE = 1001,
    CONTINUE = -1, /* no exit code: continue */
};

static const struct sw_cli_option shared[] = {
    SW_CLI_LIST_OPTION(struct sw_cli_common, sets, "set", "SECTION.KEY=VALUE",
                       "override a value of the recipe; may be repeated"),
    SW_CLI_TEXT_OPTION(
        struct sw_cli_common, device, "device", "DEVICE",
        "cpu, cuda, cuda:0,2 or sim:gpus=N,mem=SIZE, instead of the recipe's job.device"),
    SW_CLI_TEXT_OPTION(struct sw_cli_common, db, "db", "FILE",
                       "history database, instead of $SINGA_DB and the recipe's job.db"),
    SW_CLI_FLAG_OPTION(struct sw_cli_common, json, "json", "print JSON"),
    SW_CLI_FLAG_OPTION(struct sw_cli_common, quiet, "quiet", "print errors and results only"),
    {.name = "verbose",
     .letter = 'v',
     .type = SW_CLI_COUNT,
     .offset = offsetof(struct sw_cli_common, verbose),
     .help = "print more details and debug messages"},
    SW_CLI_TEXT_OPTION(struct sw_cli_common, framework, "framework", "FRAMEWORK",
                       "sandblaster, allreduce, downpour, hogwild or custom, instead of the "
                       "recipe's cluster.framework"),
    SW_CLI_FLAG_OPTION(struct sw_cli_common, oversubscribe, "oversubscribe",
                       "allow more workers than cores"),
    SW_CLI_TEXT_OPTION(struct sw_cli_common, stage, "stage", "NAME",
                       "use the recipe as it is in this stage of a run"),
};
enum { SHARED = sizeof shared / sizeof *shared };

/* The options of a verb, in the order of --help: its own, then the shared ones. */
struct table {
    const struct sw_cli_option *row[MAX_OPTIONS];
    int count;
};

static struct table make_table(const struct sw_verb *v)
{
    struct table t = {.count = 0};

    for (const struct sw_cli_option *o = v->options; o && o->name && t.count < MAX_OPTIONS; o++)
        t.row[t.count++] = o;

    for (int i = 0; i < SHARED && t.count < MAX_OPTIONS; i++)
        if (v->takes & (1u << i))
            t.row[t.count++] = &shared[i];

    return t;
}

/* The verb as users type it, such as "history list". */
static const char *typed(const struct sw_verb *v)
{
    return v->typed ? v->typed : v->name;
}

/* ---- --help -----------------------------------------------------------------------------------
 */

static void print_option(void *user, const struct sw_cli_option *o)
{
    struct sw_bytes left = {0};

    if (o->letter)
        sw_bytes_printf(&left, "  -%c, --%s", o->letter, o->name);
    else
        sw_bytes_printf(&left, "      --%s", o->name);

    if (o->arg)
        sw_bytes_printf(&left, "=%s", o->arg);

    if (left.length + 2 > HELP_COLUMN)
        printf("%s\n%*s%s\n", sw_bytes_text(&left), HELP_COLUMN, "", o->help);
    else
        printf("%-*s%s\n", HELP_COLUMN, sw_bytes_text(&left), o->help);

    sw_bytes_fini(&left);
}

void sw_cli_each_option(const struct sw_verb *v, sw_cli_option_visit *visit, void *user)
{
    static const struct sw_cli_option always[] = {
        {.name = "help", .help = "print this text"},
        {.name = "version", .help = "print the version"},
    };
    struct table t = make_table(v);

    for (int i = 0; i < t.count; i++)
        visit(user, t.row[i]);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        visit(user, &always[i]);
}

static void print_help(const struct sw_verb *v)
{
    const char *form = v->usage;

    for (const char *lead = "Usage:"; *form; lead = "   or:") {
        int n = (int)strcspn(form, "\n");
        printf("%s singa-ws %s %.*s\n", lead, typed(v), n, form);
        form += n + (form[n] == '\n');
    }

    printf("%s\n\nOptions:\n", v->about);
    sw_cli_each_option(v, print_option, NULL);
    if (v->more)
        printf("\n%s\n", v->more);
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static int store_int(const struct sw_verb *v, const struct sw_cli_option *o, const char *text,
                     void *field)
{
    int64_t value;
    if (!sw_parse_int(text, &value))
        return sw_cli_usage(typed(v), "--%s=%s: %s must be a whole number", o->name, text, o->arg);
    if (value < o->min)
        return sw_cli_usage(typed(v), "--%s=%s: %s must be %lld or more", o->name, text, o->arg,
                            (long long)o->min);

    memcpy(field, &value, sizeof value);
    return CONTINUE;
}

static int store_item(const char *text, struct sw_cli_list *list)
{
    const char **item = sw_array_add(&list->items, &list->count, sizeof *item);
    if (!item) {
        sw_cli_message("out of memory");
        return SW_EXIT_MISSING;
    }

    *item = text;
    return CONTINUE;
}

static int store(const struct sw_verb *v, const struct sw_cli_option *o, const char *text,
                 void *options)
{
    void *field = (char *)options + o->offset;

    switch (o->type) {
    case SW_CLI_FLAG:
        *(bool *)field = true;
        break;
    case SW_CLI_COUNT:
        ++*(int *)field;
        break;
    case SW_CLI_TEXT:
        if (!*text)
            return sw_cli_usage(typed(v), "--%s: %s must not be empty", o->name, o->arg);
        *(const char **)field = text;
        break;
    case SW_CLI_INT:
        return store_int(v, o, text, field);
    case SW_CLI_LIST:
        return store_item(text, field);
    }

    return CONTINUE;
}

/* ---- Parsing ----------------------------------------------------------------------------------
 */

struct getopt_table {
    struct option row[MAX_OPTIONS + 3];
    char letters[2 * MAX_OPTIONS + 2];
};

static void make_getopt(const struct table *t, struct getopt_table *g)
{
    char *letter = g->letters;

    *letter++ = ':'; /* reports a missing argument differently from an unknown option */

    for (int i = 0; i < t->count; i++) {
        const struct sw_cli_option *o = t->row[i];

        g->row[i] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL,
                                    o->letter ? o->letter : HELP_VALUE + 2 + i};
        if (o->letter)
            *letter++ = o->letter;
        if (o->letter && o->arg)
            *letter++ = ':';
    }

    *letter = '\0';
    g->row[t->count] = (struct option){"help", no_argument, NULL, HELP_VALUE};
    g->row[t->count + 1] = (struct option){"version", no_argument, NULL, VERSION_VALUE};
    g->row[t->count + 2] = (struct option){0};
}

/* The row whose getopt value is `value`, or NULL. */
static const struct sw_cli_option *row_of(const struct table *t, int value)
{
    if (value >= HELP_VALUE + 2 && value < HELP_VALUE + 2 + t->count)
        return t->row[value - HELP_VALUE - 2];

    for (int i = 0; i < t->count; i++)
        if (t->row[i]->letter == value)
            return t->row[i];

    return NULL;
}

static bool takes(const void *table, const char *option)
{
    const struct table *t = table;

    for (int i = 0; i < t->count; i++)
        if (sw_str_eq(t->row[i]->name, option))
            return true;

    return false;
}

/* Explains an unknown option that other programs have, or that is a key of the recipe. */
static bool advise(const struct sw_verb *v, const struct table *t, const char *name)
{
    struct sw_bytes advice = {0};
    const bool known = sw_habit_option(name, takes, t, &advice);

    if (known)
        sw_cli_usage(typed(v), "unknown option '--%s'; use %s", name, sw_bytes_text(&advice));
    sw_bytes_fini(&advice);
    return known;
}

/* An option that getopt_long refused: unknown, ambiguous, or a flag that got an argument. */
static int refuse(const struct sw_verb *v, const struct table *t, const char *word)
{
    if (optopt && row_of(t, optopt))
        return sw_cli_usage(typed(v), "option '--%s' takes no argument", row_of(t, optopt)->name);
    if (optopt > 0 && optopt < HELP_VALUE)
        return sw_cli_usage(typed(v), "unknown option '-%c'", optopt);

    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);

    const char *names[MAX_OPTIONS + 2];
    int begins = 0;
    for (int i = 0; i < t->count; i++) {
        names[i] = t->row[i]->name;
        begins += sw_str_starts(names[i], name);
    }

    names[t->count] = "help";
    names[t->count + 1] = "version";

    begins += sw_str_starts("help", name) + sw_str_starts("version", name);
    if (begins > 1)
        return sw_cli_usage(typed(v), "option '--%s' is ambiguous", name);
    if (begins == 1)
        return sw_cli_usage(typed(v), "option '--%s' takes no argument", name);

    if (advise(v, t, name))
        return SW_EXIT_USAGE;

    const char *near = sw_str_nearest(name, names, (size_t)t->count + 2);
    if (near)
        return sw_cli_usage(typed(v), "unknown option '--%s'; did you mean '--%s'?", name, near);

    return sw_cli_usage(typed(v), "unknown option '--%s'", name);
}

static int parse_options(const struct sw_verb *v, const struct table *t, int argc, char **argv,
                         void *options)
{
    struct getopt_table g;

    make_getopt(t, &g);
    opterr = 0;

    optind = 0; /* glibc: restart the scan */
    for (;;) {
        int value = getopt_long(argc, argv, g.letters, g.row, NULL);
        if (value == -1)
            return CONTINUE;
        if (value == ':')
            return sw_cli_usage(typed(v), "option '%s' needs an argument", argv[optind - 1]);
        if (value == '?')
            return refuse(v, t, argv[optind - 1]);
        if (value == HELP_VALUE) {
            print_help(v);
            return SW_EXIT_DONE;
        }
        if (value == VERSION_VALUE) {
            sw_cli_version();
            return SW_EXIT_DONE;
        }

        int rc = store(v, row_of(t, value), optarg, options);
        if (rc != CONTINUE)
            return rc;
    }
}

static int parse(const struct sw_verb *v, int argc, char **argv, void *options)
{
    struct sw_cli_common *common = options;
    struct table t = make_table(v);

    int rc = parse_options(v, &t, argc, argv, options);
    if (rc != CONTINUE)
        return rc;

    common->args = argv + optind;
    common->arg_count = argc - optind;
    if (common->arg_count < v->min_args)
        return sw_cli_usage(typed(v), "%s is missing", v->arg_name);
    if (v->max_args >= 0 && common->arg_count > v->max_args)
        return sw_cli_usage(typed(v), "unexpected argument '%s'", common->args[v->max_args]);

    return CONTINUE;
}

static void free_lists(const struct sw_verb *v, void *options)
{
    struct table t = make_table(v);

    for (int i = 0; i < t.count; i++)
        if (t.row[i]->type == SW_CLI_LIST) {
            struct sw_cli_list *list = (void *)((char *)options + t.row[i]->offset);
            sw_free(list->items);
            *list = (struct sw_cli_list){0};
        }
}

/* The command line, quoted for a shell; free with sw_free. NULL if out of memory. */
static char *command_of(int argc, char **argv)
{
    static const char unquoted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-+=./:,@%";
    struct sw_bytes out = {0};

    sw_bytes_add(&out, "singa-ws");

    for (int i = 0; i < argc; i++) {
        sw_bytes_add(&out, " ");

        if (*argv[i] && !argv[i][strspn(argv[i], unquoted)])
            sw_bytes_add(&out, argv[i]);
        else
            sw_cli_quote(&out, argv[i]);
    }

    char *text = sw_bytes_take(&out);
    sw_bytes_fini(&out);
    return text;
}

static int run(const struct sw_verb *v, int argc, char **argv)
{
    size_t bytes = v->options_bytes ? v->options_bytes : sizeof(struct sw_cli_common);
    struct sw_cli_common *options = sw_calloc(1, bytes);
    char *command = command_of(argc, argv); /* before the parser moves words */

    if (!options) {
        sw_cli_message("out of memory");
        sw_free(command);
        return SW_EXIT_MISSING;
    }

    if (v->defaults)
        memcpy(options, v->defaults, bytes);

    int code = parse(v, argc, argv, options);
    options->command = command;
    if (code == CONTINUE)
        code = v->run(options);

    free_lists(v, options);
    sw_free(options);
    sw_free(command);

    return code;
}

/* ---- Sub-verbs --------------------------------------------------------------------------------
 */

static void print_subs(const struct sw_verb *v)
{
    printf("Usage: singa-ws %s SUB-VERB %s\n%s\n\nSub-verbs:\n", v->name, v->usage, v->about);
    for (int i = 0; v->subs[i]; i++)
        printf("  %-12s%s\n", v->subs[i]->name, v->subs[i]->help);

    printf("\n'singa-ws %s SUB-VERB --help' lists the options of each.\n", v->name);
    if (v->more)
        printf("\n%s\n", v->more);
}

static int unknown_sub(const struct sw_verb *v, const char *word)
{
    const char *names[MOST_SUBS];
    size_t count = 0;

    for (; v->subs[count] && count < MOST_SUBS; count++)
        names[count] = v->subs[count]->name;

    const char *near = sw_str_nearest(word, names, count);
    if (near)
        return sw_cli_usage(v->name, "unknown sub-verb '%s'; did you mean '%s'?", word, near);

    return sw_cli_usage(v->name, "unknown sub-verb '%s'", word);
}

/* Runs a verb that was given no sub-verb: --help, --version, or its default. */
static int run_without(const struct sw_verb *v, int argc, char **argv)
{
    if (argc > 1 && sw_str_eq(argv[1], "--help")) {
        print_subs(v);
        return SW_EXIT_DONE;
    }
    if (argc > 1 && sw_str_eq(argv[1], "--version")) {
        sw_cli_version();
        return SW_EXIT_DONE;
    }
    if (v->without)
        return run(v->without, argc, argv);
    if (argc > 1)
        return sw_cli_usage(v->name, "SUB-VERB is missing before '%s'", argv[1]);

    return sw_cli_usage(v->name, "SUB-VERB is missing");
}

/* Index of the first argument that is neither an option nor the argument of --db; argc: none. */
static int first_word(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += sw_str_eq(argv[i], "--db") ? 2 : 1;
    return i < argc ? i : argc;
}

int sw_cli_run(const struct sw_verb *v, int argc, char **argv)
{
    if (!v->subs)
        return run(v, argc, argv);

    int at = first_word(argc, argv);
    if (at == argc)
        return run_without(v, argc, argv);

    for (int i = 0; v->subs[i]; i++)
        if (sw_str_eq(argv[at], v->subs[i]->name)) {
            /* The sub-verb moves to the front; options before it follow it. */
            memmove(&argv[1], &argv[0], (size_t)at * sizeof *argv);
            argv[1] = argv[0] = (char *)v->subs[i]->name;
            return run(v->subs[i], argc - 1, argv + 1);
        }

    return unknown_sub(v, argv[at]);
}
