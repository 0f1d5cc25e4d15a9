/* The current state of a run, once: as text for people or as a JSON object for programs. Pure
 * functions. */
#pragma once

#include "ui/model.h"

/* The overview without its last line, `w` columns wide and as high as its panels want to be; with
 * escapes for colours where caps has some. Errors: SW_ERR_NOMEM. */
int sw_once_text(const struct sw_ui_model *m, int w, struct sw_ui_caps caps, struct sw_buf *out,
                 struct sw_err *err) SW_MUST_CHECK;
/* {"run","name","status","step","steps","loss","accuracy",...} and a newline; what is not known is
 * null. */
void sw_once_json(const struct sw_ui_model *m, struct sw_buf *out);
