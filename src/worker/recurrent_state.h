/* Recurrent state, which the rows of a batch pass on to the same rows of the next batch: hidden
 * state of recurrent layers, and persistent chains. Kept in the job's memory as buffers are
 * (buffers.h). */
#pragma once

#include "tensor/safetensors.h"

struct sw_device;
struct sw_job_state;
struct sw_buffers;
struct sw_worker;

/* Lists the recurrent state of the training nets. Errors: SW_ERR_INVALID where the data or a
 * warm-up does not permit it. */
int sw_recurrent_state_build(struct sw_job_state *state, const struct sw_worker *workers,
                             struct sw_err *err) SW_MUST_CHECK;
/* Bytes of all of it, on all devices; and on the device of one worker. */
size_t sw_recurrent_state_bytes(const struct sw_buffers *s, const struct sw_worker *workers);
size_t sw_recurrent_state_worker_bytes(const struct sw_worker *w);
int sw_recurrent_state_allocate(struct sw_buffers *s, struct sw_device *host,
                                struct sw_err *err) SW_MUST_CHECK;
int sw_recurrent_state_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_recurrent_state_unbind(struct sw_worker *w);
/* Called by all workers at one step: copies the state to the job's memory, which is complete when
 * this returns; and back. */
int sw_recurrent_state_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_recurrent_state_scatter(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does the recurrent state start from zero in this batch? t: the update that the batch is for. */
bool sw_recurrent_state_starts(const struct sw_worker *w, int split, int64_t batch, int64_t t);
/* Do persistent chains start over in update t? They do not depend on the data. */
bool sw_chains_start(const struct sw_worker *w, int64_t t);
int sw_recurrent_state_write(struct sw_buffers *s, struct sw_st_writer *w,
                             struct sw_err *err) SW_MUST_CHECK;
/* Where the file has no state for this batch size, sequences start from zero, with a warning. */
int sw_recurrent_state_read(struct sw_worker *leader, const struct sw_st_file *f,
                            struct sw_err *err) SW_MUST_CHECK;
