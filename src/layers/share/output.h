/* What layers that write files share. */
#pragma once

#include "layers/layer.h"

/* The key that names the file; `member` of struct `conf` is a const char *. */
#define SW_OUTPUT_PATH_OPT(conf, member)                                                           \
    SW_OPT_KEY(STRING, "path", conf, member,                                                       \
               "file that every evaluation writes anew; relative paths begin in the run's "        \
               "folder, with eval in the working directory",                                       \
               .required = true)

/* Where the file lies; sw_free it. NULL: no memory. */
char *sw_output_path(const char *folder, const char *path);

/* Values of source k in one row. */
int64_t sw_output_columns(const struct sw_layer *l, int k);

/* Setup's end and forward: there is no output and nothing to compute. */
void sw_output_settle(struct sw_layer *l);
int sw_output_forward(struct sw_layer *l, const struct sw_pass *r,
                      struct sw_err *err) SW_MUST_CHECK;
