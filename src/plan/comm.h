/* How the gradients that several workers have of a layer are exchanged, as `check` prints it: by
 * one of the names in base/comm_way.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sw_job_comm {
    const char *way;   /* NULL: only one worker has any */
    const char *asked; /* the same, or "auto" */
    int64_t moved;     /* values that a step moves between memories, new ones of parameters too */
    int64_t counted;   /* as the papers count */
    bool predicted;    /* with auto: by these times, of a step, else as a checkpoint says */
    double ms[3];      /* ps, sfb, adam; NaN: that cannot be */
};
