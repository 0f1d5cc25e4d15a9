/* The exchange of a layer's gradients, as `check` prints it. Mode names are those of
 * base/exchange_mode.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sw_job_exchange {
    const char *mode;      /* NULL: no exchange, since only one worker has gradients */
    const char *requested; /* the requested mode, which may be "auto" */
    int64_t moved; /* elements that a step moves between memories, including new parameter values */
    int64_t counted; /* elements as the papers count them */
    bool predicted;  /* with auto: chosen by the predicted times of a step below; else taken from a
                        checkpoint */
    double ms[3];    /* ps, sfb, adam; NaN: not possible */
};
