/* Vectors and labels of the sub-verbs of `singa-ws search` from raw inputs: what a layer of a
 * trained net computes, as `singa-ws predict` does. Main thread. */
#pragma once

#include "cli/options/field_inputs.h"
#include "cli/search/arrays.h"
#include "cli/search/lines.h"
#include "cli/training/trainer.h"

struct sw_search_net_options {
    const char *recipe, *weights, *split; /* recipe NULL: there is no net */
};

/* Rows of an option table; `member` is the place of the struct above in its holder, usual_split a
 * string: what is read without --split. */
#define SW_SEARCH_EVAL_SPLIT "val where it exists, else test"
#define SW_SEARCH_NET_ROWS(holder, member, usual_split)                                            \
    SW_CLI_TEXT_OPTION(holder, member.recipe, "recipe", "RUN|RECIPE",                              \
                       "compute vectors by the trained net of a run or a recipe"),                 \
        SW_CLI_TEXT_OPTION(holder, member.weights, "weights", "FILE|RUN",                          \
                           "with --recipe: trained weights, as for predict; default: those of "    \
                           "RUN, or the newest run of the recipe"),                                \
        SW_CLI_TEXT_OPTION(holder, member.split, "split", "NAME",                                  \
                           "with --recipe: data section; default: " usual_split)
/* The row of a sub-verb that computes one layer. */
#define SW_SEARCH_LAYER_ROW(holder, member)                                                        \
    SW_CLI_TEXT_OPTION(holder, member, "layer", "LAYER",                                           \
                       "with --recipe: layer whose rows are the vectors; default: the input of "   \
                       "the last loss")
/* The rows of a sub-verb that takes other inputs than files. */
#define SW_SEARCH_INPUT_ROWS(holder, inputs_, texts_)                                              \
    SW_CLI_FIELD_INPUTS_OPTION(holder, inputs_),                                                   \
        SW_CLI_LIST_OPTION(holder, texts_, "text", "WORDS",                                        \
                           "with --recipe: a text for a net that reads tags; may be repeated")
/* The sentences about it for --help. */
#define SW_SEARCH_NET_ABOUT                                                                        \
    "With --recipe a trained net computes the vectors: of files that predict reads (images,\n"     \
    "rows of tables, arrays of raw values), of arrays for its data fields (--input), of texts\n"   \
    "(--text), else of a section of the recipe's data."
/* What they need in sw_verb.takes. */
#define SW_SEARCH_NET_TAKES (SW_CLI_SET | SW_CLI_DEVICE | SW_CLI_DB)

/* A usage error for an option of a net without --recipe: SW_EXIT_USAGE; else SW_EXIT_DONE. */
int sw_search_net_check(const char *verb, const struct sw_search_net_options *o,
                        const struct sw_cli_common *common);

/* What vectors are computed of: one of these, or if all are empty the records of the section. All
 * are borrowed. */
struct sw_search_net_source {
    const char *const *files;
    int file_count;
    const struct sw_cli_list *inputs, *texts; /* NULL: none */
};

/* The same for sources: inputs and texts need --recipe, and only one source may be given; split is
 * an option of sections only. */
int sw_search_net_check_source(const char *verb, const struct sw_search_net_options *o,
                               const struct sw_search_net_source *from);
/* Whether the records of the section are used. */
static inline bool sw_search_net_uses_section(const struct sw_search_net_source *from)
{
    return !from->file_count && !(from->inputs && from->inputs->count) &&
           !(from->texts && from->texts->count);
}

/* Zero-initialize; free with sw_search_net_close in every case. */
struct sw_search_net {
    const char *split;           /* borrowed */
    char *args[2];               /* borrowed: the recipe in place of the verb's arguments */
    struct sw_cli_common common; /* of the verb, with these */
    struct sw_job_options job;
    struct sw_trainer trainer;
    struct sw_weights weights;
    char *pair[2]; /* owned: see sw_search_net_pair */
    bool used;     /* the open job has computed something, and computes nothing else */
    struct sw_search_lines class_names; /* of the trained net, once vectors were computed */
};

/* Finds the weights and opens their net. Errors: those of sw_trainer_open_with. */
int sw_search_net_open(struct sw_search_net *n, const struct sw_search_net_options *o,
                       const struct sw_cli_common *common, struct sw_err *err) SW_MUST_CHECK;
void sw_search_net_close(struct sw_search_net *n);
/* Prints why one of these functions failed; returns the exit code. */
int sw_search_net_refuse(const struct sw_search_net *n, int rc, const struct sw_err *err);

/* The layers that the net was trained to bring together: the sources of its last loss whose two
 * sources each depend on one data field, and not on the same one. pair[0] is the one of the field
 * `image`, if there is one. Errors: SW_ERR_INVALID without such a loss, SW_ERR_NOMEM. */
int sw_search_net_pair(struct sw_search_net *n, struct sw_err *err) SW_MUST_CHECK;

/* Computes the rows of a layer of a source; NULL is the section. names: gets the names of the
 * records of files; NULL: not wanted. Free the array with sw_search_array_fini. Errors: those of
 * sw_job_predict, and SW_ERR_FORMAT for a file that cannot be read and as sw_vectors_check. */
int sw_search_net_vectors(struct sw_search_net *n, const char *layer,
                          const struct sw_search_net_source *from, enum sw_metric m,
                          struct sw_search_array *out, struct sw_search_lines *names,
                          struct sw_err *err) SW_MUST_CHECK;
/* The labels of the split: its field `label`. Errors: those of sw_job_read_labels, and as
 * sw_search_labels_read. */
int sw_search_net_labels(struct sw_search_net *n, struct sw_search_labels *out,
                         struct sw_err *err) SW_MUST_CHECK;
