/* Carried-over parameters: tensors that earlier stages trained and this net does not have. They are
 * copied from checkpoint to checkpoint. */
#pragma once

#include "tensor/safetensors.h"

struct sw_job_state;
struct sw_table;

/* A carried-over tensor. */
struct sw_carried_tensor {
    struct sw_st_entry entry; /* name owned */
    void *values;             /* owned */
};

struct sw_carried_over {
    struct sw_carried_tensor *items; /* owned */
    int count;
};

/* Reads them once, from the checkpoint that a stage starts from: all tensors that are neither
 * parameters of the table nor buffers of the net. Errors: SW_ERR_NOMEM, and those of reading. */
int sw_carried_over_read(struct sw_carried_over *l, const struct sw_st_file *f,
                         const struct sw_table *t, const struct sw_job_state *state,
                         struct sw_err *err) SW_MUST_CHECK;
/* Adds them to a checkpoint that is being written. */
int sw_carried_over_write(struct sw_carried_over *l, struct sw_st_writer *w,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_carried_over_fini(struct sw_carried_over *l);
