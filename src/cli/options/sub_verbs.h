/* Verbs that are a table of sub-verbs: `data`, `history`. Picks the one that the first word names;
 * the shared options may also stand before that word. */
#ifndef SW_CLI_OPTIONS_SUB_VERBS_H
#define SW_CLI_OPTIONS_SUB_VERBS_H

#include "cli/cli.h"

struct sw_sub_verbs {
    const char *verb;                  /* "history" */
    const char *usage;                 /* after "singa-ws VERB SUB-VERB " */
    const char *about;                 /* one line or more, without the last newline */
    const char *more;                  /* after the sub-verbs, or NULL */
    const struct sw_verb *const *subs; /* NULL-terminated */
    const struct sw_verb *without;     /* what no sub-verb means; NULL: one has to be named */
};

int sw_sub_verbs_run(const struct sw_sub_verbs *v, int argc, char **argv);

#endif
