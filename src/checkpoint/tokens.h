/* The vocabulary of a text model, saved in its checkpoints and checked when one is read. Errors:
 * SW_ERR_INVALID if the open text data has a different vocabulary. */
#pragma once

#include "tensor/safetensors.h"

struct sw_recipe;
struct sw_source;

/* source: the training data, or NULL. */
int sw_tokens_write(const struct sw_source *source, struct sw_st_writer *w,
                    struct sw_err *err) SW_MUST_CHECK;
/* source: [SW_SPLITS], each may be NULL. */
int sw_tokens_check(struct sw_source *const *source, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;
/* Checks that embedding tables have at least as many tokens as the training text (source, or NULL).
 * Adds errors to the recipe. */
int sw_tokens_fit(struct sw_recipe *recipe, const struct sw_source *source,
                  struct sw_err *err) SW_MUST_CHECK;
