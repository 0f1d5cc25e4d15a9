/* Row state, which rows of a batch hand on to the same rows of the next: hidden state of recurrent
 * layers, and persistent chains. Kept in the job's memory as states are (states.h). */
#pragma once

#include "tensor/safetensors.h"

struct sw_device;
struct sw_job_state;
struct sw_states;
struct sw_worker;

/* Those of the training nets. Errors: SW_ERR_INVALID where the data or the groups do not go with
 * them. */
int sw_carries_build(struct sw_job_state *state, const struct sw_worker *workers,
                     struct sw_err *err) SW_MUST_CHECK;
size_t sw_carries_bytes(const struct sw_states *s,
                        const struct sw_worker *workers); /* what all of it takes, on all devices */
size_t sw_carries_worker_bytes(const struct sw_worker *w); /* and on a worker's */
int sw_carries_allocate(struct sw_states *s, struct sw_device *host,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_carries_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_carries_unbind(struct sw_worker *w);
/* By all workers at one step: to the job's memory, all of it when this returns; and from there. */
int sw_carries_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Do no rows go on from the batch before? t: the update that the batch is for. */
bool sw_carries_begin(const struct sw_worker *w, int split, int64_t batch, int64_t t);
/* The same of persistent chains, which go on whatever the data are. */
bool sw_chains_begin(const struct sw_worker *w, int64_t t);
int sw_carries_write(struct sw_states *s, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
/* Where the file has none for this batch, sequences begin from zero, which is told. */
int sw_carries_read(struct sw_worker *leader, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;
