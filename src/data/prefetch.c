/* The prefetch threads. The batches of a pass have ordinals; ordinal n is in slot n % slots. A
 * thread claims some rows of the batch being filled, fetches them without the lock, and adds them
 * to the count of the slot; a batch is ready when all its rows are counted. One lock guards all
 * bookkeeping; the condition `work` wakes the threads.
 *
 * Reading order: memory layout, claims (claim_rows, fill_rows, role_main), start and end, then the
 * functions that the worker calls. */
#include "data/prefetch.h"
#include "base/os.h"
#include <stdio.h>
#include <string.h>

/* A claim is limited, so that a thread notices a close soon. */
enum { CLAIM_BYTES = 4 << 20 };

struct slot {
    unsigned char *field[SW_MAX_FIELDS]; /* in the block; NULL: not requested */
    int64_t rows_done;                   /* rows filled; row_count: ready */
    double read_ms, decode_ms;
};

struct role {
    struct sw_prefetch *owner;
    struct sw_thread thread;
    struct sw_reader reader;
};

/* Batches of a pass are numbered by ordinals from 0; ordinal n is in slot n % slots. Invariant:
 * released <= handed <= claimed + 1, and claimed - released < slots when a claim is made. */
struct sw_prefetch {
    struct sw_prefetch_args args;
    char name[80];      /* "prefetch train" */
    int64_t claim_rows; /* rows of one claim */
    size_t block_bytes;
    void *block;        /* owned; all slots */
    int64_t *part_rows; /* owned; copy of args.part_rows */
    struct role *role;  /* owned; args.threads */
    bool attached;      /* to the fault */

    struct sw_mutex lock; /* guards all below; held for a few assignments */
    struct sw_cond work;  /* for the threads: rows may be claimed */
    struct sw_cond ready; /* for the worker: a batch is ready, or all claims ended while paused */
    struct slot *slot; /* owned; pointers are frozen, rows belong to the thread that claimed them */
    int64_t first_batch, claimed, claimed_row, handed, released;
    int busy; /* claims in progress */
    bool paused, closed;
    struct sw_err error; /* error of the first failed thread, if there is no fault */
};

struct claim {
    int64_t ordinal, batch, row, rows;
};

static int part_count(const struct sw_prefetch_args *a)
{
    return a->part_rows ? a->parts : 1;
}

static int64_t part_rows(const struct sw_prefetch_args *a, int part)
{
    return a->part_rows ? a->part_rows[part] : a->row_count;
}

/* The microbatch that contains a row: the offset of its memory for rows of that size, its first
 * row, and the row after its last. */
struct part {
    size_t at;
    int64_t first, end;
};

static struct part find_part(const struct sw_prefetch_args *a, int64_t row, size_t row_bytes)
{
    struct part p = {.end = part_rows(a, 0)};

    for (int i = 1; p.end <= row && i < part_count(a); i++) {
        p.at += sw_aligned((size_t)(p.end - p.first) * row_bytes, SW_BATCH_ALIGN);
        p.first = p.end;
        p.end += part_rows(a, i);
    }

    return p;
}

static size_t field_bytes(const struct sw_prefetch_args *a, int f)
{
    if (!(a->fields >> f & 1))
        return 0;

    size_t row_bytes = sw_source_row_bytes(a->source, f, a->pixels);
    struct part last = find_part(a, a->row_count - 1, row_bytes);
    return last.at + sw_aligned((size_t)(last.end - last.first) * row_bytes, SW_BATCH_ALIGN);
}

size_t sw_prefetch_batch_bytes(const struct sw_prefetch_args *args)
{
    size_t bytes = 0;
    for (int f = 0; f < args->source->field_count; f++)
        bytes += field_bytes(args, f);
    return bytes;
}

size_t sw_prefetch_bytes(const struct sw_prefetch_args *args)
{
    return sw_prefetch_batch_bytes(args) * (size_t)args->slots;
}

/* The global number of the first sample of this worker in a batch. */
static int64_t first_sample(const struct sw_prefetch_args *a, int64_t batch)
{
    return batch * a->batch_rows + a->first_row;
}

/* How many of `rows` rows from `sample` on exist: in training all of them, because training never
 * ends. */
static int64_t real_rows(const struct sw_source *s, int64_t sample, int64_t rows)
{
    if (s->training || s->records - sample >= rows)
        return rows;
    return s->records > sample ? s->records - sample : 0;
}

