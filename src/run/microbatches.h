/* The microbatches of a batch, in which gradients are summed the same way whoever computes them. */
#pragma once

#include "base/str.h"
#include "recipe/recipe.h"

struct sw_job;

/* Does the recipe ask for layers that are split otherwise than by rows? */
bool sw_job_splits_layers(const struct sw_job *job);
/* What goes together with repeat_exact. Errors: SW_ERR_INVALID with messages in the recipe. */
int sw_microbatches_check(struct sw_job *job, const struct sw_section *cluster,
                          struct sw_err *err) SW_MUST_CHECK;
/* Cuts the batches into microbatches, as the checkpoint to go on from had them where that says so.
 */
int sw_microbatches_split(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* The rows of each, as in "48 16". */
void sw_microbatches_write(const struct sw_job *job, struct sw_buf *out);
