/* Prints the current state of a run once, for `top --once`: as text or as a JSON object. Pure
 * functions. */
#pragma once

#include "ui/model.h"

/* Appends the overview screen without its line of keys, w columns (at least 60) wide, with color
 * escapes if caps.colours > 0. Errors: SW_ERR_NOMEM. */
int sw_once_text(const struct sw_ui_model *m, int w, struct sw_ui_caps caps, struct sw_bytes *out,
                 struct sw_err *err) SW_MUST_CHECK;
/* Appends {"run","name","status","step","steps","loss","accuracy",...} and a newline; unknown
 * values are null. */
void sw_once_json(const struct sw_ui_model *m, struct sw_bytes *out);
