/* What to do about a run that has ended before its last step. Pure functions. */
#pragma once

#include "history/history.h"

enum { SW_RESUME_HINT = 96 };

/* "singa-ws resume 2 continues from step 4800", or that there is no checkpoint; "" for a run that
 * is running or done. checkpoint_step is that of the newest checkpoint, -1: none. Returns out
 * [SW_RESUME_HINT]. */
const char *sw_resume_hint(char *out, int64_t run, enum sw_run_status status,
                           int64_t checkpoint_step);
