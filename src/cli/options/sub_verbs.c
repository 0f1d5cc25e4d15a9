#include "cli/options/sub_verbs.h"
#include <stdio.h>
#include <string.h>

enum { MOST_SUBS = 32 };

static void print_help(const struct sw_sub_verbs *v)
{
    printf("Usage: singa-ws %s SUB-VERB %s\n%s\n\nSub-verbs:\n", v->verb, v->usage, v->about);
    for (int i = 0; v->subs[i]; i++)
        printf("  %-12s%s\n", v->subs[i]->name, v->subs[i]->help);
    printf("\n'singa-ws %s SUB-VERB --help' has the options of each.\n", v->verb);
    if (v->more)
        printf("\n%s\n", v->more);
}

static int unknown(const struct sw_sub_verbs *v, const char *word)
{
    const char *names[MOST_SUBS];
    size_t count = 0;
    for (; v->subs[count] && count < MOST_SUBS; count++)
        names[count] = v->subs[count]->name;
    const char *near = sw_str_nearest(word, names, count);
    if (near)
        return sw_cli_usage(v->verb, "unknown sub-verb '%s'; did you mean '%s'?", word, near);
    return sw_cli_usage(v->verb, "unknown sub-verb '%s'", word);
}

/* Where the first word is that is neither an option nor the argument of --db; argc: nowhere. */
static int first_word(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += sw_str_eq(argv[i], "--db") ? 2 : 1;
    return i < argc ? i : argc;
}

int sw_sub_verbs_run(const struct sw_sub_verbs *v, int argc, char **argv)
{
    int at = first_word(argc, argv);
    if (at == argc && argc > 1 && sw_str_eq(argv[1], "--help")) {
        print_help(v);
        return SW_EXIT_DONE;
    }
    if (at == argc && argc > 1 && sw_str_eq(argv[1], "--version")) {
        sw_cli_version();
        return SW_EXIT_DONE;
    }
    if (at == argc && v->without)
        return v->without->run(argc, argv);
    if (at == argc)
        return sw_cli_usage(v->verb,
                            argc > 1 ? "SUB-VERB is missing before '%s'" : "SUB-VERB is missing",
                            argc > 1 ? argv[1] : "");
    for (int i = 0; v->subs[i]; i++)
        if (sw_str_eq(argv[at], v->subs[i]->name)) {
            /* The sub-verb takes the place of its verb; options before it come behind it. */
            memmove(&argv[1], &argv[0], (size_t)at * sizeof *argv);
            argv[1] = argv[0] = (char *)v->subs[i]->name;
            return v->subs[i]->run(argc - 1, argv + 1);
        }
    return unknown(v, argv[at]);
}
