/* Prefetch: threads that fill the next mini-batches while the worker computes.
 *
 * Messages in: released slots (sw_prefetch_release), a new start (sw_prefetch_rewind). Messages
 * out: filled batches, handed out in order by sw_prefetch_next. All memory is taken at start;
 * between batches nothing is allocated and everybody waits on a condition, never in a loop. Several
 * threads share one batch by rows; the numbers do not depend on how many there are. Who stops it:
 * sw_prefetch_close, called by the fault of the job or by sw_prefetch_free. A thread that cannot
 * read a record sets the fault under the name "prefetch NAME" and closes; the worker's next wait
 * then answers SW_ERR_CANCELLED.
 *
 * Thread rule: next, release and rewind by the one worker that owns it; close by anyone. */
#pragma once

#include "data/source.h"
#include "thread/fault.h"

enum { SW_BATCH_ALIGN = 64 };

/* One filled mini-batch: memory is the slot's, valid until it is released. */
struct sw_batch {
    int64_t index;              /* global number of the batch */
    int64_t rows;               /* row_count */
    int64_t valid_rows;         /* of this worker's rows, those that are real; the rest is zero */
    int64_t batch_valid_rows;   /* of the whole batch's */
    void *field[SW_MAX_FIELDS]; /* [rows, ...] as source->field, at a multiple of SW_BATCH_ALIGN
                                   bytes, with a gap behind a part where the next one begins so;
                                   NULL: not wanted */
    void *memory;               /* of all fields, one behind the other: sw_prefetch_batch_bytes */
    double read_ms, decode_ms;  /* spent in reading files and in transforms, summed over threads */
    int64_t ordinal;            /* private */
};

struct sw_prefetch_args {
    const struct sw_source *source; /* borrowed until sw_prefetch_free */
    int64_t batch_rows;             /* rows of a global batch */
    int64_t first_row, row_count;   /* this worker's part of them */
    /* Which it reads in parts: every part's rows begin at a multiple of SW_BATCH_ALIGN bytes.
     * [parts], borrowed during the call; NULL: one part. */
    const int64_t *part_rows;
    int parts;
    int64_t first_batch;       /* global number to start with */
    int64_t batch_stride;      /* between one batch and the next; 1 for a single group */
    int64_t lead;              /* the first so many batches follow each other without gaps; the
                                  next one as well, and from there on the stride counts */
    int64_t batch_limit;       /* batches in one pass, -1: no end */
    int slots;                 /* batches in flight, the one being used included; 2 or more */
    int threads;               /* 1 or more */
    unsigned fields;           /* bit f: field f is wanted */
    void (*begin)(void *user); /* called by each thread as it starts: to bind itself; or NULL */
    void *begin_user;
    /* What a thread does from here on: reads rows of that batch, or waits for work (-1); or NULL.
     */
    void (*tell)(void *user, int thread, int64_t batch);
    void *tell_user;
    struct sw_fault *fault; /* borrowed; may be NULL: errors then come from next */
    /* Memory of the slots, one block; both NULL: pages of the operating system. */
    int (*alloc)(void *user, size_t bytes, const char *what, void **out, struct sw_err *err);
    void (*free)(void *user, void *p, size_t bytes);
    void *user;
};

struct sw_prefetch;

/* Takes the memory and starts the threads. Errors: SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_prefetch_start(const struct sw_prefetch_args *args, struct sw_prefetch **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Closes, waits for the threads and gives everything back; NULL is accepted. */
void sw_prefetch_free(struct sw_prefetch *p);

/* Waits for the next batch in order. Errors: SW_ERR_CANCELLED once closed, SW_ERR_NOTFOUND after
 * the last batch of the pass, and without a fault the thread's own error. */
int sw_prefetch_next(struct sw_prefetch *p, struct sw_batch *out, struct sw_err *err) SW_MUST_CHECK;
/* Would it wait? False also when it would answer with an error. */
bool sw_prefetch_is_ready(struct sw_prefetch *p);
/* Is a batch still to be read that the worker may wait for? Never waits itself: false, too, while
 * another thread holds the lock. */
bool sw_prefetch_is_late(struct sw_prefetch *p);
/* Gives the slot back; batches are released in the order in which they came. */
void sw_prefetch_release(struct sw_prefetch *p, const struct sw_batch *b);
/* Starts a new pass of batch_limit batches at first_batch, and throws away what was prefetched
 * beyond. Batches still out count as given back: they must not be read or released any more. Where
 * nothing was taken since the start of a pass at the same batch, nothing is done.
 * Errors: SW_ERR_CANCELLED once closed. */
int sw_prefetch_rewind(struct sw_prefetch *p, int64_t first_batch,
                       struct sw_err *err) SW_MUST_CHECK;

/* The same, and from then on with other rows: first_row, row_count, part_rows and as many parts as
 * before. Errors: SW_ERR_NOMEM, with the old rows; SW_ERR_CANCELLED once closed. */
int sw_prefetch_reshape(struct sw_prefetch *p, const struct sw_prefetch_args *rows,
                        int64_t first_batch, struct sw_err *err) SW_MUST_CHECK;

/* Wakes every wait; afterwards next answers SW_ERR_CANCELLED. */
void sw_prefetch_close(struct sw_prefetch *p);
/* Closes and waits at most timeout_ms for the threads; false when one still runs. The memory of
 * batches stays until sw_prefetch_free. */
bool sw_prefetch_end(struct sw_prefetch *p, int timeout_ms) SW_MUST_CHECK;
void sw_prefetch_close_v(void *prefetch); /* for sw_fault_attach */

/* Bytes of the slots, for the memory plan: what sw_prefetch_start would take. */
size_t sw_prefetch_bytes(const struct sw_prefetch_args *args);
size_t sw_prefetch_batch_bytes(const struct sw_prefetch_args *args); /* of one of them */
