/* Tells how a run that has ended early can continue. The contract is in ui/ending.h. */
#include "ui/ending.h"

#include <stdio.h>

const char *sw_resume_hint(char *out, int64_t run, enum sw_run_status status,
                           int64_t checkpoint_step)
{
    if (status == SW_RUN_RUNNING || status == SW_RUN_DONE)
        *out = 0;
    else if (checkpoint_step >= 0)
        snprintf(out, SW_RESUME_HINT, "singa-ws resume %lld continues from step %lld",
                 (long long)run, (long long)checkpoint_step);
    else
        snprintf(out, SW_RESUME_HINT, "no checkpoint was written: run the recipe again");

    return out;
}
