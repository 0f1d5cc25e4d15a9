/* Images of a report by class: the confusion matrix, or the records with the highest loss as a
 * contact sheet. */
#pragma once

#include "infer/class_report.h"

/* split: the name of the evaluated section. Errors: those of sw_plot_begin and sw_plot_end,
 * SW_ERR_INVALID for a sheet of data without images, SW_ERR_NOMEM. */
int sw_draw_confusion(const char *path, const struct sw_class_report *r, const char *split,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_draw_worst(const char *path, const struct sw_class_report *r, const char *split,
                  struct sw_err *err) SW_MUST_CHECK;
