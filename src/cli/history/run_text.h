/* Formats facts of a run as text; an unknown value is "--", never 0. No state. */
#pragma once

#include "base/json.h"
#include "cli/terminal/columns.h"
#include "history/reader.h"

enum { SW_RUN_TEXT = 64 };

/* "2026-11-20 14:02:03", local time; "--" for 0. Returns out [SW_RUN_TEXT]. */
const char *sw_run_time_text(double unix_s, char *out);
/* From the start to the end, or to now for a run that is running; or to the last record of a
 * crashed one; NaN: unknown. */
double sw_run_seconds(const struct sw_run *run);
const char *sw_run_duration(const struct sw_run *run, char *out); /* out [SW_RUN_TEXT] */

void sw_columns_plain(struct sw_columns *t, const char *text); /* NULL and "" are "--" */
void sw_columns_real(struct sw_columns *t, double value);      /* four digits */
void sw_columns_share(struct sw_columns *t, double value);     /* 0.9779: four places */

void sw_json_time(struct sw_json_writer *w, const char *key, double unix_s); /* 0 is null */
/* The JSON members of a run that all sub-verbs print. */
void sw_json_run(struct sw_json_writer *w, const struct sw_run *run);
