/* Finds the weights for the verbs that take FILE|RUN: a file; the newest checkpoint in a folder or
 * of a run (RUN), its best one (RUN:best) or that of a step (RUN:STEP); with a recipe also nothing
 * or `best`, for the newest run of the recipe. A file or folder of that name takes precedence over
 * a run. Verbs that take a recipe also take FILE|RUN in its place. One owner. */
#pragma once

#include "cli/cli.h"
#include "history/reader.h"
#include "run/job.h"

struct sw_json_writer;

/* Zero-initialise; free with sw_weights_fini. */
struct sw_weights {
    char *path;        /* owned */
    struct sw_run run; /* id 0: a file or folder was named */
    bool newest;       /* no run was named: the newest run of the recipe */
};

struct sw_weights_args {
    const char *what;          /* FILE, RUN, RUN:best, RUN:STEP, best, or NULL */
    const char *option;        /* "--weights", for messages; NULL: it was a plain word */
    const char *db, *job_db;   /* --db and [job] db, or NULL */
    const char *recipe, *hash; /* path and hash of the recipe; NULL: there is none */
};

/* Finds the file of weights that args describe. Errors: SW_ERR_NOTFOUND, those of the history,
 * those of the last file that was tried. */
int sw_weights_find(const struct sw_weights_args *args, struct sw_weights *out,
                    struct sw_err *err) SW_MUST_CHECK;
/* Whether an argument names a recipe rather than a trained net (FILE|RUN): it ends in ".ini", or it
 * is a file that does not begin like a safetensors file. */
bool sw_weights_is_recipe(const char *argument);
/* Finds the weights for a verb that has a recipe and an open job; what: the argument of --weights.
 * Errors as sw_weights_find. */
int sw_weights_find_for(const char *what, const struct sw_cli_common *common,
                        const struct sw_job *job, struct sw_weights *out,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_weights_fini(struct sw_weights *w);
/* Appends "newest of this recipe, run 3 "lenet": /path". */
void sw_weights_describe(const struct sw_weights *w, struct sw_bytes *out);
/* Adds the members weights and, for a run, run and run_name to the open object. */
void sw_weights_describe_json(const struct sw_weights *w, struct sw_json_writer *out);

/* Rows of option tables: `options` has texts weights and split. */
#define SW_CLI_WEIGHTS_OPTION(options)                                                             \
    SW_CLI_TEXT_OPTION(                                                                            \
        options, weights, "weights", "FILE|RUN",                                                   \
        "checkpoint file, or a run's newest checkpoint; RUN:best, RUN:STEP, or best of the "       \
        "newest run; default: the newest run of this recipe")
#define SW_CLI_SPLIT_OPTION(options)                                                               \
    SW_CLI_TEXT_OPTION(options, split, "split", "NAME",                                            \
                       "name of a [data] section; default: val where it exists, else test")
