/* Prefetch: threads that fill the next mini-batches while the worker computes.
 *
 * Messages in: released slots (sw_prefetch_release), a new start (sw_prefetch_rewind). Messages
 * out: filled batches, returned in order by sw_prefetch_next. All memory is allocated at start;
 * between batches nothing is allocated, and threads wait on conditions, never by polling. Several
 * threads share the rows of one batch; the data do not depend on the number of threads.
 * sw_prefetch_close stops the threads; it is called by the fault of the job or by sw_prefetch_free.
 * A thread that cannot read a record sets the fault under the name "prefetch NAME" and closes; the
 * next wait of the worker then returns SW_ERR_CANCELLED.
 *
 * Thread rule: next, release and rewind by the one worker that owns it; close by any thread. */
#pragma once

#include "data/source.h"
#include "thread/fault.h"

enum { SW_BATCH_ALIGN = 64 };

/* One filled mini-batch. Its memory belongs to a slot and is valid until the batch is released. */
struct sw_batch {
    int64_t index;              /* global number of the batch */
    int64_t rows;               /* number of rows */
    int64_t valid_rows;         /* rows of this worker that contain samples; the rest are zero */
    int64_t batch_valid_rows;   /* rows of the global batch that count */
    void *field[SW_MAX_FIELDS]; /* [rows, ...] as source->field, aligned to SW_BATCH_ALIGN bytes;
                                   each microbatch begins at such a multiple, so gaps may follow;
                                   NULL: not requested */
    void *memory;               /* all fields, contiguous: sw_prefetch_batch_bytes */
    double read_ms, decode_ms;  /* time for reading and for transforms, summed over threads */
    int64_t ordinal;            /* private */
};

struct sw_prefetch_args {
    const struct sw_source *source; /* borrowed until sw_prefetch_free */
    int64_t batch_rows;             /* rows of a global batch */
    int64_t first_row, row_count;   /* rows of this worker */
    /* Rows of each microbatch; the rows of a microbatch begin at a multiple of SW_BATCH_ALIGN
     * bytes. [parts], borrowed during the call; NULL: one microbatch. */
    const int64_t *part_rows;
    int parts;
    int64_t first_batch;  /* global number of the first batch */
    int64_t batch_stride; /* distance between global numbers; 1 for a single group */
    int64_t lead; /* number of initial batches with consecutive numbers; batch_stride applies from
                     the batch after them */
    int64_t batch_limit;       /* batches in one pass; -1: unlimited */
    int slots;                 /* batches in flight, including the one in use; 2 or more */
    int threads;               /* 1 or more */
    unsigned fields;           /* bit f: field f is requested */
    bool pixels;               /* rows are as sw_source_row_bytes says: a device finishes images */
    void (*begin)(void *user); /* called by each thread when it starts, to bind itself; or NULL */
    void *begin_user;
    /* Called when a thread starts to read rows of a batch, or waits for work (-1); or NULL. */
    void (*on_batch)(void *user, int thread, int64_t batch);
    void *on_batch_user;
    struct sw_fault *fault; /* borrowed; NULL: sw_prefetch_next returns the errors */
    /* Allocator for the slots, one block; both NULL: pages of the operating system. */
    int (*alloc)(void *user, size_t bytes, const char *what, void **out, struct sw_err *err);
    void (*free)(void *user, void *p, size_t bytes);
    void *user;
};

struct sw_prefetch;

/* Allocates the memory and starts the threads. Errors: SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_prefetch_start(const struct sw_prefetch_args *args, struct sw_prefetch **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Closes, joins the threads and frees everything; NULL is accepted. */
void sw_prefetch_free(struct sw_prefetch *p);

/* Waits for the next batch in order. Errors: SW_ERR_CANCELLED once closed, SW_ERR_NOTFOUND after
 * the last batch of the pass, SW_ERR_BUSY if all slots are in use; without a fault also the error
 * of a thread. */
int sw_prefetch_next(struct sw_prefetch *p, struct sw_batch *out, struct sw_err *err) SW_MUST_CHECK;
/* Whether sw_prefetch_next would return a batch without waiting. */
bool sw_prefetch_is_ready(struct sw_prefetch *p);
/* Whether the next batch exists but has not been read completely. Never blocks: also false while
 * another thread holds the lock. */
bool sw_prefetch_is_late(struct sw_prefetch *p);
/* Releases the slot; batches are released in the order in which they were returned. */
void sw_prefetch_release(struct sw_prefetch *p, const struct sw_batch *b);
/* Starts a new pass of batch_limit batches at first_batch and discards prefetched batches. Batches
 * not yet released count as released: they must no longer be read or released. Does nothing if no
 * batch was taken since a pass was started at the same batch. Errors: SW_ERR_CANCELLED once closed.
 */
int sw_prefetch_rewind(struct sw_prefetch *p, int64_t first_batch,
                       struct sw_err *err) SW_MUST_CHECK;

/* Like sw_prefetch_rewind, and changes the rows: first_row, row_count and part_rows, with the same
 * number of microbatches. Errors: SW_ERR_NOMEM, keeping the old rows; SW_ERR_CANCELLED once closed.
 */
int sw_prefetch_reshape(struct sw_prefetch *p, const struct sw_prefetch_args *rows,
                        int64_t first_batch, struct sw_err *err) SW_MUST_CHECK;

/* Stops all threads and wakes all waits; afterwards sw_prefetch_next returns SW_ERR_CANCELLED. */
void sw_prefetch_close(struct sw_prefetch *p);
/* Closes and waits at most timeout_ms for the threads; false if one still runs. The memory of
 * batches stays valid until sw_prefetch_free. */
bool sw_prefetch_end(struct sw_prefetch *p, int timeout_ms) SW_MUST_CHECK;
void sw_prefetch_close_v(void *prefetch); /* for sw_fault_attach */

/* Bytes of all slots, for the memory plan: what sw_prefetch_start would allocate. */
size_t sw_prefetch_bytes(const struct sw_prefetch_args *args);
size_t sw_prefetch_batch_bytes(const struct sw_prefetch_args *args); /* of one slot */