/* May a thread claim the next batch? The lock is held. */
static bool may_claim(const struct sw_prefetch *p)
{
    return !p->paused && p->claimed - p->released < p->args.slots &&
           (p->args.batch_limit < 0 || p->claimed < p->args.batch_limit);
}

/* Global number of the batch with that ordinal. */
static int64_t batch_of(const struct sw_prefetch *p, int64_t ordinal)
{
    int64_t lead = p->args.lead;
    return ordinal < lead ? p->first_batch + ordinal
                          : p->first_batch + lead + (ordinal - lead) * p->args.batch_stride;
}

static void on_batch(const struct role *role, int64_t batch)
{
    const struct sw_prefetch *p = role->owner;
    if (p->args.on_batch)
        p->args.on_batch(p->args.on_batch_user, (int)(role - p->role), batch);
}

/* Waits for rows to fill and claims them; false once closed. */
static bool claim_rows(struct sw_prefetch *p, struct claim *c)
{
    sw_mutex_lock(&p->lock);
    while (!p->closed && !may_claim(p))
        sw_cond_wait(&p->work, &p->lock);

    const bool open = !p->closed;
    if (open) {
        const int64_t left = find_part(&p->args, p->claimed_row, 0).end - p->claimed_row;

        c->ordinal = p->claimed;
        c->batch = batch_of(p, p->claimed);
        c->row = p->claimed_row;
        c->rows = left < p->claim_rows ? left : p->claim_rows;

        p->claimed_row += c->rows;
        if (p->claimed_row == p->args.row_count) {
            p->claimed++;
            p->claimed_row = 0;
        }

        p->busy++;
    }

    sw_mutex_unlock(&p->lock);
    return open;
}

/* Fills the claimed rows; rows after the last record become zero. */
static int fill_rows(struct sw_prefetch *p, struct sw_reader *reader, const struct claim *c,
                     struct sw_err *err)
{
    const struct sw_source *s = p->args.source;
    const struct slot *slot = &p->slot[c->ordinal % p->args.slots];
    const int64_t sample = first_sample(&p->args, c->batch) + c->row;
    const int64_t real = real_rows(s, sample, c->rows);
    void *out[SW_MAX_FIELDS] = {0};

    for (int f = 0; f < s->field_count; f++) {
        const size_t bytes = sw_source_row_bytes(s, f, p->args.pixels);

        if (!slot->field[f])
            continue;

        const struct part part = find_part(&p->args, c->row, bytes);
        unsigned char *at = slot->field[f] + part.at + (size_t)(c->row - part.first) * bytes;
        memset(at + (size_t)real * bytes, 0, (size_t)(c->rows - real) * bytes);
        out[f] = at;
    }

    return sw_source_fetch(reader, sample, real, out, err);
}

static void report_rows(struct sw_prefetch *p, const struct sw_reader *reader,
                        const struct claim *c)
{
    sw_mutex_lock(&p->lock);

    struct slot *slot = &p->slot[c->ordinal % p->args.slots];
    slot->rows_done += c->rows;
    slot->read_ms += reader->read_ms;
    slot->decode_ms += reader->decode_ms;
    p->busy--;
    if (slot->rows_done == p->args.row_count || (p->paused && p->busy == 0))
        sw_cond_signal(&p->ready);
    sw_mutex_unlock(&p->lock);
}

static void fail(struct sw_prefetch *p, const struct sw_err *e)
{
    sw_mutex_lock(&p->lock);
    if (p->error.code == SW_OK)
        p->error = *e;
    p->busy--;
    sw_mutex_unlock(&p->lock);

    /* Without the lock, because the fault closes this prefetch as well. */
    if (p->args.fault)
        sw_fault_set(p->args.fault, p->name, e);
    sw_prefetch_close(p);
}

static void role_main(void *arg)
{
    struct role *role = arg;
    struct claim c;
    struct sw_err err = {0};

    if (role->owner->args.begin)
        role->owner->args.begin(role->owner->args.begin_user);

    while (claim_rows(role->owner, &c)) {
        on_batch(role, c.batch);
        if (fill_rows(role->owner, &role->reader, &c, &err)) {
            on_batch(role, -1);
            fail(role->owner, &err);
            return;
        }

        report_rows(role->owner, &role->reader, &c);
        on_batch(role, -1);
    }
}

