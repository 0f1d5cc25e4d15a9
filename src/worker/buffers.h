/* Buffers: state without gradient, such as running statistics, kept once per job. The memory
 * belongs to the job; workers whose device cannot reach it have copies.
 *
 * Checkpoints name a buffer state.LAYER.NAME. resume and eval require it, init_from takes it where
 * the file has it. buffers.c says which net writes it. */
#pragma once

#include "plan/topology.h"
#include "tensor/safetensors.h"
#include "tensor/tensor.h"

struct sw_worker;

/* A buffer, or recurrent state in the job's memory. */
struct sw_buffer {
    char *name;            /* owned: "state.bn1.mean", as in checkpoints */
    struct sw_desc layout; /* layout of the whole */
    float initial;         /* initial value */
    size_t offset;         /* bytes, in the memory of all buffers */
    int writer;            /* the worker whose training net updates it */
    bool split;            /* every worker of the group updates its own part of dimension 0 */
    bool chain;            /* recurrent state of persistent chains */
    float *value;
    struct sw_tensor view; /* view of value, while a file is written or read */
};

struct sw_buffers {
    struct sw_buffer *items; /* owned */
    int count;
    bool on_other_workers; /* a worker other than the first updates some of them */
    void *memory;          /* owned host memory of `device` */
    size_t bytes;
    struct sw_device *device; /* borrowed: the job's */
};

/* What the layers of a job keep between batches. */
struct sw_job_state {
    struct sw_buffers buffers;   /* shared by all workers */
    struct sw_buffers recurrent; /* recurrent state, gathered */
    int64_t reset_after; /* initial value of the workers' reset_after: written before the first
                            barrier */
};

/* What the layers of a worker keep between batches. All owned device memory. */
struct sw_worker_state {
    void *before;               /* the buffers as they were before the step, where it may be undone:
                                   with on_nan = skip, or shared.returns */
    int64_t saved_step;         /* the step that `before` precedes */
    struct sw_event *saved;     /* owned: `before` is complete; NULL: in host memory, or none */
    void *copy;                 /* copy of the job's buffers, where the device cannot reach them */
    void *recurrent[SW_SPLITS]; /* recurrent state of its nets, or NULL */
    size_t recurrent_bytes[SW_SPLITS];
    int64_t reset_after; /* recurrent state is reset after this step; -1: it is not */
};

/* Lists the buffers of the training nets; and checks that every evaluation net has the same ones or
 * fewer. */
int sw_buffers_build(struct sw_buffers *s, const struct sw_worker *workers,
                     struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_match(const struct sw_buffers *s, const struct sw_worker *workers,
                     struct sw_err *err) SW_MUST_CHECK;
/* Bytes of all copies, on all devices; and on the device of one worker. */
size_t sw_buffers_bytes(const struct sw_buffers *s, const struct sw_worker *workers);
size_t sw_buffers_device_bytes(const struct sw_worker *w);
/* Allocates the memory and sets the initial values; then binds every worker's nets to it. */
int sw_buffers_allocate(struct sw_buffers *s, struct sw_device *host,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_buffers_rebind(struct sw_worker *w); /* its nets are new */
void sw_buffers_unbind(struct sw_worker *w);
/* Allocates zeroed memory for the items of s, at their offsets. Errors: SW_ERR_NOMEM. */
int sw_buffers_take(struct sw_buffers *s, struct sw_device *host, const char *what,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_buffers_fini(struct sw_buffers *s); /* a zeroed one is accepted */
/* Called by all workers at one step, between the job's memory and their devices. gather: everything
 * that they update is in the job's memory when this returns. deal: what was read from a file has
 * reached all devices when this returns. No copies where the memory is the same. */
int sw_buffers_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_scatter(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Uploads the buffers to one worker's device; nobody may gather until all have read. */
int sw_buffers_upload(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Saves the buffers that the worker's training net updates, before a step; and restores them. */
int sw_buffers_save(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_restore(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* After the loss of another host, when the worker's thread has ended: copies the buffers as they
 * were after that step, which was the last or the one before it, to the job's memory. */
int sw_buffers_rescue(struct sw_worker *w, int64_t step, struct sw_err *err) SW_MUST_CHECK;
/* Sets *finite: is everything that the worker's training net updates finite? */
int sw_buffers_finite(struct sw_worker *w, bool *finite, struct sw_err *err) SW_MUST_CHECK;
/* Called by all workers before an evaluation: distributes the buffers of the workers that update
 * them. */
int sw_buffers_distribute(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Adds the buffers to a checkpoint; checks or reads them from one that has them all. */
int sw_buffers_write(struct sw_buffers *s, struct sw_st_writer *w,
                     struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_check(const struct sw_buffers *s, const struct sw_st_file *f,
                     struct sw_err *err) SW_MUST_CHECK;
int sw_buffers_read(struct sw_buffers *s, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;
/* Checks or reads one buffer, from a tensor of any name. */
int sw_buffer_check(const struct sw_buffer *s, const char *tensor, const struct sw_st_entry *e,
                    const char *path, struct sw_err *err) SW_MUST_CHECK;
int sw_buffer_read(struct sw_buffer *s, const char *tensor, const struct sw_st_file *f,
                   const char *path, struct sw_err *err) SW_MUST_CHECK;
