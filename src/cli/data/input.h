/* Opens the data that a sub-verb of `singa-ws data` works on: a [data] section of a recipe, or
 * files with a format, which become a section of their own, so that the same tables read, check and
 * explain both. Main thread. */
#pragma once

#include "cli/cli.h"
#include "data/source.h"
#include "recipe/recipe.h"

/* The sub-verbs; the rows of src/cli/data.c. */
extern const struct sw_verb sw_data_import, sw_data_inspect, sw_data_stats;

/* The first member of a sub-verb's struct of options. */
struct sw_data_options {
    struct sw_cli_common common;
    const char *format;       /* --format, or NULL */
    struct sw_cli_list paths; /* --paths */
    const char *split;        /* --split, or NULL */
};

/* The rows of these options in a sub-verb's option table. */
#define SW_DATA_OPTIONS                                                                            \
    SW_CLI_TEXT_OPTION(struct sw_data_options, format, "format", "FORMAT",                         \
                       "format of the files; default: detected from their content"),               \
        SW_CLI_LIST_OPTION(struct sw_data_options, paths, "paths", "LIST",                         \
                           "files as in a recipe, separated by commas, with wildcards * and ?"),   \
        SW_CLI_TEXT_OPTION(struct sw_data_options, split, "split", "NAME",                         \
                           "section [data NAME] of the recipe")

/* The paragraph about these options for --help. */
#define SW_DATA_ABOUT                                                                              \
    "Reads the data of RECIPE (a file *.ini), of its section [data NAME] with --split=NAME, or\n"  \
    "the FILEs, which can also be given as --paths=LIST. With FILEs, --set KEY=VALUE sets a key\n" \
    "of their format or of any [data] section (`singa-ws layers FORMAT` lists them)."

struct sw_data_input {
    struct sw_recipe *recipe; /* owned */
    const struct sw_section *section;
    struct sw_schema schema; /* private: of a section built from files */
};

/* Reads the recipe, or builds one from the files, and finds the section: that of --split, else
 * [data train], else the first. Prints errors. *in must not move until close. Returns SW_EXIT_DONE,
 * or another exit code, after which there is nothing to close. verb: such as "data import". */
int sw_data_input_open(struct sw_data_input *in, const char *verb, const struct sw_data_options *o);
void sw_data_input_close(struct sw_data_input *in); /* a zeroed one is accepted */

/* Opens the raw records of the section, and returns the subset that the section takes. A fallback
 * is not applied: missing files are an error here. Errors: those of the format. */
int sw_data_input_records(const struct sw_data_input *in, struct sw_records *r,
                          struct sw_subset *subset, struct sw_err *err) SW_MUST_CHECK;

/* Opens the section for evaluation, each record once in its order, with `conf` for its common keys.
 * Free with sw_source_close. Errors: as above, and those of keys that do not fit. */
int sw_data_input_source(const struct sw_data_input *in, const struct sw_data_conf *conf,
                         struct sw_source **out, struct sw_err *err) SW_MUST_CHECK;
