/* The vocabulary of a model of text, kept in its checkpoints, and asked for where one is read.
 * Errors: SW_ERR_INVALID where a text that is open has another. */
#pragma once

#include "tensor/safetensors.h"

struct sw_recipe;
struct sw_source;

/* source: of the training data; NULL: there is none. */
int sw_tokens_write(const struct sw_source *source, struct sw_st_writer *w,
                    struct sw_err *err) SW_MUST_CHECK;
/* source: [SW_SPLITS], each NULL where there is none. */
int sw_tokens_check(struct sw_source *const *source, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
/* Have layers that look tokens up as many as the text of the training data (source, or NULL)? Said
 * in the recipe. */
int sw_tokens_fit(struct sw_recipe *recipe, const struct sw_source *source,
                  struct sw_err *err) SW_MUST_CHECK;
