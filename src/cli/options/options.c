/* The option parser: rows of two tables (the shared ones that a verb takes, and its own) become the
 * table of getopt_long, the values in the verb's struct, and the text of --help. */
#include "base/os.h"
#include "cli/cli.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 32, HELP_COLUMN = 28, HELP_VALUE = 1000, VERSION_VALUE = 1001 };

#define COMMON(member) offsetof(struct sw_cli_common, member)

static const struct sw_cli_option shared[] = {
    {.name = "set",
     .arg = "SECTION.KEY=VALUE",
     .type = SW_CLI_LIST,
     .offset = COMMON(sets),
     .help = "override a value of the recipe; may be given several times"},
    {.name = "device",
     .arg = "DEVICE",
     .type = SW_CLI_TEXT,
     .offset = COMMON(device),
     .help = "cpu, cuda, cuda:0,2 or sim:gpus=N,mem=SIZE, instead of the recipe's job.device"},
    {.name = "db",
     .arg = "FILE",
     .type = SW_CLI_TEXT,
     .offset = COMMON(db),
     .help = "history database, instead of $SINGA_DB and the recipe's job.db"},
    {.name = "json", .type = SW_CLI_FLAG, .offset = COMMON(json), .help = "print JSON"},
    {.name = "quiet",
     .type = SW_CLI_FLAG,
     .offset = COMMON(quiet),
     .help = "print errors and results only"},
    {.name = "verbose",
     .letter = 'v',
     .type = SW_CLI_COUNT,
     .offset = COMMON(verbose),
     .help = "say more: a detailed table, debug messages"},
    {.name = "framework",
     .arg = "FRAMEWORK",
     .type = SW_CLI_TEXT,
     .offset = COMMON(framework),
     .help = "sandblaster, allreduce, downpour, hogwild or custom, instead of the "
             "recipe's cluster.framework"},
    {.name = "oversubscribe",
     .type = SW_CLI_FLAG,
     .offset = COMMON(oversubscribe),
     .help = "let more workers run than there are cores, several on one"},
    {.name = "stage",
     .arg = "NAME",
     .type = SW_CLI_TEXT,
     .offset = COMMON(stage),
     .help = "the recipe as this stage of a run has it"},
};

enum { SHARED = sizeof shared / sizeof *shared };

/* What a verb takes, in the order of --help: its own options, then the shared ones. */
struct table {
    const struct sw_cli_option *row[MAX_OPTIONS];
    int count;
};

static struct table make_table(const struct sw_cli_spec *spec)
{
    struct table t = {.count = 0};
    for (const struct sw_cli_option *o = spec->options; o && o->name && t.count < MAX_OPTIONS; o++)
        t.row[t.count++] = o;
    for (int i = 0; i < SHARED && t.count < MAX_OPTIONS; i++)
        if (spec->takes & (1u << i))
            t.row[t.count++] = &shared[i];
    return t;
}

/* ---- --help -----------------------------------------------------------------------------------
 */

static void print_option(void *user, const struct sw_cli_option *o)
{
    (void)user;
    struct sw_buf left = {0};
    if (o->letter)
        sw_buf_printf(&left, "  -%c, --%s", o->letter, o->name);
    else
        sw_buf_printf(&left, "      --%s", o->name);
    if (o->arg)
        sw_buf_printf(&left, "=%s", o->arg);
    if (left.length + 2 > HELP_COLUMN)
        printf("%s\n%*s%s\n", sw_buf_text(&left), HELP_COLUMN, "", o->help);
    else
        printf("%-*s%s\n", HELP_COLUMN, sw_buf_text(&left), o->help);
    sw_buf_fini(&left);
}

void sw_cli_each_option(const struct sw_cli_spec *spec, sw_cli_option_visit *visit, void *user)
{
    static const struct sw_cli_option always[] = {
        {.name = "help", .help = "print this text"},
        {.name = "version", .help = "print the version"},
    };
    struct table t = make_table(spec);
    for (int i = 0; i < t.count; i++)
        visit(user, t.row[i]);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        visit(user, &always[i]);
}

