/* An image of the output of `predict`: rows as large as the images of the data are drawn as images
 * (reconstructions), values per class as a confusion matrix, and pairs of numbers as a scatter
 * plot; the latter two use the labels of the same rows. One owner. */
#pragma once

#include "infer/predict.h"

/* Zero-initialise; free with sw_predict_plot_fini. */
struct sw_predict_plot {
    const char *path; /* .png or .svg; borrowed */
    bool codes;       /* two elements are codes, even if they could be two classes */
    int *labels;      /* owned; -1: none */
    int64_t label_count, rows;
    int width;          /* numbers of a row */
    float *xy;          /* owned [rows][2], of codes */
    int64_t *counts;    /* owned [width][width], of classes */
    float *pictures;    /* owned [the first rows][width] */
    int64_t at;         /* rows so far */
    const char **names; /* owned [width], the names borrowed; NULL: classes have only numbers */
};

/* The layer that outputs the labels, or NULL. */
const char *sw_predict_label_layer(const struct sw_recipe *recipe);
/* The labels, if there are any, come before the rows of the layer. Errors: SW_ERR_INVALID if the
 * rows cannot be drawn, SW_ERR_NOMEM. */
int sw_predict_plot_labels(struct sw_predict_plot *p, const struct sw_predict_info *info,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_predict_plot_add_labels(struct sw_predict_plot *p, int64_t count, const float *values);
int sw_predict_plot_begin(struct sw_predict_plot *p, const struct sw_predict_info *info,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_predict_plot_rows(struct sw_predict_plot *p, int64_t count, const float *values);
int sw_predict_plot_draw(const struct sw_predict_plot *p, const struct sw_predict_info *info,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_predict_plot_fini(struct sw_predict_plot *p);
