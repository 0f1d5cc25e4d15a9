/* The option --input [FIELD=]X.npy of verbs that apply a trained net: arrays in place of data
 * fields. Main thread. */
#pragma once

#include "cli/cli.h"
#include "infer/predict.h"

#define SW_CLI_FIELD_INPUTS_OPTION(holder, member)                                                 \
    SW_CLI_LIST_OPTION(holder, member, "input", "[FIELD=]X.npy",                                   \
                       "read a data field from an array; may be repeated")

struct sw_cli_field_inputs {
    struct sw_predict_input *input; /* owned [count]; paths are borrowed from argv */
    int count;
    char **field; /* owned [count]: names that elements of input refer to, or NULL */
};

/* Splits "FIELD=X.npy". A field name has no '/' or '.', so that a path may contain '='. Free with
 * sw_cli_field_inputs_fini in every case. Errors: SW_ERR_NOMEM. */
int sw_cli_field_inputs_split(struct sw_cli_field_inputs *in, const struct sw_cli_list *texts,
                              struct sw_err *err) SW_MUST_CHECK;
void sw_cli_field_inputs_fini(struct sw_cli_field_inputs *in); /* a zeroed one is accepted */
