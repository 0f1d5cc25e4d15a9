/* Where a job begins and ends. Frozen while it runs, except for what says otherwise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where a job begins and ends, in steps. */
struct sw_job_span {
    int64_t horizon;        /* length of the recipe, or of its stage */
    int64_t first_step;     /* step of the checkpoint that it resumes */
    int64_t steps;          /* where this job ends */
    int64_t run_steps;      /* where the run ends, with all its stages */
    int64_t evaluated_step; /* step of the weights that sw_job_evaluate loaded */
    int64_t stage_from;     /* the step after which its stage begins; 0: the recipe has no stages */
    bool times_only;        /* struct sw_job_options */
    int64_t run_began_ns;   /* when the first job of the run began; 0: not yet */
};
