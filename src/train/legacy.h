/* What earlier stages trained and this net has not, carried over from checkpoint to checkpoint. */
#ifndef SW_TRAIN_LEGACY_H
#define SW_TRAIN_LEGACY_H

#include "tensor/safetensors.h"

struct sw_job;

/* What earlier stages trained and this net has not. */
struct sw_legacy_tensor {
    struct sw_st_entry entry; /* name owned */
    void *values;             /* owned */
};

struct sw_legacy {
    struct sw_legacy_tensor *items; /* owned */
    int count;
};

/* From the checkpoint that the job begins with, once; and into those that it writes. */
int sw_legacy_read(struct sw_job *job, const struct sw_st_file *f,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_legacy_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
void sw_legacy_fini(struct sw_legacy *l);

#endif
