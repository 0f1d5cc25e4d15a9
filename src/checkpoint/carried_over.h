/* What earlier stages trained and this net has not, carried over from checkpoint to checkpoint. */
#pragma once

#include "tensor/safetensors.h"

struct sw_job_state;
struct sw_table;

/* What earlier stages trained and this net has not. */
struct sw_carried_tensor {
    struct sw_st_entry entry; /* name owned */
    void *values;             /* owned */
};

struct sw_carried_over {
    struct sw_carried_tensor *items; /* owned */
    int count;
};

/* From the checkpoint that a later stage begins with, once: what is neither in the table nor in the
 * state of its net. Errors: SW_ERR_NOMEM, and those of reading. */
int sw_carried_over_read(struct sw_carried_over *l, const struct sw_st_file *f,
                         const struct sw_table *t, const struct sw_job_state *state,
                         struct sw_err *err) SW_MUST_CHECK;
/* Into the checkpoints that it writes. */
int sw_carried_over_write(struct sw_carried_over *l, struct sw_st_writer *w,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_carried_over_fini(struct sw_carried_over *l);
