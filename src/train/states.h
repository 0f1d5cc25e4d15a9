/* What layers keep from step to step beside parameters: state without gradient, such as running
 * statistics, once per job (states.c), and row state, which rows of a batch hand on to the same
 * rows of the next (carries.c). Memory belongs to the job; workers whose device does not reach it
 * have copies of their own. */
#ifndef SW_TRAIN_STATES_H
#define SW_TRAIN_STATES_H

#include "train/job_private.h"

/* states.c */
/* Those of the training net; then every evaluation net must have the same ones or fewer. */
int sw_states_build(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_states_match(const struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_states_bytes(const struct sw_job *job); /* what all of it takes, on all devices */
/* And what it takes on this worker's own device. */
size_t sw_states_device_bytes(const struct sw_worker *w);
/* Memory, with the initial values; then every worker's nets are bound to it. */
int sw_states_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_states_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_states_rebind(struct sw_worker *w); /* its nets are new */
void sw_states_unbind(struct sw_worker *w);
/* Memory of zeros for the items of s, at their offsets. Errors: SW_ERR_NOMEM. */
int sw_states_take(struct sw_job *job, struct sw_states *s, const char *what,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_states_fini(struct sw_states *s); /* a zeroed one is accepted */
/* By all workers at one step, between the job's memory and their own devices: everything that they
 * keep up is in the job's memory when this returns; and what was read from a file goes to them, and
 * has come to all when this returns. Nothing to do where they are the same. */
int sw_states_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The second of these for one worker: until all have read, nobody may gather. */
int sw_states_send(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Remembers what the worker's training net keeps up, before a step, and puts it back. */
int sw_states_keep(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_put_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Is all that the worker's training net keeps up finite? */
int sw_states_finite(struct sw_worker *w, bool *finite, struct sw_err *err) SW_MUST_CHECK;
/* By all workers, before an evaluation: everybody gets what the keepers have. */
int sw_states_share(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Adds them to a checkpoint; checks or reads them from one that has them all. */
int sw_states_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_check(const struct sw_job *job, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_states_read(struct sw_job *job, const struct sw_st_file *f, const char *path,
                   struct sw_err *err) SW_MUST_CHECK;
/* One of them, from a tensor of any name. */
int sw_state_check(const struct sw_state *s, const char *tensor, const struct sw_st_entry *e,
                   const char *path, struct sw_err *err) SW_MUST_CHECK;
int sw_state_read(struct sw_state *s, const char *tensor, const struct sw_st_file *f,
                  const char *path, struct sw_err *err) SW_MUST_CHECK;

/* carries.c */
/* Those of the training nets. Errors: SW_ERR_INVALID where the data or the groups do not go with
 * them. */
int sw_carries_build(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_carries_bytes(const struct sw_job *job); /* what all of it takes, on all devices */
size_t sw_carries_worker_bytes(const struct sw_worker *w); /* and on a worker's */
int sw_carries_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_carries_unbind(struct sw_worker *w);
/* By all workers at one step: to the job's memory, all of it when this returns; and from there. */
int sw_carries_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Do no rows go on from the batch before? t: the update that the batch is for. */
bool sw_carries_begin(const struct sw_worker *w, int split, int64_t batch, int64_t t);
/* The same of persistent chains, which go on whatever the data are. */
bool sw_chains_begin(const struct sw_worker *w, int64_t t);
int sw_carries_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
/* Where the file has none for this batch, sequences begin anew, which is told. */
int sw_carries_read(struct sw_job *job, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;

#endif
