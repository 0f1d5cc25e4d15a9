/* What layers that write files have in common (struct sw_layer_output in layers/layer.h). */
#pragma once

#include "layers/layer.h"

/* Option row of the key that names the file; `member` of struct `conf` is a const char *. */
#define SW_OUTPUT_PATH_OPT(conf, member)                                                           \
    SW_OPT_KEY(STRING, "path", conf, member,                                                       \
               "output file, replaced by every evaluation; relative to the run's folder, "         \
               "with eval to the working directory",                                               \
               .required = true)

/* Returns the path of the file, which the caller frees with sw_free; NULL: out of memory. */
char *sw_output_path(const char *folder, const char *path);

/* Returns the number of values per row of source k. */
int64_t sw_output_columns(const struct sw_layer *l, int k);

/* The end of setup, and forward: the layer has no output and computes nothing. */
void sw_output_finish_setup(struct sw_layer *l);
int sw_output_forward(struct sw_layer *l, const struct sw_pass *r,
                      struct sw_err *err) SW_MUST_CHECK;
