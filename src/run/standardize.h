/* Fields whose values input layers transform (data/scaling.h). */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_job;
struct sw_recipe;
struct sw_scaling;
struct sw_st_file;

/* Call when the section of the split is open: makes its source transform the fields for which
 * input layers ask. The numbers are those of the keys of the layer, those measured on the training
 * section, which must be opened first, or, without it, those of a checkpoint that is read later.
 * Errors: SW_ERR_INVALID (see the diagnostics of the recipe), those of sw_source_measure. */
int sw_job_standardize(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;

/* Sets *out to what the input layer of a field does with rows of `count` values that come from
 * elsewhere, `data`, with the numbers of a checkpoint; count 0: nothing. Free with sw_scaling_fini
 * in every case. Errors: those of sw_standardized_read_field. */
int sw_standardize_from(const struct sw_recipe *recipe, const char *field, int64_t count,
                        const char *data, const struct sw_st_file *f, struct sw_scaling *out,
                        struct sw_err *err) SW_MUST_CHECK;
