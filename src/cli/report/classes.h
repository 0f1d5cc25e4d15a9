/* A report by class of `eval`: precision, recall and F1, the confusion matrix, and the records with
 * the highest loss. */
#pragma once

#include "base/json.h"
#include "infer/class_report.h"

/* Append tables of classes and confusions, and of the worst records. */
void sw_print_classes(struct sw_bytes *out, const struct sw_class_report *r);
void sw_print_worst(struct sw_bytes *out, const struct sw_class_report *r);
/* The same as members "report" and "worst" of the open object. */
void sw_json_classes(struct sw_json_writer *w, const struct sw_class_report *r);
void sw_json_worst(struct sw_json_writer *w, const struct sw_class_report *r);