void sw_cli_help(const struct sw_cli_spec *spec)
{
    const char *form = spec->usage;
    for (const char *lead = "Usage:"; *form; lead = "   or:") {
        int n = (int)strcspn(form, "\n");
        printf("%s singa-ws %s %.*s\n", lead, spec->verb, n, form);
        form += n + (form[n] == '\n');
    }
    printf("%s\n\nOptions:\n", spec->about);
    sw_cli_each_option(spec, print_option, NULL);
    if (spec->more)
        printf("\n%s\n", spec->more);
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static int store_int(const struct sw_cli_spec *spec, const struct sw_cli_option *o,
                     const char *text, void *field)
{
    int64_t value;
    if (!sw_parse_int(text, &value))
        return sw_cli_usage(spec->verb, "--%s=%s: %s must be a whole number", o->name, text,
                            o->arg);
    if (value < o->min)
        return sw_cli_usage(spec->verb, "--%s=%s: %s must be %lld or more", o->name, text, o->arg,
                            (long long)o->min);
    memcpy(field, &value, sizeof value);
    return SW_CLI_GO_ON;
}

static int store_item(const char *text, struct sw_cli_list *list)
{
    const char **items = sw_realloc_array(list->items, (size_t)list->count + 1, sizeof *items);
    if (!items) {
        sw_cli_say("out of memory");
        return SW_EXIT_MISSING;
    }
    list->items = items;
    items[list->count++] = text;
    return SW_CLI_GO_ON;
}

static int store(const struct sw_cli_spec *spec, const struct sw_cli_option *o, const char *text,
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
            return sw_cli_usage(spec->verb, "--%s: %s must not be empty", o->name, o->arg);
        *(const char **)field = text;
        break;
    case SW_CLI_INT:
        return store_int(spec, o, text, field);
    case SW_CLI_LIST:
        return store_item(text, field);
    }
    return SW_CLI_GO_ON;
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
    *letter++ = ':'; /* a missing argument is told from an unknown option */
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

/* An option that getopt_long refused: unknown, ambiguous, or a flag that got an argument. */
static int refuse(const struct sw_cli_spec *spec, const struct table *t, const char *word)
{
    if (optopt && row_of(t, optopt))
        return sw_cli_usage(spec->verb, "option '--%s' takes no argument", row_of(t, optopt)->name);
    if (optopt > 0 && optopt < HELP_VALUE)
        return sw_cli_usage(spec->verb, "unknown option '-%c'", optopt);

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
        return sw_cli_usage(spec->verb, "option '--%s' is ambiguous", name);
    if (begins == 1)
        return sw_cli_usage(spec->verb, "option '--%s' takes no argument", name);
    const char *near = sw_str_nearest(name, names, (size_t)t->count + 2);
    if (near)
        return sw_cli_usage(spec->verb, "unknown option '--%s'; did you mean '--%s'?", name, near);
    return sw_cli_usage(spec->verb, "unknown option '--%s'", name);
}

static int parse_options(const struct sw_cli_spec *spec, const struct table *t, int argc,
                         char **argv, void *options)
{
    struct getopt_table g;
    make_getopt(t, &g);
    opterr = 0;
    optind = 0; /* glibc: start anew */
    for (;;) {
        int value = getopt_long(argc, argv, g.letters, g.row, NULL);
        if (value == -1)
            return SW_CLI_GO_ON;
        if (value == ':')
            return sw_cli_usage(spec->verb, "option '%s' needs an argument", argv[optind - 1]);
        if (value == '?')
            return refuse(spec, t, argv[optind - 1]);
        if (value == HELP_VALUE) {
            sw_cli_help(spec);
            return SW_EXIT_DONE;
        }
        if (value == VERSION_VALUE) {
            sw_cli_version();
            return SW_EXIT_DONE;
        }
        int rc = store(spec, row_of(t, value), optarg, options);
        if (rc != SW_CLI_GO_ON)
            return rc;
    }
}

int sw_cli_parse(const struct sw_cli_spec *spec, int argc, char **argv, void *options)
{
    struct sw_cli_common *common = options;
    struct table t = make_table(spec);
    int rc = parse_options(spec, &t, argc, argv, options);
    if (rc != SW_CLI_GO_ON)
        return rc;
    common->args = argv + optind;
    common->arg_count = argc - optind;
    if (common->arg_count < spec->min_args)
        return sw_cli_usage(spec->verb, "%s is missing", spec->arg_name);
    if (spec->max_args >= 0 && common->arg_count > spec->max_args)
        return sw_cli_usage(spec->verb, "'%s' is one word too many", common->args[spec->max_args]);
    return SW_CLI_GO_ON;
}

void sw_cli_fini(const struct sw_cli_spec *spec, void *options)
{
    struct table t = make_table(spec);
    for (int i = 0; i < t.count; i++)
        if (t.row[i]->type == SW_CLI_LIST) {
            struct sw_cli_list *list = (void *)((char *)options + t.row[i]->offset);
            sw_free(list->items);
            *list = (struct sw_cli_list){0};
        }
}