static int check_args(const struct sw_prefetch_args *a, struct sw_err *err)
{
    if (a->row_count < 1 || a->first_row < 0 || a->first_row + a->row_count > a->batch_rows ||
        a->slots < 2 || a->threads < 1 || a->batch_stride < 1 || a->first_batch < 0 || a->lead < 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "prefetch %s: invalid arguments: rows %lld to %lld of %lld, %d slots, %d "
                          "threads, batch "
                          "%lld, stride %lld",
                          a->source->name, (long long)a->first_row,
                          (long long)(a->first_row + a->row_count), (long long)a->batch_rows,
                          a->slots, a->threads, (long long)a->first_batch,
                          (long long)a->batch_stride);
    return SW_OK;
}

static int take_block(const struct sw_prefetch *p, size_t bytes, void **out, struct sw_err *err)
{
    if (p->args.alloc)
        return p->args.alloc(p->args.user, bytes, p->name, out, err);
    *out = sw_os()->map_pages(bytes);
    return *out ? SW_OK : sw_err_nomem(err, p->name, bytes);
}

static void free_block(const struct sw_prefetch *p, void *block, size_t bytes)
{
    if (!block)
        return;

    if (p->args.free)
        p->args.free(p->args.user, block, bytes);
    else
        sw_os()->unmap_pages(block, bytes);
}

/* Copies the row counts of the microbatches. */
static int copy_parts(struct sw_prefetch *p, struct sw_err *err)
{
    size_t bytes = (size_t)part_count(&p->args) * sizeof *p->part_rows;
    if (!p->args.part_rows)
        return SW_OK;
    p->part_rows = sw_calloc(1, bytes);
    if (!p->part_rows)
        return sw_err_nomem(err, p->name, bytes);

    memcpy(p->part_rows, p->args.part_rows, bytes);
    p->args.part_rows = p->part_rows;
    return SW_OK;
}

/* Assigns memory of the block to the fields of all slots. */
static void assign_block(struct sw_prefetch *p)
{
    unsigned char *at = p->block;

    for (int i = 0; i < p->args.slots; i++)
        for (int f = 0; f < p->args.source->field_count; f++) {
            const size_t bytes = field_bytes(&p->args, f);
            p->slot[i].field[f] = bytes ? at : NULL;
            at += bytes;
        }
}

static int take_memory(struct sw_prefetch *p, struct sw_err *err)
{
    const struct sw_prefetch_args *a = &p->args;

    p->slot = sw_calloc((size_t)a->slots, sizeof *p->slot);
    p->role = sw_calloc((size_t)a->threads, sizeof *p->role);
    if (!p->slot || !p->role)
        return sw_err_nomem(err, p->name, (size_t)a->threads * sizeof *p->role);

    int rc = copy_parts(p, err);
    p->block_bytes = sw_prefetch_bytes(&p->args);
    if (!rc)
        rc = take_block(p, p->block_bytes, &p->block, err);
    if (!rc)
        assign_block(p);
    for (int i = 0; !rc && i < a->threads; i++) {
        rc = sw_reader_init(&p->role[i].reader, a->source, err);
        p->role[i].reader.pixels = a->pixels;
    }

    return rc;
}

/* Rows of one claim: an equal part of a batch, but at most a few MiB. */
static int64_t rows_of_claim(const struct sw_prefetch_args *a)
{
    size_t row_bytes = 1;

    for (int f = 0; f < a->source->field_count; f++)
        row_bytes += sw_source_row_bytes(a->source, f, a->pixels);

    const int64_t share = (a->row_count + a->threads - 1) / a->threads;
    const int64_t most = CLAIM_BYTES / (int64_t)row_bytes + 1;
    return share < most ? share : most;
}

static int start_threads(struct sw_prefetch *p, struct sw_err *err)
{
    int rc = SW_OK;

    if (p->args.fault) {
        rc = sw_fault_attach(p->args.fault, sw_prefetch_close_v, p, err);
        p->attached = rc == SW_OK;
    }

    for (int i = 0; !rc && i < p->args.threads; i++) {
        p->role[i].owner = p;
        rc = sw_thread_start(&p->role[i].thread, p->name, role_main, &p->role[i], err);
    }

    return rc;
}

int sw_prefetch_start(const struct sw_prefetch_args *args, struct sw_prefetch **out,
                      struct sw_err *err)
{
    int rc = check_args(args, err);
    if (rc)
        return rc;

