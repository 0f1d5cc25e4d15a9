/* Recurrent state, which the rows of a batch pass on to the same rows of the next batch: hidden
 * state of recurrent layers, and persistent chains. Kept in the job's memory as buffers are
 * (states.h). */
#pragma once

#include "tensor/safetensors.h"

struct sw_device;
struct sw_job_state;
struct sw_states;
struct sw_worker;

/* Lists the recurrent state of the training nets. Errors: SW_ERR_INVALID where the data or the
 * worker groups do not permit it. */
int sw_carries_build(struct sw_job_state *state, const struct sw_worker *workers,
                     struct sw_err *err) SW_MUST_CHECK;
/* Bytes of all of it, on all devices; and on the device of one worker. */
size_t sw_carries_bytes(const struct sw_states *s, const struct sw_worker *workers);
size_t sw_carries_worker_bytes(const struct sw_worker *w);
int sw_carries_allocate(struct sw_states *s, struct sw_device *host,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_carries_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_carries_unbind(struct sw_worker *w);
/* Called by all workers at one step: copies the state to the job's memory, which is complete when
 * this returns; and back. */
int sw_carries_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does the recurrent state start from zero in this batch? t: the update that the batch is for. */
bool sw_carries_begin(const struct sw_worker *w, int split, int64_t batch, int64_t t);
/* Do persistent chains start over in update t? They do not depend on the data. */
bool sw_chains_begin(const struct sw_worker *w, int64_t t);
int sw_carries_write(struct sw_states *s, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
/* Where the file has no state for this batch size, sequences start from zero, with a warning. */
int sw_carries_read(struct sw_worker *leader, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;
