/* What was measured of the fields that input layers transform (data/scaling.h), in checkpoints, so
 * that a net always reads them as it was trained with them, and its output can be given in their
 * units. Metadata "standardized.FIELD" is "mean std" for each value of the field; the tensor
 * "standardized.FIELD.whiten" is the matrix that whitens it. */
#pragma once

#include "tensor/safetensors.h"

struct sw_scaling;
struct sw_source;

/* source: the training data, or NULL. */
int sw_standardized_write(const struct sw_source *source, struct sw_st_writer *w,
                          struct sw_err *err) SW_MUST_CHECK;
/* Does a tensor of a checkpoint belong to a field rather than to the net? */
bool sw_standardized_owns(const char *tensor);
/* Sets the numbers of all these fields of the open sections to those of the file; files
 * without them leave what is known. source: [SW_SPLITS], each may be NULL. Errors: SW_ERR_FORMAT,
 * SW_ERR_INVALID if the numbers are known neither from the file nor otherwise. */
int sw_standardized_read(struct sw_source *const *source, const struct sw_st_file *f,
                         struct sw_err *err) SW_MUST_CHECK;
/* The same for one field; `data` says where its rows are from. */
int sw_standardized_read_field(struct sw_scaling *own, const char *field, const char *data,
                               const struct sw_st_file *f, struct sw_err *err) SW_MUST_CHECK;
/* Sets *out (free with sw_scaling_fini) to mean and std of a field; count 0: the file has none.
 * Errors: SW_ERR_FORMAT, SW_ERR_NOMEM. */
int sw_standardized_find(const struct sw_st_file *f, const char *field, struct sw_scaling *out,
                         struct sw_err *err) SW_MUST_CHECK;
