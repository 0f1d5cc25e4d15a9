/* What a row of scores (source 1) is measured by (source 2), for losses and metrics of classes:
 * either a label per row, of which one value may stand for "not known", or a row of targets, one
 * per class. Of sequences [N, T, classes] with labels [N, T] every step is a row. Part of a layer's
 * state. */
#pragma once

#include "kernels/ops/label_count.h"
#include "layers/share/plain.h"

/* A key for labels that do not count; `member` of struct `conf` is an int64_t. */
#define SW_IGNORE_LABEL_OPT(conf, member)                                                          \
    SW_OPT_KEY(INT, "ignore_label", conf, member, "rows with this label do not count",             \
               .def = "-4294967296", .min = INT32_MIN, .max = INT32_MAX)

struct sw_class_targets {
    bool by_label;
    bool ignores;
    int32_t ignored;
    int64_t per_sample;              /* rows of a sample: 1, or the steps of a sequence */
    struct sw_plain scores, targets; /* the latter only without labels */
};

/* For setup. ignore_label is the key's value. Errors: SW_ERR_INVALID where source 2 is neither, or
 * labels are to be ignored and there are none; those of sw_plain_init. */
int sw_class_targets_init(struct sw_class_targets *c, struct sw_layer *l,
                          const struct sw_layer_setup *s, int64_t ignore_label,
                          struct sw_err *err) SW_MUST_CHECK;

/* A number for each row: [N], or of sequences [N, T]. */
struct sw_desc sw_class_rows(const struct sw_class_targets *c);
/* The labels; NULL where there are targets. */
struct sw_labels sw_class_labels(const struct sw_class_targets *c, const struct sw_layer *l);
/* *x: the rows of scores; *target: those of targets, NULL where there are labels. */
int sw_class_values(const struct sw_class_targets *c, const struct sw_layer *l,
                    const struct sw_pass *r, const float **x, const float **target,
                    struct sw_err *err) SW_MUST_CHECK;
