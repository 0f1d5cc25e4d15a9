/* Fields that input layers standardize (data/scaling.h). */
#pragma once

#include "base/err.h"

struct sw_job;

/* Call when the section of the split is open: makes its source standardize the fields for which
 * input layers ask. The numbers are those of the keys of the layer, those measured on the training
 * section, which must be opened first, or, without it, those of a checkpoint that is read later.
 * Errors: SW_ERR_INVALID (see the diagnostics of the recipe), those of sw_source_measure. */
int sw_job_standardize(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;
