/* singa-ws search: a table of sub-verbs that build, ask and score indexes; each is one file,
 * search/NAME.c. */
#include "cli/search/verb.h"

static const struct sw_verb *const sub_verbs[] = {
    &sw_search_index, &sw_search_query,   &sw_search_map,   &sw_search_recall,
    &sw_search_train, &sw_search_project, &sw_search_words, NULL};

const struct sw_verb sw_verb_search = {
    .name = "search",
    .help = "find and score nearest neighbors of vectors and codes",
    .usage = "[OPTION]... FILE...",
    .about = "Builds indexes of vectors or binary codes, finds nearest neighbors, and scores them.",
    .subs = sub_verbs,
    .stops = true,
};
