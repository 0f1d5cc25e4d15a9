/* Shared by the actions of the verb `weights`. */
#pragma once

#include "cli/cli.h"
#include "tensor/safetensors.h"

struct sw_weights_options {
    struct sw_cli_common common;
    const char *output;        /* export */
    const char *tolerance;     /* diff: the argument of --tolerance */
    double relative;           /* diff: its value */
    const char *plot, *tensor; /* image file, and the tensor to draw */
    bool all;                  /* export: include the updater state */
};

/* An opened file and its name. */
struct sw_weights_file {
    const char *path; /* borrowed */
    struct sw_st_file *f;
};

/* The actions of the verb. They append their output to out, print errors, and return the exit code.
 */
int sw_weights_diff(const struct sw_weights_options *o, const struct sw_weights_file *a,
                    const struct sw_weights_file *b, struct sw_bytes *out);
int sw_weights_export(const struct sw_weights_options *o, const struct sw_weights_file *file,
                      struct sw_bytes *out);
int sw_weights_plot(const struct sw_weights_options *o, const struct sw_weights_file *file,
                    struct sw_bytes *out);
