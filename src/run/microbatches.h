/* The microbatches of a batch, over which gradients are summed in the same way whoever computes
 * them. */
#pragma once

#include "base/str.h"
#include "recipe/recipe.h"

struct sw_job;

/* Does the recipe split layers in another way than by rows? */
bool sw_job_splits_layers(const struct sw_job *job);
/* Checks settings that conflict with repeat_exact or rebalance. Errors: SW_ERR_INVALID with
 * messages in the recipe. */
int sw_microbatches_check(struct sw_job *job, const struct sw_section *cluster,
                          struct sw_err *err) SW_MUST_CHECK;
/* Partitions the batches into microbatches, as stored in the resumed checkpoint if it has their
 * rows. */
int sw_microbatches_split(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Writes the rows of each microbatch, as in "48 16". */
void sw_microbatches_write(const struct sw_job *job, struct sw_bytes *out);
