/* Reports of `eval`: precision, recall and F1 of each class, the confusion matrix, and the records
 * with the highest loss or the largest error. */
#pragma once

#include "base/json.h"
#include "infer/class_report.h"
#include "infer/value_report.h"

/* Append tables of classes and confusions, and of the worst records. */
void sw_print_classes(struct sw_bytes *out, const struct sw_class_report *r);
void sw_print_worst(struct sw_bytes *out, const struct sw_class_report *r);
void sw_print_worst_values(struct sw_bytes *out, const struct sw_value_report *r);
/* The same as members "report" and "worst" of the open object. */
void sw_json_classes(struct sw_json_writer *w, const struct sw_class_report *r);
void sw_json_worst(struct sw_json_writer *w, const struct sw_class_report *r);
void sw_json_worst_values(struct sw_json_writer *w, const struct sw_value_report *r);
