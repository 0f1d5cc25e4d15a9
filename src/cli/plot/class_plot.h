/* Images of the reports of an evaluation: the confusion matrix, the records with the highest loss
 * as a contact sheet, or predicted values over their targets. */
#pragma once

#include "infer/class_report.h"
#include "infer/value_report.h"

/* split: the name of the evaluated section. Errors: those of sw_plot_begin and sw_plot_end,
 * SW_ERR_INVALID for what cannot be drawn, SW_ERR_NOMEM. */
int sw_draw_confusion(const char *path, const struct sw_class_report *r, const char *split,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_draw_values(const char *path, const struct sw_value_report *r, const char *split,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_draw_worst(const char *path, const struct sw_class_report *r, const char *split,
                  struct sw_err *err) SW_MUST_CHECK;