    struct sw_prefetch *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "prefetch", sizeof *p);

    p->args = *args;
    p->first_batch = args->first_batch;
    p->claim_rows = rows_of_claim(args);
    snprintf(p->name, sizeof p->name, "prefetch %s", args->source->name);
    sw_mutex_init(&p->lock);
    sw_cond_init(&p->work);
    sw_cond_init(&p->ready);
    rc = take_memory(p, err);
    if (!rc)
        rc = start_threads(p, err);
    if (rc) {
        sw_prefetch_free(p);
        return rc;
    }

    *out = p;
    return SW_OK;
}

bool sw_prefetch_end(struct sw_prefetch *p, int timeout_ms)
{
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_prefetch_close(p);

    for (int i = 0; i < p->args.threads; i++) {
        int64_t left_ms = (until_ns - sw_os()->monotonic_ns()) / 1000000;
        if (!sw_thread_join_timed(&p->role[i].thread, left_ms > 0 ? (int)left_ms : 0))
            return false;
    }

    return true;
}

void sw_prefetch_free(struct sw_prefetch *p)
{
    if (!p)
        return;

    sw_prefetch_close(p);

    for (int i = 0; p->role && i < p->args.threads; i++) {
        sw_thread_join(&p->role[i].thread);
        sw_reader_fini(&p->role[i].reader);
    }

    if (p->attached)
        sw_fault_detach(p->args.fault, p);
    free_block(p, p->block, p->block_bytes);
    sw_free(p->part_rows);
    sw_free(p->role);
    sw_free(p->slot);
    sw_cond_fini(&p->ready);
    sw_cond_fini(&p->work);
    sw_mutex_fini(&p->lock);
    sw_free(p);
}

/* The error for the worker once closed. If there is a fault, it holds the cause, unless that was a
 * stop request. The lock is held. */
static int closed_error(const struct sw_prefetch *p, struct sw_err *err)
{
    const bool in_fault = p->args.fault && p->error.code != SW_ERR_CANCELLED;
    if (in_fault || p->error.code == SW_OK)
        return sw_err_set(err, SW_ERR_CANCELLED, "%s: stopped", p->name);

    if (err)
        *err = p->error;
    return sw_err_prefix(err, p->error.code, "%s", p->name);
}

/* Fills *out for the batch with that ordinal. */
static void fill_batch(const struct sw_prefetch *p, int64_t ordinal, struct sw_batch *out)
{
    const struct slot *slot = &p->slot[ordinal % p->args.slots];

    *out = (struct sw_batch){
        .index = batch_of(p, ordinal),
        .rows = p->args.row_count,
        .read_ms = slot->read_ms,
        .decode_ms = slot->decode_ms,
        .memory = (char *)p->block +
                  sw_prefetch_batch_bytes(&p->args) * (size_t)(ordinal % p->args.slots),
        .ordinal = ordinal,
    };

    int64_t sample = first_sample(&p->args, out->index);
    out->valid_rows = real_rows(p->args.source, sample, out->rows);
    out->batch_valid_rows =
        real_rows(p->args.source, sample - p->args.first_row, p->args.batch_rows);
    for (int f = 0; f < SW_MAX_FIELDS; f++)
        out->field[f] = slot->field[f];
}

int sw_prefetch_next(struct sw_prefetch *p, struct sw_batch *out, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&p->lock);

    const struct slot *slot = &p->slot[p->handed % p->args.slots];
    if (p->args.batch_limit >= 0 && p->handed >= p->args.batch_limit) {
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "%s: no batch after the last", p->name);
    } else if (p->handed - p->released >= p->args.slots) {
        rc = sw_err_set(err, SW_ERR_BUSY, "%s: all %d batches are in use", p->name, p->args.slots);
    } else {
        while (!p->closed && slot->rows_done < p->args.row_count)
            sw_cond_wait(&p->ready, &p->lock);

        if (p->closed)
            rc = closed_error(p, err);
        else
            fill_batch(p, p->handed++, out);
    }

    sw_mutex_unlock(&p->lock);
    return rc;
}

/* Whether there is a next batch for the worker; *read: whether it is ready. The lock is held. */
static bool has_next(const struct sw_prefetch *p, bool *read)
{
    bool limited = p->args.batch_limit >= 0 && p->handed >= p->args.batch_limit;
    bool room = p->handed - p->released < p->args.slots;
    *read = p->slot[p->handed % p->args.slots].rows_done >= p->args.row_count;
    return !p->closed && !limited && room;
}

