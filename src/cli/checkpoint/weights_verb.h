/* Inside the verb `weights`: what its actions share. */
#pragma once

#include "cli/cli.h"
#include "tensor/safetensors.h"

struct sw_weights_options {
    struct sw_cli_common common;
    const char *output;        /* export */
    const char *tolerance;     /* diff, as it was written */
    double relative;           /* of --tolerance */
    const char *plot, *tensor; /* a picture, and of what */
    bool all;                  /* export: the updater's state, too */
};

/* An opened file and its name. */
struct sw_weights_file {
    const char *path; /* borrowed */
    struct sw_st_file *f;
};

/* Append what is to be printed; the exit code comes back, also after a message. */
int sw_weights_diff(const struct sw_weights_options *o, const struct sw_weights_file *a,
                    const struct sw_weights_file *b, struct sw_buf *out);
int sw_weights_export(const struct sw_weights_options *o, const struct sw_weights_file *file,
                      struct sw_buf *out);
int sw_weights_plot(const struct sw_weights_options *o, const struct sw_weights_file *file,
                    struct sw_buf *out);
