/* The ground truth (source 2) of rows of scores (source 1), for losses and metrics of classes:
 * either a label per row, one value of which may mean "unknown", or a row of targets, one per
 * class. With sequences [N, T, classes] and labels [N, T] every step is a row. Part of a layer's
 * state; used by the worker that owns the layer. */
#pragma once

#include "kernels/ops/label_count.h"
#include "layers/share/plain.h"

/* Option row of the label that is ignored; `member` of struct `conf` is an int64_t. */
#define SW_IGNORE_LABEL_OPT(conf, member)                                                          \
    SW_OPT_KEY(INT, "ignore_label", conf, member, "ignore rows with this label",                   \
               .def = "-4294967296", .min = INT32_MIN, .max = INT32_MAX)

struct sw_class_targets {
    bool by_label;
    bool ignores;
    int32_t ignored;
    int64_t per_sample;              /* rows of a sample: 1, or the steps of a sequence */
    struct sw_plain scores, targets; /* targets: only without labels */
};

/* Call in setup. ignore_label is the value of the key. Errors: SW_ERR_INVALID if source 2 is
 * neither labels nor targets, or if ignore_label is set without labels; those of sw_plain_init. */
int sw_class_targets_init(struct sw_class_targets *c, struct sw_layer *l,
                          const struct sw_layer_setup *s, int64_t ignore_label,
                          struct sw_err *err) SW_MUST_CHECK;

/* Returns the layout of one number per row: [N], or [N, T] for sequences. */
struct sw_desc sw_class_rows(const struct sw_class_targets *c);
/* Returns the labels; their array is NULL if there are targets. */
struct sw_labels sw_class_labels(const struct sw_class_targets *c, const struct sw_layer *l);
/* Sets *x to the rows of scores and *target to the rows of targets, NULL if there are labels. Valid
 * until the end of the pass. */
int sw_class_values(const struct sw_class_targets *c, const struct sw_layer *l,
                    const struct sw_pass *r, const float **x, const float **target,
                    struct sw_err *err) SW_MUST_CHECK;