bool sw_prefetch_is_ready(struct sw_prefetch *p)
{
    bool read;

    sw_mutex_lock(&p->lock);

    bool next = has_next(p, &read);
    sw_mutex_unlock(&p->lock);
    return next && read;
}

bool sw_prefetch_is_late(struct sw_prefetch *p)
{
    bool read;

    if (!sw_mutex_trylock(&p->lock))
        return false;

    bool next = has_next(p, &read);
    sw_mutex_unlock(&p->lock);
    return next && !read;
}

/* Empties a slot. The lock is held. */
/* Should the threads be woken? With many slots only when several are empty: for a batch that is
 * computed in microseconds, waking a thread takes longer. The lock is held. */
static bool should_fill(const struct sw_prefetch *p)
{
    const int64_t empty = p->args.slots - (p->claimed - p->released);
    return empty > p->args.slots / 8;
}

static void empty_slot(struct slot *slot)
{
    slot->rows_done = 0;
    slot->read_ms = slot->decode_ms = 0;
}

void sw_prefetch_release(struct sw_prefetch *p, const struct sw_batch *b)
{
    sw_mutex_lock(&p->lock);

    /* A batch taken before a rewind, or released twice, is ignored. */
    if (b->ordinal == p->released && b->ordinal < p->handed) {
        empty_slot(&p->slot[b->ordinal % p->args.slots]);
        p->released++;
        if (should_fill(p))
            sw_cond_broadcast(&p->work);
    }

    sw_mutex_unlock(&p->lock);
}

/* Pauses the threads and waits until none is reading. The lock is held. */
static void stop_reading(struct sw_prefetch *p)
{
    p->paused = true;
    while (!p->closed && p->busy > 0)
        sw_cond_wait(&p->ready, &p->lock);
}

/* Starts a new pass. The lock is held. */
static void restart(struct sw_prefetch *p, int64_t first_batch)
{
    for (int i = 0; !p->closed && i < p->args.slots; i++)
        empty_slot(&p->slot[i]);
    p->first_batch = first_batch;
    p->claimed = p->claimed_row = p->handed = p->released = 0;
    p->paused = false;
    sw_cond_broadcast(&p->work);
}

int sw_prefetch_rewind(struct sw_prefetch *p, int64_t first_batch, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&p->lock);

    /* If no batch was taken and the start is the same, the prefetched batches are the right ones.
     */
    if (p->handed > 0 || p->first_batch != first_batch) {
        stop_reading(p);
        restart(p, first_batch);
    }

    if (p->closed)
        rc = closed_error(p, err);
    sw_mutex_unlock(&p->lock);

    return rc;
}

int sw_prefetch_reshape(struct sw_prefetch *p, const struct sw_prefetch_args *rows,
                        int64_t first_batch, struct sw_err *err)
{
    struct sw_prefetch_args args = p->args;
    void *block = NULL;

    args.first_row = rows->first_row;
    args.row_count = rows->row_count;
    args.part_rows = rows->part_rows;

    size_t bytes = sw_prefetch_bytes(&args);
    int rc = take_block(p, bytes, &block, err);
    sw_mutex_lock(&p->lock);
    stop_reading(p);

    if (rc == SW_OK && !p->closed) {
        free_block(p, p->block, p->block_bytes);
        p->block = block;
        p->block_bytes = bytes;
        if (p->part_rows)
            memcpy(p->part_rows, rows->part_rows, (size_t)args.parts * sizeof *p->part_rows);

        /* Only these members change: waiting threads read the others without the lock. */
        p->args.first_row = args.first_row;
        p->args.row_count = args.row_count;
        p->claim_rows = rows_of_claim(&p->args);
        assign_block(p);
        block = NULL;
    }

    restart(p, first_batch);
    if (rc == SW_OK && p->closed)
        rc = closed_error(p, err);
    sw_mutex_unlock(&p->lock);
    free_block(p, block, bytes);

    return rc;
}

void sw_prefetch_close(struct sw_prefetch *p)
{
    sw_mutex_lock(&p->lock);
    p->closed = true;
    sw_cond_broadcast(&p->work);
    sw_cond_broadcast(&p->ready);
    sw_mutex_unlock(&p->lock);
}

void sw_prefetch_close_v(void *prefetch)
{
    sw_prefetch_close(prefetch);
}
