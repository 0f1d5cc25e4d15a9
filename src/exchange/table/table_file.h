/* Parameters and updater state in safetensors files: plain layout, whole tensors, whatever parts
 * the workers of this job hold. Between steps only. */
#pragma once

#include "exchange/table/table.h"
#include "tensor/safetensors.h"

/* A tensor to be written or read. For writing, the caller keeps it until the file is written. */
struct sw_table_source {
    struct sw_table *table;
    struct sw_stream *stream;
    int param, slot; /* slot -1: the value */
    bool transposed; /* reading: the file has the matrix [b, a] that is [a, b] here */
};

/* Bytes of the buffers that writing the parameter, or its parts, takes. */
size_t sw_table_write_bytes(const struct sw_param *p);
/* Adds the tensor `name` that `source` (all fields set) describes: the whole parameter, gathered
 * from its parts. Adds nothing for a part that is not the first. Errors: those of sw_st_writer_add.
 */
int sw_table_add_tensor(struct sw_table_source *source, const char *name, struct sw_st_writer *w,
                        struct sw_err *err) SW_MUST_CHECK;
/* Reads the parameter, or its part, from the tensor `name`. Errors: SW_ERR_NOTFOUND, SW_ERR_INVALID
 * (names both shapes), those of reading. */
int sw_table_read_tensor(const struct sw_table_source *to, const char *name,
                         const struct sw_st_file *f, struct sw_err *err) SW_MUST_CHECK;
/* Checks that the file has the tensor with the parameter's shape. path is for the message. Errors:
 * SW_ERR_FORMAT (missing), SW_ERR_INVALID. */
int sw_table_check_tensor(const struct sw_table_source *to, const char *name,
                          const struct sw_st_file *f, const char *path,
                          struct sw_err *err) SW_MUST_CHECK;
/* sw_table_check_tensor for the tensor's entry in the file; e NULL: the file does not have the
 * tensor. */
int sw_table_check_entry(const struct sw_table_source *to, const char *name,
                         const struct sw_st_entry *e, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;
