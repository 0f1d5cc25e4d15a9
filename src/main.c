/* The program: finds the verb in the table that the build generates from src/cli/, runs it, and
 * returns its exit code. Each verb is documented in its own file. */
#include "cli/cli.h"
#include "cli/options/habits.h"
#include "cli/training/stop_signals.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VERBS = 64 };

static void print_help(void)
{
    puts("Usage: singa-ws VERB [OPTION]... [ARGUMENT]...\n"
         "Trains neural networks on one workstation: one program, one recipe, one history.\n\n"
         "Verbs:");
    for (int i = 0; sw_verbs[i]; i++)
        printf("  %-12s%s\n", sw_verbs[i]->name, sw_verbs[i]->help);
    puts("\n'singa-ws VERB --help' lists the options of a verb. To start:\n"
         "  singa-ws run recipes/mnist-mlp.ini\n\nExit codes:");
    for (const struct sw_exit_text *t = sw_exit_texts; t->means; t++)
        printf("  %-12d%s\n", t->code, t->means);
}

static int unknown_verb(const char *word)
{
    const char *names[MAX_VERBS];
    size_t count = 0;

    for (int i = 0; sw_verbs[i] && count < MAX_VERBS; i++)
        names[count++] = sw_verbs[i]->name;

    const char *habit = sw_habit_verb(word);
    if (habit)
        return sw_cli_usage(NULL, "unknown verb '%s'; use '%s'", word, habit);

    const char *near = sw_str_nearest(word, names, count);
    if (near)
        return sw_cli_usage(NULL, "unknown verb '%s'; did you mean '%s'?", word, near);

    return sw_cli_usage(NULL, "unknown verb '%s'", word);
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return sw_str_eq(word, a) || sw_str_eq(word, b) || sw_str_eq(word, c);
}

static int dispatch(int argc, char **argv)
{
    char *help_of[] = {argc == 3 ? argv[2] : NULL, "--help", NULL};

    for (int i = 0; help_of[0] && sw_str_eq(argv[1], "help") && sw_verbs[i]; i++)
        if (sw_str_eq(help_of[0], sw_verbs[i]->name)) /* `help run` is `run --help` */
            return sw_cli_run(sw_verbs[i], 2, help_of);
    if (argc < 2)
        return sw_cli_usage(NULL, "VERB is missing");
    if (is_one_of(argv[1], "--help", "-h", "help")) {
        print_help();
        return SW_EXIT_DONE;
    }
    if (is_one_of(argv[1], "--version", "-V", "version")) {
        sw_cli_version();
        return SW_EXIT_DONE;
    }
    if (argv[1][0] == '-')
        return sw_cli_usage(NULL, "unknown option '%s': the first argument must be a verb",
                            argv[1]);

    for (int i = 0; sw_verbs[i]; i++)
        if (sw_str_eq(argv[1], sw_verbs[i]->name)) {
            if (sw_verbs[i]->stops)
                sw_stop_signals_install();
            return sw_cli_run(sw_verbs[i], argc - 1, argv + 1);
        }

    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    /* Writing to a closed pipe must return EPIPE and not kill a training. */
    signal(SIGPIPE, SIG_IGN);

    int code = dispatch(argc, argv);
    if (fflush(stdout) != 0 && errno != EPIPE) {
        sw_cli_message("standard output: %s", strerror(errno));
        return code == SW_EXIT_DONE ? SW_EXIT_FAILED : code;
    }

    sw_stop_signals_leave(code);
    return code;
}
