/* Which weights are meant, for the verbs that take FILE|RUN: a file; a run's newest checkpoint
 * (RUN), its best one (RUN:best) or that of a step (RUN:STEP); and where a recipe is at hand
 * nothing, or `best`, for its newest run. A file of that name comes first, then a run of it. One
 * owner. */
#ifndef SW_CLI_SHARE_WEIGHTS_H
#define SW_CLI_SHARE_WEIGHTS_H

#include "history/reader.h"
#include "train/job.h"

/* Zero-initialise; free with sw_weights_fini. */
struct sw_weights {
    char *path;        /* owned */
    struct sw_run run; /* id 0: a file that was named */
    bool newest;       /* nobody named the run: the newest of the recipe */
};

struct sw_weights_args {
    const char *what;          /* FILE, RUN, RUN:best, RUN:STEP, best, or NULL */
    const char *option;        /* "--weights", for messages; NULL: it was a plain word */
    const char *db, *job_db;   /* --db and [job] db, or NULL */
    const char *recipe, *hash; /* path and hash of the recipe; NULL: there is none */
};

/* Errors: SW_ERR_NOTFOUND, those of the history, those of the last file that was looked at. */
int sw_weights_find(const struct sw_weights_args *args, struct sw_weights *out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_weights_fini(struct sw_weights *w);
/* "newest of this recipe, run 3 "lenet": /path" for people. */
void sw_weights_describe(const struct sw_weights *w, struct sw_buf *out);

#endif
