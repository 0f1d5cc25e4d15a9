/* Where a job begins and ends. Frozen while it runs, but for what says otherwise. */
#pragma once

#include <stdint.h>

/* Where a job begins and ends, in steps. */
struct sw_job_span {
    int64_t horizon;        /* of the recipe, or of its stage */
    int64_t first_step;     /* of the checkpoint it goes on from */
    int64_t steps;          /* where this job ends */
    int64_t run_steps;      /* and where the run does, with all its stages */
    int64_t evaluated_step; /* of the weights that sw_job_evaluate loaded */
    int64_t stage_from;     /* the step behind which its stage begins; 0: the recipe has none */
    int64_t run_began_ns;   /* when the first job of its run did; 0: not yet */
};
