/* singa-ws data: a table of sub-verbs that look at data and bring them into shape; each is one
 * file, share/data_NAME.c. */
#include "cli/cli.h"
#include "cli/share/data_input.h"
#include <stdio.h>

static const struct sw_verb *const sub_verbs[] = {&sw_data_import, &sw_data_inspect, &sw_data_stats,
                                                  NULL};
enum { SUB_VERBS = sizeof sub_verbs / sizeof *sub_verbs - 1 };

static void print_help(void)
{
    puts("Usage: singa-ws data SUB-VERB [OPTION]... RECIPE|FILE...\n"
         "Looks at data and brings them into shape.\n\nSub-verbs:");
    for (int i = 0; i < SUB_VERBS; i++)
        printf("  %-12s%s\n", sub_verbs[i]->name, sub_verbs[i]->help);
    puts("\n'singa-ws data SUB-VERB --help' has the options of each.");
}

static int unknown(const char *word)
{
    const char *names[SUB_VERBS];
    for (int i = 0; i < SUB_VERBS; i++)
        names[i] = sub_verbs[i]->name;
    const char *near = sw_str_nearest(word, names, SUB_VERBS);
    if (near)
        return sw_cli_usage("data", "unknown sub-verb '%s'; did you mean '%s'?", word, near);
    return sw_cli_usage("data", "unknown sub-verb '%s'", word);
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return sw_cli_usage("data", "SUB-VERB is missing");
    if (sw_str_eq(argv[1], "--help")) {
        print_help();
        return SW_EXIT_DONE;
    }
    if (sw_str_eq(argv[1], "--version")) {
        sw_cli_version();
        return SW_EXIT_DONE;
    }
    if (argv[1][0] == '-')
        return sw_cli_usage("data", "unknown option '%s'; a sub-verb comes first", argv[1]);
    for (int i = 0; i < SUB_VERBS; i++)
        if (sw_str_eq(argv[1], sub_verbs[i]->name))
            return sub_verbs[i]->run(argc - 1, argv + 1);
    return unknown(argv[1]);
}

const struct sw_verb sw_verb_data = {
    .name = "data",
    .help = "import data into shards, inspect and measure them",
    .run = run,
    .subs = sub_verbs,
};
