/* State without gradient, such as running statistics, kept once per job. Memory belongs to the job;
 * workers whose device does not reach it have copies of their own.
 *
 * Checkpoints name it state.LAYER.NAME. resume and eval require it, init_from takes it where the
 * file has it. states.c says which net writes it. */
#pragma once

#include "plan/topology.h"
#include "tensor/safetensors.h"
#include "tensor/tensor.h"

struct sw_worker;

/* State without gradient, kept once per job. */
struct sw_state {
    char *name;            /* owned: "state.bn1.mean", as in checkpoints */
    struct sw_desc layout; /* of the whole */
    float natural;         /* initial value */
    size_t offset;         /* bytes, in the states' memory */
    int keeper;            /* the worker whose training net keeps it up; */
    bool split;            /* each of its group a part, its own, of dimension 0 */
    bool chain;            /* row state of persistent chains */
    float *value;
    struct sw_tensor view; /* of value, while a file is written or read */
};

struct sw_states {
    struct sw_state *items; /* owned */
    int count;
    bool elsewhere; /* another worker than the first keeps some of them up */
    void *memory;   /* owned host memory, of `device` */
    size_t bytes;
    struct sw_device *device; /* borrowed: the job's */
};

/* What layers keep between batches. */
struct sw_job_state {
    struct sw_states buffers; /* by all workers */
    struct sw_states carries; /* row state, gathered */
    int64_t reset_after;      /* what the workers' is at first: written before they meet */
};

/* What the layers of a worker keep between batches. All owned device memory. */
struct sw_worker_state {
    void *before; /* with on_nan = skip, the leader's states as they were before the step */
    void *copy;   /* of the job's states, where the device does not reach them */
    void *recurrent[SW_SPLITS]; /* of its nets, or NULL */
    size_t recurrent_bytes[SW_SPLITS];
    int64_t reset_after; /* recurrent state is reset behind this step; -1: it is not */
};

/* Those of the training net; then every evaluation net must have the same ones or fewer. */
int sw_states_build(struct sw_states *s, const struct sw_worker *workers,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_states_match(const struct sw_states *s, const struct sw_worker *workers,
                    struct sw_err *err) SW_MUST_CHECK;
size_t sw_states_bytes(const struct sw_states *s,
                       const struct sw_worker *workers); /* what all of it takes, on all devices */
/* And what it takes on this worker's own device. */
size_t sw_states_device_bytes(const struct sw_worker *w);
/* Memory, with the initial values; then every worker's nets are bound to it. */
int sw_states_allocate(struct sw_states *s, struct sw_device *host,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_states_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_states_rebind(struct sw_worker *w); /* its nets are new */
void sw_states_unbind(struct sw_worker *w);
/* Memory of zeros for the items of s, at their offsets. Errors: SW_ERR_NOMEM. */
int sw_states_take(struct sw_states *s, struct sw_device *host, const char *what,
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
int sw_states_write(struct sw_states *s, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_check(const struct sw_states *s, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_states_read(struct sw_states *s, const struct sw_st_file *f, const char *path,
                   struct sw_err *err) SW_MUST_CHECK;
/* One of them, from a tensor of any name. */
int sw_state_check(const struct sw_state *s, const char *tensor, const struct sw_st_entry *e,
                   const char *path, struct sw_err *err) SW_MUST_CHECK;
int sw_state_read(struct sw_state *s, const char *tensor, const struct sw_st_file *f,
                  const char *path, struct sw_err *err) SW_MUST_CHECK;
